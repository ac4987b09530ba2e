"""Hash grid: one level of a grid whose vertices share the rows of a small table by a hash, interpolated in between.

    row(v) = (XOR_p (v_p pi_p mod 2^32)) mod T,   pi = 1, 2654435761, 805459861, .. (equation 4)
    e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

Source: Müller et al. 2022, arXiv 2201.05989, section 3; primes after the third from github NVlabs/tiny-cuda-nn.
Conventions: coordinates from 0 to 1 (or a box), R cells an axis, at x = 1 the end of the last cell; products wrap round
as 32-bit integers do; T is a power of two. Every level is hashed here, whether or not its vertices would fit: for dense
and hashed levels together see MultiResolutionGrid. On an axis that wraps, vertex R is vertex 0. Interpolation by
``kernels.interpolation``, as in DenseGrid. Rows start U(-1e-4, 1e-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc.kernels.domain import UNIT, Points, on_axes
from posenc.kernels.grid_definition import define_row
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.kernels.levels import hashed_level
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class HashGrid(Scheme):
    """``e(x)``: the P-linear interpolation of the rows that the 2^P vertices around x hash to.

    axes: P, at most 7. resolution: cells R, a number or one an axis. features: width F of a row. table_size: T, a power
    of two. interpolation: "linear", "smoothstep" or "nearest". domain: the box that the grid covers, and what is
    outside. generator: of the first rows.
    """

    cite = """@article{mueller2022instant,
  title={Instant Neural Graphics Primitives with a Multiresolution Hash Encoding},
  author={M{\\"u}ller, Thomas and Evans, Alex and Schied, Christoph and Keller, Alexander},
  journal={ACM Transactions on Graphics}, volume={41}, number={4}, year={2022}, note={arXiv:2201.05989}}"""
    examples = (
        {"axes": 3, "resolution": 7, "table_size": 32},
        {"axes": 2, "resolution": (6, 9), "table_size": 16, "features": 3},
        {"axes": 2, "resolution": 7, "table_size": 32, "interpolation": "smoothstep"},
        {"axes": 2, "resolution": 5, "table_size": 16, "domain": (-3, 60, "wrap")},
    )
    conventions = ("interpolation", "resolution")

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        resolution: int | Sequence[int],
        features: int = 2,
        *,
        table_size: int = 2**19,
        interpolation: Interpolation = "linear",
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(axes, features, interpolation)
        self.domain = on_axes(domain, axes)
        self.levels = (hashed_level(resolution, axes, table_size=table_size, periodic=self.domain.periodic),)
        self.interpolation: Interpolation = interpolation
        self.resolution = tuple(resolution) if isinstance(resolution, Sequence) else (resolution,) * axes
        self.table = nn.Parameter(torch.empty(table_size, features))
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
