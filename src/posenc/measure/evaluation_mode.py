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
    held = [(module, name) for module in model.modules() for name in module._buffers] if training else []
    buffers = [(module, name, module._buffers[name]) for module, name in held]
    values = [None if buffer is None else buffer.clone() for *_, buffer in buffers]
    try:
        model.train(training)
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for (module, name, buffer), before in zip(buffers, values, strict=True):
                module._buffers[name] = buffer  # training may have put another tensor in its place
                if buffer is not None and before is not None:
                    buffer.copy_(before)
