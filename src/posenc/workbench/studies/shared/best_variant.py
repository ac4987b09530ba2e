"""Best variant of a study, compared with every other one by their paired difference, and with references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.measure.least_squares_means import least_squares_means
from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, paired_difference, t_interval
from posenc.workbench.report.number_format import (
    count,
    digits_off_zero,
    interval,
    join_words,
    number,
    signed_number,
)
from posenc.workbench.report.result_rows import BySeed

WITHOUT_ENCODING = ("none", "nope")
"""Variants without an encoding. A sentence on the best variant gives their score too."""
MAX_NAMES = 12
"""Largest number of variants that a sentence lists; further ones are counted."""


def no_answer(finished: bool) -> str:
    """Sentence of a page that has no answer to the question of its study.

    Args:
        finished: True if a run of the page has finished.

    Returns:
        The sentence.
    """
    if finished:
        return "No answer yet: the finished runs belong to other comparisons, which the panels show."
    return "No answer yet: no run has finished."


class Scores:
    """Scores of variants in one metric, formatted for sentences.

    Attributes:
        values: Variant to seed to score.
        metric: Name of the score, such as "PSNR".
        unit: Unit of the score; "" if it has none.
        higher: True if higher scores are better.
        over: Noun for the keys of the inner mapping, such as "seed" or "image".
        digits: Decimals of the scores.
        bounds: Lowest and highest possible score.
    """

    def __init__(
        self,
        values: Mapping[str, BySeed],
        *,
        metric: str,
        unit: str = "",
        higher: bool = True,
        over: str = "seed",
        digits: int = 2,
        bounds: Bounds = UNBOUNDED,
    ) -> None:
        self.values = {variant: scores for variant, scores in values.items() if scores}
        self.metric, self.higher, self.over, self.digits, self.bounds = metric, higher, over, digits, bounds
        self.ending = f" {unit}" if unit else ""
        self.means = least_squares_means(self.values)

    @property
    def adjusted(self) -> bool:
        """True if a mean, as printed, is not that of the variant's own seeds, because others have more or fewer."""
        own = {variant: sum(scores.values()) / len(scores) for variant, scores in self.values.items()}
        return any(number(own[each], self.digits) != number(self.means[each], self.digits) for each in own)

    @property
    def order(self) -> list[str]:
        """Variants by their mean score as if all had the same seeds, the best first.

        A variant that another one beats in the seeds of both is not first.
        """
        order = sorted(self.means, key=lambda variant: ((-1 if self.higher else 1) * self.means[variant], variant))
        first = next((each for each in order if not any(self.better(other, each) for other in order)), None)
        return order if first is None else [first, *(each for each in order if each != first)]

    def difference(self, a: str, b: str) -> Estimate | None:
        """Difference a − b, paired by seed; None without a common seed."""
        if not self.values[a].keys() & self.values[b].keys():
            return None
        return paired_difference(self.values[a], self.values[b], bounds=self.bounds)

    def better(self, a: str, b: str) -> bool:
        """True if the whole interval of the paired difference says that a is better than b."""
        gap = self.difference(a, b)
        return gap is not None and (gap.above(0) if self.higher else gap.below(0))

    def size(self, variant: str) -> str:
        """Mean score of a variant: "PSNR 30.20 dB"."""
        return f"{self.metric} {number(self.means[variant], self.digits)}{self.ending}"

    def gap(self, a: str, b: str) -> str:
        """Difference a − b with its interval: "+0.20 dB [0.10, 0.30] (3 seeds)"."""
        difference = self.difference(a, b)
        if difference is None:
            return f"no {self.over} in common"
        digits = digits_off_zero((difference.mean, difference.low, difference.high), self.digits)
        size = f"{signed_number(difference.mean, digits)}{self.ending}"
        size += f" {interval(difference, digits, over=self.over)}"
        return f"{size} ({count(difference.n, self.over)})" if difference.known else size


def best_variant(
    values: Mapping[str, BySeed],
    *,
    metric: str,
    unit: str,
    where: str = "",
    higher: bool = True,
    over: str = "seed",
    digits: int = 2,
    bounds: Bounds = UNBOUNDED,
    references: Mapping[str, BySeed] | None = None,
) -> str:
    """Name the best variant if it is better than every other one, and otherwise all that may be the best.

    A variant is better than another if the 95% t-interval of their difference, paired by seed (or by what `over`
    names), excludes 0. A single variant is never called the best.

    Args:
        values: Variant to seed to score.
        metric: Name of the score, such as "PSNR".
        unit: Unit of the score; "" if it has none.
        where: Data that the scores are of, such as "on held-out pixels".
        higher: True if higher scores are better.
        over: Noun for the keys of the inner mapping, such as "seed" or "image".
        digits: Decimals of the scores.
        bounds: Lowest and highest possible score.
        references: Name to seed to score of models that are not variants, such as a bigram. Each is compared with the
            best variant.

    Returns:
        One or more sentences; "" for no variant and no reference.
    """
    known = {name: scores for name, scores in (references or {}).items() if scores}
    scores = Scores(
        {**values, **known}, metric=metric, unit=unit, higher=higher, over=over, digits=digits, bounds=bounds
    )
    order = [variant for variant in scores.order if variant not in known]
    if not order:
        listed = join_words([f"{name}, {scores.size(name)}" for name in known])
        return f"No encoding has results{f' {where}' if where else ''}. For reference: {listed}." if known else ""
    sentences = [_answer(scores, order, f"Best {where}" if where else "Best")]
    named = (order[0], *order[1:2])
    sentences += [_without(scores, label) for label in WITHOUT_ENCODING if label in order and label not in named]
    sentences += [_reference(scores, order, name) for name in known]
    if scores.adjusted:
        sentences.append(f"Means are estimated as if all had the same {over}s.")
    return " ".join(sentences)


def _answer(scores: Scores, order: Sequence[str], heading: str) -> str:
    """Sentence on the best variant, or on those that are not distinguishable from it."""
    best, *others = order
    if not others:
        return f"{heading}: inconclusive, {best} is the only trained variant with results ({scores.size(best)})."
    second = others[0]
    differences = {other: scores.difference(best, other) for other in others}
    if not any(each is not None and each.known for each in differences.values()):
        shared = max((each.n for each in differences.values() if each is not None), default=0)
        ways = {0: f"without a {scores.over} in common", 1: f"from one {scores.over}"}
        why = ways.get(shared, f"from {scores.over}s that all differ equally")
        which = "Highest" if scores.higher else "Lowest"
        equal = [best, *(other for other in others if scores.means[other] == scores.means[best])]
        if len(equal) > 1:
            return f"{heading}: inconclusive {why}. {which} mean: {join_words(equal)} alike, {scores.size(best)}."
        means = f"{which} mean: {best}, {scores.size(best)}; second: {second}, {scores.size(second)}"
        return f"{heading}: inconclusive {why}. {means}."
    tested = [other for other in others if (each := differences[other]) is not None and each.known]
    close = [other for other in tested if not scores.better(best, other)]
    apart = [other for other in others if other not in tested]
    rest = f" Not compared with {best}, for want of two common {scores.over}s: {_listed(apart)}." if apart else ""
    if not close:
        heading = f"{heading} of those compared" if apart else heading
        gap = scores.gap(best, tested[0])
        return f"{heading}: {best}, {scores.size(best)}; difference from the second, {tested[0]}: {gap}.{rest}"
    tied = f"{best} or {close[0]}" if len(close) == 1 else f"any of {_listed([best, *close])}"
    gap = f"difference from {close[0]}: {scores.gap(best, close[0])}"
    return f"{heading}: {tied}, not distinguishable. {best}: {scores.size(best)}; {gap}.{rest}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


def _without(scores: Scores, label: str) -> str:
    """Score without an encoding; its interval is that of its own seeds, so that an adjusted mean has none."""
    estimate = t_interval(list(scores.values[label].values()), bounds=scores.bounds)
    size = f" {interval(estimate, scores.digits)}" if estimate.known and not scores.adjusted else ""
    return f"Without an encoding: {number(scores.means[label], scores.digits)}{scores.ending}{size}."


def _reference(scores: Scores, order: Sequence[str], name: str) -> str:
    """Sentence that compares a reference with the best variant."""
    best = order[0]
    if scores.better(name, best):
        word = f"better than {'every variant' if all(scores.better(name, each) for each in order) else best}"
    elif scores.better(best, name):
        word = f"worse than {best}"
    else:
        word = f"not distinguishable from {best}"
    size = f"{number(scores.means[name], scores.digits)}{scores.ending}"
    difference = scores.difference(name, best)
    if difference is None or not difference.known:  # nothing was tested
        return f"For reference, {name}: {size} (difference from {best}: {scores.gap(name, best)})."
    return f"For reference, {name}: {size}, {word} (difference {scores.gap(name, best)})."
