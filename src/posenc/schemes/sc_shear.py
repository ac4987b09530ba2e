"""SCShear: SCPE with a longitude that also grows with the row, so that the two diagonals of a square differ.

    psi = row delta,  phi = (column + kappa row) delta',   v = (cos psi cos phi, cos psi sin phi, sin psi)
    delta = pi / 2n,  delta' = pi / (2 n (1 + kappa))

On 28 x 28 pixels with kappa = 1/2, the two diagonals of the first square of four pixels have cosine similarity 0.996856
(down to the right) and 0.998252 (down to the left). The vector stays in one octant and has three numbers. Neighbors
still become more similar towards the last row.

Source: a remedy for the flaw named in the last section of Cui 2024, "CNN with SC PE" (github
Cui-Peng-624/SC-Position-Encoding); the remedy itself is not in that note.

Conventions: positions are (row, column) of an n x n grid and start at 0; ``hidden`` as in SCPE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import readout
from posenc.kernels.readout import PreparedRows, Readout, Relu
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SCShear(Scheme):
    """Spherical coordinate encoding with a longitude sheared by the row.

        v = (cos psi cos phi, cos psi sin phi, sin psi),   psi = row delta,  phi = (column + kappa row) delta'

    Args:
        n: Side of the grid in pixels; positions lie in ``[0, n - 1]`` on both axes.
        kappa: Shear in columns per row, at least 0; 0 is SCPE's "open" variant.
        hidden: Widths of the hidden layers of the readout to one number; None for the three numbers themselves.
        relu: If False, no ReLU follows the hidden layers; or one value for each of them. Default: True.
        generator: Random generator for the readout's weights; torch's default generator if None.

    Raises:
        ValueError: If ``n`` is below 2, ``kappa`` is negative or infinite, or a hidden layer has no unit.

    Example:
        >>> from posenc import SCShear, grid
        >>> scheme = SCShear(28)
        >>> scheme.embed(scheme.prepare(grid(28, 28))).shape
        torch.Size([784, 3])

    References:
        Cui, 2024, "CNN with SC PE", section 4, github Cui-Peng-624/SC-Position-Encoding (not on arXiv).
    """

    cite = """@misc{cui2024scpe,
  title={CNN with SC PE},
  author={Cui, Peng}, year={2024},
  howpublished={github.com/Cui-Peng-624/SC-Position-Encoding}, note={not on arXiv}}"""
    examples = (
        {"n": 28},
        {"n": 28, "kappa": 0.25},
        {"n": 28, "hidden": (128,)},
        {"n": 28, "hidden": (8, 4), "relu": (True, False)},
    )
    conventions = ("kappa",)

    readout: Readout | None

    def __init__(
        self,
        n: int,
        *,
        kappa: float = 0.5,
        hidden: Sequence[int] | None = None,
        relu: Relu = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 2 or not 0 <= kappa < math.inf:
            raise ValueError(f"SCShear needs a grid of side n >= 2 and kappa >= 0; got n={n}, kappa={kappa:g}.")
        self.kappa = kappa
        self.delta, self.delta_along = math.pi / (2 * n), math.pi / (2 * n * (1 + kappa))
        self.readout = readout.optional(3, hidden, relu)
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
        """Draw the readout's initial weights again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        if self.readout is not None:
            self.readout.reset_parameters(generator)

    @property
    @override
    def out_dim(self) -> int:
        return 3 if self.readout is None else 1

    @override
    def prepare(self, pos: Positions) -> PreparedRows:
        row, column = self._take(pos).precise().unbind(-1)
        psi, phi = row * self.delta, (column + self.kappa * row) * self.delta_along
        rows = torch.stack([psi.cos() * phi.cos(), psi.cos() * phi.sin(), psi.sin()], -1)
        return readout.points(rows, pos)

    @override
    def embed(self, where: PreparedRows) -> Tensor:
        return readout.read(where, self.readout)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        psi, phi = p[0] * self.delta, p[1] * self.delta_along + p[0] * (self.kappa * self.delta_along)
        row = torch.stack([torch.cos(psi) * torch.cos(phi), torch.cos(psi) * torch.sin(phi), torch.sin(psi)])
        return readout.define(row, self.readout)
