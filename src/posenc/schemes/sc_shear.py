"""SCShear: SCPE with its longitudes sheared, so that the two diagonals of a square are no longer equally alike.

    psi = row delta,  phi = (column + kappa row) delta',   v = (cos psi cos phi, cos psi sin phi, sin psi)
    delta = pi / 2n,  delta' = pi / (2 n (1 + kappa))

On 28 x 28 with kappa = 1/2, the diagonals of the first square of four pixels have likeness .996856 (downwards to the
right) and .998252. It stays in the octant and in three numbers; it still crowds towards the last row.

Source: a remedy for the flaw that Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding), names in its
last section; not in that note. Conventions: positions are (row, column) of an n x n grid, from 0; ``hidden`` as in
SCPE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.kernels import readout
from posenc.kernels.readout import Points, Readout
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SCShear(Scheme):
    """``v = (cos psi cos phi, cos psi sin phi, sin psi)``, ``psi = row delta``, ``phi = (column + kappa row) delta'``.

    n: side of the grid; positions lie in [0, n - 1] on both axes. kappa: the shear, >= 0; 0 is SCPE. hidden: widths of
    the trained readout; None for the vector itself. generator: of the readout's first weights.
    """

    cite = """@misc{cui2024scpe,
  title={CNN with SC PE},
  author={Cui, Peng}, year={2024},
  howpublished={github.com/Cui-Peng-624/SC-Position-Encoding}, note={not on arXiv}}"""
    examples = (
        {"n": 28},
        {"n": 28, "kappa": 0.25},
        {"n": 28, "hidden": (128,)},
    )

    readout: Readout | None

    def __init__(
        self,
        n: int,
        *,
        kappa: float = 0.5,
        hidden: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 2 or not 0 <= kappa < math.inf:
            raise ValueError(f"SCShear needs a grid of side n >= 2 and kappa >= 0; got n={n}, kappa={kappa:g}.")
        self.kappa = kappa
        self.delta, self.delta_along = math.pi / (2 * n), math.pi / (2 * n * (1 + kappa))
        self.readout = None if hidden is None else Readout(3, hidden)
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=hidden is None,
            learned=hidden is not None,
            range=(0, n - 1),
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
        return 3 if self.readout is None else 1

    def prepare(self, pos: Positions) -> Points:
        row, column = self._take(pos).precise().unbind(-1)
        psi, phi = row * self.delta, (column + self.kappa * row) * self.delta_along
        rows = torch.stack([psi.cos() * phi.cos(), psi.cos() * phi.sin(), psi.sin()], -1)
        return readout.points(rows, pos)

    def embed(self, where: Points) -> Tensor:
        return readout.read(where, self.readout)

    def define_embed(self, p: Tensor) -> Tensor:
        psi, phi = p[0] * self.delta, p[1] * self.delta_along + p[0] * (self.kappa * self.delta_along)
        row = torch.stack([torch.cos(psi) * torch.cos(phi), torch.cos(psi) * torch.sin(phi), torch.sin(psi)])
        return readout.define(row, self.readout)
