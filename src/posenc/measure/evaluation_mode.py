"""Context manager that puts a model into eval mode and restores it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module, *, training: bool = False) -> Iterator[None]:
    """Put a model into eval mode without gradients, and restore it afterwards, also after an exception.

    Args:
        model: the model. Its modules get back their modes. Its buffers, which training mode may change as in batch
            norm, get back their values.
        training: whether to use training mode instead of eval mode.

    Yields:
        None.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()] if training else []
    try:
        model.train(training)
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
