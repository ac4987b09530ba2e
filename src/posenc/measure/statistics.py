"""Estimates over seeds: mean, standard deviation, t-intervals, paired differences.

Everything here speaks about the luck of the seed (initialisation, data order) and about nothing else: the seeds of one
study share its data, its sizes and its recipe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEWEST_SEEDS_FOR_P = 5
"""Below this a p-value mostly reports how few seeds there are; the interval says the same thing honestly."""


@dataclass(frozen=True)
class Estimate:
    """A mean over n seeds, the seeds' standard deviation and a two-sided interval, Student's t unless its maker says
    otherwise; `sd`, `low`, `high` are nan for a single seed."""

    mean: float
    sd: float
    low: float
    high: float
    n: int
    level: float

    @property
    def known(self) -> bool:
        """Whether there is an interval at all, that is at least two seeds."""
        return self.n >= 2

    def above(self, value: float) -> bool:
        """Whether the whole interval lies above `value`; False without an interval."""
        return self.known and self.low > value

    def below(self, value: float) -> bool:
        """Whether the whole interval lies below `value`; False without an interval."""
        return self.known and self.high < value


def mean(values: Sequence[float]) -> float:
    """x̄ = Σ xᵢ / n. Raises ValueError for no values or one that is not finite."""
    _refuse_unusable(values)
    return math.fsum(values) / len(values)


def sd(values: Sequence[float]) -> float:
    """s = √(Σ (xᵢ − x̄)² / (n − 1)), the sample standard deviation; nan for a single value."""
    centre = mean(values)
    if len(values) < 2:
        return math.nan
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def t_interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """x̄ ± t · s / √n, with t the (1 + level) / 2 quantile of Student's t with n − 1 degrees of freedom.

    Args:
        values: one number per seed, in any unit; the estimate is in the same unit.
        level: coverage, strictly between 0 and 1.

    Raises:
        ValueError: no values, a value that is not finite, or a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")
    centre, spread, n = mean(values), sd(values), len(values)
    if n < 2:
        return Estimate(centre, math.nan, math.nan, math.nan, n, level)
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, n - 1)) * spread / math.sqrt(n)
    return Estimate(centre, spread, centre - half, centre + half, n, level)


def paired_difference(a: Mapping[int, float], b: Mapping[int, float], level: float = 0.95) -> Estimate:
    """t-interval of the mean of aₛ − bₛ over the seeds s that both have.

    Pairing removes what the two share through the seed (data order, initial weights outside the encoding).

    Args:
        a, b: seed -> value.

    Raises:
        ValueError: no seed in common, a value that is not finite, or a level outside (0, 1).
    """
    return t_interval(_differences(a, b), level)


def paired_p_value(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Two-sided p of the paired t-test, t = d̄ √n / s_d with n − 1 degrees of freedom.

    Raises:
        ValueError: fewer than five seeds in common.
    """
    differences = _differences(a, b)
    n = len(differences)
    if n < FEWEST_SEEDS_FOR_P:
        raise ValueError(
            f"A p-value needs at least {FEWEST_SEEDS_FOR_P} shared seeds to mean much; got {n}. "
            "Report the interval of paired_difference instead, or run more seeds."
        )
    from scipy.stats import t

    centre, spread = mean(differences), sd(differences)
    if spread == 0:
        return 1.0 if centre == 0 else 0.0
    return float(2 * t.sf(abs(centre) * math.sqrt(n) / spread, n - 1))


def _differences(a: Mapping[int, float], b: Mapping[int, float]) -> list[float]:
    shared = sorted(a.keys() & b.keys())
    if not shared:
        raise ValueError(
            f"A paired difference needs seeds that both sides have; got {sorted(a)} and {sorted(b)}. "
            "Run both with the same seeds."
        )
    return [a[seed] - b[seed] for seed in shared]


def _refuse_unusable(values: Sequence[float]) -> None:
    if len(values) == 0:
        raise ValueError("An estimate needs at least one value; got none. Run at least one seed.")
    for value in values:
        if not math.isfinite(value):
            raise ValueError(
                f"An estimate needs finite values; got {value}. Leave diverged seeds out and say so beside it."
            )
