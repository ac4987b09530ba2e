"""SCTorus: rows, columns and one diagonal of a grid as three angles, so that likeness depends on the offset alone.

    u = [cos, sin](row delta) + [cos, sin](column delta) + [cos, sin]((row + column) delta)   (concatenated, / sqrt(3))
    delta = pi / (2 (2n - 1))

Three waves in oblique directions, as GridPE's: translation invariant, of unit length, no number negative inside the
grid. On 28 x 28, (1,1) and (2,2) have likeness .999184 and (1,2) and (2,1) .999728; ``diagonal="minus"`` takes
``row - column`` and exchanges the two (its sine may then be negative).

Source: a remedy for the flaws of Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding); not in that
note. Conventions: positions are (row, column), from 0, and any real ones are taken; ``hidden`` as in SCPE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from posenc.kernels import readout
from posenc.kernels.readout import Points, Readout
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SCTorus(Scheme):
    """``u = [cos r, sin r, cos c, sin c, cos(r + c), sin(r + c)] / sqrt(3)``, ``r = row delta``, ``c = column delta``.

    n: side of the grid on which no number is negative. diagonal: the third wave's, "plus" or "minus". hidden: widths of
    the trained readout; None for the six numbers themselves. generator: of the readout's first weights.
    """

    cite = """@misc{cui2024scpe,
  title={CNN with SC PE},
  author={Cui, Peng}, year={2024},
  howpublished={github.com/Cui-Peng-624/SC-Position-Encoding}, note={not on arXiv}}"""
    examples = (
        {"n": 28},
        {"n": 28, "diagonal": "minus"},
        {"n": 28, "hidden": (128,)},
    )
    conventions = ("diagonal",)

    readout: Readout | None

    def __init__(
        self,
        n: int,
        *,
        diagonal: Literal["plus", "minus"] = "plus",
        hidden: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 1:
            raise ValueError(f"SCTorus needs a grid of side n >= 1; got n={n}.")
        if diagonal not in ("plus", "minus"):
            raise ValueError(f"SCTorus' third wave runs along 'plus', row + column, or 'minus'; got {diagonal!r}.")
        self.diagonal, self.sign = diagonal, 1 if diagonal == "plus" else -1
        self.delta = math.pi / (2 * (2 * n - 1))
        self.readout = None if hidden is None else Readout(6, hidden)
        self.reset_parameters(generator)
        self.claims = Claims(
            # a first readout of random weights sees inner products in the mean, which never change when all moves:
            # exactly if weights were normal, and of uniform ones six million draws show no difference
            translation="exact" if hidden is None else "expected",
            isometric=hidden is None,
            learned=hidden is not None,
            range=None,
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model" if hidden is None else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the readout's weights anew."""
        if self.readout is not None:
            self.readout.reset_parameters(generator)

    @property
    def out_dim(self) -> int:
        return 6 if self.readout is None else 1

    def prepare(self, pos: Positions) -> Points:
        row, column = (self._take(pos).precise() * self.delta).unbind(-1)
        angle = torch.stack([row, column, row + self.sign * column], -1)
        rows = torch.stack([angle.cos(), angle.sin()], -1).flatten(-2) / math.sqrt(3)
        return readout.points(rows, pos)

    def embed(self, where: Points) -> Tensor:
        return readout.read(where, self.readout)

    def define_embed(self, p: Tensor) -> Tensor:
        row = []
        for weights in ((1, 0), (0, 1), (1, self.sign)):
            angle = self.delta * (weights[0] * p[0] + weights[1] * p[1])
            row += [torch.cos(angle) / math.sqrt(3), torch.sin(angle) / math.sqrt(3)]
        return readout.define(torch.stack(row), self.readout)
