"""Differences between models that may still be learning: which of them may be stated.

Two models are trained with the budget B (steps of training) and again with B/2, each with its whole schedule. d(B) is
the difference of their scores, paired by seed. Its sign is stated if four things hold.

1. The 95% interval of d(B) excludes 0.
2. The mean of 2 d(B) - d(B/2) has the same sign. It extends d by the change of the last doubling, to about 2 B.
3. Both models have started to learn: at B/2 their intervals exclude the score at chance. A control without an encoding
   that stays at chance at both budgets counts as finished. Its own change is taken as 0, and the other model has to
   exceed chance at B alone. Chance may be a baseline with a score for each seed, such as the unigram of a text. Then
   the intervals are those of the paired differences from it.
4. d(B) is at least a third of the smaller of the two gains from B/2 to B. Two models that both still gain much more
   than their difference may change places. A larger share withholds more: with 0.4 of the gain less than 80% of the
   gaps of five standard errors between simulated learning curves are found.

``benchmarks/budget_rule.py`` measures the rule on simulated learning curves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from posenc.measure.held_out_interval import HeldOut, held_out_interval, smallest_difference, widest_undecided
from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, mean, paired_differences

Reason = Literal[
    "no interval", "at chance", "interval contains 0", "no half budget", "still changing", "still learning"
]
"""Reason for not stating a difference. "still changing": rule 2; "at chance": rule 3; "still learning": rule 4."""
LEAST_SHARE = 1 / 3
"""Share of the smaller gain of the last doubling that a stated difference reaches."""
FEWEST_SEEDS = 2
"""Fewest seeds at both budgets from which a difference is extended."""
ItemVariance = Callable[[float, int], float]
"""Variance of the score of one held-out item, from the mean score and the number of items."""


@dataclass(frozen=True)
class Scores:
    """Scores of a model by seed, at the full and at half the budget.

    Attributes:
        full: seed -> score at the budget B.
        half: seed -> score at the budget B/2; empty without such runs.
        control: True for a control that may stay at chance because it lacks what is compared.
    """

    full: Mapping[int, float]
    half: Mapping[int, float] = field(default_factory=dict)
    control: bool = False


@dataclass(frozen=True)
class ScoreScale:
    """Scale of a score: its range, its value at chance, and its held-out items.

    Attributes:
        higher: True if higher scores are better.
        chance: score of a model that has learned nothing: one number, or seed -> score of a baseline; None if it is not
            known.
        bounds: lowest and highest score; the intervals are cut there.
        held_out: the held-out items; None for intervals over seeds alone.
        item_variance: variance of the score of one held-out item; None if it is not known.
        level: coverage of the intervals.
    """

    higher: bool = True
    chance: float | Mapping[int, float] | None = None
    bounds: Bounds = UNBOUNDED
    held_out: HeldOut | None = None
    item_variance: ItemVariance | None = None
    level: float = 0.95

    def interval(self, scores: Mapping[int, float]) -> Estimate:
        """Compute the interval of a mean score.

        Args:
            scores: seed -> score.

        Returns:
            The mean and its interval.
        """
        values = list(scores.values())
        variance = self._variance_of(mean(values))
        return held_out_interval(values, self.held_out, item_variance=variance, level=self.level, bounds=self.bounds)

    def at_chance(self, scores: Mapping[int, float]) -> bool:
        """Return True if the interval of the mean does not lie on the better side of the score at chance.

        Args:
            scores: seed -> score.

        Returns:
            True for scores at chance or worse; False if chance is not known, or has no seed of the scores. The mean
            counts if there is no interval.
        """
        chance = self.chance
        if chance is None or (isinstance(chance, Mapping) and not scores.keys() & chance.keys()):
            return False
        if isinstance(chance, Mapping):
            values, level = paired_differences(scores, chance), 0.0
            estimate = held_out_interval(values, self.held_out, level=self.level, bounds=self.difference_bounds)
        else:
            estimate, level = self.interval(scores), chance
        low, high = (estimate.mean if math.isnan(end) else end for end in (estimate.low, estimate.high))
        return low <= level if self.higher else high >= level

    def variance_of_difference(self, a: float, b: float) -> float | None:
        """Compute the variance of the difference of one item, an upper bound if the two scores are not opposed.

        Args:
            a: mean score of the first model.
            b: mean score of the second model.

        Returns:
            The sum of the two variances; None if they are not known.
        """
        first, second = self._variance_of(a), self._variance_of(b)
        return None if first is None or second is None else first + second

    @property
    def difference_bounds(self) -> Bounds:
        """Range of a difference of two scores."""
        low, high = self.bounds
        return low - high, high - low

    def _variance_of(self, score: float) -> float | None:
        if self.held_out is None or self.item_variance is None:
            return None
        return self.item_variance(score, self.held_out.items)


@dataclass(frozen=True)
class BudgetComparison:
    """Difference a - b of two models at the budgets B and B/2.

    Attributes:
        difference: paired difference at B with its interval.
        half: paired difference at B/2 with its interval, over the seeds that both have at B too; None without any.
        projected: mean of 2 d(B) - d(B/2) over these seeds; nan without any.
        smallest: smallest true difference that the interval would show in 80% of repetitions; nan without an interval.
        undecided: half-width that the interval keeps with any number of seeds.
        reason: why the difference is not stated; None if it is.
    """

    difference: Estimate
    half: Estimate | None
    projected: float
    smallest: float
    undecided: float
    reason: Reason | None

    @property
    def stated(self) -> bool:
        """True if the sign of the difference may be stated."""
        return self.reason is None


def compare_budgets(a: Scores, b: Scores, scale: ScoreScale | None = None) -> BudgetComparison:
    """Compare two models at two budgets, and decide whether the sign of their difference may be stated.

    Args:
        a: scores of the first model.
        b: scores of the second model.
        scale: range, chance and held-out items of the score; None for an unbounded score of which nothing is known.

    Returns:
        The comparison. Differences are paired over the seeds that both models have.

    Raises:
        ValueError: no seed in common at the full budget, or a value that is not finite.

    Example:
        >>> fast = Scores(full={0: 0.94, 1: 0.95, 2: 0.94}, half={0: 0.90, 1: 0.92, 2: 0.91})
        >>> slow = Scores(full={0: 0.88, 1: 0.87, 2: 0.88}, half={0: 0.70, 1: 0.71, 2: 0.69})
        >>> found = compare_budgets(fast, slow)
        >>> found.reason, round(found.projected, 2)
        ('still changing', -0.08)
    """
    scale = ScoreScale() if scale is None else scale
    difference, variance = _at_budget(a.full, b.full, scale)
    half, projected, gain = None, math.nan, 0.0
    if seeds := sorted(set.intersection(*({*each} for each in (a.full, b.full, a.half, b.half)))):
        first, second = ({seed: each.half[seed] for seed in seeds} for each in (a, b))
        half, _ = _at_budget(first, second, scale)
        changes = _change(a, seeds, scale), _change(b, seeds, scale)
        projected = mean([a.full[seed] - b.full[seed] for seed in seeds]) + changes[0] - changes[1]
        gain = min(change if scale.higher else -change for change in changes)
    reason, values = _reason(a, b, scale, difference, projected), paired_differences(a.full, b.full)
    if reason is None and len(seeds) < FEWEST_SEEDS:
        reason = "no half budget"
    if reason is None and abs(difference.mean) < LEAST_SHARE * gain:
        reason = "still learning"
    smallest = smallest_difference(values, scale.held_out, item_variance=variance, level=scale.level)
    undecided = widest_undecided(values, scale.held_out, item_variance=variance, level=scale.level)
    return BudgetComparison(difference, half, projected, smallest, undecided, reason)


def _at_budget(a: Mapping[int, float], b: Mapping[int, float], scale: ScoreScale) -> tuple[Estimate, float | None]:
    """Paired difference at one budget, and the variance of the difference of one held-out item."""
    values = paired_differences(a, b)
    shared = a.keys() & b.keys()
    variance = scale.variance_of_difference(mean([a[seed] for seed in shared]), mean([b[seed] for seed in shared]))
    estimate = held_out_interval(
        values, scale.held_out, item_variance=variance, level=scale.level, bounds=scale.difference_bounds
    )
    return estimate, variance


def _change(model: Scores, seeds: Sequence[int], scale: ScoreScale) -> float:
    """Change of the mean score in the last doubling of the budget; 0 for a finished control."""
    finished = _finished_control(model, scale)
    return 0.0 if finished else mean([model.full[seed] - model.half[seed] for seed in seeds])


def _finished_control(model: Scores, scale: ScoreScale) -> bool:
    return model.control and scale.chance is not None and all(map(scale.at_chance, (model.full, model.half)))


def _reason(a: Scores, b: Scores, scale: ScoreScale, difference: Estimate, projected: float) -> Reason | None:
    if math.isnan(difference.low):
        return "no interval"
    if not math.isnan(projected) and _not_started(a, b, scale):
        return "at chance"
    if not (difference.above(0) or difference.below(0)):
        return "interval contains 0"
    if math.isnan(projected):
        return "no half budget"
    return None if projected * difference.mean > 0 else "still changing"


def _not_started(a: Scores, b: Scores, scale: ScoreScale) -> bool:
    """True if a model may still have to start learning."""
    for model, other in ((a, b), (b, a)):
        if _finished_control(model, scale):
            return not _finished_control(other, scale) and scale.at_chance(other.full)
    return any(scale.at_chance(scores) for model in (a, b) for scores in (model.half, model.full))
