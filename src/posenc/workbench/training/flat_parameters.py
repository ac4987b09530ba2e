"""Flat parameter vector of a model, and the exponential moving average of its weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class FlatParameters:
    """Trained parameters of a model as one vector, for an element-wise optimizer.

    The model's parameters become views of ``parameter``, and their gradients are concatenated once per step. An
    optimizer needs about one call per tensor, which dominates its cost for a small model; this makes it one call.

    Args:
        model: the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = [p for p in model.parameters() if p.requires_grad]
        with torch.no_grad():
            self.parameter = nn.Parameter(torch.cat([p.reshape(-1) for p in self.parts]))
            for part, view in zip(self.parts, self.parameter.split([p.numel() for p in self.parts]), strict=True):
                part.data = view.view_as(part)
        self.parameter.grad = torch.zeros_like(self.parameter)

    def clear(self) -> None:
        """Remove the gradients."""
        for part in self.parts:
            part.grad = None

    def join(self) -> None:
        """Concatenate the gradients of all parameters; zero for a parameter that the loss does not depend on."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parts]
        torch.cat([grad.reshape(-1) for grad in grads], out=self.parameter.grad)


class Average:
    """Exponential moving average of the weights, ``a_t = (1 - d) sum_i d^(t-i) w_i / (1 - d^t)`` after step t.

    Args:
        flat: the weights.
        decay: d.
        total: the sum so far, for a resumed run.
    """

    def __init__(self, flat: FlatParameters, decay: float, total: Tensor | None = None) -> None:
        self.flat, self.decay = flat, decay
        self.total = torch.zeros_like(flat.parameter) if total is None else total.to(flat.parameter.device)

    def take(self) -> None:
        """Add the weights after a step to the average."""
        self.total.lerp_(self.flat.parameter.detach(), 1 - self.decay)

    def keep(self, step: int) -> None:
        """Replace the model's weights by the average after ``step`` steps."""
        with torch.no_grad():
            self.flat.parameter.copy_(self.total / (1 - self.decay**step))

    @contextmanager
    def shown(self, step: int) -> Iterator[None]:
        """Replace the model's weights by the average inside a context, and restore them afterwards."""
        own = self.flat.parameter.detach().clone()
        self.keep(step)
        try:
            yield
        finally:
            with torch.no_grad():
                self.flat.parameter.copy_(own)
