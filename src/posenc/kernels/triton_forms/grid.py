"""Triton form of the interpolation of multiresolution grids (``posenc.kernels.interpolation``), with its gradients.

    y_l = sum_c w_c table[row_l(i + c)],   w_c = prod_p (c_p t_p + (1 - c_p)(1 - t_p)),   c in {0, 1}^P

Forward, one program computes a block of points in one level, with all their corners. The gradient of the coordinates
sums over the levels within a program, so it is always deterministic. The gradient of the table adds ``w_c g`` to the
rows of the corners in one of two ways:

    atomic          float additions in the order in which they happen; the last bits differ from call to call
    deterministic   integer additions of fixed-point numbers, whose sum has the same bits in every order

The deterministic way is taken if ``torch.are_deterministic_algorithms_enabled()``. The unit of its numbers is a power
of two for each level and feature: 2^(e + b - 62), where the largest gradient is below 2^e, and 2^b is at least the
number of points times corners, so that no sum overflows. With 2^18 points in 3-D the unit is at most 2^-39 of
the largest gradient.

Positions on the grid are computed in float64, as in the torch form. Second derivatives are those of the torch form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.kernels.grid_levels import Level
from posenc.kernels.interpolation import Interpolation, gradients_of_plain
from posenc.kernels.triton_forms.launch import launch

TILE = 2048
"""Number of table values that one program holds: points times corners times features."""

MOST_AXES = 7
"""Largest number of axes: that of the hash's primes."""

MOST_ROWS = 2**30
"""Largest number of rows of a level, so that rows fit into 32-bit numbers."""

SUM_BITS = 62
"""Bits of the sum of fixed-point numbers, one less than a signed 64-bit integer has beside its sign."""


def fits(x: Tensor, levels: Sequence[Level]) -> bool:
    """Return True for a grid that the kernels can compute."""
    return x.shape[-1] <= MOST_AXES and all(level.rows <= MOST_ROWS for level in levels)


def interpolate(table: Tensor, x: Tensor, levels: Sequence[Level], interpolation: Interpolation) -> Tensor:
    """Compute ``posenc.kernels.interpolation.interpolate``."""
    flat = x.reshape(-1, x.shape[-1]).to(torch.float64).contiguous()
    y = _Interpolate.apply(table.contiguous(), flat, tuple(levels), interpolation)
    return y.view(*x.shape[:-1], len(levels), table.shape[1])


class _Interpolate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, x: Tensor, levels: tuple[Level, ...], interpolation: Interpolation) -> Tensor:
        ctx.save_for_backward(table, x)
        ctx.levels, ctx.interpolation = levels, interpolation
        plan = ctx.plan = _Plan.make(table, x, levels, interpolation)
        out = table.new_empty(len(x), len(levels), table.shape[1])
        given = (table, x, out, *plan.numbers, len(x))
        launch(_interpolate_levels, (plan.blocks, len(levels)), given, plan.sizes, x)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (table, x), (g,) = ctx.saved_tensors, grad_outputs
        if torch.is_grad_enabled():
            return (*gradients_of_plain(table, x, g, ctx.levels, ctx.interpolation), None, None)
        g, by_table, by_x, plan = g.contiguous(), None, None, ctx.plan
        if ctx.needs_input_grad[0]:
            fixed = torch.are_deterministic_algorithms_enabled()
            by_table = (_fixed_point_gradient if fixed else _atomic_gradient)(table, x, g, ctx.levels, plan)
        if ctx.needs_input_grad[1]:
            by_x = torch.zeros_like(x)
            if ctx.interpolation != "nearest":
                given = (table, x, g, by_x, *plan.numbers, len(x), len(ctx.levels))
                sizes = {"AXES_BLOCK": triton.next_power_of_2(x.shape[1])} | plan.sizes
                launch(_coordinate_gradient, (plan.blocks,), given, sizes, x)
        return by_table, by_x, None, None


class _Plan(NamedTuple):
    """Launch parameters of the kernels of one call.

    Attributes:
        blocks: number of blocks of points.
        numbers: reals ``(L, 2 P + 1)``: scales, last cells, offset; integers ``(L, 2 P + 3)``: vertices after which an
            axis repeats (a number that no vertex reaches for other axes), multipliers, hashed, rows, first row.
        sizes: compile-time arguments of the kernels.
    """

    blocks: int
    numbers: tuple[Tensor, Tensor]
    sizes: dict[str, Any]

    @classmethod
    def make(cls, table: Tensor, x: Tensor, levels: Sequence[Level], interpolation: Interpolation) -> _Plan:
        nearest, axes, features = interpolation == "nearest", x.shape[1], table.shape[1]
        corners = 1 if nearest else 2**axes
        reals = [
            (*level.scale, *(level.vertices if nearest else level.last_cell), 0.5 if nearest else level.offset)
            for level in levels
        ]
        whole = [(*level.periods, *level.multipliers, level.hashed, level.rows, level.first) for level in levels]
        numbers = (
            torch.tensor(reals, dtype=torch.float64, device=x.device),
            torch.tensor(whole, dtype=torch.int64, device=x.device),
        )
        block = min(triton.next_power_of_2(features), 8)
        points = max(1, TILE // (corners * block))
        wide = torch.promote_types(table.dtype, torch.float32)
        sizes = {
            "AXES": axes, "CORNERS": corners, "SMOOTH": interpolation == "smoothstep", "FEATURES": features,
            "FEATURE_BLOCK": block, "POINTS": points, "WIDE": tl.float64 if wide == torch.float64 else tl.float32,
        }  # fmt: skip
        return cls(triton.cdiv(len(x), points), numbers, sizes)


def _atomic_gradient(table: Tensor, x: Tensor, g: Tensor, levels: Sequence[Level], plan: _Plan) -> Tensor:
    by_table = torch.zeros(table.shape, dtype=torch.promote_types(table.dtype, torch.float32), device=table.device)
    given = (x, g, by_table, by_table, by_table, *plan.numbers, len(x))
    launch(_table_gradient, (plan.blocks, len(levels)), given, {"FIXED_POINT": False} | plan.sizes, x)
    return by_table.to(table.dtype)


def _fixed_point_gradient(table: Tensor, x: Tensor, g: Tensor, levels: Sequence[Level], plan: _Plan) -> Tensor:
    finite = torch.where(g.isfinite(), g, 0).abs().amax(0).to(torch.float64)
    bits = SUM_BITS - math.ceil(math.log2(len(x) * plan.sizes["CORNERS"] + 1))
    exponent = (bits - torch.frexp(finite).exponent).clamp(max=1000)
    per_unit = torch.ldexp(torch.ones_like(finite), exponent)  # (L, F)
    sums = torch.zeros(table.shape, dtype=torch.int64, device=table.device)
    unknown = torch.zeros(table.shape, dtype=torch.int8, device=table.device)
    given = (x, g, sums, unknown, per_unit, *plan.numbers, len(x))
    launch(_table_gradient, (plan.blocks, len(levels)), given, {"FIXED_POINT": True} | plan.sizes, x)
    by_table = torch.empty_like(table)
    for level, scale in zip(levels, per_unit, strict=True):
        rows = slice(level.first, level.first + level.rows)
        by_table[rows] = torch.where(unknown[rows] != 0, math.nan, sums[rows] / scale).to(table.dtype)
    return by_table


@triton.jit
def _cell_on_axis(x, reals, point, valid, axis, AXES: tl.constexpr, CORNERS: tl.constexpr):
    """Lower vertex of the cell of each point on an axis, and the position within the cell, in float64.

    A coordinate that is no number gives vertex 0 and a position that is no number.
    """
    s = tl.load(x + point * AXES + axis, mask=valid, other=0.0) * tl.load(reals + axis) + tl.load(reals + 2 * AXES)
    cell = tl.minimum(tl.maximum(s, 0.0), tl.load(reals + AXES + axis)).to(tl.int64)
    return cell, s - cell


@triton.jit
def _weight_of_corner(s, corner, axis, SMOOTH: tl.constexpr, WIDE: tl.constexpr):
    """Factor of an axis in the weight of each corner: ``(points, corners)``."""
    t = s.to(WIDE)
    if SMOOTH:
        t = t * t * (3.0 - 2.0 * t)
    return tl.where((corner >> axis & 1)[None, :] != 0, t[:, None], 1.0 - t[:, None])


@triton.jit
def _corners_of_points(
    x, reals, whole, point, valid, corner,
    AXES: tl.constexpr, CORNERS: tl.constexpr, SMOOTH: tl.constexpr, POINTS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Table row and weight of each corner of each point: ``(points, corners)``."""
    hashed = tl.load(whole + 2 * AXES) != 0
    row = tl.zeros((POINTS, CORNERS), tl.uint32)
    weight = tl.full((POINTS, CORNERS), 1.0, WIDE)
    for axis in tl.static_range(AXES):
        cell, s = _cell_on_axis(x, reals, point, valid, axis, AXES, CORNERS)
        vertex = cell[:, None] + (corner >> axis & 1)[None, :]
        vertex = tl.where(vertex == tl.load(whole + axis), 0, vertex)
        term = vertex.to(tl.uint32) * tl.load(whole + AXES + axis).to(tl.uint32)
        row = tl.where(hashed, row ^ term, row + term)
        if CORNERS > 1:
            weight *= _weight_of_corner(s, corner, axis, SMOOTH, WIDE)
    row = row % tl.load(whole + 2 * AXES + 1).to(tl.uint32)
    return row.to(tl.int64) + tl.load(whole + 2 * AXES + 2), weight


@triton.jit
def _interpolate_levels(
    table, x, out, reals, whole, points,
    AXES: tl.constexpr, CORNERS: tl.constexpr, SMOOTH: tl.constexpr, FEATURES: tl.constexpr,
    FEATURE_BLOCK: tl.constexpr, POINTS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    level, levels = tl.program_id(1), tl.num_programs(1)
    point = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    valid, corner = point < points, tl.arange(0, CORNERS)
    reals += level * (2 * AXES + 1)
    whole += level * (2 * AXES + 3)
    row, weight = _corners_of_points(x, reals, whole, point, valid, corner, AXES, CORNERS, SMOOTH, POINTS, WIDE)
    for start in range(0, FEATURES, FEATURE_BLOCK):
        feature = start + tl.arange(0, FEATURE_BLOCK)
        inside = valid[:, None] & (feature < FEATURES)[None, :]
        values = tl.load(
            table + row[:, :, None] * FEATURES + feature[None, None, :], mask=inside[:, None, :], other=0.0
        )
        y = tl.sum(weight[:, :, None] * values.to(WIDE), axis=1)
        place = out + (point * levels + level)[:, None] * FEATURES + feature[None, :]
        tl.store(place, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _table_gradient(
    x, g, by_table, unknown, per_unit, reals, whole, points, FIXED_POINT: tl.constexpr,
    AXES: tl.constexpr, CORNERS: tl.constexpr, SMOOTH: tl.constexpr, FEATURES: tl.constexpr,
    FEATURE_BLOCK: tl.constexpr, POINTS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    level, levels = tl.program_id(1), tl.num_programs(1)
    point = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    valid, corner = point < points, tl.arange(0, CORNERS)
    reals += level * (2 * AXES + 1)
    whole += level * (2 * AXES + 3)
    row, weight = _corners_of_points(x, reals, whole, point, valid, corner, AXES, CORNERS, SMOOTH, POINTS, WIDE)
    for start in range(0, FEATURES, FEATURE_BLOCK):
        feature = start + tl.arange(0, FEATURE_BLOCK)
        inside = valid[:, None] & (feature < FEATURES)[None, :]
        given = tl.load(g + (point * levels + level)[:, None] * FEATURES + feature[None, :], mask=inside, other=0.0)
        part = weight[:, :, None] * given.to(WIDE)[:, None, :]
        place = row[:, :, None] * FEATURES + feature[None, None, :]
        inside = inside[:, None, :] & (corner >= 0)[None, :, None]
        if FIXED_POINT:
            scale = tl.load(per_unit + level * FEATURES + feature, mask=feature < FEATURES, other=0.0)
            finite = tl.abs(part) < float("inf")
            number = tl.where(finite, part, 0.0).to(tl.float64) * scale[None, None, :]
            tl.atomic_add(by_table + place, tl.floor(number + 0.5).to(tl.int64), mask=inside, sem="relaxed")
            tl.store(unknown + place, tl.where(finite, 0, 1).to(tl.int8), mask=inside & (finite == 0))
        else:
            tl.atomic_add(by_table + place, part, mask=inside, sem="relaxed")


@triton.jit
def _coordinate_gradient(
    table, x, g, by_x, reals, whole, points, levels, AXES_BLOCK: tl.constexpr,
    AXES: tl.constexpr, CORNERS: tl.constexpr, SMOOTH: tl.constexpr, FEATURES: tl.constexpr,
    FEATURE_BLOCK: tl.constexpr, POINTS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    point = tl.program_id(0).to(tl.int64) * POINTS + tl.arange(0, POINTS)
    valid, corner, column = point < points, tl.arange(0, CORNERS), tl.arange(0, AXES_BLOCK)
    total = tl.zeros((POINTS, AXES_BLOCK), tl.float64)
    for level in range(0, levels):
        row, _ = _corners_of_points(x, reals, whole, point, valid, corner, AXES, CORNERS, SMOOTH, POINTS, WIDE)
        product = tl.zeros((POINTS, CORNERS), WIDE)
        for start in range(0, FEATURES, FEATURE_BLOCK):
            feature = start + tl.arange(0, FEATURE_BLOCK)
            inside = valid[:, None] & (feature < FEATURES)[None, :]
            place = table + row[:, :, None] * FEATURES + feature[None, None, :]
            values = tl.load(place, mask=inside[:, None, :], other=0.0).to(WIDE)
            given = tl.load(g + (point * levels + level)[:, None] * FEATURES + feature[None, :], mask=inside, other=0.0)
            product += tl.sum(values * given.to(WIDE)[:, None, :], axis=2)
        for axis in tl.static_range(AXES):
            along = tl.where((corner >> axis & 1)[None, :] != 0, product, -product)
            for other in tl.static_range(AXES):
                if other != axis:
                    _, s = _cell_on_axis(x, reals, point, valid, other, AXES, CORNERS)
                    along *= _weight_of_corner(s, corner, other, SMOOTH, WIDE)
            slope = tl.sum(along, axis=1)
            if SMOOTH:
                _, s = _cell_on_axis(x, reals, point, valid, axis, AXES, CORNERS)
                t = s.to(WIDE)
                slope *= 6.0 * t * (1.0 - t)
            slope = slope.to(tl.float64) * tl.load(reals + axis)
            total += tl.where((column == axis)[None, :], slope[:, None], 0.0)
        reals += 2 * AXES + 1
        whole += 2 * AXES + 3
    place = by_x + point[:, None] * AXES + column[None, :]
    tl.store(place, total, mask=valid[:, None] & (column < AXES)[None, :])
