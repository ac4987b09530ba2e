"""Levels of a grid of trained rows: resolutions, where the vertices lie, and which row of the table belongs to which.

A level divides the unit cube into cells; the point x stands at ``s_p = scale_p x_p + offset`` on axis p, between the
vertices ``floor(s_p)`` and ``floor(s_p) + 1``. The row of a vertex v is

    dense:  (sum_p v_p prod_{r<p} S_r) mod rows,   S_r the vertices on axis r, the first axis fastest
    hashed: (XOR_p (v_p pi_p mod 2^32)) mod T

"paper", Müller et al. 2022, arXiv 2201.05989, section 3: scale = R and offset = 0, so a level of R cells has R + 1
vertices an axis, and is dense if and only if all of them fit into T rows; no two vertices of a dense level share a row.
"tcnn", github NVlabs/tiny-cuda-nn, grid.h: a nominal resolution r counts vertices. scale = r - 1, offset = 1/2,
S = ceil(scale) + 1, rows rounded up to a multiple of 8; the last half cell of a dense level runs on into other rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)
"""pi_p; the first three are the paper's equation 4, the others tiny-cuda-nn's."""

ROUNDING = 1e-6
"""Below a whole number by no more than this, ``R_min b^l`` is that number: in float64 16 b^15 is 2047.9999999999982."""

RELATIVE = 1e-12
"""The same for resolutions above a million, whose last binary digits weigh more."""

MOST_ROWS = 2**31 - 1

Convention = Literal["paper", "tcnn"]


class Level(NamedTuple):
    """One level: per axis its scale, vertices, and whether the last cell ends at vertex 0; its rows in the table."""

    scale: tuple[float, ...]
    offset: float
    vertices: tuple[int, ...]
    periodic: tuple[bool, ...]
    hashed: bool
    first: int
    rows: int

    @property
    def last_cell(self) -> tuple[int, ...]:
        """The lower vertex of the last cell: at x = 1 the paper's point is that cell's end, tiny-cuda-nn's beyond."""
        if self.offset:
            return tuple(math.floor(scale + self.offset) for scale in self.scale)
        return tuple(int(scale) - 1 for scale in self.scale)

    @property
    def periods(self) -> tuple[int, ...]:
        """After how many vertices an axis begins anew; never, on one that does not."""
        return tuple(v if p else MOST_ROWS for v, p in zip(self.vertices, self.periodic, strict=True))

    @property
    def runs_on(self) -> bool:
        """Whether a dense level has points beyond its last vertices, and takes other vertices' rows for those."""
        return bool(self.offset) and not self.hashed

    @property
    def multipliers(self) -> tuple[int, ...]:
        """What each coordinate of a vertex is multiplied by before they are added or XORed."""
        if self.hashed:
            return PRIMES[: len(self.scale)]
        return tuple(math.prod(self.vertices[:axis]) for axis in range(len(self.vertices)))


def growth(coarsest: int, finest: int, levels: int) -> tuple[int, ...]:
    """``R_l = floor(R_min b^l)``, ``b = exp((ln R_max - ln R_min) / (L - 1))``: equations 2 and 3 of arXiv 2201.05989.

    In float64, and a value within 1e-6 below a whole number is that number; ``R_{L-1} = R_max``. Raises ValueError
    unless ``1 <= coarsest <= finest`` and, for one level, the two are equal.
    """
    if levels < 1 or not 1 <= coarsest <= finest or (levels == 1 and coarsest != finest):
        raise ValueError(
            f"{levels} levels cannot grow from {coarsest} to {finest} cells: there is at least one level, the coarsest "
            "has at least 1 cell and at most the finest's, and one level alone has both. As growth(16, 512, 16)."
        )
    b = math.exp((math.log(finest) - math.log(coarsest)) / max(levels - 1, 1))
    below = (coarsest * b**level for level in range(levels - 1))
    return (*(math.floor(r + max(ROUNDING, r * RELATIVE)) for r in below), finest)


def tcnn_growth(base_resolution: int, per_level_scale: float, levels: int) -> tuple[float, ...]:
    """``r_l = base_resolution 2^(l log2 b)`` in float32, as tiny-cuda-nn rounds it (``grid_scale``, before its - 1).

    Float32 decides counts of vertices: 16 to 512 in 16 levels ends with 513 of them there, and 16 to 2048 with 2048.
    Its logarithm and powers are taken in float64 and then rounded, as C's log2f and exp2f are but for a digit in 400
    powers; NumPy's own in float32 differ in one of four, and not on every processor alike.
    """
    if levels < 1 or base_resolution < 1 or not 1 <= per_level_scale < math.inf:
        raise ValueError(
            "tiny-cuda-nn's levels need levels >= 1, base_resolution >= 1 and per_level_scale >= 1; got levels="
            f"{levels}, base_resolution={base_resolution}, per_level_scale={per_level_scale:g}."
        )
    step = np.float32(math.log2(np.float32(per_level_scale)))
    if math.log2(base_resolution) + (levels - 1) * float(step) >= 31:
        raise ValueError(
            f"{levels} levels from {base_resolution} on, each {per_level_scale:g} times as fine as the one before, end "
            "with more than 2^31 vertices an axis. Use fewer levels, or a smaller per_level_scale."
        )
    powers = (np.float32(2.0 ** float(np.float32(level) * step)) for level in range(levels))
    return tuple(float(power * np.float32(base_resolution)) for power in powers)


def lay_out(
    resolutions: Sequence[float | Sequence[float]],
    axes: int,
    *,
    table_size: int | None,
    convention: Convention = "paper",
    periodic: Sequence[bool] = (),
) -> tuple[Level, ...]:
    """Levels one after the other in one table. A resolution is a number, or one a axis.

    table_size: T, the most rows of a level, a power of two: a larger level is hashed. None: every level is dense.
    periodic: axes on which vertex R is vertex 0. Raises ValueError for what the convention cannot mean.
    """
    periodic = tuple(periodic) or (False,) * axes
    if table_size is not None and not _is_power_of_two(table_size):
        nearest = 2 ** round(math.log2(max(table_size, 1)))
        raise ValueError(
            f"a hashed table has T = 2^k rows; got table_size={table_size}. Use {nearest}. "
            "(tiny-cuda-nn's log2_hashmap_size is the k of table_size=2**k.)"
        )
    if convention not in ("paper", "tcnn"):
        raise ValueError(f"vertices lie as in the 'paper' or as in 'tcnn' (tiny-cuda-nn); got {convention!r}.")
    if convention == "tcnn" and any(periodic):
        raise ValueError(
            "tiny-cuda-nn's levels are no whole number of cells wide, so they cannot end where they began. Use "
            "convention='paper' with outside='wrap', or another rule for points outside."
        )
    if isinstance(resolutions, int | float):
        raise ValueError(
            f"levels have a resolution each; got {resolutions} alone. As ({resolutions},) or growth(16, 512, 16)."
        )
    if not len(resolutions):
        raise ValueError("a grid needs at least one resolution; got none. As resolutions=growth(16, 512, 16).")
    levels: list[Level] = []
    for resolution in resolutions:
        first = levels[-1].first + levels[-1].rows if levels else 0
        levels.append(_level(_each_axis(resolution, axes), first, table_size, convention, periodic))
    return tuple(levels)


def _level(
    resolution: tuple[float, ...],
    first: int,
    table_size: int | None,
    convention: Convention,
    periodic: tuple[bool, ...],
) -> Level:
    if convention == "paper":
        if any(r != int(r) for r in resolution):
            raise ValueError(
                f"the paper's levels have a whole number of cells; got {', '.join(f'{r:g}' for r in resolution)}. "
                "Round it, use growth(..), or convention='tcnn' for tcnn_growth(..)."
            )
        scale, offset = resolution, 0.0
        vertices = tuple(int(r) + (not around) for r, around in zip(resolution, periodic, strict=True))
    else:
        scale, offset = tuple(r - 1 for r in resolution), 0.5
        vertices = tuple(math.ceil(s) + 1 for s in scale)
    rows = math.prod(vertices)
    hashed = table_size is not None and rows > table_size
    if hashed and len(resolution) > len(PRIMES):
        raise ValueError(
            f"the hash has a prime for each of {len(PRIMES)} axes; got {len(resolution)}. Use a resolution whose "
            f"{rows} vertices fit into the table, or fewer axes."
        )
    if convention == "tcnn":
        rows = -(-rows // 8) * 8
    if table_size is not None:
        rows = min(rows, table_size)
    if rows > MOST_ROWS:
        raise ValueError(
            f"a dense level of resolution {', '.join(f'{r:g}' for r in resolution)} has {rows} rows. Use a coarser "
            "one, or a hashed level."
        )
    return Level(scale, offset, vertices, periodic, hashed, first, rows)


def _is_power_of_two(size: int) -> bool:
    return hasattr(size, "__index__") and size >= 1 and not size & (size - 1)


def _each_axis(resolution: float | Sequence[float], axes: int) -> tuple[float, ...]:
    each = (resolution,) * axes if isinstance(resolution, int | float | np.number) else resolution
    found = tuple(float(r) for r in each)
    if len(found) != axes:
        raise ValueError(f"a resolution is one number, or one for each of {axes} axes; got {resolution!r}.")
    if not all(1 <= r < MOST_ROWS for r in found):
        raise ValueError(
            f"a resolution is at least 1, and less than 2^31 - 1; got {resolution!r}. The papers begin at 16."
        )
    return found


def hashed_level(resolution: int | Sequence[int], axes: int, *, table_size: int, periodic: Sequence[bool]) -> Level:
    """One level that is hashed whether or not its vertices would fit."""
    (level,) = lay_out((resolution,), axes, table_size=table_size, periodic=periodic)
    if axes > len(PRIMES):
        raise ValueError(f"the hash has a prime for each of {len(PRIMES)} axes; got axes={axes}.")
    return level._replace(hashed=True, rows=table_size)
