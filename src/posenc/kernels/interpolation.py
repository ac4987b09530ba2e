"""Multiresolution grid interpolation of table rows, with derivatives by the table and by the coordinates.

    s_p = scale_p x_p + offset,   i_p = floor(s_p),   t_p = w(s_p - i_p)
    y_l = sum_c prod_p (c_p t_p + (1 - c_p)(1 - t_p)) table[row_l(i + c)],   c in {0, 1}^P

Here w(s) = s (linear) or s^2 (3 - 2 s) (smoothstep); "nearest" is y_l = table[row_l(floor(s + 1/2 - offset))]. The sum
is computed axis by axis, the last axis first, as 2^P - 1 linear interpolations between two values.

``plain`` computes this with torch operations for all levels at once, and has all derivatives. On a CPU ``interpolate``
computes one level after another over runs of points, and saves only its inputs for the gradient. It reads and adds
pairs of channels as one complex number, which halves the number of random accesses. Positions on the grid are computed
in float64, in which scale times x is exact for float32 coordinates.

The cost is memory access, not arithmetic. A level of 2^19 rows of two floats has 4 MiB, and 65,536 points access each
of its cache lines about eight times. Random access takes 1.5 ms per level from main memory and 0.5 ms from the cache. A
level is therefore first read sequentially (0.2 ms) and then randomly. Intermediate results of all levels share memory
that stays in the cache. Outputs are transposed once per run, because all levels of a point share its cache lines. These
variants were slower: runs of 2^13 and 2^14 points, and ``embedding_bag``, which needs the corners of a point side by
side, so that transposing rows and weights costs more than the gather.
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
from posenc.kernels.grid_levels import Level
from posenc.kernels.kernel_form import takes_triton
from posenc.kernels.linear import differentiable_gradients, eager
from posenc.whole_numbers import are_whole

Interpolation = Literal["nearest", "linear", "smoothstep"]

RUN = 1 << 15
"""Number of points per run, which bounds the temporary memory for any number of points."""

SPREAD = 1e-4
"""Initial rows are uniform in [-SPREAD, SPREAD]: arXiv 2201.05989, section 4."""

LINE = 64
"""Size of a cache line in bytes."""

CACHED = 1 << 20
"""Number of bytes of rows that stay in the cache of a core without prefetching."""

MASK = 0xFFFFFFFF
"""Mask of the low 32 bits of a hash."""

NARROW = 2**31
"""Number above the largest 32-bit integer."""


def refuse_unknown(axes: int, features: int, interpolation: str) -> None:
    """Raise ValueError for a grid without axes or features, numbers that are not whole, or an unknown interpolation."""
    if not are_whole(axes, features):
        raise ValueError(
            "a grid has whole numbers of axes and features, at least one axis and one feature; got "
            f"axes={axes!r}, features={features!r}. Write axes=3, features=8."
        )
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"a grid is interpolated 'nearest', 'linear' or 'smoothstep'; got {interpolation!r}.")


def rows_at(
    table: Float[Tensor, "rows F"], where: Points, levels: Sequence[Level], interpolation: Interpolation
) -> Float[Tensor, "*B N LF"]:
    """Compute the weighted rows of all levels, concatenated level by level; zeros for points without a position."""
    y = interpolate(table, where.unit, levels, interpolation)
    if where.weights is not None:
        if where.weights.shape[-1] != len(levels):
            raise ValueError(
                f"this grid has {len(levels)} levels, and a weight for each of them is needed; got shape "
                f"{tuple(where.weights.shape)}. As weight_levels(points, coarse_to_fine(progress, {len(levels)}))."
            )
        y = y * where.weights[..., None].to(y.dtype)
    y = y.flatten(-2)
    return y if where.inside is None else torch.where(where.inside[..., None], y, 0)


def interpolate(
    table: Float[Tensor, "rows F"], x: Float[Tensor, "*B P"], levels: Sequence[Level], interpolation: Interpolation
) -> Float[Tensor, "*B L F"]:
    """Compute ``y_l(x)`` for points x in [0, 1]^P, in the table's dtype, with at least float32 arithmetic."""
    if takes_triton(table, x):
        from posenc.kernels.triton_forms import grid as triton_form

        if triton_form.fits(x, levels):
            return triton_form.interpolate(table, x, levels, interpolation)
    if not _eager_on_cpu(table):
        return plain(table, x, levels, interpolation)
    flat = x.reshape(-1, x.shape[-1]).to(torch.float64)
    wide = _aligned(table.to(torch.promote_types(table.dtype, torch.float32)))
    y = _Grids.apply(wide, flat, tuple(levels), interpolation).view(*x.shape[:-1], len(levels), table.shape[1])
    return y.to(table.dtype)


def gradients_of_plain(
    table: Tensor, x: Tensor, g: Tensor, levels: Sequence[Level], interpolation: Interpolation
) -> tuple[Tensor | None, ...]:
    """Gradients of ``plain`` in the table and the points, which can be differentiated again."""
    return differentiable_gradients(functools.partial(plain, levels=levels, interpolation=interpolation), (table, x), g)


def plain(table: Tensor, x: Tensor, levels: Sequence[Level], interpolation: Interpolation) -> Tensor:
    """Compute ``interpolate`` by gathering all corners of all levels at once."""
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
        y = y + 0 * t.cos().sum(-1, keepdim=True)  # makes derivatives 0 where autograd would refuse them
    return y[0].to(table.dtype)


def _weight(s: Tensor, interpolation: Interpolation) -> Tensor:
    return s * s * (3 - 2 * s) if interpolation == "smoothstep" else s


def _eager_on_cpu(table: Tensor) -> bool:
    return eager() and table.device.type == "cpu"


class _Grids(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, x: Tensor, levels: tuple[Level, ...], interpolation: Interpolation) -> Tensor:
        ctx.save_for_backward(table, x)
        ctx.levels, ctx.interpolation = levels, interpolation
        out, scratch = table.new_empty(len(x), len(levels), table.shape[1]), _Scratch()
        elements = _elements(out).flatten(1)
        for run, across in _runs(x):
            values = scratch("values", elements.dtype, len(levels), elements.shape[1] // len(levels), across.shape[1])
            for level, numbers in zip(levels, _numbers(values), strict=True):
                cell = _cell(across, level, interpolation, table, scratch)
                y = _corners(table, cell, scratch)
                for t in reversed(cell.t.unbind()):
                    y = _along(y, t)
                numbers.copy_(y[:, 0])
            elements[run] = values.flatten(0, 1).t()  # all levels of a point share its cache lines
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (table, x), (g,) = ctx.saved_tensors, grad_outputs
        if torch.is_grad_enabled():
            return (*gradients_of_plain(table, x, g, ctx.levels, ctx.interpolation), None, None)
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
    """Named temporary memory that all levels reuse, because allocating memory costs as much as the arithmetic."""

    def __init__(self) -> None:
        self.taken: dict[tuple[str, torch.dtype], Tensor] = {}

    def __call__(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Return a tensor of this shape with undefined values."""
        taken, size = self.taken.get((name, dtype)), math.prod(shape)
        if taken is None or len(taken) < size:
            taken = self.taken[name, dtype] = torch.empty(size, dtype=dtype)
        return taken[:size].view(shape)


class _Cell(NamedTuple):
    """Cells of a run of n points in one level, in memory that the next level overwrites.

    Attributes:
        rows: part of the table that belongs to the level.
        row: row of each corner, ``(2^P n,)``, corner by corner; axis p is bit p of the corner's number.
        s: position within the cell, ``(P, n)``.
        t: weight of the upper corners, ``(P, n width)``, repeated for each number of an element; without axes for
            "nearest".
    """

    rows: slice
    row: Tensor
    s: Tensor
    t: Tensor


def _runs(x: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Divide points into runs, each transposed to ``(P, n)``."""
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
    if level.reads_other_rows:
        index.remainder_(level.rows)
    between = scratch("between", table.dtype, *x.shape).copy_(s.sub_(i))
    t = _weight(between, interpolation)[: 0 if nearest else None]
    if _width(table) == 2:
        t = _numbers(torch.complex(t, t, out=scratch("t", table.dtype.to_complex(), *t.shape)))
    return _Cell(slice(level.first, level.first + level.rows), index.flatten(), between, t)


def _terms(i: Tensor, level: Level, corners: int, scratch: _Scratch) -> Tensor:
    """Return the summand of each axis to the row of its lower and its upper vertex, ``(corners, P, n)``.

    T is a power of two, so only the low bits of a hash matter, and they depend only on the low bits of a prime. With
    those most products fit into 32 bits.
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
    """Return the narrowest integer dtype that holds every product and sum of a level: 32 bits are faster than 64."""
    beyond = [vertices + 1 for vertices in level.vertices]
    if level.hashed:
        largest = max(beyond) * level.rows
    else:
        largest = sum(v * multiplier for v, multiplier in zip(beyond, level.multipliers, strict=True))
    return torch.int32 if largest < NARROW else torch.int64


def _width(table: Tensor) -> int:
    """Return the numbers per element: 2 (one complex number) if the number of features is even, otherwise 1."""
    return 1 if table.shape[-1] % 2 else 2


def _aligned(rows: Tensor) -> Tensor:
    """Return rows whose memory can be read as complex pairs; a view with an odd offset is copied."""
    rows = rows.contiguous()
    return rows.clone() if rows.storage_offset() % 2 else rows


def _elements(rows: Tensor) -> Tensor:
    """View rows ``(.., F)`` as elements ``(.., F / width)``."""
    return rows if _width(rows) == 1 else torch.view_as_complex(rows.unflatten(-1, (-1, 2)))


def _numbers(elements: Tensor) -> Tensor:
    """View elements ``(.., n)`` as numbers ``(.., n width)``."""
    return torch.view_as_real(elements).flatten(-2) if elements.is_complex() else elements


def _corners(table: Tensor, cell: _Cell, scratch: _Scratch) -> Tensor:
    """Gather the rows of all corners, ``(C, 2^P, n width)``."""
    rows = table[cell.rows]
    _fetch(rows, cell)
    columns = _elements(rows).t()
    values = scratch("corners", columns.dtype, len(columns), len(cell.row))
    for column, out in zip(columns, values, strict=True):
        torch.index_select(column, 0, cell.row, out=out)
    values = _numbers(values)
    return values.view(len(columns), 2 ** len(cell.t), values.shape[1] >> len(cell.t))


def _fetch(rows: Tensor, cell: _Cell) -> None:
    """Read a level sequentially into the cache before random access to it, which would be much slower."""
    if len(cell.row) * LINE >= rows.nbytes > CACHED:
        rows.sum()


def _along(y: Tensor, t: Tensor) -> Tensor:
    """Interpolate along the last axis, between the lower and the upper corners; overwrites the lower ones."""
    low, high = y.chunk(2, 1)
    return low.lerp_(high, t)


def _add_to_corners(by_table: Tensor, cell: _Cell, g: Tensor, scratch: _Scratch) -> None:
    """Add the gradient ``by_table[row(c)] += weight_c g`` in the order of the points on one thread (deterministic)."""
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
    """Return ``g . dy / dt_p``, ``(P, n)``: the difference along axis p, interpolated along the other axes."""
    y, derivatives = _corners(table, cell, scratch), []
    for t in reversed(cell.t.unbind()):
        low, high = y.chunk(2, 1)
        derivatives = [high - low, *(_along(part, t) for part in derivatives)]
        y = _along(y, t)
    return torch.stack([(part * g).sum((0, 1)).view(-1, _width(table)).sum(1) for part in derivatives])
