"""Differences of several candidates from one of them, paired by seed, with an interval for each.

The variance of a difference of two candidates is measured on few seeds. All candidates are trained on the same seeds,
so the median of these variances over candidates is known better than a single one. The larger of the two is used, with
the degrees of freedom of the candidates together.

References:
    Nadeau and Bengio 2003, "Inference for the generalization error", Machine Learning 52, 239-281: the variance
    s² (1/S + n_test/n_train) of a mean over S splits that share items.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from posenc.measure.statistics import Estimate, mean, sd

BySeed = Mapping[int, float]


def common_seeds(values: Mapping[str, BySeed]) -> tuple[int, ...]:
    """Seeds that all candidates have, in rising order.

    Args:
        values: Candidate -> seed -> score.

    Returns:
        The seeds.
    """
    shared = [set(seeds) for seeds in values.values()]
    return tuple(sorted(set.intersection(*shared))) if shared else ()


def paired_gaps(values: Mapping[str, BySeed], reference: str, *, ratio: float, level: float) -> dict[str, Estimate]:
    """Differences of candidates from a reference, paired by seed.

    Args:
        values: Candidate -> seed -> score. Only seeds that all candidates have are used.
        reference: The candidate that is subtracted.
        ratio: Held-out items over training items, if each seed has another split of one data set; otherwise 0.
        level: Coverage of each interval, strictly between 0 and 1.

    Returns:
        Candidate -> mean difference and its interval, without the reference. The ends are nan for a single seed, and
        if all differences are equal.

    Example:
        >>> from posenc.workbench.advice.paired_gaps import paired_gaps
        >>> scores = {"rope": {0: 0.8, 1: 0.9}, "none": {0: 0.5, 1: 0.7}}
        >>> gap = paired_gaps(scores, "rope", ratio=0.0, level=0.95)["none"]
        >>> round(gap.mean, 3), gap.n
        (-0.25, 2)
    """
    seeds = common_seeds(values)
    apart = {
        name: [by_seed[seed] - values[reference][seed] for seed in seeds]
        for name, by_seed in values.items()
        if name != reference
    }
    if len(seeds) < 2:
        single = {name: mean(each) for name, each in apart.items()}
        return {name: Estimate(gap, math.nan, math.nan, math.nan, len(seeds), level) for name, gap in single.items()}
    variances = {name: sd(each) ** 2 for name, each in apart.items()}
    typical = statistics.median(variances.values()) if variances else 0.0
    freedom = max(len(seeds) - 1, len(apart) * (len(seeds) - 1) / 2)
    reach = _quantile((1 + level) / 2, freedom)
    return {
        name: _estimate(apart[name], max(variance, typical) * (1 / len(seeds) + ratio), reach, level)
        for name, variance in variances.items()
    }


def seeds_needed(gap: Estimate, half: float, ratio: float, most: int = 200) -> int | None:
    """Number of seeds with which the interval of a difference would have at most a given half-width.

    Args:
        gap: The difference with its present interval.
        half: The wanted half-width.
        ratio: As in ``paired_gaps``: with a ratio above 0 no number of seeds makes an interval as narrow as one likes.
        most: Largest number of seeds.

    Returns:
        The number; None if no number up to ``most`` suffices, or if there is no interval.
    """
    if not gap.known or not half > 0:
        return None
    unit = (gap.high - gap.mean) / math.sqrt(1 / gap.n + ratio)
    return next((seeds for seeds in range(gap.n, most + 1) if unit * math.sqrt(1 / seeds + ratio) <= half), None)


def _estimate(apart: list[float], variance: float, reach: float, level: float) -> Estimate:
    center = mean(apart)
    half = reach * math.sqrt(variance) if variance > 0 else math.nan
    return Estimate(center, sd(apart), center - half, center + half, len(apart), level)


def _quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def negated(gap: Estimate) -> Estimate:
    """The difference with its sides exchanged.

    Args:
        gap: Difference a - b.

    Returns:
        Difference b - a.
    """
    return Estimate(-gap.mean, gap.sd, -gap.high, -gap.low, gap.n, gap.level)
