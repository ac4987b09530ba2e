"""Pre-registered comparisons: differences between schemes that were predicted before the run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.measure.statistics import Estimate
from posenc.workbench.report.estimators import difference, difference_across_conditions
from posenc.workbench.report.number_format import count, decimals, interval, signed_number
from posenc.workbench.report.page import Finding, Findings, Panel, Table, Text, Tone
from posenc.workbench.report.result_rows import Row, is_finite

WORDS: dict[Tone, str] = {
    "yes": "Came true",
    "unsure": "Inconclusive",
    "no": "Reversed",
    "absent": "Not measured",
}
PREDICTIONS_TITLE = "Predictions made before the run"


@dataclass(frozen=True)
class Prediction:
    """Prediction that one scheme is better than another in a metric.

    Attributes:
        metric: Name of the metric in the result rows.
        better: Label of the scheme predicted to be better.
        worse: Label of the other scheme.
        higher: True if higher values of the metric are better.
        conditions: One condition, paired by seed; or several, one pair of means over seeds for each.
        unit: Unit of the metric, such as "dB".
        metric_name: Name of the metric in sentences; the stored name by default.

    Example:
        >>> from posenc.workbench import Prediction
        >>> from posenc.workbench.report.preregistered import judge_predictions
        >>> rows = [
        ...     {"setting": "main", "scheme": scheme, "seed": seed, "metric": "psnr", "value": value + 0.1 * seed}
        ...     for scheme, value in (("dense", 32.0), ("none", 17.0))
        ...     for seed in range(3)
        ... ]
        >>> (finding,) = judge_predictions(rows, [Prediction("psnr", better="dense", worse="none", unit="dB")])
        >>> finding.word
        'Came true'
    """

    metric: str
    better: str
    worse: str
    higher: bool = True
    conditions: tuple[str, ...] = ("main",)
    unit: str = ""
    metric_name: str = ""

    @property
    def over(self) -> str:
        """Unit that the interval is over: "seed" or "condition"."""
        return "seed" if len(self.conditions) == 1 else "condition"


def judge_predictions(rows: Sequence[Row], predictions: Sequence[Prediction]) -> tuple[Finding, ...]:
    """Judge each prediction by the 95% t-interval of its paired difference.

    A prediction came true if the interval lies on the predicted side of 0, is reversed if it lies on the other side,
    and is inconclusive otherwise.

    Args:
        rows: Result rows of one study and one preset.
        predictions: The predictions.

    Returns:
        One finding per prediction.
    """
    return tuple(_judge(rows, prediction) for prediction in predictions)


def summarize_predictions(findings: Sequence[Finding]) -> str:
    """Count the findings of predictions: "1 of 2 came true, 1 reversed, 2 not measured."."""
    if not findings:
        return ""
    tones = [finding.tone for finding in findings]
    absent = tones.count("absent")
    measured = len(findings) - absent
    parts = [f"{tones.count('yes')} of {measured} came true"] if measured else []
    parts += [f"{tones.count('no')} reversed"] if "no" in tones else []
    parts += [f"{tones.count('unsure')} inconclusive"] if "unsure" in tones else []
    parts += [f"{absent} not measured"] if absent else []
    return ", ".join(parts) + "."


def not_run(schemes: Sequence[str]) -> str:
    """Reason for a missing comparison, with the option that adds the runs: "not run (add --schemes ridge)"."""
    return f"not run (add --schemes {' '.join(map(shlex.quote, schemes))})"


def summary_panel(
    answer: Sequence[str],
    findings: Sequence[Finding],
    limits: Sequence[str],
    title: str = "Verdict",
    names: Table | None = None,
) -> Panel:
    """First panel of a page: the answer, the predictions and the limits of the results.

    Args:
        answer: Main result in one sentence, then further paragraphs.
        findings: Judged predictions.
        limits: Sentences on the scope of the results.
        title: Title of the panel.
        names: What the names of the variants stand for.

    Returns:
        The panel.
    """
    blocks: list[Text | Findings | Table] = [Text(tuple(answer[:1]), headline=True)]
    blocks += [names] if names else []
    blocks += [Text(tuple(answer[1:]))] if len(answer) > 1 else []
    if findings:
        note = "In brackets: 95% t-intervals of paired differences, not corrected for multiple comparisons."
        blocks.append(Findings(PREDICTIONS_TITLE, f"{summarize_predictions(findings)} {note}", tuple(findings)))
    if limits:
        blocks.append(Text(tuple(limits)))
    return Panel(title, tuple(blocks))


def prediction_name(prediction: Prediction) -> str:
    """The predicted difference: "gridpe above nope in accuracy (pvt)"."""
    side, metric = "above" if prediction.higher else "below", prediction.metric_name or prediction.metric
    name, conditions = f"{prediction.better} {side} {prediction.worse} in {metric}", prediction.conditions
    return name if conditions == ("main",) else f"{name} ({', '.join(conditions)})"


def _judge(rows: Sequence[Row], prediction: Prediction) -> Finding:
    estimate: Estimate | None
    metric, better, worse, conditions = prediction.metric, prediction.better, prediction.worse, prediction.conditions
    if len(conditions) == 1:
        estimate = difference(metric, better, worse, conditions[0])(rows)
    else:
        estimate = difference_across_conditions(metric, better, worse, conditions)(rows)
    name = prediction_name(prediction)
    if estimate is None:
        return Finding("absent", WORDS["absent"], f"{name}: {_missing(rows, prediction)}.")
    digits = decimals(estimate.high - estimate.low) if estimate.known else 3
    unit = f" {prediction.unit}" if prediction.unit else ""
    size = f"{signed_number(estimate.mean, digits)}{unit} {interval(estimate, digits, over=prediction.over)}"
    as_predicted = estimate.above(0) if prediction.higher else estimate.below(0)
    opposite = estimate.below(0) if prediction.higher else estimate.above(0)
    tone: Tone = "yes" if as_predicted else "no" if opposite else "unsure"
    return Finding(tone, WORDS[tone], f"{name}: difference {size}, {count(estimate.n, prediction.over)}.")


def _missing(rows: Sequence[Row], prediction: Prediction) -> str:
    """Reason why a prediction has no estimate, with the option that supplies the runs."""
    conditions = prediction.conditions
    inside = [row for row in rows if row.get("setting", "main") in conditions]

    def labels(rows: Sequence[Row]) -> set[str]:
        return {str(row["scheme"]) for row in rows}

    pair = (prediction.better, prediction.worse)
    absent = [scheme for scheme in pair if scheme not in labels(inside)]
    if absent:
        return not_run(absent)
    measured = labels([row for row in inside if row["metric"] == prediction.metric])
    if not measured.issuperset(pair):
        return f"{prediction.metric_name or prediction.metric} is not stored for both"
    finite = labels([row for row in inside if row["metric"] == prediction.metric and is_finite(row["value"])])
    if not finite.issuperset(pair):
        return f"{prediction.metric_name or prediction.metric} of {pair[pair[0] in finite]} is not finite in any run"
    return "the two have no seed in common (use the same --seeds)"
