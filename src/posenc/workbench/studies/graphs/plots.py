"""Plots and tables of the graphs study: scores by variant and by size, learning curves, the variants."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.graphs.conditions import DISTANCES, GraphsCondition, finished
from posenc.workbench.studies.graphs.variants import BASELINES, VARIANTS, GraphVariant
from posenc.workbench.studies.shared.classification_panels import empty_panel, scheme_text, seeds_by_label
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.validation_curves import validation_curves
from posenc.workbench.tables.metric_bounds import SHARE, SIZE
from posenc.workbench.tasks import graphs as task

ACCURACY, ERROR = "accuracy", "mse"
VARIANCES = "mean squared error (variances of the training part)"
SCORES = {
    ACCURACY: Score("Accuracy", "accuracy, held-out"),
    ERROR: Score("Mean squared error", VARIANCES, False),
}
BASELINE_CAPTION = (
    "Baselines: degrees (gradient boosting on counts of degrees and node labels), wl (gradient boosting on colors of "
    "the Weisfeiler-Lehman test; of nodes on walks to each label)."
)
CAPTION = (
    "none: attention without positions. messages: message passing without attention. NAME + messages: attention and "
    f"messages. {BASELINE_CAPTION}"
)
MEAN_CAPTION = "Line mean: the error of the mean answer of the training part, 1 variance."
COORDINATES: Mapping[task.NodeView, str] = {
    "eigenvectors": "{} eigenvectors",
    "walks": "returns of walks of 1 to {} steps",
    "degree": "degree",
    "hops": "shortest-path lengths",
}
SIZE_NOTE = "Each point is a group of graphs of about this number of nodes."
LARGER_NOTE = "Training has graphs of the smallest size alone."


def spec_of(data: PageData, label: str) -> RunSpec:
    """A run of a condition."""
    return next(spec for spec in data.specs if spec.condition == label)


def metric_of(data: PageData, label: str) -> str:
    """Main metric of a condition: accuracy of classes, error of values."""
    return ACCURACY if spec_of(data, label).settings["answer"].startswith("class") else ERROR


def class_count(data: PageData, label: str) -> int:
    """Number of classes of a condition; 0 for values, and where no model is planned."""
    if metric_of(data, label) == ERROR:
        return 0
    record = data.store.record_of(spec_of(data, label))
    own = 0 if record is None else len(record.classes)
    models = (spec.settings["model"] for spec in data.specs if spec.condition == label and "model" in spec.settings)
    return own or next((model["outputs"] for model in models), 0)


def scores(data: PageData) -> list[Panel]:
    """Scores of the main condition."""
    chosen = [each for each in finished(data) if each.label != DISTANCES]
    return [_score_panel(data, each) for each in chosen] or empty_panel("Scores")


def distance_errors(data: PageData) -> list[Panel]:
    """Errors of distances to a marked node, of graphs of the trained size; nothing on a page without such graphs."""
    if DISTANCES not in data.conditions:
        return []
    chosen = [each for each in finished(data) if each.label == DISTANCES]
    return [_score_panel(data, each) for each in chosen] or empty_panel("Errors of distances")


def _score_panel(data: PageData, each: GraphsCondition) -> Panel:
    metric, classes = metric_of(data, each.label), class_count(data, each.label)
    lines = {"chance": 1 / classes} if classes else {} if metric == ACCURACY else {"mean": 1.0}
    return score_plots(
        data.rows,
        metrics={metric: SCORES[metric]},
        condition=each.label,
        held_out=held_out_items(data, each.label),
        lines={metric: lines},
        title=f"{SCORES[metric].title}: {each.title}",
        caption=CAPTION if metric == ACCURACY else f"{CAPTION} {MEAN_CAPTION}",
    )


def scores_by_size(data: PageData) -> list[Panel]:
    """Scores by number of nodes of a graph."""
    panels = []
    for each in finished(data):
        marks = [size[2] for size in spec_of(data, each.label).settings["sizes"]]
        if not marks:
            continue
        metric, classes = metric_of(data, each.label), class_count(data, each.label)
        panels.append(
            line_plot(
                _by_mark(data, each.label, metric, marks),
                title=f"{SCORES[metric].title} by size: {each.title}",
                x_label="nodes of a graph",
                y_label=SCORES[metric].unit,
                bounds=SHARE if metric == ACCURACY else SIZE,
                limits=None if metric == ACCURACY else "values",
                chance=1 / classes if classes else None,
                log_x=True,
                held_out=held_out_items(data, each.label),
                note=LARGER_NOTE if each.label == DISTANCES else SIZE_NOTE,
            )
        )
    return panels or empty_panel("Scores by size")


def _by_mark(data: PageData, label: str, metric: str, marks: list[int]) -> dict[str, dict[float, BySeed]]:
    """Variant to number of nodes to seed to value, the best variant first."""
    whole, sign = seeds_by_label(data, metric, label), -1 if metric == ACCURACY else 1
    order = sorted(whole, key=lambda name: (sign * mean(list(whole[name].values())), name))
    by_mark = {float(mark): seeds_by_label(data, f"{metric}_at_{mark}", label) for mark in marks}
    return {name: {mark: found[name] for mark, found in by_mark.items() if name in found} for name in order}


def learning_curves(data: PageData) -> list[Panel]:
    """Main metric on the validation part by step."""
    panels = []
    for each in finished(data):
        metric = metric_of(data, each.label)
        panels.append(
            validation_curves(
                data,
                each.label,
                metric,
                title=f"Learning curves: {each.title}",
                y_label=SCORES[metric].unit.replace("held-out", "validation part"),
                order=VARIANTS,
                bounds=SHARE if metric == ACCURACY else SIZE,
                note="Validation part. The best step is chosen.",
            )
        )
    return panels or empty_panel("Learning curves")


def variant_tables(data: PageData) -> list[Panel]:
    """Scheme, view, layer and parameter count of each variant."""
    panels = []
    for each in finished(data):
        specs = {spec.variant: spec for spec in data.specs if spec.condition == each.label}
        counts, body = seeds_by_label(data, "parameters", each.label), []
        labels = [label for label in data.labels(each.label) if label not in BASELINES]
        for label in sorted(labels, key=lambda label: (*VARIANTS, label).index(label)):
            made = msgspec.convert(specs[label].settings["row"], GraphVariant)
            layer = " and ".join(("attention",) * made.attention + ("messages",) * made.messages)
            parameters = sorted({round(value) for value in counts.get(label, {}).values()})
            trained = " to ".join(f"{value:,}" for value in parameters) or "not run"
            view = "none" if made.scheme == "NoPE" else COORDINATES[made.view].format(made.axes)
            call = scheme_text({"scheme": made.scheme, "options": made.options})
            body.append((label, call, view, layer, trained))
        columns = ("Variant", "Scheme", "Coordinates of a node", "Layer", "Parameters")
        panels.append(Panel(f"Variants: {each.title}", (Table("Variants", columns, tuple(body), prose=True),)))
    return panels or empty_panel("Variants")
