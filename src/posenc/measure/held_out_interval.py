"""Intervals of held-out scores that cover the choice of the held-out items and not the seeds alone.

A t-interval over seeds holds for the held-out items that were used. Two cases generalize to other items.

The split changes with the seed. The scores of two seeds share training items, so the variance of their mean is larger
than s²/S. Nadeau and Bengio (2003) replace it by s² (1/S + n_test / n_train).

The held-out items are the same for every seed. The variance of the mean over items is added to that over seeds:
s²/S + v/n, with the variance v of an item's score.

If all seeds have the same score, s is 0. The interval then has the term of the items alone, v/n.

References:
    Nadeau and Bengio 2003, "Inference for the generalization error", Machine Learning 52, 239-281, section 3.
    Agresti and Caffo 2000, "Simple and effective confidence intervals for proportions and differences of proportions
    result from adding two successes and two failures", The American Statistician 54, 280-288.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, mean, sd, within_bounds

POWER = 0.8
"""Probability with which the smallest detectable difference is detected."""


@dataclass(frozen=True)
class HeldOut:
    """Held-out items of a score.

    Attributes:
        items: number of held-out items.
        trained: number of items in training.
        split_by_seed: True if every seed has another split; False if all seeds have the same held-out items.

    Raises:
        ValueError: a number below 1.

    Example:
        >>> HeldOut(items=36, trained=108, split_by_seed=True)
        HeldOut(items=36, trained=108, split_by_seed=True)
    """

    items: int
    trained: int
    split_by_seed: bool

    def __post_init__(self) -> None:
        if self.items < 1 or self.trained < 1:
            raise ValueError(
                f"A held-out score needs at least one held-out and one training item; got {self.items} and "
                f"{self.trained}. Pass the numbers of the split."
            )


def proportion_variance(proportion: float, items: int) -> float:
    """Compute the variance p (1 - p) of one item of a proportion, with p = (x + 1) / (n + 2).

    One success and one failure are added (Agresti and Caffo 2000), so that 36 right answers of 36 do not give 0.

    Args:
        proportion: x / n, such as an accuracy; from 0 to 1.
        items: n, the number of items.

    Returns:
        The variance.

    Raises:
        ValueError: a proportion outside [0, 1], or no item.

    Example:
        >>> round(proportion_variance(1.0, 36), 4)
        0.0256
    """
    if not 0 <= proportion <= 1 or items < 1:
        raise ValueError(
            f"A proportion lies between 0 and 1 and has at least one item; got {proportion} of {items} items."
        )
    added = (proportion * items + 1) / (items + 2)
    return added * (1 - added)


def held_out_interval(
    values: Sequence[float],
    held_out: HeldOut | None = None,
    *,
    item_variance: float | None = None,
    level: float = 0.95,
    bounds: Bounds = UNBOUNDED,
) -> Estimate:
    """Compute the t-interval of a mean held-out score, or of a mean paired difference of such scores.

    The degrees of freedom are S - 1, or those of Welch and Satterthwaite if a term of the items is added.

    Args:
        values: one number per seed, in any unit; the estimate is in the same unit.
        held_out: the held-out items; None for the t-interval over seeds alone.
        item_variance: variance of the score of one held-out item in the square of that unit (see
            ``proportion_variance``); None if it is not known.
        level: coverage, strictly between 0 and 1.
        bounds: range of the mean; the interval is cut at it.

    Returns:
        The mean and its interval. The ends are nan for a single seed, and for seeds that all agree if the variance of
        an item is not known.

    Raises:
        ValueError: no values, a value that is not finite, or a level outside (0, 1).

    Example:
        >>> found = held_out_interval([1.0, 1.0, 1.0], HeldOut(36, 108, split_by_seed=False),
        ...     item_variance=proportion_variance(1.0, 36), bounds=(0.0, 1.0))
        >>> round(found.low, 2), found.high
        (0.95, 1.0)
    """
    _refuse_level(level)
    center, spread, n = mean(values), sd(values), len(values)
    variance, freedom = _variance(values, held_out, item_variance)
    if not variance > 0:
        return Estimate(center, spread, math.nan, math.nan, n, level)
    half = _quantile((1 + level) / 2, freedom) * math.sqrt(variance)
    return within_bounds(Estimate(center, spread, center - half, center + half, n, level), values, bounds)


def smallest_difference(
    values: Sequence[float],
    held_out: HeldOut | None = None,
    *,
    item_variance: float | None = None,
    level: float = 0.95,
) -> float:
    """Compute the smallest true difference that an interval would show to differ from 0 in 80% of repetitions.

    It is (t_{(1 + level) / 2} + t_{0.8}) times the standard error, with the quantiles of Student's t.

    Args:
        values: one paired difference per seed.
        held_out: the held-out items; None for seeds alone.
        item_variance: variance of the difference of one held-out item; None if it is not known.
        level: coverage of the interval, strictly between 0 and 1.

    Returns:
        The difference, in the unit of the values; nan where there is no interval.

    Raises:
        ValueError: no values, a value that is not finite, or a level outside (0, 1).

    Example:
        >>> round(smallest_difference([0.1, 0.2, 0.3, 0.2, 0.1]), 2)
        0.14
    """
    _refuse_level(level)
    variance, freedom = _variance(values, held_out, item_variance)
    if not variance > 0:
        return math.nan
    return (_quantile((1 + level) / 2, freedom) + _quantile(POWER, freedom)) * math.sqrt(variance)


def widest_undecided(
    values: Sequence[float],
    held_out: HeldOut | None = None,
    *,
    item_variance: float | None = None,
    level: float = 0.95,
) -> float:
    """Compute the half-width that the interval keeps with any number of seeds, because the held-out items are few.

    More seeds cannot distinguish a smaller mean difference from 0; more data can.

    Args:
        values: one paired difference per seed.
        held_out: the held-out items; None for seeds alone.
        item_variance: variance of the difference of one held-out item; None if it is not known.
        level: coverage of the interval, strictly between 0 and 1.

    Returns:
        The half-width, in the unit of the values; 0 for seeds alone, nan for a single seed.

    Raises:
        ValueError: no values, a value that is not finite, or a level outside (0, 1).

    Example:
        >>> widest_undecided([0.1, 0.2, 0.3])
        0.0
        >>> round(widest_undecided([0.1, 0.2, 0.3], HeldOut(25, 100, split_by_seed=True)), 2)
        0.1
    """
    _refuse_level(level)
    spread = sd(values)
    if held_out is None or math.isnan(spread):
        return 0.0 * spread
    if held_out.split_by_seed:
        return _quantile((1 + level) / 2, math.inf) * spread * math.sqrt(held_out.items / held_out.trained)
    items = 0.0 if item_variance is None else item_variance / held_out.items
    return _quantile((1 + level) / 2, max(held_out.items - 1, 1)) * math.sqrt(items)


def _refuse_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")


def _variance(values: Sequence[float], held_out: HeldOut | None, item_variance: float | None) -> tuple[float, float]:
    """Variance of the mean, and its degrees of freedom; nan for a single seed, 0 where nothing varies."""
    spread, n = sd(values), len(values)
    if n < 2:
        return math.nan, math.nan
    seeds = spread**2 / n
    items = 0.0 if held_out is None or item_variance is None else item_variance / held_out.items
    identical = spread <= 1e-12 * max(1.0, *(abs(value) for value in values))
    if identical:
        return items, max(held_out.items - 1, 1) if held_out is not None else 1
    if held_out is None:
        return seeds, n - 1
    if held_out.split_by_seed:
        return spread**2 * (1 / n + held_out.items / held_out.trained), n - 1
    welch = seeds**2 / (n - 1) + items**2 / max(held_out.items - 1, 1)
    return seeds + items, (seeds + items) ** 2 / welch


def _quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))
