"""Linear map of the coordinates of a token: the trained rows that encodings of graph nodes share."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Entries(NamedTuple):
    """The entries ``v`` that are mapped, ``(.., N, P)``, and ``placed`` as in Positions."""

    v: Tensor
    placed: Tensor | None


class LinearRows(Scheme):
    """Abstract scheme whose rows are ``C v + c``, where ``v`` are functions of single coordinates (``entries``)."""

    weight: nn.Parameter
    shift: nn.Parameter

    def __init__(self, dim: int, axes: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.empty(dim, axes)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw ``C`` and ``c``; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        bound = 1 / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            for parameter in (self.weight, self.shift):
                parameter.uniform_(-bound, bound, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return len(self.shift)

    def entries(self, coords: Tensor) -> Tensor:
        """Return the values that are mapped; by default the coordinates."""
        return coords

    @override
    def prepare(self, pos: Positions) -> Entries:
        return Entries(self.entries(self._take(pos).coords.to(pos.table_dtype)), pos.placed)

    @override
    def embed(self, where: Entries) -> Tensor:
        rows = functional.linear(where.v.to(self.weight.dtype), self.weight, self.shift)
        return rows if where.placed is None else rows * where.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        v = self.entries(p)
        return torch.stack([
            sum((self.weight[i, a] * x for a, x in enumerate(v)), self.shift[i]) for i in range(self.out_dim)
        ])  # fmt: skip
