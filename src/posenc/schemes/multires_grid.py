"""Multiresolution hash grid: the encoding of Instant NGP; grids from coarse to fine, dense if they fit, hashed if not.

    b = exp((ln R_max - ln R_min) / (L - 1)),   R_l = floor(R_min b^l),   l = 0 .. L - 1     (equations 2 and 3)
    e(x) = [e_0(x) | .. | e_{L-1}(x)]: level l is a DenseGrid if its (R_l + 1)^P vertices are at most T, else a HashGrid

Source: Müller et al. 2022, arXiv 2201.05989, section 3.

Conventions (``posenc.kernels.grid_levels``):
- "paper": coordinates lie in [0, 1] (or in ``domain``), level l has R_l cells per axis, R_l is computed in float64, and
  R_{L-1} = R_max exactly.
- "tcnn" follows tiny-cuda-nn (github NVlabs/tiny-cuda-nn): resolutions count vertices, levels are shifted by half a
  cell, the number of rows of a level is a multiple of 8, and the last half cell of a dense level wraps to other rows.
- All levels share one table, level after level: row by row it is tiny-cuda-nn's flat parameter vector.

Coarse-to-fine training: ``embed(weight_levels(prepare(pos), coarse_to_fine(progress, L)))``; both functions are in
``posenc.kernels.domain``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import UNIT, Points, make_domain
from posenc.kernels.grid_definition import define_row
from posenc.kernels.grid_levels import Convention, growth, lay_out, on_each_axis
from posenc.kernels.interpolation import SPREAD, Interpolation, refuse_unknown, rows_at
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

PAPER = growth(16, 512, 16)


class MultiResolutionGrid(Scheme):
    """Multiresolution hash encoding: interpolated rows of L trained grids, F features per level.

        e(x) = [e_0(x) | .. | e_{L-1}(x)],   e_l(x) interpolates the rows at the 2^P vertices of the cell of x

    Args:
        axes: Number P of position axes.
        resolutions: Cells per axis of each level, one number or one per axis. In ``posenc.kernels.grid_levels``,
            ``growth(R_min, R_max, L)`` makes the paper's list and ``tcnn_growth(base, scale, L)`` tiny-cuda-nn's.
            Default: 16 levels from 16 to 512 cells.
        features: Features F per level; rows have ``L * F`` numbers.
        table_size: Largest number T of rows of a level, a power of two.
        convention: Position of the vertices: "paper" or "tcnn" (see the module).
        interpolation: "linear", "smoothstep" (cubic, with continuous slopes) or "nearest".
        domain: ``Box(low, high, outside)`` that the grid covers, in units of position, with the rule for positions
            outside: "error", "clamp", "wrap" or "zero". Default: [0, 1] on every axis, "error".
        generator: Random generator for the initial rows, uniform; torch's default generator if None.

    Raises:
        ValueError: If a count, a resolution, the domain or one of the named choices is invalid.

    Example:
        >>> import torch
        >>> from posenc import MultiResolutionGrid, Positions
        >>> scheme = MultiResolutionGrid(axes=2, resolutions=(4, 8, 16), table_size=64)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 2)))).shape
        torch.Size([5, 6])

    References:
        Müller, Evans, Schied and Keller, 2022, "Instant Neural Graphics Primitives with a Multiresolution Hash
        Encoding", arXiv 2201.05989, equations 2 to 4.
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
    conventions = ("convention", "interpolation", "resolutions")

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
        self.domain = make_domain(domain, axes)
        periodic = self.domain.periodic
        self.levels = lay_out(resolutions, axes, table_size=table_size, convention=convention, periodic=periodic)
        self.convention: Convention = convention
        self.resolutions = tuple(on_each_axis(each, axes) for each in resolutions)
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
        """Draw the rows again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        nn.init.uniform_(self.table, -SPREAD, SPREAD, generator=generator)

    def load_tcnn(self, params: Tensor) -> None:
        """Copy the parameters of a tiny-cuda-nn encoding into the table; ``table.flatten()`` is the inverse.

        Args:
            params: tiny-cuda-nn's flat parameter vector, in half or single precision.

        Raises:
            ValueError: If the convention is not "tcnn", or the number of parameters differs.
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
        """Rows ``(rows, F)`` of each level, from coarse to fine, as views of ``table``."""
        return self.table.split([level.rows for level in self.levels])

    @property
    @override
    def out_dim(self) -> int:
        return len(self.levels) * self.table.shape[1]

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
        rows = [define_row(self.table, p, level, self.domain, self.interpolation) for level in self.levels]
        return torch.cat(rows)
