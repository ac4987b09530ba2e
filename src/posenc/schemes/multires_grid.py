"""Multi-resolution grid (instant NGP): levels from coarse to fine, dense where the table holds them and hashed else.

    b = exp((ln R_max - ln R_min) / (L - 1)),   R_l = floor(R_min b^l),   l = 0 .. L - 1     (equations 2 and 3)
    e(x) = [e_0(x) | .. | e_{L-1}(x)]: level l is a DenseGrid if (R_l + 1)^P <= T, and a HashGrid of T rows if not

Source: Müller et al. 2022, arXiv 2201.05989. Conventions, all in ``kernels.levels``: "paper", coordinates from 0 to 1
(or a box), R_l cells an axis, R_l in float64 with R_{L-1} = R_max exactly. "tcnn", what tiny-cuda-nn (github
NVlabs/tiny-cuda-nn) does instead: resolutions count vertices, the levels are shifted by half a cell, the number of rows
of a level is a multiple of 8, and the last half cell of a dense level wraps round into other rows. All rows are one
table, level after level: tiny-cuda-nn's flat vector of parameters is that table, row by row.

Coarse to fine: ``embed(weigh(prepare(pos), coarse_to_fine(progress, L)))`` of ``kernels.domain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from posenc.kernels.domain import UNIT, Points, on_axes
from posenc.kernels.grid_definition import define_row
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.kernels.levels import Convention, growth, lay_out
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

PAPER = growth(16, 512, 16)


class MultiResolutionGrid(Scheme):
    """``e(x) = [e_0(x) | .. | e_{L-1}(x)]``: P-linear interpolations of trained rows, F numbers a level.

    axes: P. resolutions: of the levels, each a number or one an axis; ``growth(R_min, R_max, L)``, for tiny-cuda-nn
    ``tcnn_growth(base, scale, L)``, or any list. features: F. table_size: T, the most rows of a level, a power of two.
    convention: where vertices lie. interpolation: "linear", "smoothstep" or "nearest". domain: the ``Box`` that
    the grid covers, and what is outside. generator: of the first rows.
    """

    cite = """@article{mueller2022instant,
  title={Instant Neural Graphics Primitives with a Multiresolution Hash Encoding},
  author={M{\\"u}ller, Thomas and Evans, Alex and Schied, Christoph and Keller, Alexander},
  journal={ACM Transactions on Graphics}, volume={41}, number={4}, year={2022}, note={arXiv:2201.05989}}"""
    examples = (
        {"axes": 2, "resolutions": (3, 5, 9), "table_size": 32},
        {"axes": 3, "resolutions": (2, (3, 4, 5)), "table_size": 64, "features": 1},
        {"axes": 2, "resolutions": (3, 5, 9), "table_size": 32, "convention": "tcnn"},
        {"axes": 2, "resolutions": (3, 5, 9), "table_size": 32, "interpolation": "smoothstep"},
        {"axes": 2, "resolutions": (3, 5, 9), "table_size": 32, "domain": (-12, 80, "wrap")},
        {"axes": 2, "resolutions": (3, 5, 9), "table_size": 32, "domain": (-2, 30, ("clamp", "zero"))},
    )
    conventions = ("convention", "interpolation")

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        resolutions: Sequence[float | Sequence[float]] = PAPER,
        features: int = 2,
        *,
        table_size: int = 2**19,
        convention: Convention = "paper",
        interpolation: Interpolation = "linear",
        domain: Sequence[Any] = UNIT,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        refuse_unknown(axes, features, interpolation)
        self.domain = on_axes(domain, axes)
        periodic = self.domain.periodic
        self.levels = lay_out(resolutions, axes, table_size=table_size, convention=convention, periodic=periodic)
        self.convention: Convention = convention
        self.interpolation: Interpolation = interpolation
        self.table = nn.Parameter(torch.empty(self.levels[-1].first + self.levels[-1].rows, features))
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

    def load_tcnn(self, params: Tensor) -> None:
        """Take the rows of tiny-cuda-nn's encoding: its flat vector ``params``, half or single precision.

        Raises ValueError for another convention or number of parameters. ``table.flatten()`` is the way back.
        """
        if not isinstance(params, Tensor):
            raise ValueError(f"params is a flat tensor, encoding.params; got {type(params).__name__}. Make it one.")
        if self.convention != "tcnn":
            raise ValueError(
                "tiny-cuda-nn's rows belong to its own vertices. Build MultiResolutionGrid(.., convention='tcnn', "
                "resolutions=tcnn_growth(base_resolution, per_level_scale, n_levels))."
            )
        if params.numel() != self.table.numel():
            raise ValueError(
                f"this grid has {self.table.numel()} parameters; got {params.numel()}. n_levels, base_resolution, "
                "per_level_scale, log2_hashmap_size and n_features_per_level must be those of the file, and params the "
                "encoding's alone: a NetworkWithInputEncoding keeps its network's in front of them."
            )
        with torch.no_grad():
            self.table.copy_(params.reshape(self.table.shape))

    @property
    def tables(self) -> tuple[Tensor, ...]:
        """The rows ``(rows, F)`` of each level, coarse to fine: views of ``table``."""
        return self.table.split([level.rows for level in self.levels])

    @property
    def out_dim(self) -> int:
        return len(self.levels) * self.table.shape[1]

    def prepare(self, pos: Positions) -> Points:
        return self.domain.take(self._take(pos))

    def _refuse_outside(self, pos: Positions) -> None:
        self.domain.refuse_outside(pos, type(self).__name__)

    def embed(self, where: Points) -> Tensor:
        return rows_at(self.table, where, self.levels, self.interpolation)

    def define_embed(self, p: Tensor) -> Tensor:
        rows = [define_row(self.table, p, level, self.domain, self.interpolation) for level in self.levels]
        return torch.cat(rows)
