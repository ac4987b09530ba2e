"""Statistical inference: bootstrap intervals, equivalence tests, Holm correction, rank correlation, published means.

Means, t-intervals and paired differences are in ``posenc.measure.statistics``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.measure.statistics import (
    FEWEST_SEEDS_FOR_P,
    UNBOUNDED,
    Bounds,
    Estimate,
    mean,
    paired_difference,
    sd,
    t_interval,
)

FEWEST_SEEDS_FOR_BOOTSTRAP = 10
"""Smallest number of seeds for a percentile interval.

With fewer seeds the interval is too narrow: resampling S seeds shrinks their spread by sqrt((S - 1) / S), and the
quantiles of the resampled means are narrower than those of Student's t."""

LARGEST_EXACT = 8
"""Largest number of points for an exact permutation p-value of a rank correlation (8! = 40,320 orders).

With more points the p-value is scipy's approximation by Student's t."""


@dataclass(frozen=True)
class Equivalence:
    """Result of two one-sided tests (TOST) of ``|mean(a - b)| < margin``.

    Attributes:
        estimate: mean of a - b with its (1 - 2 alpha) interval.
        p: p-value of the equivalence test.
        margin: largest difference that does not matter.
    """

    estimate: Estimate
    p: float
    margin: float

    @property
    def shown(self) -> bool:
        """True if the whole interval lies within (-margin, margin), which is equivalent to ``p < alpha``."""
        return self.estimate.above(-self.margin) and self.estimate.below(self.margin)


@dataclass(frozen=True)
class Correlation:
    """Rank correlation of n points. Values are nan if undefined (a side without variation, too few points).

    Attributes:
        rho: the correlation.
        p: two-sided p-value.
        low: lower end of the confidence interval.
        high: upper end of the confidence interval.
        n: number of points.
    """

    rho: float
    p: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """Comparison of our mean with a published mean (see ``compare_with_published``).

    Attributes:
        difference: our mean minus the published mean.
        in_sd: the difference divided by the published standard deviation.
        bound: two standard errors of the difference, from the published standard deviation.
        within: whether ``|difference| <= bound``.
        p: p-value of Welch's t-test.
        p_theirs: p-value of the t-test that uses the published standard deviation only.
    """

    difference: float
    in_sd: float
    bound: float
    within: bool
    p: float
    p_theirs: float


# seeds and puzzles -------------------------------------------------------------------------------------------------


def accuracy_interval(right: Mapping[int, np.ndarray], level: float = 0.95, *, seed: int = 0) -> Estimate:
    """Compute the mean accuracy over seeds with a confidence interval.

    Below ten seeds the interval is ``t_interval`` of the seeds' accuracies, because a bootstrap of so few seeds is too
    narrow. It generalizes to other seeds on the same puzzles. From ten seeds the interval is
    ``hierarchical_bootstrap`` with 2,000 draws. It also generalizes to other puzzles of the same kind. Both stay within
    [0, 1].

    Args:
        right: seed -> array with 1 for a right answer and 0 for a wrong one; the same puzzles for every seed.
        level: coverage, strictly between 0 and 1.
        seed: seed of the bootstrap's generator.

    Returns:
        The mean and its interval.

    Raises:
        ValueError: no seed, arrays of different lengths, or a value that is neither 0 nor 1.
    """
    table = _stacked(right, sorted(right))
    if not np.isin(table, (0, 1)).all():
        raise ValueError(
            "An accuracy is counted over answers that are right (1) or wrong (0); got other values. "
            "Pass logits.argmax(-1) == answer for every seed."
        )
    if len(table) < FEWEST_SEEDS_FOR_BOOTSTRAP:
        return t_interval(table.mean(1).tolist(), level, (0.0, 1.0))
    return hierarchical_bootstrap(right, seed=seed, level=level)


def hierarchical_bootstrap(
    right: Mapping[int, np.ndarray],
    *,
    against: Mapping[int, np.ndarray] | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Compute the bootstrap percentile interval of ``mean_s mean_i right[s][i]`` over seeds s and puzzles i.

    Seeds and puzzles are drawn with replacement. All seeds answer the same puzzles, so a draw takes one set of puzzles
    for all seeds: rows and columns of the table are resampled separately. This is the pigeonhole bootstrap (Owen 2007,
    doi 10.1214/07-AOAS122), which is mildly conservative. A single seed has no interval.

    Args:
        right: seed -> array of one value per puzzle, such as 0 or 1.
        against: the same for another model. The estimate is then that of the paired difference ``right - against`` over
            the shared seeds, with the same seeds and puzzles drawn for both.
        draws: number of resampled means, at least 100.
        seed: seed of the generator.
        level: coverage, strictly between 0 and 1.

    Returns:
        The mean with its interval; ``sd`` is the standard deviation of the seeds' means.

    Raises:
        ValueError: no seed (in common), arrays of different lengths, a value that is not finite, fewer than 100 draws.
    """
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")
    if draws < 100:
        raise ValueError(f"The ends of an interval need many resampled means; got draws={draws}. Use 2000.")
    seeds = sorted(right if against is None else right.keys() & against.keys())
    table = _stacked(right, seeds)
    if against is not None:
        other = _stacked(against, seeds)
        if other.shape != table.shape:
            raise ValueError(
                f"A paired difference is over the same puzzles; got {table.shape[1]} and {other.shape[1]} of them. "
                "Score both models on one set."
            )
        table = table - other
    low, high = np.quantile(_resampled_means(table, draws, seed), [(1 - level) / 2, (1 + level) / 2]).tolist()
    if len(seeds) < 2:
        low = high = math.nan
    by_seed = table.mean(1).tolist()
    return Estimate(mean(by_seed), sd(by_seed), low, high, len(seeds), level)


def _resampled_means(table: np.ndarray, draws: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)

    def times_drawn(count: int) -> np.ndarray:
        return np.bincount(generator.integers(count, size=count), minlength=count) / count

    seeds, puzzles = table.shape
    return np.array([times_drawn(seeds) @ table @ times_drawn(puzzles) for _ in range(draws)])


def _stacked(right: Mapping[int, np.ndarray], seeds: Sequence[int]) -> np.ndarray:
    """Stack the values of the seeds to a table (seeds, puzzles), in float64."""
    if not seeds:
        raise ValueError(
            f"An interval needs at least one seed, and a difference one that both sides have; got {sorted(right)}. "
            "Run both with the same seeds."
        )
    rows = [np.asarray(right[seed], dtype=np.float64) for seed in seeds]
    shapes = sorted({row.shape for row in rows})
    if len(shapes) > 1 or len(shapes[0]) != 1 or not shapes[0][0]:
        raise ValueError(
            f"Every seed answers the same puzzles, one number each; got shapes {' and '.join(map(str, shapes))}. "
            "Pass one array (puzzles,) per seed."
        )
    table = np.stack(rows)
    if not np.isfinite(table).all():
        raise ValueError("An estimate needs finite values; some are nan or infinite. Leave diverged seeds out.")
    return table


# multiple tests and equivalence ------------------------------------------------------------------------------------


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for multiple tests by Holm's method: ``max_{j <= i} min(1, (m - j + 1) p_(j))``, smallest first.

    The probability that any true null hypothesis of the m is rejected then stays below the level (Holm 1979).

    Args:
        p: name -> p-value; may be empty.

    Returns:
        Name -> corrected p-value.

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    for name, value in p.items():
        if not 0 <= value <= 1:
            raise ValueError(f"A p-value lies between 0 and 1; {name} has {value}. Leave out what was not tested.")
    if not p:
        return {}
    values = np.array(list(p.values()), dtype=np.float64)
    order = np.argsort(values)
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1)
    return dict(zip(p, corrected.tolist(), strict=True))


def equivalence(a: Mapping[int, float], b: Mapping[int, float], margin: float, alpha: float = 0.05) -> Equivalence:
    """Test whether a and b are equal within a margin: two one-sided paired t-tests over the shared seeds.

    The method is TOST (Schuirmann 1987).

    Args:
        a: seed -> value.
        b: seed -> value.
        margin: largest difference that does not matter, in the unit of the values, above 0.
        alpha: level of each one-sided test, in (0, 0.5).

    Returns:
        The estimate of a - b, the p-value and the margin.

    Raises:
        ValueError: fewer than five seeds in common, a margin that is not positive, alpha outside (0, 0.5).
    """
    if not (math.isfinite(margin) and margin > 0):
        raise ValueError(f"An equivalence is within a margin above 0; got {margin}. Name the difference that matters.")
    estimate = equivalence_interval(a, b, alpha)
    if estimate.n < FEWEST_SEEDS_FOR_P:
        raise ValueError(
            f"A p-value needs at least {FEWEST_SEEDS_FOR_P} shared seeds to mean much; got {estimate.n}. "
            "Report equivalence_interval instead, or run more seeds."
        )
    if estimate.sd == 0:
        return Equivalence(estimate, 0.0 if abs(estimate.mean) < margin else 1.0, margin)
    from statsmodels.stats.weightstats import ttost_paired

    shared = sorted(a.keys() & b.keys())
    ours, theirs = (np.array([side[seed] for seed in shared], dtype=np.float64) for side in (a, b))
    return Equivalence(estimate, float(ttost_paired(ours, theirs, -margin, margin)[0]), margin)


def equivalence_interval(
    a: Mapping[int, float], b: Mapping[int, float], alpha: float = 0.05, bounds: Bounds = UNBOUNDED
) -> Estimate:
    """Compute the (1 - 2 alpha) t-interval of the paired difference a - b.

    It lies within the margin if and only if the equivalence test rejects.

    Args:
        a: seed -> value.
        b: seed -> value.
        alpha: level of each one-sided test, in (0, 0.5).
        bounds: lowest and highest possible value of a and of b.

    Returns:
        The mean difference and its interval. A single shared seed has no interval.

    Raises:
        ValueError: no seed in common, or alpha outside (0, 0.5).
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"Each one-sided test has a level between 0 and 0.5; got alpha={alpha}. Use 0.05.")
    return paired_difference(a, b, 1 - 2 * alpha, bounds)


# rank correlation --------------------------------------------------------------------------------------------------


def spearman(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> Correlation:
    """Compute Spearman's rank correlation of x and y, with mean ranks for ties.

    The p-value is two-sided. Up to eight points it is over all orders, otherwise by Student's t with n - 2 degrees of
    freedom. It is never below 2 / n!, the least that n! orders allow.

    The interval is ``tanh(atanh(rho) ± z sqrt((1 + rho^2 / 2) / (n - 3)))`` (Bonett and Wright 2000, doi
    10.1007/BF02294183), nan for n <= 3. For rho = ±1, where atanh is infinite, the formula uses the next possible value
    of n ranks without ties, ``±(1 - 12 / (n^3 - n))``, and the interval is extended to ±1. A side without variation
    gives nan.

    Args:
        x: n values.
        y: n values.
        level: coverage of the interval, strictly between 0 and 1.

    Returns:
        The correlation, its p-value and its interval.

    Raises:
        ValueError: different lengths, fewer than two points, a value that is not finite, a level outside (0, 1).
    """
    _refuse_unequal({"x": x, "y": y}, level, fewest=2)
    n, ranks = len(x), [_ranks(side) for side in (x, y)]
    rho = _pearson(*ranks)
    if math.isnan(rho):
        return Correlation(rho, math.nan, math.nan, math.nan, n)
    p = _p_over_all_orders(*ranks) if n <= LARGEST_EXACT else _p_by_t(rho, n - 2)
    return Correlation(rho, max(p, 2 / math.factorial(n)), *_interval(rho, n, n - 3, level), n)


def partial_spearman(
    x: Sequence[float], y: Sequence[float], given: Sequence[float], level: float = 0.95
) -> Correlation:
    """Compute the partial rank correlation of x and y, controlled for a third variable.

        rho = (r_xy - r_xg r_yg) / sqrt((1 - r_xg^2)(1 - r_yg^2)),   r the rank correlations, g = given

    The p-value is by Student's t with n - 3 degrees of freedom, and at least 2 / n!, the share of two of all orders.
    The interval is that of ``spearman`` with n - 4 in place of n - 3, nan for n <= 4. If ``given`` has the ranks of x
    or y, in the same or the opposite order, the result is nan.

    Args:
        x: n values.
        y: n values.
        given: n values of the variable to control for.
        level: coverage of the interval, strictly between 0 and 1.

    Returns:
        The partial correlation, its p-value and its interval.

    Raises:
        ValueError: different lengths, fewer than three points, a value that is not finite, a level outside (0, 1).
    """
    _refuse_unequal({"x": x, "y": y, "given": given}, level, fewest=3)
    n, against = len(x), _ranks(given)
    rho = _pearson(*(_left_over(_ranks(side), against) for side in (x, y)))
    if math.isnan(rho):
        return Correlation(rho, math.nan, math.nan, math.nan, n)
    p = max(_p_by_t(rho, n - 3), min(1.0, 2 / math.factorial(n)) if n < 20 else 0.0)
    return Correlation(rho, p, *_interval(rho, n, n - 4, level), n)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return centered ranks. They are exact, so the ranks of a side without variation are exactly 0."""
    from scipy.stats import rankdata

    return rankdata(np.asarray(values, dtype=np.float64)) - (len(values) + 1) / 2


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Return the Pearson correlation of centered values; nan if one side does not vary."""
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return math.nan if scale == 0 else min(1.0, max(-1.0, float(x @ y) / scale))


def _left_over(ranks: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return the residuals of the regression of ranks on ``given``; exact zeros if only rounding errors remain."""
    spread = float(given @ given)
    rest = ranks - given * (float(ranks @ given) / spread) if spread else ranks
    return rest if float(rest @ rest) > 1e-12 * float(ranks @ ranks) else np.zeros_like(rest)


def _p_over_all_orders(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import permutation_test

    def statistic(order: np.ndarray, axis: int) -> Any:  # sums of multiples of 1/4 are exact, so ties are found
        return np.moveaxis(order, axis, -1) @ y

    orders = math.factorial(len(x))
    result = permutation_test((x,), statistic, permutation_type="pairings", n_resamples=orders, vectorized=True)
    return float(result.pvalue)


def _p_by_t(rho: float, freedom: int) -> float:
    if freedom < 1:
        return math.nan
    if abs(rho) == 1:
        return 0.0
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * math.sqrt(freedom / (1 - rho * rho)), freedom))


def _interval(rho: float, n: int, freedom: int, level: float) -> tuple[float, float]:
    if freedom < 1:
        return math.nan, math.nan
    from scipy.stats import norm

    largest = 1 - 12 / (n**3 - n)
    clipped = min(largest, max(-largest, rho))
    half = float(norm.ppf((1 + level) / 2)) * math.sqrt((1 + clipped * clipped / 2) / freedom)
    ends = math.tanh(math.atanh(clipped) - half), math.tanh(math.atanh(clipped) + half)
    return min(ends[0], rho), max(ends[1], rho)


def _refuse_unequal(sides: Mapping[str, Sequence[float]], level: float, fewest: int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")
    lengths = [len(side) for side in sides.values()]
    if len(set(lengths)) > 1 or lengths[0] < fewest:
        raise ValueError(
            f"A correlation needs {' and '.join(sides)} of one length, at least {fewest}; "
            f"got {', '.join(map(str, lengths))}. Pass one value of each per point."
        )
    for name, side in sides.items():
        if not np.isfinite(np.asarray(side, dtype=np.float64)).all():
            raise ValueError(f"A correlation needs finite values; {name} has others. Leave those points out.")


# comparison with published means -----------------------------------------------------------------------------------


def compare_with_published(values: Sequence[float], mean: float, sd: float, n: int) -> Comparison:
    """Compare our seeds with a published mean, standard deviation and number of seeds.

        difference = mean(values) - mean,   in_sd = difference / sd,   bound = 2 sd sqrt(1 / len(values) + 1 / n)

    - ``in_sd`` is ±inf if the published SD is 0 and the means differ.
    - ``bound`` is two standard errors of the difference, if our standard deviation equals the published one.
    - ``p`` is the p-value of Welch's t-test; nan if a side has a single seed.
    - ``p_theirs`` is the p-value of the t-test with ``t = difference / (bound / 2)`` and n - 1 degrees of freedom. It
      does not use our standard deviation, so it is usable from three seeds. It is nan if the published SD is 0 or n is
      1.

    Args:
        values: our results, one per seed.
        mean: published mean.
        sd: published standard deviation.
        n: published number of seeds.

    Returns:
        The comparison.

    Raises:
        ValueError: no value or one that is not finite, a negative or infinite SD, n below 1.
    """
    if not (math.isfinite(mean) and math.isfinite(sd) and sd >= 0 and n >= 1):
        raise ValueError(
            f"A published result is a finite mean, an SD of at least 0 and a number of seeds; got {mean}, {sd}, {n}. "
            "Leave it out where it was not printed."
        )
    ours = t_interval(values)
    difference = ours.mean - mean
    scale = 0.0 if difference == 0 else difference / sd if sd > 0 else math.copysign(math.inf, difference)
    bound = 2 * sd * math.sqrt(1 / ours.n + 1 / n)
    p, p_theirs = _welch(ours, mean, sd, n), _by_their_spread(difference, bound, n)
    return Comparison(difference, scale, bound, abs(difference) <= bound, p, p_theirs)


def _by_their_spread(difference: float, bound: float, n: int) -> float:
    if not bound > 0 or n < 2:
        return math.nan
    from scipy.stats import t

    return float(2 * t.sf(abs(difference) / (bound / 2), n - 1))


def _welch(ours: Estimate, mean: float, sd: float, n: int) -> float:
    if min(ours.n, n) < 2:
        return math.nan
    if ours.sd == 0 and sd == 0:
        return 1.0 if ours.mean == mean else 0.0
    from scipy.stats import ttest_ind_from_stats

    return float(ttest_ind_from_stats(ours.mean, ours.sd, ours.n, mean, sd, n, equal_var=False).pvalue)
