"""Estimates over seeds: mean, standard deviation, t-intervals, paired differences.

The intervals cover the variation between seeds (initialization, data order) and nothing else: the seeds of one study
share its data, its model sizes and its training configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

FEWEST_SEEDS_FOR_P = 5
"""Smallest number of seeds for a p-value. With fewer seeds it mainly reflects their number; report the interval."""

Bounds = tuple[float, float]
"""Lowest and highest possible value of a quantity, such as (0, 1) for an accuracy."""
UNBOUNDED: Bounds = (-math.inf, math.inf)
EQUAL = 1e-12
"""Largest relative difference that is a rounding error."""
ROUNDING = 1e-6
"""Largest distance beyond a bound that is a rounding error."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with a two-sided confidence interval.

    Attributes:
        mean: mean over the seeds.
        sd: standard deviation of the seeds; nan for a single seed.
        low: lower end of the interval; nan for a single seed. The interval is Student's t unless stated otherwise.
        high: upper end of the interval; nan for a single seed.
        n: number of seeds.
        level: coverage of the interval.
    """

    mean: float
    sd: float
    low: float
    high: float
    n: int
    level: float

    @property
    def known(self) -> bool:
        """True if there is an interval: for at least two seeds, and not for equal ones of an unknown variance."""
        return self.n >= 2 and not math.isnan(self.low)

    def above(self, value: float) -> bool:
        """Return True if the whole interval lies above ``value``; False without an interval."""
        return self.known and self.low > value

    def below(self, value: float) -> bool:
        """Return True if the whole interval lies below ``value``; False without an interval."""
        return self.known and self.high < value


def mean(values: Sequence[float]) -> float:
    """Compute the mean x̄ = Σ xᵢ / n.

    Args:
        values: at least one finite value.

    Returns:
        The mean.

    Raises:
        ValueError: no values, or a value that is not finite.
    """
    _refuse_unusable(values)
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float:
    """Compute the sample standard deviation s = √(Σ (xᵢ − x̄)² / (n − 1)).

    Args:
        values: at least one finite value.

    Returns:
        The standard deviation; nan for a single value.

    Raises:
        ValueError: no values, or a value that is not finite.
    """
    center = mean(values)
    if len(values) < 2:
        return math.nan
    return math.sqrt(math.fsum([(value - center) ** 2 for value in values]) / (len(values) - 1))


def t_interval(values: Sequence[float], level: float = 0.95, bounds: Bounds = UNBOUNDED) -> Estimate:
    """Compute the t-interval of a mean, x̄ ± t · s / √n, cut at the bounds of the quantity.

    Here t is the (1 + level) / 2 quantile of Student's t with n − 1 degrees of freedom. With few seeds it is large, so
    the interval of an accuracy near 1 would reach beyond 1 without the cut.

    Args:
        values: one number per seed, in any unit; the estimate is in the same unit.
        level: coverage, strictly between 0 and 1.
        bounds: lowest and highest possible value of the quantity.

    Returns:
        The mean and its interval. The ends are nan for a single value, and for two equal ones, whose spread is unknown.

    Raises:
        ValueError: no values, a value that is not finite, or a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")
    center, spread, n = mean(values), sd(values), len(values)
    if n < 2 or (n == 2 and _are_equal(values)):
        return Estimate(center, spread, math.nan, math.nan, n, level)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + level) / 2)) * spread / math.sqrt(n)  # as scipy.stats.t.ppf, in 1/100 of its time
    return within_bounds(Estimate(center, spread, center - half, center + half, n, level), values, bounds)


def within_bounds(estimate: Estimate, values: Sequence[float], bounds: Bounds) -> Estimate:
    """Cut an interval at the bounds of its quantity.

    Args:
        estimate: the estimate.
        values: the values that it was computed from. A bound that one of them lies beyond is ignored, because it does
            not belong to this quantity; a rounding error does not count.
        bounds: lowest and highest possible value of the quantity.

    Returns:
        The estimate with an interval inside the bounds; unchanged without an interval.
    """
    if not estimate.known:
        return estimate
    low = bounds[0] if min(values) > bounds[0] - ROUNDING else -math.inf
    high = bounds[1] if max(values) < bounds[1] + ROUNDING else math.inf
    return replace(
        estimate, low=max(estimate.low, min(low, estimate.mean)), high=min(estimate.high, max(high, estimate.mean))
    )


def paired_difference(
    a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95, bounds: Bounds = UNBOUNDED
) -> Estimate:
    """Compute the t-interval of the paired difference: the mean of aₛ − bₛ over the shared seeds s.

    Pairing removes the variation that both share through the seed (data order, initial weights outside the encoding).

    Args:
        a: seed -> value.
        b: seed -> value.
        level: coverage, strictly between 0 and 1.
        bounds: lowest and highest possible value of a and of b. Their difference lies within ± (highest − lowest).

    Returns:
        The mean difference and its interval.

    Raises:
        ValueError: no seed in common, a value that is not finite, or a level outside (0, 1).
    """
    reach = bounds[1] - bounds[0]
    return t_interval(paired_differences(a, b), level, (-reach, reach))


def paired_p_value(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Compute the two-sided p-value of the paired t-test, t = d̄ √n / s_d with n − 1 degrees of freedom.

    Args:
        a: seed -> value.
        b: seed -> value.

    Returns:
        The p-value.

    Raises:
        ValueError: fewer than five seeds in common.
    """
    differences = paired_differences(a, b)
    n = len(differences)
    if n < FEWEST_SEEDS_FOR_P:
        raise ValueError(
            f"A p-value needs at least {FEWEST_SEEDS_FOR_P} shared seeds to mean much; got {n}. "
            "Report the interval of paired_difference instead, or run more seeds."
        )
    from scipy.stats import t

    center, spread = mean(differences), sd(differences)
    rounding = EQUAL * max(abs(value) for side in (a, b) for value in side.values())
    if spread <= rounding:
        return 1.0 if abs(center) <= rounding else 0.0
    return float(2 * t.sf(abs(center) * math.sqrt(n) / spread, n - 1))


def paired_differences(a: Mapping[int, float], b: Mapping[int, float]) -> list[float]:
    """Differences a - b of the seeds that both have.

    Args:
        a: seed to value.
        b: seed to value.

    Returns:
        One difference per common seed, in the order of the seeds.

    Raises:
        ValueError: no common seed.
    """
    shared = sorted(a.keys() & b.keys())
    if not shared:
        raise ValueError(
            f"A paired difference needs seeds that both sides have; got {sorted(a)} and {sorted(b)}. "
            "Run both with the same seeds."
        )
    return [a[seed] - b[seed] for seed in shared]


def _are_equal(values: Sequence[float]) -> bool:
    """True for values that differ by rounding errors alone."""
    return bool(max(values) - min(values) <= EQUAL * max(map(abs, values)))


def _refuse_unusable(values: Sequence[float]) -> None:
    if len(values) == 0:
        raise ValueError("An estimate needs at least one value; got none. Run at least one seed.")
    if not all(map(math.isfinite, values)):
        value = next(value for value in values if not math.isfinite(value))
        raise ValueError(
            f"An estimate needs finite values; got {value}. Leave diverged seeds out, and report that you did."
        )
