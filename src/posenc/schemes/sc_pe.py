"""SCPE: spherical coordinate encoding; a pixel's row and column are latitude and longitude of a unit vector.

    psi = row delta,  phi = column delta,   v = (cos psi cos phi, cos psi sin phi, sin psi)

The first pixel is +X. The vector moves towards +Y along a row and towards +Z down a column, inside one octant.

Source: Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding).

Conventions:
- Positions are (row, column) of an n x n grid and start at 0.
- ``variant`` sets the step delta and the vector:

      "open"    delta = pi / 2n, so that all n^2 vectors differ
      "closed"  delta = pi / 2(n-1), so that every pixel of the last row is +Z
      "code"    the released notebooks: v = (sin a cos b, sin a sin b, cos a), a = row delta, b = column delta, delta as
                in "closed", so that every pixel of the first row is +Z

- ``hidden`` adds the note's trained readout, which maps the vector to one number per pixel:

      (128,)     3 -> 128 -> ReLU -> 1, whose output multiplies the image; relu=False is the text of the note
      (256, 64)  the concatenated features of the CIFAR notebooks; relu=(True, False) is that of Fashion-MNIST
      ()         one linear layer

Known flaws: (1,1) and (2,2) are as similar as (1,2) and (2,1), because only |phi - phi'| matters; and neighbors in a
row become more similar towards the last row. SCShear removes the first flaw, SCTorus both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import readout
from posenc.kernels.readout import PreparedRows, Readout, Relu
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SCPE(Scheme):
    """Spherical coordinate encoding of a pixel as a point of the unit sphere, with an optional trained readout.

        v = (cos psi cos phi, cos psi sin phi, sin psi),   psi = row delta,  phi = column delta

    Args:
        n: Side of the grid in pixels; positions lie in ``[0, n - 1]`` on both axes.
        variant: "open", "closed" or "code" (see the module).
        hidden: Widths of the hidden layers of the readout to one number; None for the three numbers themselves.
        relu: If False, no ReLU follows the hidden layers; or one value for each of them. Default: True.
        generator: Random generator for the readout's weights; torch's default generator if None.

    Raises:
        ValueError: If ``n`` is below 2, ``variant`` is unknown, or a hidden layer has no unit.

    Example:
        >>> from posenc import SCPE, grid
        >>> scheme = SCPE(28)
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
        {"n": 28, "variant": "closed"},
        {"n": 28, "variant": "code"},
        {"n": 28, "hidden": (128,)},
        {"n": 28, "hidden": (8, 4), "relu": (True, False)},
        {"n": 28, "hidden": ()},
    )
    conventions = ("variant",)

    readout: Readout | None

    def __init__(
        self,
        n: int,
        *,
        variant: Literal["open", "closed", "code"] = "open",
        hidden: Sequence[int] | None = None,
        relu: Relu = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 2:
            raise ValueError(f"SCPE divides a quarter turn among the rows of an n x n grid, n >= 2; got n={n}.")
        if variant not in ("open", "closed", "code"):
            raise ValueError(f"SCPE's variant is 'open', 'closed' or 'code'; got {variant!r}.")
        self.variant = variant
        self.delta = math.pi / (2 * n if variant == "open" else 2 * (n - 1))
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
        psi, phi = (self._take(pos).precise() * self.delta).unbind(-1)
        if self.variant == "code":
            rows = [psi.sin() * phi.cos(), psi.sin() * phi.sin(), psi.cos()]
        else:
            rows = [psi.cos() * phi.cos(), psi.cos() * phi.sin(), psi.sin()]
        return readout.points(torch.stack(rows, -1), pos)

    @override
    def embed(self, where: PreparedRows) -> Tensor:
        return readout.read(where, self.readout)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        psi, phi = p[0] * self.delta, p[1] * self.delta
        if self.variant == "code":
            psi = math.pi / 2 - psi
        row = torch.stack([torch.cos(psi) * torch.cos(phi), torch.cos(psi) * torch.sin(phi), torch.sin(psi)])
        return readout.define(row, self.readout)
