"""Plots and tables of the recall tasks: accuracy by sample length."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import capitalize, number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.studies.language.conditions import RECALL_TASKS, RecallCondition
from posenc.workbench.studies.language.recall_model import multiples_of
from posenc.workbench.studies.shared.classification_panels import empty_panel, finished_conditions, seeds_by_label
from posenc.workbench.studies.shared.page_data import PageData

DIGITS = 3


def accuracy_by_sample_length(data: PageData) -> list[Panel]:
    """Accuracy on each task, at the training length and at longer ones."""
    finished = finished_conditions(data, [task.label for task in RECALL_TASKS])
    panels = [_task_panel(data, task) for task in RECALL_TASKS if task.label in finished]
    return panels or empty_panel("Accuracy by sample length")


def _task_panel(data: PageData, task: RecallCondition) -> Panel:
    runs = [spec for spec in data.done if spec.condition == task.label]
    window, symbols = runs[0].settings["window"], runs[0].settings["task"]["symbols"]
    multiples = multiples_of(runs[0].settings)
    accuracies = {multiple: seeds_by_label(data, f"accuracy_at_x{multiple}", task.label) for multiple in multiples}
    bags = {multiple: seeds_by_label(data, f"bag_at_x{multiple}", task.label) for multiple in multiples}
    order_free = {
        float(multiple * window): (mean([value for seeds in bag.values() for value in seeds.values()]), 0.0)
        for multiple, bag in bags.items()
        if bag
    }
    labels = list(dict.fromkeys(spec.variant for spec in runs))
    panel = line_plot(
        {
            label: {float(multiple * window): by[label] for multiple, by in accuracies.items() if label in by}
            for label in labels
        },
        title=f"{capitalize(task.title)}: accuracy by sample length",
        x_label="sample length (tokens)",
        y_label="accuracy (share of answers)",
        log_x=True,
        chance=1 / symbols,
        reference={"order-free predictor": order_free},
        note=f"Training samples have up to {window} tokens. The order-free predictor knows the answers of a sample but "
        "not their order, and predicts the most frequent of those that are left.",
    )
    return Panel(panel.title, (*panel.blocks, _complete_samples(data, task, labels, window, multiples)), task.about)


def _complete_samples(
    data: PageData, task: RecallCondition, labels: list[str], window: int, multiples: Sequence[int]
) -> Table:
    """Share of samples with all answers correct."""
    shares = [seeds_by_label(data, f"whole_at_x{multiple}", task.label) for multiple in multiples]
    body = [
        (label, *(number(mean(list(by[label].values())), DIGITS) if by.get(label) else "–" for by in shares))
        for label in labels
    ]
    columns = ("Encoding", *(f"Share at {multiple * window:,} tokens" for multiple in multiples))
    return Table("Samples with all answers correct", columns, tuple(body), "Means over seeds.")
