"""Plots and tables of the grid-cell study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.seed_interval import interval_name, seed_interval
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.gridpe import published
from posenc.workbench.studies.gridpe import variants as encodings
from posenc.workbench.studies.gridpe.conditions import CONDITIONS, labels_of
from posenc.workbench.studies.gridpe.presets import SCALES, TRAINED_SIDE
from posenc.workbench.studies.gridpe.variants import LEARNED, with_heads
from posenc.workbench.studies.shared import page_records
from posenc.workbench.studies.shared.classification import ATTENTION_IMAGES
from posenc.workbench.studies.shared.classification_panels import (
    ACCURACY,
    BALANCED,
    TOP,
    TRAINING,
    accuracy_panel,
    empty_panel,
    finished_conditions,
    has_equal_classes,
    images_of,
    learning_curve_panel,
    rows_labeled,
    scheme_text,
    seeds_by_label,
    variant_tables,
)
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.image_sizes import measured_side
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE

VITS, PVTS = labels_of("vit"), labels_of("pvt")
LAYER_PLOT_VARIANTS = (LEARNED, "nope", "sinusoid", "rope-axial", "gridpe", "grid-deep")
HEAD_COUNT_VARIANTS = (LEARNED, "gridpe")
"""Variants that are trained with other numbers of attention heads."""
AS_RELEASED_CAPTION = (
    "The variants with the ending -literal follow the released code: waves are drawn anew at each call and separately "
    "for queries and keys, tokens are numbered along one line, and no norm stands before attention. The optimizer is "
    "the same for all variants."
)


def panel_title(subject: str, condition: str) -> str:
    """Title of a panel with the title of its condition."""
    return f"{subject}: {CONDITIONS[condition].title}"


def vit_accuracy(data: PageData) -> list[Panel]:
    """Accuracy and loss of the ViTs as published, and on built-in images a comparison with the printed Table 1."""
    return [*_accuracy_and_loss(data, VITS), *_published_tables(data, VITS)]


def pvt_accuracy(data: PageData) -> list[Panel]:
    """Accuracy and loss of the PVTs, and on built-in images a comparison with the printed Table 1."""
    return [*_accuracy_and_loss(data, PVTS), *_published_tables(data, PVTS)]


def _accuracy_and_loss(data: PageData, conditions: Sequence[str]) -> list[Panel]:
    panels = []
    for condition in finished_conditions(data, conditions):
        labels = commonly_plotted(data, condition)
        third = TRAINING if has_equal_classes(data, condition) else BALANCED
        title = panel_title("Accuracy by encoding", condition)
        panels.append(accuracy_panel(data, labels, condition, title, metrics=(ACCURACY, TOP, third)))
        panels.append(_loss_panel(data, labels, condition))
    return panels or empty_panel(panel_title("Accuracy by encoding", conditions[0]))


def released_accuracy(data: PageData) -> list[Panel]:
    """Accuracy of the ViTs as released, beside those as published."""
    panels = [
        accuracy_panel(
            data,
            encodings.RELEASED_AND_PUBLISHED,
            label,
            panel_title("Accuracy as released and as published", label),
            AS_RELEASED_CAPTION,
        )
        for label in finished_conditions(data, VITS)
    ]
    return panels or empty_panel(panel_title("Accuracy as released and as published", VITS[0]))


def curves(data: PageData) -> list[Panel]:
    """Learning curves of both architectures."""
    panels = [
        learning_curve_panel(data, commonly_plotted(data, label), label, panel_title("Learning curves", label))
        for label in finished_conditions(data, (*VITS, *PVTS))
    ]
    return panels or empty_panel("Learning curves")


def commonly_plotted(data: PageData, condition: str) -> list[str]:
    """Variants of a condition in the common panels: all but those with a panel of their own."""
    separate = (*encodings.AS_RELEASED, *encodings.BY_HEADS) if condition in VITS else ()
    return [label for label in data.labels(condition) if label not in separate]


def accuracy_by_size(data: PageData) -> list[Panel]:
    """Accuracy on images of other sizes than the training images."""
    panels = []
    for condition in finished_conditions(data, VITS):
        sides = _sides(data, condition)
        trained = sides["x1.00"]
        metrics = {sides[name]: f"accuracy_at_{name}" for name in SCALES} | {trained: ACCURACY}
        by_side = {side: seeds_by_label(data, metrics[side], condition) for side in sorted(metrics)}
        series: dict[str, dict[float, BySeed]] = {
            label: {float(side): by_label[label] for side, by_label in by_side.items() if label in by_label}
            for label in encodings.SIZE_VARIANTS
        }
        series = {label: points for label, points in series.items() if len(points) > 1}
        title = panel_title("Accuracy by image size", condition)
        panel = line_plot(
            series,
            title=title,
            x_label="side of the images (pixels)",
            y_label="held-out accuracy",
            chance=1 / images_of(data, condition).classes,
            held_out=held_out_items(data, condition),
            note=f"Training images have {trained} x {trained} pixels. A learned table is interpolated to the new grid; "
            "the other encodings are computed at its positions.",
        )
        panels.append(Panel(title, (*panel.blocks, _relative_accuracy(series, sides)), panel.caption))
    return panels or empty_panel(panel_title("Accuracy by image size", VITS[0]))


def _sides(data: PageData, condition: str) -> dict[str, int]:
    """Name of a scale to the side of its images in pixels, from the stored images and patches of the runs."""
    spec = next(spec for spec in data.specs if spec.condition == condition)
    trained = images_of(data, condition).shape[1]
    patch = spec.settings["row"]["config"]["stages"][0]["patch"]
    return {name: measured_side(trained, patch, scale) for name, scale in {"x1.00": 1.0, **SCALES}.items()}


def _relative_accuracy(series: Mapping[str, Mapping[float, BySeed]], sides: Mapping[str, int]) -> Table:
    """Table of the accuracy by image size relative to that at the trained size, measured and printed."""
    trained, body = sides["x1.00"], []
    here = [sides[f"x{side / TRAINED_SIDE:.2f}"] for side in published.SIDES]
    for label, printed in published.BY_SIDE.items():
        at_trained_size = printed[published.SIDES.index(TRAINED_SIDE)]
        body.append((f"{label}, published", *(f"{value / at_trained_size:.2f}" for value in printed)))
        points = series.get(label, {})
        base = mean(list(points[trained].values())) if trained in points else 0.0
        cells = [f"{mean(list(points[s].values())) / base:.2f}" if base and s in points else "–" for s in here]
        body.append((f"{label}, here", *cells))
    columns = [
        f"{side} px published, {own} px here ({own / trained:.3g} times)"
        for side, own in zip(published.SIDES, here, strict=True)
    ]
    note = (
        f"Accuracy divided by that at the trained size, {TRAINED_SIDE} px published and {trained} px here. The sizes "
        "here are whole numbers of patches, so their ratio to the trained size differs a little from the published "
        f"one. Published: {published.VERSION_3}."
    )
    return Table("Relative accuracy", ("Variant", *columns), tuple(body), note)


def accuracy_by_heads(data: PageData) -> list[Panel]:
    """Accuracy by the number of attention heads of the model."""
    panels = []
    best = max(published.BY_HEADS, key=lambda heads: published.BY_HEADS[heads])
    for condition in finished_conditions(data, VITS):
        by_label = seeds_by_label(data, ACCURACY, condition)
        series = {
            base: {
                float(heads): by_label[with_heads(base, heads)]
                for heads in encodings.HEAD_COUNTS
                if with_heads(base, heads) in by_label
            }
            for base in HEAD_COUNT_VARIANTS
        }
        panels.append(
            line_plot(
                series,
                title=panel_title("Accuracy by number of attention heads", condition),
                x_label="attention heads (equal model width)",
                y_label="held-out accuracy",
                limits="values",
                log_x=True,
                held_out=held_out_items(data, condition),
                note=f"Published for GridPE ({published.VERSION_3}): highest with {best} of 1 to 64 heads.",
            )
        )
    return panels or empty_panel(panel_title("Accuracy by number of attention heads", VITS[0]))


def attention_distance(data: PageData) -> list[Panel]:
    """Attention distance and entropy, and the distance by layer."""
    metrics = {
        "attention_distance": Score("Attention distance", "patches", higher=None),
        "attention_entropy": Score("Attention entropy", "bits", higher=None),
    }
    caption = (
        f"Mean over layers and heads on {ATTENTION_IMAGES} held-out images, without the queries of the class token."
    )
    panels = []
    for condition in finished_conditions(data, VITS):
        rows = rows_labeled(data.rows, condition, commonly_plotted(data, condition))
        title = panel_title("Attention distance and entropy", condition)
        panels.append(score_plots(rows, metrics=metrics, condition=condition, title=title, caption=caption))
        panels.append(
            line_plot(
                {
                    label: points
                    for label in LAYER_PLOT_VARIANTS
                    if (points := _distance_by_layer(data, condition, label))
                },
                title=panel_title("Attention distance by layer", condition),
                x_label="layer",
                y_label="attention distance (patches)",
                bounds=None,
            )
        )
    return panels or empty_panel(panel_title("Attention distance and entropy", VITS[0]))


def _distance_by_layer(data: PageData, condition: str, label: str) -> dict[float, BySeed]:
    """Layer to seed to the mean attention distance of its heads."""
    by_layer: dict[float, BySeed] = {}
    for spec in data.done:
        if spec.condition == condition and spec.variant == label:
            for layer, by_head in enumerate(data.store.arrays(spec.identity).get("distance", ()), 1):
                by_layer.setdefault(float(layer), {})[spec.seed] = float(np.mean(by_head))
    return by_layer


def variants(data: PageData) -> list[Panel]:
    """Tables of the variants."""

    def scheme_of(spec: RunSpec) -> str:
        model = spec.settings["row"]
        tables = "; a learned table" if model["config"]["options"]["tables"] else ""
        first = ", in the first block of a stage" if model["first_only"] else ""
        return f"{scheme_text(model['scheme'])}{first}{tables}"

    def about(condition: str, label: str) -> str:
        return encodings.encoding(CONDITIONS[condition].architecture, label).about

    titles = {label: panel_title("Variants", label) for label in CONDITIONS}
    return variant_tables(data, titles, about, scheme_of, order=(*encodings.VIT, *encodings.PVT))


def _published_tables(data: PageData, conditions: Sequence[str]) -> list[Panel]:
    """Comparison of the printed Table 1 with the accuracies of each condition; none for images of the user."""
    if page_records.own(data.store, data.specs) is not None:
        return []
    return [_published_table(data, condition) for condition in finished_conditions(data, conditions)]


def _published_table(data: PageData, condition: str) -> Panel:
    printed = published.TABLE_1[CONDITIONS[condition].architecture]
    top1, top5, loss = (seeds_by_label(data, metric, condition) for metric in (ACCURACY, TOP, "loss"))
    held_out, base = held_out_items(data, condition), next(iter(printed))

    def accuracy(label: str) -> str:
        seeds = list(top1.get(label, {}).values())
        estimate = seed_interval(seeds, bounds=SHARE, held_out=held_out) if seeds else None
        return "not run" if estimate is None else f"{number(estimate.mean, 3)} {interval(estimate, 3)}"

    def gain(label: str) -> str:
        a, b = top1.get(label, {}), top1.get(base, {})
        if label == base or not a.keys() & b.keys():
            return "–"
        estimate = paired_difference(a, b, bounds=SHARE)
        return f"{signed_number(estimate.mean, 3)} {interval(estimate, 3)}"

    def mean_of(by_label: Mapping[str, BySeed], label: str) -> str:
        return number(mean(list(by_label[label].values())), 3) if label in by_label else "–"

    body = [
        (
            label, accuracy(label), f"{their_top1 / 100:.3f}",
            gain(label), "–" if label == base else signed_number((their_top1 - printed[base][0]) / 100, 3),
            mean_of(top5, label), f"{their_top5 / 100:.3f}", mean_of(loss, label), f"{their_loss:g}",
            accuracy(f"{label}-literal"),
        )
        for label, (their_top1, their_top5, their_loss) in printed.items()
    ]  # fmt: skip
    columns = (
        "Variant",
        "Accuracy",
        "Published accuracy",
        f"Accuracy − that of {base}",
        "Published difference",
        "Top-5 accuracy",
        "Published top-5 accuracy",
        "Held-out loss (nats)",
        "Published loss",
        "Accuracy as released",
    )
    note = (
        f"Published: {published.SOURCE}; its loss is probably that of training. The images and models here differ from "
        f"those of the paper, so compare differences and the order of variants. In brackets: 95% "
        f"{interval_name(held_out)} of accuracies, 95% t-intervals over seeds of differences."
    )
    title = panel_title("Comparison with Table 1 of the paper", condition)
    return Panel(title, (Table("Table 1", columns, tuple(body), note),))


def _loss_panel(data: PageData, labels: Sequence[str], condition: str) -> Panel:
    loss = {"loss": Score("Held-out cross-entropy", "nats", higher=False)}
    rows = rows_labeled(data.rows, condition, labels)
    title = panel_title("Loss by encoding", condition)
    return score_plots(rows, metrics=loss, condition=condition, title=title, held_out=held_out_items(data, condition))
