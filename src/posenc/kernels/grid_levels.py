"""Levels of a multiresolution grid: resolutions, positions of vertices, and the table row of each vertex.

A level divides the unit cube into cells. On axis p the point x is at ``s_p = scale_p x_p + offset``, between the
vertices ``floor(s_p)`` and ``floor(s_p) + 1``. The row of a vertex v is

    dense:  (sum_p v_p prod_{r<p} S_r) mod rows,   S_r the number of vertices on axis r, the first axis fastest
    hashed: (XOR_p (v_p pi_p mod 2^32)) mod T

There are two conventions:

    "paper"  Müller et al. 2022, arXiv 2201.05989, section 3. scale = R and offset = 0, so a level of R cells has R + 1
             vertices per axis. It is dense if and only if all vertices fit into T rows. No two vertices of a dense
             level share a row.
    "tcnn"   github NVlabs/tiny-cuda-nn, grid.h. A nominal resolution r counts vertices: scale = r - 1, offset = 1/2, S
             = ceil(scale) + 1, and rows are rounded up to a multiple of 8. The last half cell of a dense level reads
             rows of other vertices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)
"""Primes pi_p of the hash. The first three are those of the paper's equation 4, the others those of tiny-cuda-nn."""

ROUNDING = 1e-6
"""Absolute tolerance for rounding ``R_min b^l`` up to a whole number: in float64 16 b^15 is 2047.9999999999982."""

RELATIVE = 1e-12
"""Relative tolerance for the same rounding, for resolutions above a million, whose rounding errors are larger."""

MOST_ROWS = 2**31 - 1
"""Largest number of rows of a level."""

Convention = Literal["paper", "tcnn"]


class Level(NamedTuple):
    """One level of a grid.

    Attributes:
        scale: factor from coordinates in [0, 1] to grid coordinates, per axis.
        offset: offset of grid coordinates, 0 or 1/2.
        vertices: number of vertices per axis.
        periodic: whether the last cell ends at vertex 0, per axis.
        hashed: whether the hash computes the row of a vertex.
        first: first row of the level in the table.
        rows: number of rows of the level.
    """

    scale: tuple[float, ...]
    offset: float
    vertices: tuple[int, ...]
    periodic: tuple[bool, ...]
    hashed: bool
    first: int
    rows: int

    @property
    def last_cell(self) -> tuple[int, ...]:
        """Lower vertex of the last cell, per axis.

        In the paper's convention x = 1 is the end of that cell; in tiny-cuda-nn's it lies within it.
        """
        if self.offset:
            return tuple(math.floor(scale + self.offset) for scale in self.scale)
        return tuple(int(scale) - 1 for scale in self.scale)

    @property
    def periods(self) -> tuple[int, ...]:
        """Number of vertices after which a periodic axis repeats; a very large number for other axes."""
        return tuple(v if p else MOST_ROWS for v, p in zip(self.vertices, self.periodic, strict=True))

    @property
    def reads_other_rows(self) -> bool:
        """True for a dense level in which points beyond the last vertices read rows of other vertices."""
        return bool(self.offset) and not self.hashed

    @property
    def multipliers(self) -> tuple[int, ...]:
        """Factor of each coordinate of a vertex before the coordinates are added or XORed."""
        if self.hashed:
            return PRIMES[: len(self.scale)]
        return tuple(math.prod(self.vertices[:axis]) for axis in range(len(self.vertices)))


def growth(coarsest: int, finest: int, levels: int) -> tuple[int, ...]:
    """Compute the resolutions of levels that grow geometrically (equations 2 and 3 of arXiv 2201.05989).

        R_l = floor(R_min b^l),   b = exp((ln R_max - ln R_min) / (L - 1))

    The formula is evaluated in float64. A value within 1e-6 below a whole number is rounded up to it.

    Args:
        coarsest: R_min, number of cells per axis of the first level, at least 1.
        finest: R_max, number of cells per axis of the last level.
        levels: number of levels L.

    Returns:
        Resolutions of the L levels; the last is R_max.

    Raises:
        ValueError: not ``1 <= coarsest <= finest``, or one level with different limits.
    """
    if levels < 1 or not 1 <= coarsest <= finest or (levels == 1 and coarsest != finest):
        raise ValueError(
            "growth(coarsest, finest, levels) needs levels >= 1, 1 <= coarsest <= finest, and coarsest == finest for "
            f"one level; got growth({coarsest}, {finest}, {levels}). Write growth(16, 512, 16)."
        )
    b = math.exp((math.log(finest) - math.log(coarsest)) / max(levels - 1, 1))
    below = (coarsest * b**level for level in range(levels - 1))
    return (*(math.floor(r + max(ROUNDING, r * RELATIVE)) for r in below), finest)


def tcnn_growth(base_resolution: int, per_level_scale: float, levels: int) -> tuple[float, ...]:
    """Compute the resolutions of tiny-cuda-nn (``grid_scale`` before its - 1), with its float32 rounding.

        r_l = base_resolution 2^(l log2 b)

    The rounding changes numbers of vertices: 16 to 512 in 16 levels ends with 513 vertices, and 16 to 2048 with 2048.
    Logarithm and powers are computed in float64 and rounded to float32. This agrees with C's log2f and exp2f in all but
    about one of 400 powers. NumPy's float32 functions differ in one of four, and not equally on every processor.

    Args:
        base_resolution: resolution of the first level, at least 1.
        per_level_scale: ratio b of neighboring levels, at least 1.
        levels: number of levels.

    Returns:
        Nominal resolutions of the levels.

    Raises:
        ValueError: invalid arguments, or more than 2^31 vertices on an axis.
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
            "with more than 2^31 vertices per axis. Use fewer levels, or a smaller per_level_scale."
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
    """Lay out the levels of a grid one after another in one table.

    Args:
        resolutions: resolution of each level, one number or one per axis.
        axes: number of axes.
        table_size: largest number T of rows of a level, a power of two; a larger level is hashed. With None every level
            is dense.
        convention: positions of the vertices, "paper" or "tcnn".
        periodic: whether vertex R is vertex 0, per axis.

    Returns:
        The levels.

    Raises:
        ValueError: arguments that are invalid in the convention.
    """
    periodic = tuple(periodic) or (False,) * axes
    if table_size is not None and not _is_power_of_two(table_size):
        nearest = 2 ** round(math.log2(max(table_size, 1)))
        raise ValueError(
            f"a hashed table has T = 2^k rows; got table_size={table_size}. Use {nearest}. "
            "(tiny-cuda-nn's log2_hashmap_size is the k of table_size=2**k.)"
        )
    if convention not in ("paper", "tcnn"):
        raise ValueError(f"convention is 'paper' or 'tcnn' (tiny-cuda-nn); got {convention!r}.")
    if convention == "tcnn" and any(periodic):
        raise ValueError(
            "tiny-cuda-nn's levels are not a whole number of cells wide, so they cannot be periodic. Use "
            "convention='paper' with outside='wrap', or another rule for points outside."
        )
    if resolutions is None or isinstance(resolutions, int | float):
        number = 16 if resolutions is None else resolutions
        raise ValueError(
            f"resolutions has one entry per level; got {resolutions}. Write ({number},) or growth(16, 512, 16)."
        )
    if not len(resolutions):
        raise ValueError("a grid needs at least one resolution; got none. Write resolutions=growth(16, 512, 16).")
    levels: list[Level] = []
    for resolution in resolutions:
        first = levels[-1].first + levels[-1].rows if levels else 0
        levels.append(_level(on_each_axis(resolution, axes), first, table_size, convention, periodic))
    return tuple(levels)


def _level(
    resolution: tuple[float, ...],
    first: int,
    table_size: int | None,
    convention: Convention,
    periodic: tuple[bool, ...],
) -> Level:
    resolution = tuple(map(float, resolution))
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


def on_each_axis(resolution: float | Sequence[float], axes: int) -> tuple[float, ...]:
    """Return a resolution as one number for each axis.

    Args:
        resolution: One number, or one for each axis.
        axes: Number of axes.

    Returns:
        The numbers.

    Raises:
        ValueError: Another number of them, or one below 1 or from 2^31 - 1 on.
    """
    each = (resolution,) * axes if isinstance(resolution, int | float | np.number) else resolution
    resolutions = tuple(float(r) for r in each)
    if len(resolutions) != axes:
        raise ValueError(f"a resolution is one number, or one for each of {axes} axes; got {resolution!r}.")
    if not all(1 <= r < MOST_ROWS for r in resolutions):
        raise ValueError(
            f"a resolution is at least 1, and less than 2^31 - 1; got {resolution!r}. The papers begin at 16."
        )
    return tuple(int(r) if r.is_integer() else r for r in resolutions)


def hashed_level(resolution: int | Sequence[int], axes: int, *, table_size: int, periodic: Sequence[bool]) -> Level:
    """Make one level that is hashed, even if its vertices would fit into the table."""
    (level,) = lay_out((resolution,), axes, table_size=table_size, periodic=periodic)
    if axes > len(PRIMES):
        raise ValueError(f"the hash has a prime for each of {len(PRIMES)} axes; got axes={axes}.")
    return level._replace(hashed=True, rows=table_size)
