"""Dense grid: one trained row for each vertex of a grid over the box, interpolated in between.

    row(x, y, z) = x + y S + z S^2,   S = R + 1 vertices an axis (per axis where resolutions differ)
    e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

No two vertices share a row. Source: the coarse levels of Müller et al. 2022, arXiv 2201.05989, section 3. Conventions:
coordinates from 0 to 1 (or a box), R cells an axis, the first axis fastest, at x = 1 the end of the last cell. On an
axis that wraps, vertex R is vertex 0. Interpolation by ``kernels.interpolation``: "linear", "smoothstep" (t^2 (3 - 2t),
which has second derivatives by x), or "nearest". Rows start U(-1e-4, 1e-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc.kernels.domain import UNIT, Points, on_axes
from posenc.kernels.grid_definition import define_row
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.kernels.levels import lay_out
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class DenseGrid(Scheme):
    """``e(x)``: the P-linear interpolation of the rows at the 2^P vertices around x.

    axes: P. resolution: cells R, a number or one an axis. features: width F of a row. interpolation: "linear",
    "smoothstep" or "nearest". domain: the ``Box`` that the grid covers, and what is outside. generator: of the first
    rows.
    """

    cite = """@article{mueller2022instant,
  title={Instant Neural Graphics Primitives with a Multiresolution Hash Encoding},
  author={M{\\"u}ller, Thomas and Evans, Alex and Schied, Christoph and Keller, Alexander},
  journal={ACM Transactions on Graphics}, volume={41}, number={4}, year={2022}, note={arXiv:2201.05989}}"""
    examples = (
        {"axes": 2, "resolution": 7},
        {"axes": 3, "resolution": (4, 2, 3), "features": 3},
        {"axes": 2, "resolution": 4, "interpolation": "smoothstep"},
        {"axes": 1, "resolution": 3, "interpolation": "nearest"},
        {"axes": 2, "resolution": 6, "domain": (-9, 60)},
        {"axes": 2, "resolution": 5, "domain": (-3, 60, ("wrap", "clamp"))},
        {"axes": 2, "resolution": 5, "domain": (-3, 60, "zero")},
    )
    conventions = ("interpolation",)

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        resolution: int | Sequence[int],
        features: int = 2,
        *,
        interpolation: Interpolation = "linear",
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(axes, features, interpolation)
        self.domain = on_axes(domain, axes)
        self.levels = lay_out((resolution,), axes, table_size=None, periodic=self.domain.periodic)
        self.interpolation: Interpolation = interpolation
        self.table = nn.Parameter(torch.empty(self.levels[0].rows, features))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=self.domain.range,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the rows anew (also after building on the meta device)."""
        nn.init.uniform_(self.table, -SPREAD, SPREAD, generator=generator)

    @property
    def out_dim(self) -> int:
        return self.table.shape[1]

    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    def embed(self, where: Points) -> Tensor:
        return rows_at(self.table, where, self.levels, self.interpolation)

    def define_embed(self, p: Tensor) -> Tensor:
        return define_row(self.table, p, self.levels[0], self.domain, self.interpolation)
