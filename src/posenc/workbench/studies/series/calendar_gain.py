"""The gain from the calendar: rows with its periods, compared with rows of the true time and of the index."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.report.number_format import capitalize, join_words
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.series.conditions import SeriesCondition, finished
from posenc.workbench.studies.series.stored_series import scales_of
from posenc.workbench.studies.shared.best_variant import Scores
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared, on_own_data
from posenc.workbench.studies.shared.own_data_answer import Pair
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SIZE

CALENDAR, OTHERS = "calendar-rows", ("time-rows", "index-rows")
LOWER, HIGHER, EQUAL = "lower than that of", "higher than that of", "not distinguishable from that of"


def calendar_sentences(data: PageData, scores: Sequence[ComparedScore]) -> dict[str, str]:
    """Say for each condition whether the calendar lowers the error.

    Args:
        data: Data of the page.
        scores: The score of each condition.

    Returns:
        Label of a condition to the sentences; without conditions that lack the runs.
    """
    by_label = {score.condition: score for score in scores}
    said = {each.label: _sentences(data, each, by_label[each.label]) for each in finished(data)}
    return {label: text for label, text in said.items() if text}


def _sentences(data: PageData, each: SeriesCondition, score: ComparedScore) -> str:
    if CALENDAR not in data.labels(each.label):
        spec = next(spec for spec in data.specs if spec.condition == each.label)
        fits = scales_of(spec.settings).periods
        return "" if fits else f"No period of the calendar fits the training part {score.where}, so none is told."
    gaps = _own_gaps(data, score) if on_own_data(data) else _gaps(data, score)
    if not gaps:
        return ""
    words = {word for word, _ in gaps.values()}
    answer = "the calendar does not help" if HIGHER in words else "a gain from the calendar is not shown"
    answer = "the calendar helps" if words == {LOWER} else answer
    if words == {LOWER} and (missing := [other for other in OTHERS if other not in gaps]):
        answer = f"whether the calendar helps cannot be told without runs of {join_words(missing)}"
    compared_with = join_words([f"{word} {other} ({size})" for other, (word, size) in gaps.items()])
    return f"{capitalize(f'{score.where}, {answer}')}. The {score.name} of {CALENDAR} is {compared_with}."


def _gaps(data: PageData, score: ComparedScore) -> dict[str, tuple[str, str]]:
    """Compared variant to the verdict and the difference, by the interval over seeds."""
    values = values_by_scheme(data.rows, score.metric, score.condition)
    scores = Scores(values, metric=score.name, higher=False, digits=score.digits, bounds=SIZE)
    gaps = dict[str, tuple[str, str]]()
    for other in OTHERS:
        if {other, CALENDAR} <= scores.values.keys() and scores.difference(CALENDAR, other) is not None:
            word = LOWER if scores.better(CALENDAR, other) else HIGHER if scores.better(other, CALENDAR) else EQUAL
            gaps[other] = word, f"difference {scores.gap(CALENDAR, other)}"
    return gaps


def _own_gaps(data: PageData, score: ComparedScore) -> dict[str, tuple[str, str]]:
    """The same on a user's own data, by the rule for stating a difference."""
    variants, gaps = compared(data, score), dict[str, tuple[str, str]]()
    for other in OTHERS:
        known = {other, CALENDAR} <= variants.scores.keys()
        comparison = variants.compare(CALENDAR, other) if known else None
        if comparison is not None:
            pair = Pair(variants, CALENDAR, other, comparison)
            word = EQUAL if not comparison.stated else LOWER if variants.better(comparison) else HIGHER
            gaps[other] = word, f"difference {pair.size}{f'; {pair.reason}' if pair.reason else ''}"
    return gaps
