"""A model held still while it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module, *, training: bool = False) -> Iterator[None]:
    """Inside: eval mode (or training mode, dropout and all) and no gradients. Afterwards, also after an exception, each
    module is in the mode it was in, and buffers that training mode writes, as batch norm's, hold what they held."""
    modes = [(module, module.training) for module in model.modules()]
    held = [(buffer, buffer.clone()) for buffer in model.buffers()] if training else []
    try:
        model.train(training)
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, before in held:
                buffer.copy_(before)
