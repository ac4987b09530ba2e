"""Panels that studies of image classification share: accuracies, learning curves, and the table of variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from posenc.lookup.scheme_text import value_text
from posenc.measure.statistics import Estimate
from posenc.workbench.report.accuracy_panels import accuracy_by_scheme, learning_curves
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.report.seed_interval import interval_name, seed_interval
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.classification import TRAIN_SCORED
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.image_data import ImageRecord
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.page_records import own
from posenc.workbench.tables.metric_bounds import SHARE

TOP_CLASSES = 5
"""Top-5 accuracy is shown for more classes than this."""
ACCURACY, TOP, BALANCED, TRAINING = "accuracy", "accuracy_top5", "accuracy_per_class", "accuracy_train"
METRICS = {
    ACCURACY: "Held-out accuracy",
    BALANCED: "Balanced accuracy, held-out (mean over classes)",
    TOP: "Top-5 accuracy, held-out",
    TRAINING: f"Training accuracy (up to {TRAIN_SCORED} images)",
}
HELD_OUT_AND_TRAINING = (ACCURACY, TRAINING)
EPSILON = 1e-9


def finished_conditions(data: PageData, conditions: Sequence[str]) -> list[str]:
    """Conditions in which a run has finished.

    Args:
        data: Data of the page.
        conditions: Labels of conditions.

    Returns:
        The labels with finished runs, in the given order.
    """
    finished = {spec.condition for spec in data.done}
    return [label for label in conditions if label in finished]


def empty_panel(title: str) -> list[Panel]:
    """Panel with the sentence that no run of it has finished.

    Args:
        title: Title of the panel.

    Returns:
        A list with this panel alone.
    """
    return [Panel(title, (Text(("No run of this panel has finished.",)),))]


def seeds_by_label(data: PageData, metric: str, condition: str) -> dict[str, BySeed]:
    """Values of a metric in a condition.

    Args:
        data: Data of the page.
        metric: Stored name of the metric.
        condition: Label of the condition.

    Returns:
        Variant -> seed -> value.
    """
    return values_by_scheme(data.rows, metric, condition)


def rows_labeled(rows: Sequence[Mapping[str, Any]], condition: str, variants: Sequence[str]) -> list[Mapping[str, Any]]:
    """Result rows of some variants in a condition.

    Args:
        rows: Result rows.
        condition: Label of the condition.
        variants: Labels of the variants.

    Returns:
        The rows, in their order.
    """
    return [row for row in rows if row["setting"] == condition and row["scheme"] in variants]


def images_of(data: PageData, condition: str) -> ImageRecord:
    """Data set of a condition.

    Args:
        data: Data of the page.
        condition: Label of a condition that has runs.

    Returns:
        Record of the images.
    """
    spec = next(spec for spec in data.specs if spec.condition == condition)
    return msgspec.convert(spec.settings["pictures"], ImageRecord)


def has_equal_classes(data: PageData, condition: str) -> bool:
    """True if accuracy equals balanced accuracy, as it does with the same number of held-out images of each class.

    Args:
        data: Data of the page.
        condition: Label of the condition.

    Returns:
        True if the two agree for every run.
    """
    balanced = seeds_by_label(data, BALANCED, condition)
    return all(
        abs(value - balanced.get(variant, {}).get(seed, value)) < EPSILON
        for variant, seeds in seeds_by_label(data, ACCURACY, condition).items()
        for seed, value in seeds.items()
    )


def accuracy_panel(
    data: PageData,
    variants: Sequence[str],
    condition: str,
    title: str,
    caption: str = "",
    metrics: Sequence[str] = HELD_OUT_AND_TRAINING,
) -> Panel:
    """Accuracies of variants with every seed.

    Args:
        data: Data of the page.
        variants: Labels of the variants.
        condition: Label of the condition.
        title: Title of the panel.
        caption: Text below the title.
        metrics: Names in METRICS, one plot each.

    Returns:
        The panel.
    """
    classes = images_of(data, condition).classes
    shown = {name: METRICS[name] for name in metrics if classes > TOP_CLASSES or name != TOP}
    held_out, intervals = held_out_items(data, condition), dict[str, dict[str, Estimate]]()
    for name in shown if held_out is not None else ():
        by_label, trained = seeds_by_label(data, name, condition), name == TRAINING
        intervals[name] = {
            label: seed_interval(list(by_label[label].values()), bounds=SHARE, held_out=held_out, trained=trained)
            for label in variants
            if by_label.get(label)
        }
    return accuracy_by_scheme(
        rows_labeled(data.rows, condition, variants),
        intervals=intervals,
        interval_name=interval_name(held_out),
        metrics=shown,
        chance=1 / classes,
        baselines={TOP: {"chance": TOP_CLASSES / classes}},
        condition=condition,
        title=title,
        caption=caption,
    )


def learning_curve_panel(data: PageData, variants: Sequence[str], condition: str, title: str) -> Panel:
    """Learning curves: accuracies of variants by epoch.

    Args:
        data: Data of the page.
        variants: Labels of the variants.
        condition: Label of the condition.
        title: Title of the panel.

    Returns:
        The panel.
    """
    return learning_curves(
        rows_labeled(data.curves, condition, variants),
        metrics={name: METRICS[name] for name in HELD_OUT_AND_TRAINING},
        chance=1 / images_of(data, condition).classes,
        condition=condition,
        title=title,
        caption="During training, the accuracy called held-out is measured on the validation part of your own images, "
        "or on a part of the held-out images of built-in data. The other panels use all held-out images.",
    )


def variant_tables(
    data: PageData,
    titles: Mapping[str, str],
    about: Callable[[str, str], str],
    scheme_of: Callable[[RunSpec], str],
    order: Sequence[str],
) -> list[Panel]:
    """Table of the variants of each condition, with its data and training.

    Args:
        data: Data of the page.
        titles: Condition to title of its panel.
        about: Function from condition and variant to a description.
        scheme_of: Function from a run to its scheme and options.
        order: Variants in the order of the table; others follow by name.

    Returns:
        One panel for each condition with finished runs.
    """
    panels = []
    for condition in finished_conditions(data, list(titles)):
        counts, body = seeds_by_label(data, "parameters", condition), []
        places = {variant: place for place, variant in enumerate(order)}
        for variant in sorted(data.labels(condition), key=lambda each: (places.get(each, len(places)), each)):
            spec = next(each for each in data.specs if each.condition == condition and each.variant == variant)
            parameters = sorted({round(value) for value in counts.get(variant, {}).values()})
            trained = " to ".join(f"{count:,}" for count in parameters) or "not run"
            body.append((variant, about(condition, variant), scheme_of(spec), trained))
        columns = ("Variant", "Description", "Scheme", "Parameters")
        images = images_of(data, condition)  # The panel on the data counts the parts of own images.
        described = f"{images.name}: {images.size}" if own(data.store, data.specs) else images.description
        note = f"{described}. Training: {_training(data, condition)}."
        table = Table("Variants", columns, tuple(body), note, prose=True)
        panels.append(Panel(titles[condition], (table,)))
    return panels or empty_panel(next(iter(titles.values())))


def _training(data: PageData, condition: str) -> str:
    """Epochs, batch size and learning rates of a condition."""
    trainings = [spec.settings["training"] for spec in data.specs if spec.condition == condition]
    epochs, batches, rates = (sorted({each[name] for each in trainings}) for name in ("epochs", "batch", "lr"))
    return (
        f"{_listed(epochs)} epochs, batches of {_listed(batches)} images, learning rate {_listed(rates)}, "
        f"{trainings[0]['optimiser'].replace('adam', 'Adam').replace('Adamw', 'AdamW')}"
    )


def _listed(values: Sequence[float]) -> str:
    return " or ".join(f"{value:g}" for value in values)


def scheme_text(specification: Mapping[str, Any] | None) -> str:
    """Scheme with its options as text.

    Args:
        specification: Scheme and options from the settings of a run, or None.

    Returns:
        Text such as "GridPE(axes=3)"; "none" without a scheme.
    """
    if specification is None:
        return "none"
    options = ", ".join(f"{name}={_short(value)}" for name, value in specification["options"].items())
    return f"{specification['scheme']}({options})"


def _short(value: object) -> str:
    """A value of an option as it is written; a list of stored settings as a tuple."""
    if isinstance(value, Mapping):
        return value_text(value)  # a schedule, or a scheme inside another
    if isinstance(value, list | tuple):
        return repr(tuple(value))
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
