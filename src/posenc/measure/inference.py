"""What a comparison may say: intervals over seeds and puzzles, equivalence, many tests at once, rank correlation, and
our seeds beside a published mean. Means, t-intervals and paired differences stand in ``posenc.measure.statistics``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.measure.statistics import FEWEST_SEEDS_FOR_P, Estimate, mean, paired_difference, sd, t_interval

FEWEST_SEEDS_FOR_BOOTSTRAP = 10
"""Below this a percentile interval is too narrow: resampling S seeds shrinks their spread by sqrt((S - 1) / S), and
the quantiles of Student's t, which would make up for it, are wider than those of the resampled means."""

LARGEST_EXACT = 8
"""Up to so many points a rank correlation's p is over all orders (8! = 40,320); beyond, scipy's approximation by t."""


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of ``|mean(a - b)| < margin``; `estimate` is the (1 - 2 alpha) interval of a - b."""

    estimate: Estimate
    p: float
    margin: float

    @property
    def shown(self) -> bool:
        """Whether the whole interval lies within (-margin, margin), which is ``p < alpha``."""
        return self.estimate.above(-self.margin) and self.estimate.below(self.margin)


@dataclass(frozen=True)
class Correlation:
    """A rank correlation of n points; nan where it is undefined (a side without variation, too few points)."""

    rho: float
    p: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Comparison:
    """Our mean minus a published one: as it is, in published SDs, and against `bound` (see ``from_published``)."""

    difference: float
    in_sd: float
    bound: float
    within: bool
    p: float
    p_theirs: float


# seeds and puzzles -------------------------------------------------------------------------------------------------


def accuracy_interval(right: Mapping[int, np.ndarray], level: float = 0.95, *, seed: int = 0) -> Estimate:
    """The mean accuracy over seeds with an interval: Student's t below ten seeds, a bootstrap from ten up.

    Below ten seeds: ``t_interval`` of the seeds' accuracies, because the resampled means of so few are spread too
    little. It speaks about other seeds on these very puzzles. From ten: ``hierarchical_bootstrap``, 2,000 draws, which
    also speaks about other puzzles of this kind and never leaves [0, 1].

    Args:
        right: seed -> 1 where the answer to a puzzle was right and 0 where not; the same puzzles for every seed.
        level: coverage, strictly between 0 and 1.
        seed: of the bootstrap's own generator.

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
        return t_interval(table.mean(1).tolist(), level)
    return hierarchical_bootstrap(right, seed=seed, level=level)


def hierarchical_bootstrap(
    right: Mapping[int, np.ndarray],
    *,
    against: Mapping[int, np.ndarray] | None = None,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Percentile interval of ``mean_s mean_i right[s][i]``, seeds s and puzzles i each drawn with replacement.

    All seeds see the same puzzles, so a draw takes one set of puzzles for all of them: rows and columns of the table
    are resampled separately (the pigeonhole bootstrap: Owen 2007, doi 10.1214/07-AOAS122, mildly conservative). `sd` is
    the standard deviation of the seeds' means; a single seed has no interval.

    Args:
        right: seed -> one number a puzzle, such as 0 or 1.
        against: of another model; the estimate is then that of the paired difference ``right - against`` over the seeds
            that both have, with the same seeds and puzzles drawn for both.
        draws: number of resampled means. seed: of the generator that draws them. level: coverage.

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
    """Seeds by puzzles, in float64."""
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
            "Pass one array (puzzles,) a seed."
        )
    table = np.stack(rows)
    if not np.isfinite(table).all():
        raise ValueError("An estimate needs finite values; some are nan or infinite. Leave diverged seeds out.")
    return table


# many tests, and no difference -------------------------------------------------------------------------------------


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for how many there are: ``max_{j <= i} min(1, (m - j + 1) p_(j))``, smallest first.

    Holm 1979: the chance that any true null hypothesis of the m is rejected stays below the level. None: none.

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    for name, value in p.items():
        if not 0 <= value <= 1:
            raise ValueError(f"A p-value lies between 0 and 1; {name} has {value}. Leave out what was not tested.")
    if not p:
        return {}
    from statsmodels.stats.multitest import multipletests

    corrected = np.asarray(multipletests(list(p.values()), method="holm")[1], dtype=np.float64)
    return dict(zip(p, corrected.tolist(), strict=True))


def equivalence(a: Mapping[int, float], b: Mapping[int, float], margin: float, alpha: float = 0.05) -> Equivalence:
    """Are a and b the same within `margin`? Two one-sided paired t-tests (Schuirmann 1987) over the shared seeds.

    Args:
        a, b: seed -> value. margin: the largest difference that does not matter, in the unit of the values, > 0.
        alpha: of each one-sided test, in (0, 0.5).

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


def equivalence_interval(a: Mapping[int, float], b: Mapping[int, float], alpha: float = 0.05) -> Estimate:
    """The (1 - 2 alpha) t-interval of the paired difference: within a margin where the equivalence test rejects.

    Raises:
        ValueError: no seed in common, alpha outside (0, 0.5). A single shared seed has no interval.
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"Each one-sided test has a level between 0 and 0.5; got alpha={alpha}. Use 0.05.")
    return paired_difference(a, b, level=1 - 2 * alpha)


# rank correlation --------------------------------------------------------------------------------------------------


def spearman(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> Correlation:
    """``rho`` = the correlation of the ranks of x and y, ties with their mean rank.

    p: two-sided, over all orders up to eight points, else by t with n - 2 degrees of freedom, but never below 2 / n!,
    the least that n! orders allow. Interval: ``tanh(atanh(rho) ± z sqrt((1 + rho^2 / 2) / (n - 3)))``, nan for n <= 3
    (Bonett and Wright 2000, doi 10.1007/BF02294183); a rho of ±1, where atanh is infinite, is taken there as the next
    that n ranks without ties can have, ``±(1 - 12 / (n^3 - n))``, and the interval reaches to ±1 itself. A side
    without variation gives nan.

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
    """What of the rank correlation of x and y is left when the ranks of `given` are regressed out of both.

    ``(r_xy - r_xg r_yg) / sqrt((1 - r_xg^2)(1 - r_yg^2))``. p by t with n - 3 degrees of freedom; the interval is
    ``spearman``'s with n - 4 for n - 3, nan for n <= 4. Where the ranks of `given` are those of x or y, up to
    direction, nothing is left of them: nan.

    Raises:
        ValueError: different lengths, fewer than three points, a value that is not finite, a level outside (0, 1).
    """
    _refuse_unequal({"x": x, "y": y, "given": given}, level, fewest=3)
    n, against = len(x), _ranks(given)
    rho = _pearson(*(_left_over(_ranks(side), against) for side in (x, y)))
    if math.isnan(rho):
        return Correlation(rho, math.nan, math.nan, math.nan, n)
    return Correlation(rho, _p_by_t(rho, n - 3), *_interval(rho, n, n - 4, level), n)


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Centred ranks; multiples of 1 / (2 n), so the ranks of a side without variation are exactly 0."""
    from scipy.stats import rankdata

    return rankdata(np.asarray(values, dtype=np.float64)) - (len(values) + 1) / 2


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Of centred values; nan where one does not vary."""
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return math.nan if scale == 0 else min(1.0, max(-1.0, float(x @ y) / scale))


def _left_over(ranks: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Ranks less their regression on `given`; exact zeros where nothing but rounding is left."""
    spread = float(given @ given)
    rest = ranks - given * (float(ranks @ given) / spread) if spread else ranks
    return rest if float(rest @ rest) > 1e-12 * float(ranks @ ranks) else np.zeros_like(rest)


def _p_over_all_orders(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import permutation_test

    def statistic(order: np.ndarray, axis: int) -> Any:  # sums of quarters: exact, so that ties are ties
        return np.moveaxis(order, axis, -1) @ y

    orders = math.factorial(len(x))
    found = permutation_test((x,), statistic, permutation_type="pairings", n_resamples=orders, vectorized=True)
    return float(found.pvalue)


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
    held = min(largest, max(-largest, rho))
    half = float(norm.ppf((1 + level) / 2)) * math.sqrt((1 + held * held / 2) / freedom)
    ends = math.tanh(math.atanh(held) - half), math.tanh(math.atanh(held) + half)
    return min(ends[0], rho), max(ends[1], rho)


def _refuse_unequal(sides: Mapping[str, Sequence[float]], level: float, fewest: int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"The level of an interval lies between 0 and 1; got {level}. Use 0.95.")
    lengths = [len(side) for side in sides.values()]
    if len(set(lengths)) > 1 or lengths[0] < fewest:
        raise ValueError(
            f"A correlation needs {' and '.join(sides)} of one length, at least {fewest}; "
            f"got {', '.join(map(str, lengths))}. Pass one value of each a point."
        )
    for name, side in sides.items():
        if not np.isfinite(np.asarray(side, dtype=np.float64)).all():
            raise ValueError(f"A correlation needs finite values; {name} has others. Leave those points out.")


# beside published numbers ------------------------------------------------------------------------------------------


def from_published(values: Sequence[float], mean: float, sd: float, n: int) -> Comparison:
    """Our seeds beside a printed mean, standard deviation and number of seeds.

    ``difference = mean(values) - mean``; ``in_sd = difference / sd`` (±inf where the printed SD is 0 and they differ);
    ``within`` says that ``|difference| <= bound = 2 sd sqrt(1 / len(values) + 1 / n)``, two standard errors of a
    difference were our spread theirs; p: Welch's t-test, nan where a side has a single seed; p_theirs: of the t-test
    that bound belongs to, ``difference / (bound / 2)`` with n - 1 degrees of freedom, which asks nothing of our own
    spread and so may be read from three seeds; nan where the printed SD is 0 or n is 1.

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
