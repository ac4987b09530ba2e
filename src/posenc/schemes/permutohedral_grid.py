"""Permutohedral grid: levels of a lattice of simplices, whose vertices share the rows of a small table by a hash.

    e(x) = [e_0(x) | .. | e_{L-1}(x)],   e_l(x) = sum_{m=0}^{P} b_m table_l[row(v_m)]

v_m are the P + 1 vertices of the simplex of x in the lattice of level l, and b_m its barycentric coordinates there. A
cell of a cubic grid has 2^P vertices instead, so only here does the number of rows that are read grow linearly with the
number of axes.

Source: Rosu and Behnke 2023, arXiv 2211.12562, section 3, and the authors' code (github
RaduAlexandru/permutohedral_encoding).

Conventions:
- Positions are real numbers in any range. ``scales`` are sizes of cells in the unit of positions.
- Each level is shifted by 10 times standard normal numbers, so that levels do not collide at the same places. The
  authors draw them with the table and save them; here ``seed`` draws them, and is saved as a convention of the table.
- A point is located in float64: a shift of 10 over a cell of 1e-4 leaves two digits in float32, as the authors have it.
- The table starts with 1e-5 times standard normal numbers.
- Rows are continuous and linear inside a simplex, with derivatives by the coordinates; second derivatives are 0.
- To find a simplex takes (P + 1)^2 comparisons, and to hash its vertices P (P + 1) products. From 3 to 6 axes the time
  per point grows 2.3 times, that of a hashed grid 5.5 times (docs/fields.md).
- It is equal to the scalar definition and to a transcription of the authors' kernel, which needs a GPU.

Coarse-to-fine training: ``embed(weight_levels(prepare(pos), coarse_to_fine(progress, L)))``; both functions are in
``posenc.kernels.domain``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.domain import Points
from posenc.kernels.permutohedral import define_lattice_row, lattice_rows
from posenc.kernels.planes import weighted_scales
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.whole_numbers import are_whole

PAPER = tuple(10 ** (-4 * level / 23) for level in range(24))
"""Sizes of cells in the authors' example: 24 levels from 1 to 1e-4."""
SPREAD, SHIFT = 1e-5, 10.0
"""Standard deviations of the initial table and of the shifts."""


class PermutohedralGrid(Scheme):
    """Permutohedral hash encoding: interpolated rows of L lattices of simplices, F features per level.

        e(x) = [e_0(x) | .. | e_{L-1}(x)],   e_l(x) interpolates the rows at the P + 1 vertices of the simplex of x

    Args:
        axes: Number P of position axes.
        scales: Size of the cells of each level, in the unit of positions. Default: 24 levels from 1 to 1e-4.
        features: Features F per level; rows have ``L * F`` numbers. Default: 2.
        table_size: Number T of rows of each level. Default: 2^18.
        seed: Seed of the shifts of the levels. Default: 0.
        generator: Random generator of the initial table. Default: torch's global generator.

    Raises:
        ValueError: If a count is not a whole number of at least 1, ``scales`` are not positive numbers, or ``seed`` is
            not a whole number.

    Example:
        >>> import torch
        >>> from posenc import PermutohedralGrid, Positions
        >>> scheme = PermutohedralGrid(axes=4, scales=(1.0, 0.5, 0.25), table_size=64)
        >>> scheme.embed(scheme.prepare(Positions(torch.rand(5, 4)))).shape
        torch.Size([5, 6])

    References:
        Rosu and Behnke 2023, "PermutoSDF: Fast Multi-View Reconstruction with Implicit Surfaces using Permutohedral
        Lattices", arXiv 2211.12562; Adams, Baek and Davis 2010, "Fast High-Dimensional Filtering Using the
        Permutohedral Lattice", section 3.
    """

    cite = """@inproceedings{rosu2023permutosdf,
  title={PermutoSDF: Fast Multi-View Reconstruction with Implicit Surfaces using Permutohedral Lattices},
  author={Rosu, Radu Alexandru and Behnke, Sven},
  booktitle={CVPR}, year={2023}, note={arXiv:2211.12562}}"""
    examples = (
        {"axes": 2, "scales": (3.0, 1.3), "table_size": 32},
        {"axes": 3, "scales": (2.0, 0.7), "table_size": 50, "features": 3},
        {"axes": 1, "scales": (2.0,), "table_size": 16, "seed": 1},
    )
    conventions = ("scales", "seed")

    table: nn.Parameter

    def __init__(
        self,
        axes: int,
        scales: Sequence[float] = PAPER,
        features: int = 2,
        *,
        table_size: int = 2**18,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not are_whole(axes, features, table_size):
            raise ValueError(
                "a permutohedral grid has whole numbers of axes, features and rows, at least one of each; got "
                f"axes={axes!r}, features={features!r}, table_size={table_size!r}. Write axes=3, table_size=2**18."
            )
        listed = isinstance(scales, Sequence) and all(isinstance(scale, int | float) for scale in scales)
        if not listed or not scales or not all(0 < scale < math.inf for scale in scales):
            raise ValueError(
                f"`scales` are the sizes of the cells of each level, above 0; got {scales!r}. Write scales=(1.0, 0.5)."
            )
        if not are_whole(seed, least=0):
            raise ValueError(f"`seed` is a whole number; got {seed!r}. Write seed=0.")
        self.scales, self.seed = tuple(map(float, scales)), seed
        draw = torch.Generator().manual_seed(seed)
        shifts = SHIFT * torch.randn(len(self.scales), axes, generator=draw, dtype=torch.float64, device="cpu")
        self.shifts: list[list[float]] = shifts.tolist()
        self.table = nn.Parameter(torch.empty(len(self.scales), table_size, features))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=None,
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
        nn.init.normal_(self.table, std=SPREAD, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.table.shape[0] * self.table.shape[2]

    @override
    def prepare(self, pos: Positions) -> Points:
        return Points(self._take(pos).precise(), pos.placed)

    @override
    def embed(self, where: Points) -> Tensor:
        levels = zip(self.table, self.shifts, self.scales, strict=True)
        rows = [lattice_rows(table, where.unit, shift, sigma) for table, shift, sigma in levels]
        y = weighted_scales(rows, where)
        return y if where.inside is None else torch.where(where.inside[..., None], y, 0)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        levels = zip(self.table, self.shifts, self.scales, strict=True)
        return torch.cat([define_lattice_row(table, p, shift, sigma) for table, shift, sigma in levels])
