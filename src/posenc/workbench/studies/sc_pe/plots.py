"""Plots and tables of the spherical study: accuracies, their differences, initial scales, the vision transformer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.measure.held_out_interval import HeldOut, held_out_interval, proportion_variance
from posenc.measure.statistics import Estimate, mean, paired_difference, paired_differences, t_interval
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import interval, number, signed_number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.seed_interval import seed_interval
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.sc_pe import variants as encodings
from posenc.workbench.studies.sc_pe.conditions import CIFAR, CONDITIONS, LENETS, TRANSFORMER
from posenc.workbench.studies.shared.classification import TRAIN_SCORED
from posenc.workbench.studies.shared.classification_panels import (
    ACCURACY,
    TRAINING,
    accuracy_panel,
    empty_panel,
    finished_conditions,
    learning_curve_panel,
    rows_labeled,
    scheme_text,
    seeds_by_label,
    variant_tables,
)
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, SIZE

Pairs = Sequence[tuple[str, str, str]]
"""(a, b, difference between them)."""
CONTROLS: Pairs = (
    ("as-published", "plain", "encoding and padding, as the note compares"),
    ("plain-padded", "plain", "padding alone"),
    ("as-published", "plain-padded", "encoding alone, both padded"),
    ("as-published", "constant-padded", "encoding or trained vector, both padded"),
    ("code", "plain", "encoding alone, neither padded"),
    ("code", "constant", "encoding or trained vector, neither padded"),
    ("constant", "plain", "trained vector alone, which is a bias"),
)
RATE_CONTROLS: Pairs = (
    ("code-slow", "plain", "encoding and learning rate, as the released code compares on CIFAR-10"),
    ("code-slow", "plain-slow", "encoding alone, both at the rate 0.0003"),
    ("code", "plain", "encoding alone, both at the rate 0.001"),
    ("plain-slow", "plain", "learning rate alone"),
)
ACCURACIES = {
    ACCURACY: Score("Held-out images", "accuracy"),
    TRAINING: Score(f"Training images (up to {TRAIN_SCORED})", "accuracy", trained=True),
}
"""The axes span the values instead of 0 to 1, because the differences are small."""
FEATURE_VARIANTS = (*encodings.FEATURE_VARIANTS, *encodings.FURTHER_READOUTS)
LEVEL = 0.9
"""Level of intervals for equivalence: two one-sided tests at 5%."""


def panel_title(subject: str, condition: str) -> str:
    """Title of a panel with the title of its condition."""
    return f"{subject}: {CONDITIONS[condition].title}"


def concatenated(data: PageData) -> list[Panel]:
    """Accuracy and learning curves of encodings that are concatenated with the features."""
    panels = []
    caption = (
        "An encoding that is concatenated with the features is the same for every image, so the next layer turns it "
        "into a bias. The variant constant is a trained vector in its place."
    )
    for condition in finished_conditions(data, LENETS):
        panel = score_plots(
            rows_labeled(data.rows, condition, FEATURE_VARIANTS),
            metrics=ACCURACIES,
            condition=condition,
            held_out=held_out_items(data, condition),
            title=panel_title("Accuracy with concatenated encodings", condition),
            caption=caption,
        )
        panels.append(Panel(panel.title, (*panel.blocks, *_differences(data, condition, CONTROLS)), panel.caption))
        panels.append(
            learning_curve_panel(data, FEATURE_VARIANTS, condition, panel_title("Learning curves", condition))
        )
    return panels or empty_panel(panel_title("Accuracy with concatenated encodings", MAIN))


def _differences(data: PageData, condition: str, pairs: Pairs) -> list[Table]:
    """Table of differences of held-out accuracy between pairs of variants."""
    by_label, body = seeds_by_label(data, ACCURACY, condition), []
    held_out = held_out_items(data, condition)
    for a, b, differs in pairs:
        if by_label.get(a, {}).keys() & by_label.get(b, {}).keys():
            gap = _gap(by_label[a], by_label[b], held_out)
            size = interval(gap, 4) if gap.known else "–"
            body.append((differs, f"{a} − {b}", signed_number(gap.mean, 4), size, str(gap.n)))
    columns = ("Difference in", "Variants", "Mean difference of accuracy", f"{LEVEL:.0%} interval", "Seeds")
    note = (
        "Differences of held-out accuracy, paired by seed. By two one-sided tests at 5%, two variants are equivalent "
        "within any range that contains their interval."
    )
    return [Table("Differences of accuracy", columns, tuple(body), note)] if body else []


def _gap(a: BySeed, b: BySeed, held_out: HeldOut | None) -> Estimate:
    """Paired difference of accuracy; on a user's data for other held-out images too."""
    if held_out is None:
        return paired_difference(a, b, LEVEL, SHARE)
    shared, values = a.keys() & b.keys(), paired_differences(a, b)
    variance = sum(proportion_variance(mean([side[seed] for seed in shared]), held_out.items) for side in (a, b))
    return held_out_interval(values, held_out, item_variance=variance, level=LEVEL, bounds=(-1.0, 1.0))


def initial_scale(data: PageData) -> list[Panel]:
    """Accuracy by the factor on the initial weights of the readout's last layer."""
    panels = []
    for condition in finished_conditions(data, LENETS):
        by_label = seeds_by_label(data, ACCURACY, condition)
        scales = {1.0: "code", **{scale: f"code x {scale:g}" for scale in encodings.SCALES if scale}}
        points = {scale: by_label[label] for scale, label in sorted(scales.items()) if label in by_label}
        others = {"initial weights of 0": "code x 0", "LeNet without an encoding": "plain"}
        held_out = held_out_items(data, condition)
        means = [f"{name} {_mean(by_label[label], held_out)}" for name, label in others.items() if label in by_label]
        panels.append(
            line_plot(
                {"code": points},
                title=panel_title("Accuracy by initial scale of the readout", condition),
                x_label="factor on the initial weights of the readout's last layer",
                y_label="held-out accuracy",
                limits="values",
                log_x=True,
                held_out=held_out,
                note=f"For comparison: {'; '.join(means)}." if means else "",
            )
        )
    return panels or empty_panel(panel_title("Accuracy by initial scale of the readout", MAIN))


def _mean(seeds: BySeed, held_out: HeldOut | None) -> str:
    estimate = seed_interval(list(seeds.values()), bounds=SHARE, held_out=held_out)
    return f"{number(estimate.mean, 3)} {interval(estimate, 3)}"


def learning_rates(data: PageData) -> list[Panel]:
    """The two learning rates of the author's networks on CIFAR-10, each with both networks."""
    conditions = [label for label in (CIFAR, MAIN) if set(encodings.RATES) <= set(data.labels(label))]
    if not finished_conditions(data, conditions):
        return empty_panel("Accuracy by learning rate")
    condition = conditions[0]
    panel = accuracy_panel(data, encodings.RATES, condition, panel_title("Accuracy by learning rate", condition))
    return [Panel(panel.title, (*panel.blocks, *_differences(data, condition, RATE_CONTROLS)), panel.caption)]


def transformers(data: PageData) -> list[Panel]:
    """Accuracy, roughness and curves of the training loss in a vision transformer."""
    title = "Accuracy in a vision transformer"
    if not finished_conditions(data, [TRANSFORMER]):
        return empty_panel(title)
    caption = (
        "A vision transformer of width 64 and four layers on the same images; the note names neither model nor task."
    )
    labels = tuple(encodings.TRANSFORMERS)
    panel = accuracy_panel(data, labels, TRANSFORMER, title, caption)
    losses: dict[str, dict[float, BySeed]] = {}
    for row in rows_labeled(data.curves, TRANSFORMER, labels):
        if row["metric"] == "loss_train":
            losses.setdefault(row["scheme"], {}).setdefault(float(row["epoch"]), {})[row["seed"]] = row["value"]
    curves = line_plot(
        losses,
        title="Training loss in a vision transformer",
        x_label="epoch",
        y_label="training cross-entropy (nats)",
        bounds=None,
    )
    return [Panel(panel.title, (*panel.blocks, _roughness_table(data)), panel.caption), curves]


def _roughness_table(data: PageData) -> Table:
    """Mean absolute second difference of the training loss, by encoding."""
    body = []
    for label, seeds in seeds_by_label(data, "roughness", TRANSFORMER).items():
        values = [value for value in seeds.values() if math.isfinite(value)]
        if values:
            estimate = t_interval(values, bounds=SIZE)
            size = interval(estimate, 4) if estimate.known else "–"
            body.append((label, f"{estimate.mean:.4f}", size, str(estimate.n)))
    columns = ("Variant", "Roughness of the training loss (nats)", "95% interval", "Seeds")
    note = "Roughness: mean absolute second difference of the training loss from epoch to epoch, 0 for a straight line."
    return Table("Roughness of the training loss", columns, tuple(sorted(body, key=lambda row: row[1])), note)


def variants(data: PageData) -> list[Panel]:
    """Tables of the variants."""

    def about(condition: str, label: str) -> str:
        if condition == TRANSFORMER:
            return encodings.TRANSFORMERS[label].about
        return encodings.lenet_variant(label).about

    def scheme_of(spec: RunSpec) -> str:
        model, training = spec.settings["row"], spec.settings["training"]
        scheme = scheme_text(model["scheme"])
        if model["type"] != "lenet":
            return scheme
        return f"{scheme}; padding {model['config']['padding']}, learning rate {training['lr']:g}"

    titles = {label: panel_title("Variants", label) for label in CONDITIONS}
    return variant_tables(data, titles, about, scheme_of, order=(*encodings.VARIANTS, *encodings.TRANSFORMERS))
