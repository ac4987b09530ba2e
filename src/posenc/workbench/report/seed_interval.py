"""Intervals of the mean over seeds that plots and tables show: over seeds alone, or for other held-out items too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from posenc.measure.held_out_interval import HeldOut, held_out_interval, proportion_variance
from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, mean, t_interval
from posenc.workbench.tables.metric_bounds import SHARE

T_INTERVAL = "t-interval of the mean over seeds"
SPLIT_BY_SEED = "interval of the mean over seeds and splits (Nadeau and Bengio 2003)"
FIXED_ITEMS = "interval of the mean over seeds, for an accuracy also over held-out items"
FEWEST_DRAWN = 3
"""Fewest seeds whose interval a plot draws. The t-interval of two is 12.7 times as long as their distance."""


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


def is_drawn(estimate: Estimate) -> bool:
    """True if a plot draws the interval of an estimate; a table lists those of two seeds too."""
    return estimate.known and estimate.n >= FEWEST_DRAWN


def two_seeds_note(numbers: Iterable[int], mark: str, over: str = "seed") -> str:
    """Sentence for the key of a plot on values of two seeds, whose interval is not drawn.

    Args:
        numbers: Number of seeds of each value.
        mark: Name of what the plot draws for an interval, such as "band".
        over: Unit that is counted as seeds.

    Returns:
        The sentence, after a space; "" if no value has two seeds.
    """
    return f" Two {over}s give no {mark}: run at least {FEWEST_DRAWN}." if 2 in set(numbers) else ""
