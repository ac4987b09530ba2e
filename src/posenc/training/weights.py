"""A model's trained parameters as one vector, and their moving average."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Flat:
    """A model's trained parameters as one, for an optimiser that acts on each number alone.

    The parameters become views of ``parameter``, and their gradients are joined once a step: an optimiser's cost on a
    small model is one call a tensor, and this makes it one call.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parts = [p for p in model.parameters() if p.requires_grad]
        with torch.no_grad():
            self.parameter = nn.Parameter(torch.cat([p.reshape(-1) for p in self.parts]))
            for part, view in zip(self.parts, self.parameter.split([p.numel() for p in self.parts]), strict=True):
                part.data = view.view_as(part)
        self.parameter.grad = torch.zeros_like(self.parameter)

    def clear(self) -> None:
        for part in self.parts:
            part.grad = None

    def join(self) -> None:
        """The parts' gradients as the gradient of the whole; a part that the loss does not reach has none: zero."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parts]
        torch.cat([grad.reshape(-1) for grad in grads], out=self.parameter.grad)


class Average:
    """A moving average of the weights: ``a_t = (1 - d) sum_i d^(t-i) w_i / (1 - d^t)`` after step t, decay d.

    total: the sum so far, of a run that goes on.
    """

    def __init__(self, flat: Flat, decay: float, total: Tensor | None = None) -> None:
        self.flat, self.decay = flat, decay
        self.total = torch.zeros_like(flat.parameter) if total is None else total.to(flat.parameter.device)

    def take(self) -> None:
        """Count the weights after a step."""
        self.total.lerp_(self.flat.parameter.detach(), 1 - self.decay)

    def keep(self, step: int) -> None:
        """The model's weights become the average after so many steps."""
        with torch.no_grad():
            self.flat.parameter.copy_(self.total / (1 - self.decay**step))

    @contextmanager
    def shown(self, step: int) -> Iterator[None]:
        """The model has the average as its weights inside."""
        own = self.flat.parameter.detach().clone()
        self.keep(step)
        try:
            yield
        finally:
            with torch.no_grad():
                self.flat.parameter.copy_(own)
