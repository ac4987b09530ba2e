"""Generalization: accuracy of an encoding compared with the best rule that ignores positions.

An encoding generalizes where its whole 95% t-interval over seeds lies above the threshold. It does not where the whole
interval lies below. The threshold is chance, or the best rule that ignores positions where that scores more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.measure.statistics import Estimate, t_interval
from posenc.workbench.report.number_format import (
    count,
    interval,
    join_words,
    number,
)
from posenc.workbench.report.page import Finding, Findings, Panel, Text
from posenc.workbench.report.result_rows import BySeed, Row, order_by_mean, values_by_scheme
from posenc.workbench.studies.latin_squares.execute import CHANCE, OOD
from posenc.workbench.studies.latin_squares.results import COMMONEST, RAREST, baselines
from posenc.workbench.studies.shared.best_variant import best_variant
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE

MAX_NAMES = 12
"""Largest number of encodings that a sentence lists; further ones are counted."""
RULES = {
    RAREST: "of answering the rarest symbol of the clues (the best rule that ignores positions)",
    COMMONEST: "of answering the commonest symbol of the cell (the best rule that ignores positions)",
}
UNSCORED = " (the store lacks the puzzles, so rules that ignore positions were not scored)"


@dataclass(frozen=True)
class Generalization:
    """Accuracies out of distribution against a threshold; labels are sorted by their mean accuracy."""

    threshold: float
    rule: str
    by_scheme: dict[str, BySeed]
    estimates: dict[str, Estimate]

    @property
    def above(self) -> list[str]:
        """Encodings that generalize."""
        return [label for label, estimate in self.estimates.items() if estimate.above(self.threshold)]

    @property
    def below(self) -> list[str]:
        """Encodings that do not generalize."""
        return [label for label, estimate in self.estimates.items() if estimate.below(self.threshold)]

    @property
    def single(self) -> list[str]:
        """Encodings with one seed, which have no interval."""
        return [label for label, estimate in self.estimates.items() if not estimate.known]

    @property
    def inconclusive(self) -> list[str]:
        """Encodings whose interval contains the threshold."""
        decided = {*self.above, *self.below, *self.single}
        return [label for label in self.estimates if label not in decided]


def judge(rows: Sequence[Row], scores: Mapping[str, float]) -> Generalization:
    """Accuracies of the main condition against chance, or the best of the rules that ignore positions.

    scores: accuracy of these rules by their name; empty where the puzzles are not in the store.
    """
    by_scheme = values_by_scheme(rows, OOD)
    best = max(scores, key=lambda name: scores[name], default="")
    threshold, rule = CHANCE, "of guessing" + ("" if scores else UNSCORED)
    if best and scores[best] > CHANCE:
        threshold, rule = scores[best], RULES[best]
    estimates = {label: t_interval(list(by_scheme[label].values()), bounds=SHARE) for label in order_by_mean(by_scheme)}
    return Generalization(threshold, rule, by_scheme, estimates)


def headline(data: PageData) -> str:
    """Answer to the question which encodings generalize."""
    return answer(judge(data.rows, baselines(data).get(OOD, {})))


def answer(judged: Generalization) -> str:
    """Answer of the study: encodings that generalize, encodings that do not, and the best against the second."""
    if not judged.estimates:
        return "No answer yet: no run of the main condition has finished."
    total = count(len(judged.estimates), "encoding")
    if judged.above:
        sentences = [f"{len(judged.above)} of {total}: {_names(judged.above)}."]
    elif judged.below:
        sentences = [f"None of {total}."]
    else:
        sentences = [f"Inconclusive for {total}."]
    sentences.append(
        f"An encoding generalizes if its accuracy out of distribution is above {number(judged.threshold)}, the "
        f"accuracy {judged.rule}."
    )
    if judged.below:
        sentences.append(f"Below it: {_names(judged.below)}.")
    if judged.inconclusive:
        sentences.append(f"Inconclusive (the 95% interval contains the threshold): {_names(judged.inconclusive)}.")
    if judged.single:
        sentences.append(f"One seed, so no interval: {_names(judged.single)}.")
    best = best_variant(
        judged.by_scheme, metric="accuracy", unit="", where="out of distribution", digits=3, bounds=SHARE
    )
    return " ".join([*sentences, best])


def generalization_panel(data: PageData) -> Panel:
    """Every encoding of the main condition, grouped by its interval relative to the threshold."""
    judged = judge(data.rows, baselines(data).get(OOD, {}))
    title = "Generalization by encoding"
    if not judged.estimates:
        return Panel(title, (Text(("No run of the main condition has finished.",)),))
    groups = (
        Finding("yes", "Generalize", "interval above the threshold", _entries(judged, judged.above)),
        Finding("unsure", "Inconclusive", "interval contains the threshold", _entries(judged, judged.inconclusive)),
        Finding("no", "Do not generalize", "interval below the threshold", _entries(judged, judged.below)),
        Finding("unsure", "One seed only", "no interval", _entries(judged, judged.single)),
    )
    seeds = sorted({len(seeds) for seeds in judged.by_scheme.values()})
    paragraphs = [
        f"{count(seeds[0], 'seed') if len(seeds) == 1 else f'{seeds[0]} to {seeds[-1]} seeds'} per encoding. The "
        "intervals cover the choice of the seed, not other puzzles, sizes or training settings."
    ]
    findings = Findings(
        "Accuracy out of distribution against the threshold",
        f"Mean and 95% t-interval over seeds. Threshold {number(judged.threshold)}: the accuracy {judged.rule}.",
        tuple(group for group in groups if group.entries),
    )
    return Panel(title, (findings, Text(tuple(paragraphs))))


def _entries(judged: Generalization, labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((label, _size(judged.estimates[label])) for label in labels)


def _size(estimate: Estimate) -> str:
    return f"{number(estimate.mean)} {interval(estimate)}"


def _names(labels: Sequence[str]) -> str:
    if len(labels) <= MAX_NAMES:
        return join_words(labels)
    return f"{', '.join(labels[:MAX_NAMES])} and {len(labels) - MAX_NAMES} more"
