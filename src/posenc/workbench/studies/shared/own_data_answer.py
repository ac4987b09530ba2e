"""Answer of a page on a user's own data: only differences that may be stated, and what would decide the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from posenc.measure.budget_comparison import BudgetComparison, Reason
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.report.number_format import count, interval, join_words, number, signed_number
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import page_records, planning
from posenc.workbench.studies.shared.changes import options, with_twice_the_budget
from posenc.workbench.studies.shared.compared_score import (
    FEW_ITEMS,
    ComparedScore,
    ComparedVariants,
    compared,
    item_noun,
)
from posenc.workbench.studies.shared.page_data import PageData

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

FEW_SEEDS = 3
"""With fewer seeds an interval is so wide that "not above chance" asks for seeds and not for more training."""
LONGEST_MINUTES = 90
"""Number of minutes from which a time is written in hours."""
REASONS: dict[Reason, str] = {
    "no interval": "no interval",
    "at chance": "not shown to be above chance at half the steps",
    "interval contains 0": "the interval contains 0",
    "no half budget": "runs with half the steps are missing",
    "still changing": "the difference still changes",
    "still learning": "both still gain more than three times their difference",
}
"""Reason for not stating a difference, in words."""
MORE_TRAINING: frozenset[Reason] = frozenset({"at chance", "still changing", "still learning"})
"""Reasons that a larger budget may remove."""
UNDECIDED = "cannot be told yet"
UNCONNECTED_SEEDS = " Some variants have no seed in common, so the means of all cannot be compared: run the same seeds."
UNEQUAL_SEEDS = " Some variants lack seeds that others have; their means are estimated as if all had the same seeds."


@dataclass(frozen=True)
class Pair:
    """Two variants under a score, with their comparison."""

    variants: ComparedVariants
    a: str
    b: str
    comparison: BudgetComparison

    @property
    def size(self) -> str:
        """The difference with its interval: "+0.12 [0.05, 0.19]"; more digits where a bound would read as 0."""
        score, difference = self.variants.score, self.comparison.difference
        digits, most = score.digits, score.digits + 3
        bounds = (difference.low, difference.high) if difference.known else ()
        while digits < most and any(each and float(f"{each:.{digits}f}") == 0 for each in bounds):
            digits += 1
        return f"{signed_number(difference.mean, digits)}{score.ending} {interval(difference, digits)}"

    @property
    def reason(self) -> str:
        """Reason for not stating the difference; "" if it is stated."""
        return "" if self.comparison.reason is None else _reason(self.variants.score, self.comparison.reason)

    @property
    def verdict(self) -> str:
        """The statement as a sentence part: "gridpe is better than nope", or the reason for none."""
        if not self.comparison.stated:
            return f"{UNDECIDED}: {self.reason}"
        return f"{self.a} is {'better' if self.variants.better(self.comparison) else 'worse'} than {self.b}"


def pairs_of(variants: ComparedVariants) -> list[Pair]:
    """Return each variant against each reference, and the best variant against each other one.

    Args:
        variants: The variants under a score.

    Returns:
        The pairs, each once, in the order of the references.
    """
    references, ranked = variants.references, variants.ranked
    wanted = [(label, reference) for reference in references for label in ranked if label != reference]
    wanted += [(ranked[0], label) for label in ranked[1:]] if ranked else []
    distinct = dict.fromkeys(pair for pair in wanted)
    kept = [pair for at, pair in enumerate(distinct) if (pair[1], pair[0]) not in [*distinct][:at]]
    made = [(a, b, variants.compare(a, b)) for a, b in kept]
    return [Pair(variants, a, b, comparison) for a, b, comparison in made if comparison is not None]


def answer(study: Study, data: PageData) -> tuple[str, ...]:
    """Answer the question of a study on a user's own data.

    Args:
        study: The study.
        data: Data of the page.

    Returns:
        The headline, then further paragraphs: differences from the references, commands that would decide what cannot
        be told yet, and the smallest difference that few held-out items show.
    """
    groups = [variants for score in study.compared(data) if (variants := compared(data, score)).ranked]
    if not groups:
        return ("No answer yet: no model has finished.",)
    best = " ".join(best_sentence(data, variants) for variants in groups)
    against = [" ".join(_against(variants, reference)) for variants in groups for reference in variants.references]
    pairs = [pair for variants in groups for pair in pairs_of(variants)]
    return (
        best,
        *filter(None, against),
        *_same_items(data, groups),
        *_next_commands(study, data, pairs),
        *_few_items(data, groups),
    )


def best_sentence(data: PageData, variants: ComparedVariants) -> str:
    """Name the best variant if all others may be stated to be worse, and the undecided ones otherwise.

    Args:
        data: Data of the page.
        variants: The variants under a score.

    Returns:
        One or two sentences.
    """
    score, (first, *others) = variants.score, variants.ranked
    heading = f"Best {score.where}".strip()
    size = f"{score.name} {number(variants.means[first], score.digits)}{score.ending}"
    size = f"{size} {data.budget(score.condition)}".rstrip()
    ahead = _baselines_ahead(variants, first) + _given(variants)
    if variants.seeds_differ:
        ahead += UNEQUAL_SEEDS if variants.means_compare else UNCONNECTED_SEEDS
    if not others:
        return f"{heading}: {UNDECIDED}, because {first} is the only trained variant with results ({size}).{ahead}"
    made = [(label, variants.compare(first, label)) for label in others]
    undecided = {label: each for label, each in made if each is None or not (each.stated and variants.better(each))}
    if not undecided:
        second = Pair(variants, first, others[0], next(each for _, each in made if each is not None))
        return f"{heading}: {first}, {size}; difference from the second, {others[0]}: {second.size}.{ahead}"
    reasons = _by_reason(score, undecided.items())
    tied = [first, *(label for label in others if variants.means[label] == variants.means[first])]
    has = f"{', '.join(tied[:-1])} and {tied[-1]} have" if len(tied) > 1 else f"{first} has"
    lead = f"Of the trained encodings {has} the {_extreme(score)} {size}."
    return f"{heading}: {UNDECIDED}. {lead} {first} is not shown to be better than {reasons}.{ahead}"


def _baselines_ahead(variants: ComparedVariants, first: str) -> str:
    """Sentence on the baselines without a training whose mean is better than that of the best trained variant."""
    score, sign = variants.score, 1 if variants.score.higher else -1
    beside = (*score.controls, *score.given)
    known = [label for label in variants.untrained if label in variants.scores and label not in beside]
    ahead = [label for label in known if sign * (variants.means[label] - variants.means[first]) > 0]
    if not ahead:
        return ""
    ahead.sort(key=lambda label: -sign * variants.means[label])
    listed = ", ".join(f"{label} {number(variants.means[label], score.digits)}{score.ending}" for label in ahead)
    word = "higher" if score.higher else "lower"
    baseline, has = ("baseline", "has") if len(ahead) == 1 else ("baselines", "have")
    return f" The {baseline} {listed} {has} a {word} mean than every trained encoding."


def _given(variants: ComparedVariants) -> str:
    """Sentence on the variants to which the compared property is given."""
    score = variants.score
    listed = [
        f"{label} {number(variants.means[label], score.digits)}{score.ending}"
        for label in variants.scores
        if label in score.given
    ]
    return f" Not ranked, as controls ({score.given_about}): {', '.join(listed)}." if listed else ""


def _extreme(score: ComparedScore) -> str:
    return "highest" if score.higher else "lowest"


def _reason(score: ComparedScore, reason: Reason) -> str:
    """Reason for not stating a difference in words; a baseline that stands for chance is named."""
    name = score.chance_name or (score.learned_by.chance_name if score.learned_by is not None else "")
    return f"not shown to be better than {name}" if name and reason == "at chance" else REASONS[reason]


def _by_reason(score: ComparedScore, pairs: Iterable[tuple[str, BudgetComparison | None]]) -> str:
    """Variants grouped by the reason: "rope, xyz (the difference still changes) and nope (..)"."""
    groups: dict[str, list[str]] = {}
    for label, comparison in pairs:
        if comparison is None:
            reason = "no seed in common"
        elif comparison.reason is None:
            reason = "worse in the seeds of both"
        else:
            reason = _reason(score, comparison.reason)
        groups.setdefault(reason, []).append(label)
    return join_words([f"{', '.join(labels)} ({reason})" for reason, labels in groups.items()])


def _against(variants: ComparedVariants, reference: str) -> Iterator[str]:
    """Sentences on the differences of all variants from a reference."""
    score, others = variants.score, [label for label in variants.ranked if label != reference]
    made = [(label, variants.compare(label, reference)) for label in others]
    pairs = [Pair(variants, label, reference, each) for label, each in made if each is not None]
    for word, better in (("Better", True), ("Worse", False)):
        stated = [each for each in pairs if each.comparison.stated and variants.better(each.comparison) == better]
        if stated:
            listed = ", ".join(f"{each.a} {each.size}" for each in stated)
            yield f"{word} than {reference} in {score.title}: {listed}."
    undecided = [(each.a, each.comparison) for each in pairs if not each.comparison.stated]
    if undecided:
        yield f"Differences from {reference} in {score.title} that cannot be told yet: {_by_reason(score, undecided)}."


def _next_commands(study: Study, data: PageData, pairs: Sequence[Pair]) -> Iterator[str]:
    """Sentences with the commands that would decide what cannot be told yet, and their time."""
    undecided = [pair for pair in pairs if not pair.comparison.stated]
    reasons = {pair.comparison.reason for pair in undecided}
    full, half = _seconds(data, data.specs), _seconds(data, data.half_specs)
    few = "at chance" in reasons and len({spec.seed for spec in data.specs}) < FEW_SEEDS  # their intervals are wide
    if reasons & MORE_TRAINING - ({"at chance"} if few else set()):
        command = _command(study, data, with_twice_the_budget(study.presets, data.request))
        yield f"More training may decide (twice the steps, {_duration(data, 2 * full)} more): {command}"
    if "no half budget" in reasons:
        command = _command(study, data, data.request)
        yield f"Runs with half the steps are missing ({_duration(data, full / 2)} more): {command}"
    contained = [
        pair.comparison for pair in undecided if pair.comparison.reason in ("interval contains 0", "no interval")
    ]
    if few or any(not abs(each.difference.mean) <= each.undecided for each in contained):
        seeds = {spec.seed for spec in data.specs}
        request = replace(data.request, seeds=tuple(range(2 * max(len(seeds), 1))))
        cost = _duration(data, full + half)
        yield f"More seeds may decide (twice the seeds, {cost} more): {_command(study, data, request)}"
    elif contained:
        yield "More seeds cannot decide where the interval contains 0, because the held-out items are few: add data."


def _same_items(data: PageData, groups: Sequence[ComparedVariants]) -> Iterable[str]:
    """Sentences on intervals that do not cover other held-out items, because the variance of an item is not known."""
    said = dict[str, None]()
    for variants in groups:
        held_out, noun = variants.scale.held_out, item_noun(data, variants.score)
        if held_out is not None and not held_out.split_by_seed and not variants.score.proportion:
            same = f"All seeds are tested on the same {count_of(held_out.items, noun)}."
            said[f"{same} The intervals cover the randomness of the training, and not the choice of these {noun}."] = (
                None
            )
    return said


def _few_items(data: PageData, groups: Sequence[ComparedVariants]) -> Iterator[str]:
    """Sentences on the smallest difference that few held-out items show."""
    for variants in groups:
        held_out, score = variants.scale.held_out, variants.score
        sizes = [pair.comparison.smallest for pair in pairs_of(variants)]
        sizes = [size for size in sizes if math.isfinite(size)]
        if held_out is None or held_out.items >= FEW_ITEMS or not sizes:
            continue
        seeds = max(pair.comparison.difference.n for pair in pairs_of(variants))
        each = "each seed" if held_out.split_by_seed else "the test part"
        items, are = count_of(held_out.items, item_noun(data, score)), "is" if held_out.items == 1 else "are"
        seen = _smallest_seen(sizes, score)
        yield f"Only {items} {are} held out in {each}. With {count(seeds, 'seed')}, {seen}."


def _smallest_seen(sizes: Sequence[float], score: ComparedScore) -> str:
    """Clause on the smallest differences of pairs that would be seen; a difference larger than possible is none."""
    possible = sorted(size for size in sizes if size <= score.width)
    if not possible:
        return f"four of five repetitions would show no difference in {score.title}, not even the largest possible one"
    ends = dict.fromkeys(f"{number(size, score.digits)}{score.ending}" for size in (possible[0], possible[-1]))
    shown = f"four of five repetitions would show a true difference in {score.title} of {next(iter(ends))} or more"
    if len(possible) < len(sizes):
        return f"{shown} for some pairs of variants, and not even the largest possible one for the others"
    if len(ends) == 1:
        return shown
    return (
        f"{shown} for the pair of variants that differs least between seeds, and of {[*ends][-1]} or more for the pair "
        "that differs most"
    )


def _seconds(data: PageData, specs: Sequence[RunSpec]) -> float:
    """Stored seconds of finished runs."""
    identities = dict.fromkeys(spec.identity for spec in specs)
    return math.fsum(float(data.timings.get(each, {}).get("seconds", 0)) for each in identities)


def _duration(data: PageData, seconds: float) -> str:
    """Time of runs of that many seconds in all on the machine of the stored runs: "about 12 minutes"."""
    machines = [data.store.read(spec.identity).provenance.get("machine") for spec in data.done[:1]]
    cores = next((int(each["cores"]) for each in machines if isinstance(each, dict) and each.get("cores")), 1)
    minutes = math.ceil(seconds / 60 / cores)
    text = count(minutes, "minute") if minutes < LONGEST_MINUTES else f"{minutes / 60:.1f} hours"
    return f"about {text}"


def _command(study: Study, data: PageData, request: Request) -> str:
    """The command that makes the runs of a request in the store of the page.

    It names the data and the variants of the page, which a request for a report does not name.
    """
    record = page_records.own(data.store, data.specs)
    named = replace(request, source=Path(record.name)) if record else request
    schemes = _schemes(study, data, replace(named, schemes=None))
    source = page_records.source_in_command(data.store, record) if record else quote(str(request.source or ""))
    words = ["posenc", "run", study.name, *([source] if named.source else []), "--preset", request.preset]
    lists = {"--panels": request.panels, "--conditions": request.conditions}
    for option, values in (lists | {"--schemes": schemes, "--seeds": request.seeds}).items():
        words += [option, *(quote(str(value)) for value in values)] if values else []
    return " ".join(
        [
            *words,
            *page_records.reading_flags(record),
            *options(study.presets, request),
            "--out",
            page_records.path_in_command(data.store.root),
        ]
    )


def _schemes(study: Study, data: PageData, unnamed: Request) -> list[str]:
    """Variants of the page, sorted; none if they are those of a request that names none."""
    labels = {spec.variant for spec in data.specs}
    usual = {label for variants in planning.needed(study, unnamed).values() for label in variants}
    return [] if labels == usual else sorted(labels)
