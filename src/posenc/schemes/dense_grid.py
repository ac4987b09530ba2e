"""Dense grid: one trained feature vector for each vertex of a regular grid, interpolated within each cell.

    row(x, y, z) = x + y S + z S^2,   S = R + 1 vertices per axis, R on an axis that wraps
    e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

No two vertices share a row of the table.

Source: the coarse levels of Müller et al. 2022, arXiv 2201.05989, section 3.

Conventions:
- Coordinates lie in [0, 1], or in the box ``domain``. There are R cells per axis; the last one ends at x = 1.
- Rows of the table are numbered with the first axis fastest. On an axis with "wrap", vertex R is vertex 0.
- ``interpolation``: "linear", "smoothstep" (weights t^2 (3 - 2t), with second derivatives in x) or "nearest".
- The table starts uniform, U(-1e-4, 1e-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import UNIT, Points, make_domain
from posenc.kernels.grid_definition import define_row
from posenc.kernels.grid_levels import lay_out, on_each_axis
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class DenseGrid(Scheme):
    """Dense feature grid with multilinear interpolation, for real positions in a box.

        e(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(floor(R x) + c)],   t = R x - floor(R x)

    Args:
        axes: Number P of axes of the positions.
        resolution: Number R of cells per axis: one integer, or one for each axis, ``(P,)``.
        features: Width F of a feature vector. Default: 2.
        interpolation: "linear", "smoothstep" or "nearest". Default: "linear".
        domain: The box that the grid covers, ``(low, high, outside)`` as in ``posenc.kernels.domain.Box``, each one
            value or one per axis. ``outside`` is the rule for positions outside: "error", "clamp", "wrap" or "zero".
            Default: [0, 1] on every axis, with "error".
        generator: Random generator of the initial table. Default: torch's global generator.

    Raises:
        ValueError: If ``axes``, ``resolution`` or ``features`` is less than 1, for an unknown ``interpolation``, or if
            ``domain`` is not a box on ``axes`` axes.

    Example:
        >>> import torch
        >>> from posenc import DenseGrid, Positions
        >>> scheme = DenseGrid(axes=2, resolution=8, features=4)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(10, 2)))).shape
        torch.Size([10, 4])

    References:
        Müller et al. 2022, arXiv 2201.05989, section 3.
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
    conventions = ("interpolation", "resolution")

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
        self.domain = make_domain(domain, axes)
        self.levels = lay_out((resolution,), axes, table_size=None, periodic=self.domain.periodic)
        self.interpolation: Interpolation = interpolation
        self.resolution = on_each_axis(resolution, axes)
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
        """Redraw the table; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        nn.init.uniform_(self.table, -SPREAD, SPREAD, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.table.shape[1]

    @override
    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    @override
    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    @override
    def embed(self, where: Points) -> Tensor:
        return rows_at(self.table, where, self.levels, self.interpolation)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        return define_row(self.table, p, self.levels[0], self.domain, self.interpolation)
