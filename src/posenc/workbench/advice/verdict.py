"""Answer of a race from scores on the test part: one candidate, several that do not differ, or not decided.

One candidate is named alone if each of its differences from the others is above 0 in its own interval. This states
that it is better than all others, which is false as soon as one of them is as good. So the intervals need no correction
for their number (intersection-union test). They do need one for the choice. A training that was lucky is so on both
parts: with one of two equal candidates chosen for its scores, the difference on the test part is above 0 too often, and
if both parts have the same errors it is the larger of two. An interval with two tails is right in this worst case too
(rank verification). Between two equal candidates at most one of eight races errs, whatever the parts have in common.

References:
    Berger 1982, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24, 295-300.
    Hung and Fithian 2019, "Rank verification for exponential families", arXiv 1610.03944: the best of several groups is
    compared with the next one by a two-tailed test without a correction for their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.measure.statistics import Estimate, mean
from posenc.workbench.advice.paired_gaps import BySeed, negated, paired_gaps, seeds_needed

FEWEST_SEEDS = 3
"""Seeds of whole trainings that an answer needs."""
ENOUGH_SEEDS = 10
"""Seeds with which a variance is known well enough to say that more of them cannot decide."""
NAMING_ERROR = 0.125
"""Share of races between two equal candidates that may name one alone: 5 of 40."""
MARGIN = 0.1
"""Differences up to this share of the distance from the worst candidate to the chosen one are small."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Answer of a race.

    Attributes:
        kind: "best" for one candidate that is better than every other; "equal" for several without a difference that
            matters; "undecided" for several whose intervals are too wide.
        chosen: Candidate with the best score on the validation part.
        others: Candidates that the test part does not tell apart from it, the best first.
        means: Candidate to its mean score on the test part; empty if no seed was left to test.
        gaps: Candidate to the difference of the chosen one from it on the test part, positive if the chosen is better.
            The intervals hold together. If the chosen one is named alone, each has its own coverage, ``level``.
        largest: Largest difference between the chosen one and ``others`` that the intervals allow; nan without one.
        seconds_more: Time after which it may be decided; None if more seeds cannot decide it.
        seeds: Number of seeds of the comparison.
    """

    kind: Literal["best", "equal", "undecided"]
    chosen: str
    others: tuple[str, ...] = ()
    means: Mapping[str, float]
    gaps: Mapping[str, Estimate]
    largest: float = math.nan
    seconds_more: float | None = None
    seeds: int = 0

    @property
    def above(self) -> tuple[str, ...]:
        """Candidates that the test part shows to be better than the chosen one, the best first."""
        return tuple(name for name in self.others if name in self.gaps and self.gaps[name].below(0))

    @property
    def next(self) -> str:
        """Candidate with the best mean on the test part beside the chosen one; "" without one."""
        return max((name for name in self.means if name != self.chosen), key=self.means.__getitem__, default="")


def verdict_of(
    test: Mapping[str, BySeed],
    chosen: str,
    *,
    worst: float,
    ratio: float,
    level: float,
    seconds_of_a_seed: float,
    whole: bool = True,
    fresh: bool = False,
) -> Verdict:
    """Compare the chosen candidate with the others on the test part.

    Args:
        test: Candidate -> seed -> score on the test part; larger is better.
        chosen: The candidate that the validation part has chosen.
        worst: Smallest mean score of all candidates of the race.
        ratio: Test items over training items, if each seed has another split; otherwise 0.
        level: Coverage of all intervals together (Bonferroni), if none is named alone.
        seconds_of_a_seed: Time of one more seed of all candidates, each with the whole training.
        whole: False if the trainings are shorter than usual. Nothing is decided then, because encodings that lead after
            a short training are often overtaken.
        fresh: True if other trainings chose than are compared, so that no luck of a training shows in both.

    Returns:
        The answer.

    Example:
        >>> from posenc.workbench.advice.verdict import verdict_of
        >>> test = {"rope": {0: 0.90, 1: 0.91, 2: 0.92}, "none": {0: 0.50, 1: 0.52, 2: 0.51}}
        >>> verdict_of(test, "rope", worst=0.51, ratio=0.0, level=0.95, seconds_of_a_seed=1.0).kind
        'best'
    """
    seeds = min(map(len, test.values()), default=0)
    if seeds == 0:
        rest = tuple(name for name in test if name != chosen)
        parts = {"chosen": chosen, "others": rest, "means": {}, "gaps": {}}
        return Verdict(kind="undecided", seconds_more=2 * seconds_of_a_seed, **parts)
    means = {name: mean(list(each.values())) for name, each in test.items()}
    each_level = 1 - (1 - level) / max(1, len(test) - 1)
    below = paired_gaps(test, chosen, ratio=ratio, level=each_level)
    gaps = {name: negated(gap) for name, gap in below.items()}
    own_level = 1 - (2 if fresh else 1) * NAMING_ERROR
    narrow = {name: negated(gap) for name, gap in paired_gaps(test, chosen, ratio=ratio, level=own_level).items()}
    close = sorted((name for name, gap in gaps.items() if not gap.above(0)), key=lambda name: -means[name])
    parts = {"chosen": chosen, "others": tuple(close), "means": means, "gaps": gaps, "seeds": seeds}
    if not whole:
        return Verdict(kind="undecided", seconds_more=max(seeds, FEWEST_SEEDS) * seconds_of_a_seed, **parts)
    if seeds >= FEWEST_SEEDS and all(gap.above(0) for gap in narrow.values()):
        return Verdict(kind="best", **{**parts, "gaps": narrow, "others": ()})
    if not close:  # all differences are clear, by fewer seeds than an answer needs
        return Verdict(kind="undecided", seconds_more=max(1, FEWEST_SEEDS - seeds) * seconds_of_a_seed, **parts)
    if any(gaps[name].below(0) for name in close):  # the two parts disagree
        return Verdict(kind="undecided", seconds_more=max(seeds, FEWEST_SEEDS) * seconds_of_a_seed, **parts)
    largest = max(max(abs(gaps[name].low), abs(gaps[name].high)) for name in close)
    small = MARGIN * (means[chosen] - worst)
    if largest <= small:
        return Verdict(kind="equal", largest=largest, **parts)
    needed = _seeds_needed([gaps[name] for name in close], small, ratio)
    if needed is None and seeds < ENOUGH_SEEDS:  # so few seeds know neither the differences nor their variance
        needed = ENOUGH_SEEDS
    more = None if needed is None else max(1, needed - seeds) * seconds_of_a_seed
    return Verdict(kind="undecided", largest=largest, seconds_more=more, **parts)


def _seeds_needed(gaps: Sequence[Estimate], small: float, ratio: float) -> int | None:
    """Seeds after which every difference is above 0 or small, if the means stay as they are."""
    needed = [seeds_needed(gap, max(abs(gap.mean), small - abs(gap.mean)), ratio) for gap in gaps]
    return None if None in needed else max(each for each in needed if each is not None)
