"""Intervals of the mean over seeds that plots and tables show: over seeds alone, or for other held-out items too."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.held_out_interval import HeldOut, held_out_interval, proportion_variance
from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, mean, t_interval
from posenc.workbench.tables.metric_bounds import SHARE

T_INTERVAL = "t-interval of the mean over seeds"
SPLIT_BY_SEED = "interval of the mean over seeds and splits (Nadeau and Bengio 2003)"
FIXED_ITEMS = "interval of the mean over seeds, for an accuracy also over held-out items"


def seed_interval(
    values: Sequence[float],
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
    held_out: HeldOut | None = None,
    *,
    trained: bool = False,
) -> Estimate:
    """Compute the interval of a mean over seeds.

    Args:
        values: One number per seed.
        level: Coverage, strictly between 0 and 1.
        bounds: Lowest and highest possible value. Between 0 and 1, the values are proportions of the items.
        held_out: Held-out items of a user's data; None for the t-interval over seeds.
        trained: True for a score of training items, whose interval covers the seeds alone.

    Returns:
        The mean and its interval. With held-out items no interval has width 0: equal seeds have the term of the items,
        and no interval where the variance of an item is not known.
    """
    if held_out is None:
        return t_interval(values, level, bounds)
    if trained:
        return held_out_interval(values, level=level, bounds=bounds)
    center = mean(values)
    proportion = bounds == SHARE and 0 <= center <= 1
    variance = proportion_variance(center, held_out.items) if proportion else None
    return held_out_interval(values, held_out, item_variance=variance, level=level, bounds=bounds)


def interval_name(held_out: HeldOut | None) -> str:
    """Name of the interval, for the key of a plot."""
    if held_out is None:
        return T_INTERVAL
    return SPLIT_BY_SEED if held_out.split_by_seed else FIXED_ITEMS
