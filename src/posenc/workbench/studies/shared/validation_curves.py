"""Learning curves of a metric on the validation part, one line for each variant, of trainings in steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from posenc.measure.statistics import Bounds
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel
from posenc.workbench.studies.shared.page_data import PageData


def validation_curves(
    data: PageData,
    condition: str,
    metric: str,
    *,
    title: str,
    y_label: str,
    order: Sequence[str],
    bounds: Bounds = (0.0, float("inf")),
    note: str = "Validation part. The step with the lowest error is chosen.",
) -> Panel:
    """Draw learning curves of the variants of a condition.

    Args:
        data: Data of the page.
        condition: Label of the condition.
        metric: Stored name of the metric.
        title: Title of the panel.
        y_label: Label of the vertical axis, with its unit.
        order: Variants in the order of the legend; others follow.
        bounds: Lowest and highest possible value. The axis spans a share, and the values of another metric.
        note: Sentence after the key.

    Returns:
        The panel.
    """
    curves: dict[str, dict[float, dict[int, float]]] = {}
    for row in data.curves:
        if row["setting"] == condition and row["metric"] == metric and row["epoch"] > 0:
            seeds = curves.setdefault(row["scheme"], {}).setdefault(float(row["epoch"]), {})
            seeds[row["seed"]] = row["value"]
    limits: Literal["values"] | None = None if bounds == (0.0, 1.0) else "values"
    return line_plot(
        {label: curves[label] for label in sorted(curves, key=lambda label: (*order, label).index(label))},
        title=title,
        x_label="steps",
        y_label=y_label,
        bounds=bounds,
        limits=limits,
        note=note,
    )
