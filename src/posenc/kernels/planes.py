"""Factors of a feature grid: grids on some of the axes, such as planes and lines, as parts of one table of rows.

A factor is a dense grid on its own axes, interpolated multilinearly. K-Planes and TensoRF multiply factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.kernels.domain import Domain, Points
from posenc.kernels.grid_definition import define_row
from posenc.kernels.grid_levels import Level, lay_out
from posenc.kernels.interpolation import rows_at


class Factor(NamedTuple):
    """A grid on some of the axes of the positions.

    Attributes:
        axes: axes that the grid has, in the order of its own.
        level: cells, vertices and rows of the grid.
    """

    axes: tuple[int, ...]
    level: Level

    @property
    def rows(self) -> slice:
        """Rows of the factor in the table."""
        return slice(self.level.first, self.level.first + self.level.rows)


def lay_out_factors(
    resolution: int | Sequence[int], of: Sequence[tuple[int, ...]], domain: Domain, first: int = 0
) -> tuple[Factor, ...]:
    """Lay out one factor for each tuple of axes, one after another in a table.

    Args:
        resolution: Cells per axis, one number or one per axis of the positions.
        of: Axes of each factor.
        domain: Box of the positions.
        first: First row of the first factor.

    Returns:
        The factors.

    Raises:
        ValueError: If the resolutions do not fit the axes, or a factor has too many rows.
    """
    whole = lay_out((resolution,), len(domain.low), table_size=None, periodic=domain.periodic)[0]
    factors: list[Factor] = []
    for axes in of:
        periodic = [domain.periodic[axis] for axis in axes]
        own = lay_out(([whole.scale[axis] for axis in axes],), len(axes), table_size=None, periodic=periodic)[0]
        factors.append(Factor(axes, own._replace(first=first)))
        first += own.rows
    return tuple(factors)


def factor_rows(table: Tensor, where: Points, factors: Sequence[Factor]) -> list[Tensor]:
    """Compute the interpolated rows ``(.., N, F)`` of each factor; zeros for points without a position."""
    return [
        rows_at(table, Points(where.unit[..., list(factor.axes)], where.inside), (factor.level,), "linear")
        for factor in factors
    ]


def weighted_scales(scales: Sequence[Tensor], where: Points) -> Tensor:
    """Multiply the features of each scale by its weight, and concatenate them.

    Raises ValueError for another number of weights than scales.
    """
    if where.weights is None:
        return torch.cat(list(scales), -1)
    if where.weights.shape[-1] != len(scales):
        raise ValueError(
            f"these rows have {len(scales)} scales, and a weight for each of them is needed; got shape "
            f"{tuple(where.weights.shape)}. Write weight_levels(points, coarse_to_fine(progress, {len(scales)}))."
        )
    weights = where.weights.unbind(-1)
    return torch.cat(
        [rows * weight[..., None].to(rows.dtype) for rows, weight in zip(scales, weights, strict=True)], -1
    )


def define_factor(table: Tensor, p: Tensor, factor: Factor, domain: Domain) -> Tensor:
    """Scalar definition of ``factor_rows``: the row ``(F,)`` of one factor at the position ``p (P,)``."""
    own = Domain(
        tuple(domain.low[axis] for axis in factor.axes),
        tuple(domain.high[axis] for axis in factor.axes),
        tuple(domain.outside[axis] for axis in factor.axes),
    )
    return define_row(table, p[list(factor.axes)], factor.level, own, "linear")
