"""Page on a user's own data: its answer, its judged predictions, and its panels.

Models that may still be learning get no verdict. ``posenc.measure.budget_comparison`` decides what may be stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from posenc.workbench.report.number_format import capitalize, count
from posenc.workbench.report.page import Finding, Panel, Text
from posenc.workbench.report.preregistered import WORDS, Prediction, judge_predictions, prediction_name
from posenc.workbench.studies.shared.compared_score import ComparedScore, compared, on_own_data
from posenc.workbench.studies.shared.own_data_answer import UNDECIDED, Pair
from posenc.workbench.studies.shared.own_data_panels import curve_panels, difference_panel, training_panel
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, metric_bounds

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

CURVES = "curves"
"""Name of the panel of learning curves, in the studies that have one."""


def judged_predictions(study: Study, data: PageData) -> tuple[Finding, ...]:
    """Judge the predictions of a study; on a user's own data, only differences that may be stated.

    Args:
        study: The study.
        data: Data of the page.

    Returns:
        One finding per prediction.
    """
    predictions = study.predictions(data)
    findings = judge_predictions(data.rows, predictions)
    scores = study.compared(data) if on_own_data(data) else ()
    if not scores:
        return findings
    return tuple(
        _judge(data, prediction, finding, scores) for prediction, finding in zip(predictions, findings, strict=True)
    )


def _judge(data: PageData, prediction: Prediction, finding: Finding, scores: Sequence[ComparedScore]) -> Finding:
    condition = prediction.conditions[0]
    main = next((score for score in scores if score.condition == condition), None)
    if finding.tone == "absent" or main is None or len(prediction.conditions) > 1:
        return finding
    score = _score_of(prediction, scores, main)
    variants = compared(data, score if score == main else replace(score, learned_by=main))
    comparison = variants.compare(prediction.better, prediction.worse)
    if comparison is None:
        return finding
    pair = Pair(variants, prediction.better, prediction.worse, comparison)
    text = f"{prediction_name(prediction)}: difference {pair.size} {data.budget(condition)}".rstrip()
    if not comparison.stated:
        return Finding("unsure", capitalize(UNDECIDED), f"{text}; {pair.reason}.")
    tone = "yes" if variants.better(comparison) else "no"
    return Finding(tone, WORDS[tone], f"{text}, {count(comparison.difference.n, 'seed')}.")


def _score_of(prediction: Prediction, scores: Sequence[ComparedScore], main: ComparedScore) -> ComparedScore:
    """The score of a prediction: a declared one, or a further metric of the same models, without a known chance."""
    for score in scores:
        if (score.condition, score.metric) == (main.condition, prediction.metric):
            return score
    return replace(
        main,
        metric=prediction.metric,
        name=prediction.metric_name or prediction.metric,
        unit=prediction.unit,
        higher=prediction.higher,
        chance=None,
        proportion=main.proportion and metric_bounds(prediction.metric) == SHARE,
    )


def own_data_panels(study: Study, data: PageData, names: Sequence[str]) -> list[Panel]:
    """Draw the panels that every page on a user's own data has.

    Args:
        study: The study.
        data: Data of the page.
        names: Names of the panels of the request.

    Returns:
        Differences between variants, learning curves unless a panel of the study shows them, and what was trained.
    """
    scores = study.compared(data)
    if not scores:
        return []
    curves = [] if CURVES in names else curve_panels(data, scores)
    return [difference_panel(data, scores), *curves, training_panel(data)]


def unjudged_claims(study: Study) -> Panel:
    """Panel in place of the table of claims: published claims are judged at the budget of their papers.

    Args:
        study: The study.

    Returns:
        The panel.
    """
    counted = count(len(study.claims), "published claim")
    where = f"docs/claims.md judges {counted} on the data and at the budgets that it names."
    return Panel("Published claims", (Text((f"{where} They are not judged on your data.",)),))
