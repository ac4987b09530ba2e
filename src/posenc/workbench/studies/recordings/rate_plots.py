"""Panels by the share of the channels that is hidden in training: errors, training curves, modules."""

from __future__ import annotations

from posenc.workbench.report.page import Panel, Text
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.recordings.conditions import CONDITIONS, TEST_RATE, MaskCondition
from posenc.workbench.studies.recordings.plots import ERROR, TRAINING_LOSS, UNIT, has_modules, training_error_panel
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.hidden_tokens import plots
from posenc.workbench.studies.shared.hidden_tokens.settings import error_metric
from posenc.workbench.studies.shared.page_data import PageData


def _share(condition: MaskCondition) -> str:
    return f"{condition.rate:.0%} of the channels hidden in training"


def error_by_training_rate(data: PageData) -> list[Panel]:
    """Figs. A11B, A12B, A13B: errors on training and test recordings."""
    panels = []
    for label, condition in CONDITIONS.items():
        scores = {ERROR: Score(f"{TEST_RATE:.0%} of the channels hidden in testing", UNIT, False)}
        if condition.rate != TEST_RATE:
            name = f"{condition.rate:.0%} of the channels hidden, as in training"
            scores[error_metric(condition.rate)] = Score(name, UNIT, False)
        title = f"Prediction error, trained with {condition.rate:.0%} of the channels hidden"
        held_out = held_out_items(data, label)
        panels.append(score_plots(data.rows, metrics=scores, condition=label, title=title, held_out=held_out))
        panels += training_error_panel(data, label, f"Training and test error, {_share(condition)}")
    return panels


def curves_by_training_rate(data: PageData) -> list[Panel]:
    """Figs. A11A, A12A, A13A: training error by step."""
    return [
        plots.learning_curves(
            data,
            TRAINING_LOSS,
            title=f"Training curves, {_share(condition)}",
            y_label="mean squared error of training batches",
            condition=label,
        )
        for label, condition in CONDITIONS.items()
    ]


def modules_by_training_rate(data: PageData) -> list[Panel]:
    """Figs. A11C, D, A12C, D, A13C, D: scores of the tables against the given modules."""
    if not has_modules(data):
        return [Panel("Modules by share hidden in training", (Text(("The recordings have no modules.",)),))]
    return [
        plots.module_plots(data, title=f"Agreement with the given modules, {_share(condition)}", condition=label)
        for label, condition in CONDITIONS.items()
    ]
