"""SCPE: a pixel's row and column become latitude and longitude, and its encoding the unit vector there.

    psi = row delta,  phi = column delta,   v = (cos psi cos phi, cos psi sin phi, sin psi)

The first pixel is +X, to the right the vector moves towards +Y, downwards towards +Z, and all stays in one octant.

Source: Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding). Conventions: positions are (row, column)
of an n x n grid, from 0. ``variant``: "open", ``delta = pi / 2n``, all n^2 vectors differ; "closed", ``delta = pi /
2(n-1)``, the last row is +Z alone; "code", what the released notebooks compute, ``v = (sin a cos b, sin a sin b, cos
a)`` with ``a = row delta``, ``b = column delta``, delta closed: it starts at +Z, and the first row is one vector.

``hidden``: the note's trained readout, which gives a pixel one number: (128,) for ``3 -> 128 -> ReLU -> 1`` (pictures
multiplied by it), (256, 64) for the notebooks' concatenated features (CIFAR's; that of Fashion-MNIST has no ReLU after
the 64), () for one linear layer.

Known flaws: (1,1) and (2,2) are as alike as (1,2) and (2,1), for only |phi - phi'| enters; neighbours in a row grow
more alike downwards. SCShear mends the first, SCTorus both.
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


class SCPE(Scheme):
    """``v = (cos psi cos phi, cos psi sin phi, sin psi)``, ``psi = row delta``, ``phi = column delta``.

    n: side of the grid; positions lie in [0, n - 1] on both axes. variant: "open", "closed" or "code". hidden: widths
    of the trained readout; None for the vector itself. generator: of the readout's first weights.
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
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if n < 2:
            raise ValueError(f"SCPE divides a quarter turn among the rows of an n x n grid, n >= 2; got n={n}.")
        if variant not in ("open", "closed", "code"):
            raise ValueError(f"SCPE's variant is 'open', 'closed' or 'code'; got {variant!r}.")
        self.variant = variant
        self.delta = math.pi / (2 * n if variant == "open" else 2 * (n - 1))
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
        psi, phi = (self._take(pos).precise() * self.delta).unbind(-1)
        if self.variant == "code":
            rows = [psi.sin() * phi.cos(), psi.sin() * phi.sin(), psi.cos()]
        else:
            rows = [psi.cos() * phi.cos(), psi.cos() * phi.sin(), psi.sin()]
        return readout.points(torch.stack(rows, -1), pos)

    def embed(self, where: Points) -> Tensor:
        return readout.read(where, self.readout)

    def define_embed(self, p: Tensor) -> Tensor:
        up, along = p[0] * self.delta, p[1] * self.delta
        if self.variant == "code":
            up = math.pi / 2 - up
        row = torch.stack([torch.cos(up) * torch.cos(along), torch.cos(up) * torch.sin(along), torch.sin(up)])
        return readout.define(row, self.readout)
