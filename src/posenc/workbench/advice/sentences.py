"""Advice in sentences: the recommendation, what the choice gains, and what would decide more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from posenc.measure.statistics import Estimate, mean
from posenc.workbench.advice.controls import ControlGap
from posenc.workbench.advice.kinds import NO_POSITIONS, Metric
from posenc.workbench.advice.paired_gaps import negated, paired_gaps
from posenc.workbench.advice.race import Look, Race
from posenc.workbench.advice.verdict import FEWEST_SEEDS, NAMING_ERROR
from posenc.workbench.progress import format_duration
from posenc.workbench.report.number_format import count, interval, join_words, number, signed_number

NONE = "none"
VALIDATION = "the validation part"
MOST_NAMES, LEAST_LEFT = 6, 10.0
"""Names that a sentence lists; seconds that have to be left for a sentence on them."""


class Scale(NamedTuple):
    """Score of a race in words.

    Attributes:
        metric: The score.
        held_out: Phrase for the items that it was measured on, such as "held-out rows".
        controls: Control to its reason.
        validation: Phrase for the items by which candidates are chosen.
    """

    metric: Metric
    held_out: str
    controls: Mapping[str, str] = MappingProxyType({})
    validation: str = VALIDATION

    def name(self, candidate: str) -> str:
        """Name of a candidate in a sentence, in which "none" alone would read as no candidate."""
        return f"{self.controls.get(candidate, NO_POSITIONS)} ({candidate})" if candidate == NONE else candidate

    def names(self, candidates: Sequence[str]) -> str:
        """Names for a sentence; of many the first ones, and the number of the others."""
        words = [self.name(each) for each in candidates]
        return _listed(words)

    @property
    def digits(self) -> int:
        """Decimals of a score and of a difference."""
        return self.metric.digits

    def value(self, score: float) -> str:
        """A score of the race, for which larger is better, as the metric has it: "0.846" or "31.2 dB"."""
        return f"{number(self.metric.sign * score, self.digits)}{self.metric.unit}"

    def gap(self, gap: Estimate) -> str:
        """An improvement with its interval: "0.012 [0.004, 0.020]"."""
        reach = f" {interval(gap, self.digits)}" if gap.known else ""
        return f"{number(gap.mean, self.digits)}{reach}{self.metric.unit}"


def recommendation(race: Race, scale: Scale, untried: Sequence[str] = (), ahead: str = "") -> str:
    """The first sentence of the advice, with what it leaves open.

    Args:
        race: The race.
        scale: Its score.
        untried: Candidates that fit the data and were not tried.
        ahead: Phrase on a baseline that is ahead of the chosen candidate (``baseline_ahead``); "" without one.

    Returns:
        One sentence or two.
    """
    verdict = race.verdict
    chosen, first = scale.name(verdict.chosen), race.verdict.above[:1]
    scope = "".join(filter(None, (_scope(race, scale, untried), ahead)))
    if verdict.kind == "best":
        name, gap = verdict.next, verdict.gaps[verdict.next]
        return (
            f"Take {chosen}{scope}: {scale.metric.name} {scale.value(verdict.means[verdict.chosen])} on "
            f"{scale.held_out}, better than the next, {scale.name(name)}, by {scale.gap(gap)} (interval of "
            f"{percent(gap.level)}; of two equal candidates one would be named in at most one of "
            f"{round(1 / NAMING_ERROR)} such races)."
        )
    if (part := race.looks[-1].rung.fraction) < 1:
        return (
            f"Nothing is recommended yet{scope}: this budget allowed {part:.0%} of the usual training, and encodings "
            f"often overtake each other later. {chosen} is the best on {scale.validation} so far; "
            + _more(race, untried)
        )
    if first:
        return (
            f"Nothing is recommended yet{scope}: {chosen} was the best on {scale.validation}, but on "
            f"{scale.held_out} {scale.name(first[0])} is better, by {scale.gap(negated(verdict.gaps[first[0]]))}. "
            f"{_more(race, untried).capitalize()}"
        )
    if verdict.kind == "undecided" and not verdict.others:
        return (
            f"Nothing is recommended yet{scope}: {chosen} is ahead of all others, by {count(verdict.seeds, 'seed')} of "
            f"the {FEWEST_SEEDS} that an answer needs; {_more(race, untried)}"
        )
    listed = scale.names((verdict.chosen, *verdict.others))
    if verdict.kind == "equal":
        return (
            f"Take any of {listed}{scope}: no difference in {scale.metric.name} larger than "
            f"{number(verdict.largest, scale.digits)}{scale.metric.unit} was found on {scale.held_out}. "
            f"{chosen} was the best on {scale.validation}."
        )
    largest = f"{number(verdict.largest, scale.digits)}{scale.metric.unit}"
    possible = f" (differences up to {largest} are possible)" if math.isfinite(verdict.largest) else ""
    return (
        f"This budget cannot tell {listed} apart{possible}{scope}. {chosen} was the best on {scale.validation}; "
        f"{_more(race, untried)}"
    )


def _scope(race: Race, scale: Scale, untried: Sequence[str]) -> str:
    """Phrase on the candidates that were tried, if others fit the data too."""
    if not untried:
        return ""
    return f", of the {len(race.tried)} candidates that were tried (not tried: {scale.names(untried)})"


def late_sentences(race: Race, scale: Scale, untried: Sequence[str]) -> list[str]:
    """Sentences on candidates without an answer: those of half of the training alone, and those that were not tried.

    Args:
        race: The race.
        scale: Its score.
        untried: Candidates that fit the data and were not tried.

    Returns:
        The sentences.
    """
    made = []
    if race.behind:
        made.append(
            f"With half of the training {join_words([*map(scale.name, race.behind)])} "
            f"{'was' if len(race.behind) == 1 else 'were'} not shown to be worse, and no time was left for more."
        )
    if len(untried) > MOST_NAMES:
        made.append(f"Not tried: {', '.join(map(scale.name, untried))}. A larger budget tries them.")
    return made


def failed_sentences(failed: Mapping[str, str], scale: Scale) -> list[str]:
    """Sentences on candidates that left the race because a training failed.

    Args:
        failed: Candidate to the error.
        scale: Score of the race.

    Returns:
        One sentence per candidate.
    """
    return [f"{scale.name(name)} is not compared, because a training failed: {why}" for name, why in failed.items()]


def percent(share: float) -> str:
    """A share in percent, with a decimal if it has one: "95%" or "87.5%"."""
    return f"{100 * share:g}%"


def _listed(names: Sequence[str]) -> str:
    """Names for a sentence; of many the first ones, and the number of the others."""
    if len(names) <= MOST_NAMES:
        return join_words(names)
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"


def _more(race: Race, untried: Sequence[str]) -> str:
    """Sentence on what would decide a comparison: more time, or more data."""
    more = race.verdict.seconds_more
    if more is None:
        return "more seeds would not decide it, because the held-out data are few: more data would."
    more = max(more, race.next_seconds - race.left) + race.waiting_seconds
    others = f", which includes the {len(untried)} that were not tried" if untried else ""
    return (
        f"about {format_duration(more)} more may decide it{others}: the same command with a larger budget goes on from "
        "here."
    )


def stop_sentence(race: Race) -> str:
    """Sentence on a race that ended with time left; "" for another one.

    Args:
        race: The race.

    Returns:
        The sentence.
    """
    if not race.next_seconds or race.left < LEAST_LEFT:
        return ""
    return (
        f"The race ended with {format_duration(race.left)} left, because its next comparison takes about "
        f"{format_duration(race.next_seconds)} of the clock at the speed of this race."
    )


def control_sentence(gaps: Sequence[ControlGap], chosen: str, scale: Scale) -> str:
    """Sentence on the chosen candidate against the controls.

    Args:
        gaps: Its differences from them, in the order of the sentence.
        chosen: The candidate.
        scale: The score of the race.

    Returns:
        One sentence; "" without a control.
    """
    if not gaps:
        return ""
    known = [each for each in gaps if each.gap is not None]
    phrases = [_against(each, scale) for each in gaps]
    level = "95% intervals that hold together" if len(known) > 1 else "a 95% interval"
    note = f" ({scale.metric.name}; {level})" if known else ""
    return f"{scale.name(chosen)} {'; it '.join(phrases)}{note}."


def _against(each: ControlGap, scale: Scale) -> str:
    """Phrase on a control: "is better than bare coordinates (xyz) by 0.08 [0.06, 0.10]"."""
    control = f"{each.reason} ({each.name})"
    if (gap := each.gap) is None:
        return f"was not compared with {control}, because no time was left"
    where = f" on {scale.validation}, {rung_words(each.look)}" if each.look else f" on {scale.held_out}"
    if gap.above(0) or gap.below(0):
        word, size = ("better", gap) if gap.above(0) else ("worse", negated(gap))
        return f"is {word} than {control} by {scale.gap(size)}{where}"
    size = f"{signed_number(gap.mean, scale.digits)} {interval(gap, scale.digits)}{scale.metric.unit}"
    return f"is not told apart from {control}, difference {size}{where}"


def baseline_gaps(references: Mapping[str, Mapping[int, float]], race: Race, ratio: float) -> dict[str, Estimate]:
    """Differences of baselines from the chosen candidate on the test part.

    Args:
        references: Baseline -> seed -> score on the test part.
        race: The race.
        ratio: Test items over training items.

    Returns:
        Baseline to its difference, positive if it is better; without those that have less than two seeds.
    """
    chosen, last = race.verdict.chosen, race.looks[-1].scores
    mine = {seed: score.test for seed, score in last[chosen].items()}
    made = {}
    for name, values in references.items():
        shared = {seed: mine[seed] for seed in mine if seed in values}
        if len(shared) >= 2:
            made[name] = paired_gaps({chosen: shared, name: values}, chosen, ratio=ratio, level=0.95)[name]
    return made


def baseline_ahead(gaps: Mapping[str, Estimate], scale: Scale) -> str:
    """Phrase on the baseline that is farthest ahead of the chosen candidate; "" if none is.

    Args:
        gaps: As ``baseline_gaps`` returns them.
        scale: The score of the race.

    Returns:
        The phrase, which follows the name of the candidate.
    """
    name = max(gaps, key=lambda each: gaps[each].mean, default="")
    if not name or gaps[name].mean <= 0:
        return ""
    shown = "" if gaps[name].above(0) else ", which these few splits do not show to be more than chance"
    return f", but the baseline {name} without an encoding is ahead by {scale.gap(gaps[name])}{shown}"


def reference_sentences(
    references: Mapping[str, Mapping[int, float]], gaps: Mapping[str, Estimate], scale: Scale
) -> list[str]:
    """Sentences on baselines without an encoding, on the test part.

    Args:
        references: Baseline -> seed -> score on the test part.
        gaps: As ``baseline_gaps`` returns them.
        scale: The score of the race.

    Returns:
        One sentence per baseline.
    """
    made = []
    for name, values in references.items():
        if (gap := gaps.get(name)) is None:
            made.append(f"The baseline {name} has fewer than two scores, because no time was left for more.")
            continue
        word = "better" if gap.above(0) else "worse" if gap.below(0) else "not told apart from it"
        made.append(
            f"The baseline {name}, which reads the raw coordinates, has {scale.value(mean(list(values.values())))} and "
            f"is {word} ({signed_number(gap.mean, scale.digits)} {interval(gap, scale.digits)})."
        )
    return made


def rung_words(look: Look) -> str:
    """The training of a look in words: "after half of the training, 3 seeds"."""
    named = {1.0: "all", 0.5: "half"}
    return (
        f"after {named.get(look.rung.fraction, f'{look.rung.fraction:.0%}')} of the training, {look.rung.seeds} seeds"
    )


def look_sentences(looks: Sequence[Look], scale: Scale) -> list[str]:
    """One sentence per look: who led, and who was dropped.

    Args:
        looks: The looks.
        scale: Score of the race.

    Returns:
        The sentences.
    """
    made = []
    for look in looks:
        means = look.means()
        dropped = f"dropped: {', '.join(map(scale.name, look.dropped))}" if look.dropped else "nothing was dropped"
        kept = f", and {_listed([*map(scale.name, look.worse)])} stayed though worse" if look.worse else ""
        made.append(
            f"{rung_words(look).capitalize()}{joined_words(look)}: {scale.name(look.leader)} leads with "
            f"{scale.metric.name} {scale.value(means[look.leader])} on {scale.validation}; {dropped}{kept}."
        )
    if any(look.worse for look in looks):
        made.append(
            "A candidate that is worse stays where more training may change the order, and where fewer than two "
            "candidates would be left."
        )
    return made


def joined_words(look: Look) -> str:
    """Phrase on candidates that entered late; "" without one.

    Args:
        look: The comparison that they join.

    Returns:
        The phrase, such as ", with 2 further candidates".
    """
    return f", with {count(len(look.joined), 'further candidate')}" if look.joined else ""
