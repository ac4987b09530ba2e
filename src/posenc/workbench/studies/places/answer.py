"""The answer of the places study: the best by each split, the gap between splits, and boosting with coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.held_out_interval import HeldOut, held_out_interval
from posenc.measure.least_squares_means import least_squares_means
from posenc.measure.statistics import Estimate, mean
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.report.seed_interval import seed_interval
from posenc.workbench.studies.places.conditions import SPLITS, PlacesCondition, finished
from posenc.workbench.studies.places.variants import BOOSTING, COORDINATES, NONE, READ_BY, is_baseline
from posenc.workbench.studies.shared.best_variant import no_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared_accuracy, held_out_items
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import metric_bounds

R2, ACCURACY = "r2", "accuracy"
NAMES = {R2: "R2", ACCURACY: "accuracy"}
DIGITS = 3
REFERENCES = (NONE, COORDINATES, BOOSTING)
MOST_NAMES = 4
"""Largest number of variants that a sentence names beside the best; further ones are counted."""


def metric_of(data: PageData, label: str) -> str:
    """Main metric of a condition: R2 of values, accuracy of classes."""
    return ACCURACY if class_count(data, label) else R2


def class_count(data: PageData, label: str) -> int:
    """Number of classes of the target of a condition; 0 for values."""
    spec = next(spec for spec in data.specs if spec.condition == label)
    record = data.store.record_of(spec)
    return 0 if record is None else len(record.classes)


def held_out(data: PageData, label: str) -> HeldOut | None:
    """Held-out rows of a condition: folds of one table, so that the scores of seeds depend on each other."""
    if (own := held_out_items(data, label)) is not None:
        return own
    record = data.store.record_of(next(spec for spec in data.specs if spec.condition == label))
    counts = {} if record is None else {part.name: part.counts["rows"] for part in record.parts}
    if not counts.get("test"):
        return None
    return HeldOut(counts["test"], counts["training"] + counts["validation"], split_by_seed=True)


def estimate(data: PageData, label: str, seeds: BySeed) -> Estimate:
    """Mean of a score over folds with the interval of Nadeau and Bengio."""
    return seed_interval(
        list(seeds.values()), bounds=metric_bounds(metric_of(data, label)), held_out=held_out(data, label)
    )


def gap_estimate(data: PageData, label: str, first: BySeed, second: BySeed) -> Estimate | None:
    """Paired difference of two variants over folds; None without two common folds."""
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        return None
    values = [first[seed] - second[seed] for seed in shared]
    return held_out_interval(values, held_out(data, label))


def first_sentences(data: PageData) -> list[str]:
    """The best by each split, what the splits tell apart, and the comparison with boosting."""
    conditions = finished(data)
    scores = {each.label: values_by_scheme(data.rows, metric_of(data, each.label), each.label) for each in conditions}
    best = {each.label: _best(scores[each.label]) for each in conditions if scores[each.label]}
    conditions = [each for each in conditions if each.label in best]
    if not conditions:
        return []
    sentences = [_best_sentence(data, each, best[each.label], scores[each.label]) for each in conditions]
    if fall := _fall(data, conditions, scores):
        sentences.append(fall)
    sentences += [_against_boosting(data, each, scores[each.label]) for each in conditions]
    return [sentence for sentence in sentences if sentence]


def headline(data: PageData) -> str:
    """The first sentences of the answer."""
    return " ".join(first_sentences(data)) or no_answer(bool(data.done))


def first(data: PageData) -> Sequence[str]:
    """The first sentences of a page on the user's own data."""
    return (" ".join(sentences),) if (sentences := first_sentences(data)) else ()


def _best(values: dict[str, BySeed], *, trained: bool = False) -> str:
    """Variant with the highest mean; trained: among networks with coordinates alone."""
    means = least_squares_means(values)
    chosen = [label for label in values if not (trained and (is_baseline(label) or label == NONE))]
    return max(chosen, key=means.__getitem__, default="")


def _sized(data: PageData, label: str, seeds: BySeed) -> str:
    found = estimate(data, label, seeds)
    reach = f" {interval(found, DIGITS)}" if found.known else ""
    return f"{NAMES[metric_of(data, label)]} {number(found.mean, DIGITS)}{reach}"


def _best_sentence(data: PageData, each: PlacesCondition, label: str, values: dict[str, BySeed]) -> str:
    """The best of networks and baselines together, or all that the intervals do not tell apart from it."""
    where, sized = f"with the {SPLITS[each.split]}", _sized(data, each.label, values[label])
    gaps = {
        other: gap_estimate(data, each.label, values[label], seeds) for other, seeds in values.items() if other != label
    }
    if not any(gap is not None and gap.known for gap in gaps.values()):
        return f"Highest of all models {where}: {label}, {sized}; inconclusive, because no two folds are finished."
    means = least_squares_means(values)
    order = sorted(gaps, key=lambda other: -means[other])
    close = [other for other in order if (gap := gaps[other]) is None or not gap.above(0)]
    if not close:
        return f"Best of all models {where}: {label}, {sized}."
    more = f" and {len(close) - MOST_NAMES} more" if len(close) > MOST_NAMES else ""
    named = f"any of {', '.join([label, *close[:MOST_NAMES]])}{more}" if len(close) > 1 else f"{label} or {close[0]}"
    return f"Best of all models {where}: {named}, not distinguishable. The highest is {label}, {sized}."


def _fall(data: PageData, conditions: Sequence[PlacesCondition], scores: dict[str, dict[str, BySeed]]) -> str:
    """Sentence on the scores of the best of the random split at places away from the training places."""
    by_split = {each.split: each for each in conditions}
    if "random" not in by_split or len(by_split) < 2:
        return ""
    label = _best(scores[by_split["random"].label])
    name = NAMES[metric_of(data, by_split["random"].label)]
    parts = [
        f"{number(mean(list(scores[each.label][label].values())), DIGITS)} with the {SPLITS[each.split]}"
        for each in conditions
        if label in scores[each.label]
    ]
    return (
        f"The splits ask different questions: {label} has {name} {' and '.join(parts)}. A random split has a training "
        "place beside each test place."
    )


def _against_boosting(data: PageData, each: PlacesCondition, values: dict[str, BySeed]) -> str:
    """Sentence on the best network, and on boosting with encodings, against boosting with raw coordinates."""
    if BOOSTING not in values:
        return ""
    network = _best(values, trained=True)
    encoded = {label: seeds for label, seeds in values.items() if label.startswith(f"{BOOSTING}{READ_BY}")}
    encoded.pop(f"{BOOSTING}{READ_BY}{NONE}", None)
    phrases = []
    for label in filter(None, (network, _best(encoded))):
        found = gap_estimate(data, each.label, values[label], values[BOOSTING])
        if found is None:
            continue
        verb = "is better than" if found.above(0) else "is worse than" if found.below(0) else "is not told apart from"
        phrases.append(f"{label} {verb} it ({signed_number(found.mean, DIGITS)} {interval(found, DIGITS)})")
    if not phrases:
        return ""
    return f"Against boosting with raw coordinates, {SPLITS[each.split]}: {'; '.join(phrases)}."


def compared(data: PageData) -> list[ComparedScore]:
    """The score with each split, compared with that without coordinates, with bare ones and with boosting."""
    made = []
    for each in finished(data):
        where = f"with the {SPLITS[each.split]}"
        if classes := class_count(data, each.label):
            made.append(compared_accuracy(each.label, where, classes, references=REFERENCES, controls=(NONE,)))
            continue
        made.append(
            ComparedScore(
                metric=R2, name=NAMES[R2], condition=each.label, where=where, chance=0.0, references=REFERENCES,
                controls=(NONE,),
            )
        )  # fmt: skip
    return made
