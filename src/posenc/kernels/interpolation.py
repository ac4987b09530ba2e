"""Rows of a table interpolated between the vertices of grids, with derivatives by the table and by the coordinates.

    s_p = scale_p x_p + offset,   i_p = floor(s_p),   t_p = w(s_p - i_p)
    y_l = sum_c prod_p (c_p t_p + (1 - c_p)(1 - t_p)) table[row_l(i + c)],   c in {0, 1}^P

w(s) = s (linear) or s^2 (3 - 2 s) (smoothstep); "nearest" is y_l = table[row_l(floor(s + 1/2 - offset))]. The sum is
taken axis by axis, the last first, as 2^P - 1 linear interpolations between two numbers.

``plain`` is that in torch's own operations, all levels at once: it has every derivative. On a CPU ``interpolate`` goes
level by level over runs of points instead and keeps nothing but its inputs for the gradient; pairs of channels are read
and added as one complex number, which makes one random access of two. Positions on the grid are computed in float64,
where scale times x is exact for float32 coordinates.

What it costs is memory, not arithmetic. A level of 2^19 rows of two floats is 4 MiB, 65,536 points ask for each of its
cache lines some eight times, and reading those in any order out of main memory takes 1.5 ms a level, out of the cache
0.5; so a level is first read from end to end (0.2 ms) and then at random. All intermediates of all levels share memory
that stays in the cache, and results are put in order once a run, since each point's levels share its cache lines. Tried
and slower: runs of 2^13 and 2^14 points, and bags of weighted rows (``embedding_bag``, which wants the corners of a
point side by side: to transpose rows and weights costs more than the gather).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.kernels.domain import Points
from posenc.kernels.levels import Level
from posenc.kernels.linear import differentiable_gradients, eager

Interpolation = Literal["nearest", "linear", "smoothstep"]

RUN = 1 << 15
"""Points at a time: it bounds the memory that is taken, whatever their number."""

SPREAD = 1e-4
"""Rows start uniform within this of zero: arXiv 2201.05989, section 4."""

LINE = 64
"""Bytes that memory hands over at once."""

CACHED = 1 << 20
"""Bytes of rows that the cache nearest to a core keeps by itself."""

MASK = 0xFFFFFFFF
NARROW = 2**31


def refuse_unknown(axes: int, features: int, interpolation: str) -> None:
    """Raises ValueError unless there is something to interpolate, in a way that is known."""
    if axes < 1 or features < 1:
        raise ValueError(f"a grid has at least one axis and one feature; got axes={axes}, features={features}.")
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"a grid is interpolated 'nearest', 'linear' or 'smoothstep'; got {interpolation!r}.")


def rows_at(
    table: Float[Tensor, "rows F"], where: Points, levels: Sequence[Level], interpolation: Interpolation
) -> Float[Tensor, "*B N LF"]:
    """The levels' rows side by side, level-major, times the levels' weights; zeros where a point has no place."""
    y = interpolate(table, where.unit, levels, interpolation)
    if where.weights is not None:
        if where.weights.shape[-1] != len(levels):
            raise ValueError(
                f"this grid has {len(levels)} levels, and a weight for each of them is needed; got shape "
                f"{tuple(where.weights.shape)}. As weigh(points, coarse_to_fine(progress, {len(levels)}))."
            )
        y = y * where.weights[..., None].to(y.dtype)
    y = y.flatten(-2)
    return y if where.inside is None else torch.where(where.inside[..., None], y, 0)


def interpolate(
    table: Float[Tensor, "rows F"], x: Float[Tensor, "*B P"], levels: Sequence[Level], interpolation: Interpolation
) -> Float[Tensor, "*B L F"]:
    """``y_l(x)`` for points x in [0, 1]^P, in the table's dtype; computed in float32 where that is narrower."""
    if not _here_and_now(table):
        return plain(table, x, levels, interpolation)
    flat = x.reshape(-1, x.shape[-1]).to(torch.float64)
    wide = _aligned(table.to(torch.promote_types(table.dtype, torch.float32)))
    y = _Grids.apply(wide, flat, tuple(levels), interpolation).view(*x.shape[:-1], len(levels), table.shape[1])
    return y.to(table.dtype)


def plain(table: Tensor, x: Tensor, levels: Sequence[Level], interpolation: Interpolation) -> Tensor:
    """The same by gathering all corners of all levels at once."""
    wide = torch.promote_types(table.dtype, torch.float32)
    whole = functools.partial(torch.tensor, dtype=torch.long, device=x.device)
    real = functools.partial(torch.tensor, dtype=torch.float64, device=x.device)
    nearest = interpolation == "nearest"
    offset = 0.5 if nearest else real([level.offset for level in levels])[:, None]
    s = x.to(torch.float64)[..., None, :] * real([level.scale for level in levels]) + offset
    i = s.detach().floor().long()
    if not nearest:
        i = torch.minimum(i, whole([level.last_cell for level in levels]))
    v = torch.stack([i] if nearest else [i, i + 1]) % whole([level.periods for level in levels])
    terms = (v * whole([level.multipliers for level in levels])) & MASK
    hashed = whole([level.hashed for level in levels]).bool()
    row = terms[..., 0]
    for axis in range(1, x.shape[-1]):
        other = terms[..., axis].unsqueeze(1)
        row = torch.where(hashed, row ^ other, row + other).flatten(0, 1)
    row = row % whole([level.rows for level in levels]) + whole([level.first for level in levels])
    y = table.index_select(0, row.flatten()).view(*row.shape, table.shape[1]).to(wide)
    t = _weight((s - i).to(wide), interpolation)
    for axis in () if nearest else reversed(range(x.shape[-1])):
        low, high = y.chunk(2)
        y = low + t[..., axis, None] * (high - low)
    if x.requires_grad:
        y = y + 0 * t.cos().sum(-1, keepdim=True)  # derivatives of zero, where autograd refuses what depends on nothing
    return y[0].to(table.dtype)


def _weight(s: Tensor, interpolation: Interpolation) -> Tensor:
    return s * s * (3 - 2 * s) if interpolation == "smoothstep" else s


def _here_and_now(table: Tensor) -> bool:
    return eager() and table.device.type == "cpu"


class _Grids(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, x: Tensor, levels: tuple[Level, ...], interpolation: Interpolation) -> Tensor:
        ctx.save_for_backward(table, x)
        ctx.levels, ctx.interpolation = levels, interpolation
        out, scratch = table.new_empty(len(x), len(levels), table.shape[1]), _Scratch()
        elements = _elements(out).flatten(1)
        for run, across in _runs(x):
            found = scratch("found", elements.dtype, len(levels), elements.shape[1] // len(levels), across.shape[1])
            for level, numbers in zip(levels, _numbers(found), strict=True):
                cell = _cell(across, level, interpolation, table, scratch)
                y = _corners(table, cell, scratch)
                for t in reversed(cell.t.unbind()):
                    y = _along(y, t)
                numbers.copy_(y[:, 0])
            elements[run] = found.flatten(0, 1).t()  # all levels of a point at once: they share its cache lines
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (table, x), (g,) = ctx.saved_tensors, grad_outputs
        if torch.is_grad_enabled():
            alike = functools.partial(plain, levels=ctx.levels, interpolation=ctx.interpolation)
            return (*differentiable_gradients(alike, (table, x), g), None, None)
        by_table = torch.zeros_like(table) if ctx.needs_input_grad[0] else None
        by_x = torch.zeros_like(x) if ctx.needs_input_grad[1] else None
        elements, scratch = _elements(_aligned(g)).flatten(1), _Scratch()
        for run, across in _runs(x):
            given = scratch("given", elements.dtype, elements.shape[1], across.shape[1]).copy_(elements[run].t())
            for level, of_level in zip(ctx.levels, _numbers(given).chunk(len(ctx.levels)), strict=True):
                cell = _cell(across, level, ctx.interpolation, table, scratch)
                if by_table is not None:
                    _add_to_corners(by_table, cell, of_level[:, None], scratch)
                if by_x is not None and len(cell.t):
                    slopes = _slopes(table, cell, of_level[:, None], scratch)
                    if ctx.interpolation == "smoothstep":
                        slopes *= 6 * cell.s * (1 - cell.s)
                    by_x[run] += slopes.t() * by_x.new_tensor(level.scale)
        return by_table, by_x, None, None


class _Scratch:
    """Memory by name, taken once and overwritten by every level: fresh memory costs as much as the arithmetic."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, torch.dtype], Tensor] = {}

    def __call__(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Anything, of this shape."""
        taken, size = self.taken.get((name, dtype)), math.prod(shape)
        if taken is None or len(taken) < size:
            taken = self.taken[name, dtype] = torch.empty(size, dtype=dtype)
        return taken[:size].view(shape)


class _Cell(NamedTuple):
    """A run of n points in the cells of one level, in memory that the next level overwrites.

    rows: the level's part of the table. row ``(2^P n,)``: of each corner, corner by corner, axis p the p-th
    bit. s ``(P, n)``: where in the cell. t ``(P, n width)``: the upper corners' weights, once for each number of an
    element; no axes for the nearest vertex.
    """

    rows: slice
    row: Tensor
    s: Tensor
    t: Tensor


def _runs(x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Some points at a time, ``(P, n)``."""
    for start in range(0, len(x), RUN):
        run = slice(start, start + RUN)
        yield run, x[run].t().contiguous()


def _cell(x: Tensor, level: Level, interpolation: Interpolation, table: Tensor, scratch: _Scratch) -> _Cell:
    nearest, whole = interpolation == "nearest", _narrowest(level)
    s = torch.mul(x, torch.tensor(level.scale, dtype=x.dtype)[:, None], out=scratch("s", x.dtype, *x.shape))
    if nearest or level.offset:
        s += 0.5
    i = scratch("i", whole, *x.shape).copy_(s)
    if not nearest:
        torch.minimum(i, torch.tensor(level.last_cell, dtype=whole)[:, None], out=i)
    terms = _terms(i, level, 1 if nearest else 2, scratch)
    index, join = terms[:, 0], torch.bitwise_xor if level.hashed else torch.add
    for axis in range(1, len(x)):
        joined = scratch(f"index {axis}", whole, len(terms), *index.shape)
        index = join(terms[:, axis, None], index, out=joined).flatten(0, 1)
    if level.runs_on:
        index.remainder_(level.rows)
    between = scratch("between", table.dtype, *x.shape).copy_(s.sub_(i))
    t = _weight(between, interpolation)[: 0 if nearest else None]
    if _width(table) == 2:
        t = _numbers(torch.complex(t, t, out=scratch("t", table.dtype.to_complex(), *t.shape)))
    return _Cell(slice(level.first, level.first + level.rows), index.flatten(), between, t)


def _terms(i: Tensor, level: Level, corners: int, scratch: _Scratch) -> Tensor:
    """What each axis adds to the row of its lower and its upper vertex, ``(corners, P, n)``.

    T is a power of two, so the low bits of a hash are enough, and they are those of the low bits of a prime: with them
    most products fit into 32 bits.
    """
    multipliers = [m % level.rows if level.hashed else m for m in level.multipliers]
    times = torch.tensor(multipliers, dtype=i.dtype)[:, None]
    terms = scratch("terms", i.dtype, corners, *i.shape)
    for corner, term in enumerate(terms):
        if any(level.periodic):
            torch.mul((i + corner) % torch.tensor(level.periods, dtype=i.dtype)[:, None], times, out=term)
        elif corner == 0:
            torch.mul(i, times, out=term)
        else:
            torch.add(terms[0], times, out=term)
    return terms.bitwise_and_(level.rows - 1) if level.hashed else terms


def _narrowest(level: Level) -> torch.dtype:
    """The integers that hold every product and sum of a level's rows: 32 bits are faster than 64."""
    beyond = [vertices + 1 for vertices in level.vertices]
    if level.hashed:
        largest = max(beyond) * level.rows
    else:
        largest = sum(v * multiplier for v, multiplier in zip(beyond, level.multipliers, strict=True))
    return torch.int32 if largest < NARROW else torch.int64


def _width(table: Tensor) -> int:
    """Numbers in one element: two, as one complex number, where the features are even."""
    return 1 if table.shape[-1] % 2 else 2


def _aligned(rows: Tensor) -> Tensor:
    """The same numbers where a pair of them may be read as one: a view into a longer vector can begin between pairs."""
    rows = rows.contiguous()
    return rows.clone() if rows.storage_offset() % 2 else rows


def _elements(rows: Tensor) -> Tensor:
    """``(.., F)`` as ``(.., F / width)``, a view."""
    return rows if _width(rows) == 1 else torch.view_as_complex(rows.unflatten(-1, (-1, 2)))


def _numbers(elements: Tensor) -> Tensor:
    """``(.., n)`` elements as ``(.., n width)`` numbers, a view."""
    return torch.view_as_real(elements).flatten(-2) if elements.is_complex() else elements


def _corners(table: Tensor, cell: _Cell, scratch: _Scratch) -> Tensor:
    """The rows of all corners, ``(C, 2^P, n width)``."""
    rows = table[cell.rows]
    _fetch(rows, cell)
    columns = _elements(rows).t()
    found = scratch("corners", columns.dtype, len(columns), len(cell.row))
    for column, out in zip(columns, found, strict=True):
        torch.index_select(column, 0, cell.row, out=out)
    found = _numbers(found)
    return found.view(len(columns), 2 ** len(cell.t), found.shape[1] >> len(cell.t))


def _fetch(rows: Tensor, cell: _Cell) -> None:
    """Reads a level from end to end where its cache lines are about to be read in any order, which is much slower."""
    if len(cell.row) * LINE >= rows.nbytes > CACHED:
        rows.sum()


def _along(y: Tensor, t: Tensor) -> Tensor:
    """One axis less, the last: between its lower half of corners and its upper one, over the lower one."""
    low, high = y.chunk(2, 1)
    return low.lerp_(high, t)


def _add_to_corners(by_table: Tensor, cell: _Cell, g: Tensor, scratch: _Scratch) -> None:
    """``by_table[row(c)] += weight_c g``: one number after another, in the order of the points, on one thread."""
    parts, size = scratch("parts", g.dtype, len(g), 2 ** len(cell.t), g.shape[-1]), 1
    parts[:, :1] = g
    for t in cell.t:
        lower, upper = parts[:, :size], parts[:, size : 2 * size]
        lower -= torch.mul(lower, t, out=upper)
        size *= 2
    parts = _elements(parts.view(len(g), len(cell.row), _width(by_table)))[..., 0]
    rows = by_table[cell.rows]
    _fetch(rows, cell)
    for column, part in zip(_elements(rows).t(), parts, strict=True):
        column.index_add_(0, cell.row, part)


def _slopes(table: Tensor, cell: _Cell, g: Tensor, scratch: _Scratch) -> Tensor:
    """``g . dy / dt_p``, ``(P, n)``: along axis p the difference of its two sides, along the others as the value."""
    y, turned = _corners(table, cell, scratch), []
    for t in reversed(cell.t.unbind()):
        low, high = y.chunk(2, 1)
        turned = [high - low, *(_along(part, t) for part in turned)]
        y = _along(y, t)
    return torch.stack([(part * g).sum((0, 1)).view(-1, _width(table)).sum(1) for part in turned])
