"""Plots and tables of the points study: accuracies, numbers of points, motions of a cloud, the variants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.points.conditions import SPOT, PointsCondition, condition
from posenc.workbench.studies.points.execute import POINT_RATIOS, SHIFTS
from posenc.workbench.studies.points.published import ACCURACY_BY_POINTS, POINT_COUNTS, SOURCE
from posenc.workbench.studies.points.variants import RECENT, RECENT_BESIDE, VARIANTS, PointsVariant
from posenc.workbench.studies.shared.classification_panels import (
    ACCURACY,
    empty_panel,
    finished_conditions,
    scheme_text,
    seeds_by_label,
)
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.points import CELLS_PER_RADIUS

HELD_OUT = "accuracy, held-out"
PAIRS = {
    "accuracy_arranged": Score("Pairs of classes with the same pieces", f"{HELD_OUT}, of two"),
    "accuracy_mirrored": Score("Mirror images", f"{HELD_OUT}, of two"),
}
CHANGE = "relative change of the logits"
MOTIONS = {
    "change_moved_1": Score("Translation by one radius: logits", CHANGE, False),
    "change_turned": Score("Rotation in 3-D: logits", CHANGE, False),
    "accuracy_turned": Score("Rotation in 3-D: accuracy", HELD_OUT),
}
ACCURACY_CAPTION = (
    "Held-out clouds, with as many points as in training. In a pair of classes, only the logits of these two classes "
    "are compared. blind: no information on the cloud. nope: the shape of each point's neighborhood, and not its "
    "position."
)
RECENT_CAPTION = (
    "string (2025) and rope-mixed (2024) rotate queries and keys; k-planes, tensorf and permutohedral (2022 and 2023) "
    "are trained tables of features, whose rows are added to the tokens."
)
MOTION_CAPTION = (
    "Relative change: root mean square of the change of the logits, divided by the standard deviation of the logits "
    "over classes. It is 0, up to rounding, for a model that is invariant to the motion. blind has no information on "
    "the cloud and is left out."
)
ONE_COW = "Training and held-out clouds are of the same cow, around different points: this measures interpolation."
NO_SPOT = "The parts of Spot were not run: they need Spot's mesh (--data DIR with mesh/spot.npz)."
FEATURES = {"none": "none", "shape": "neighborhood", "xyz": "neighborhood, coordinates"}
VIEWS = {"radii": "radii", "cells": f"cells, {CELLS_PER_RADIUS:g} per radius", "fixed": "the same for all clouds"}


def conditions_of(data: PageData, *, spot: bool = False, rotated: bool = False) -> list[PointsCondition]:
    """Conditions in which a run has finished: on the parts of Spot or other clouds, rotated in 3-D or upright."""
    conditions = [condition(label) for label in finished_conditions(data, data.conditions)]
    rotation = "any" if rotated else "z"
    return [each for each in conditions if (each.clouds == SPOT) == spot and each.rotation == rotation]


def class_count(data: PageData, label: str) -> int:
    """Number of classes of a condition."""
    return next(spec.settings["model"]["classes"] for spec in data.specs if spec.condition == label)


def accuracy(data: PageData) -> list[Panel]:
    """Accuracy of upright clouds."""
    return _accuracy_panels(data, conditions_of(data)) or empty_panel("Accuracy")


def parts_of_spot(data: PageData) -> list[Panel]:
    """Accuracy of the parts of Spot."""
    panels = _accuracy_panels(data, conditions_of(data, spot=True))
    panels = [dataclasses.replace(panel, caption=f"{ONE_COW} {panel.caption}".strip()) for panel in panels]
    return panels or [Panel("Accuracy: parts of Spot", (Text((NO_SPOT,)),))]


def rotated_clouds(data: PageData) -> list[Panel]:
    """Accuracy of clouds that are rotated in 3-D in training too, and by number of points."""
    conditions = conditions_of(data, rotated=True)
    panels = [*_accuracy_panels(data, conditions), *_point_count_panels(data, conditions)]
    return panels or empty_panel("Accuracy: clouds rotated in 3-D")


def recent_encodings(data: PageData) -> list[Panel]:
    """Accuracy, also of moved clouds, with encodings of recent years and with those that they are compared with."""
    title = "Accuracy, encodings since 2022"
    recent = dataclasses.replace(data, specs=[spec for spec in data.specs if spec.variant in (*RECENT_BESIDE, *RECENT)])
    panels = _accuracy_panels(recent, conditions_of(recent), title=title)
    if not panels:
        return empty_panel(title)
    explained = [dataclasses.replace(each, caption=f"{each.caption} {RECENT_CAPTION}") for each in panels]
    return [*explained, *motions(recent)]


def _accuracy_panels(
    data: PageData,
    conditions: Sequence[PointsCondition],
    *,
    title: str = "Accuracy",
) -> list[Panel]:
    panels = []
    for each in conditions:
        count = class_count(data, each.label)
        metrics = {ACCURACY: Score(f"All {count} classes", HELD_OUT)}
        metrics |= {name: score for name, score in PAIRS.items() if seeds_by_label(data, name, each.label)}
        panels.append(
            score_plots(
                data.rows,
                metrics=metrics,
                condition=each.label,
                held_out=held_out_items(data, each.label),
                lines={name: {"chance": 1 / count if name == ACCURACY else 0.5} for name in metrics},
                title=f"{title}: {each.title}",
                caption=" ".join(filter(None, (ACCURACY_CAPTION, _features_sentence(data, each.label)))),
            )
        )
    return panels


def accuracy_by_point_count(data: PageData) -> list[Panel]:
    """Accuracy with other numbers of points than in training, and the published accuracies."""
    conditions = conditions_of(data)
    if not conditions:
        return empty_panel("Accuracy by number of points")
    return [*_point_count_panels(data, conditions), published_accuracies()]


def _point_count_panels(data: PageData, conditions: Sequence[PointsCondition]) -> list[Panel]:
    panels = []
    for each in conditions:
        trained = next(spec.settings["points"] for spec in data.specs if spec.condition == each.label)
        metrics = {float(round(ratio * trained)): _metric_at(ratio) for ratio in POINT_RATIOS}
        panels.append(
            line_plot(
                _series(data, each.label, metrics),
                title=f"Accuracy by number of points: {each.title}",
                x_label="points of a cloud",
                y_label=HELD_OUT,
                chance=1 / class_count(data, each.label),
                log_x=True,
                held_out=held_out_items(data, each.label),
                note=_points_sentence(data, each.label) or f"Training: {trained} points of each cloud.",
            )
        )
    return panels


def _data_of(data: PageData, label: str) -> Mapping[str, Any]:
    """Entry "data" of the settings of a condition."""
    return next(spec.settings["data"] for spec in data.specs if spec.condition == label)


def _features_sentence(data: PageData, label: str) -> str:
    """Sentence on the features of the user's clouds beside the coordinates; "" without any."""
    features = _data_of(data, label).get("features", "none")
    return f"All variants but blind also have the features of your clouds: {features}." if features != "none" else ""


def _radius_sentence(data: PageData, label: str) -> str:
    """Sentence on the radius where all clouds have one scale."""
    return " A radius is the median radius of the clouds." if _data_of(data, label).get("scale") == "keep" else ""


def _points_sentence(data: PageData, label: str) -> str:
    """Sentences on the numbers of points of the user's clouds; "" for meshes and generated clouds, which have all."""
    spec = next(spec for spec in data.specs if spec.condition == label)
    if "clouds" not in spec.settings["data"] or (record := data.store.record_of(spec)) is None:
        return ""
    return f"Training: {record.options['points']}. A number of points that some cloud does not have is not tested."


def _metric_at(ratio: float) -> str:
    return ACCURACY if ratio == 1 else f"accuracy_x{ratio:g}"


def _series(data: PageData, label: str, metrics: Mapping[float, str]) -> dict[str, dict[float, BySeed]]:
    """Variant to x to seed to value, the most accurate variant first. metrics: x to metric."""
    accuracies = seeds_by_label(data, ACCURACY, label)
    order = sorted(accuracies, key=lambda name: (-mean(list(accuracies[name].values())), name))
    by_x = {x: seeds_by_label(data, metric, label) for x, metric in metrics.items()}
    return {name: {x: by_label[name] for x, by_label in by_x.items() if name in by_label} for name in order}


def published_accuracies() -> Panel:
    """Published accuracies by number of points."""
    body = tuple((label, *(number(value, 3) for value in values)) for label, values in ACCURACY_BY_POINTS.items())
    columns = ("Encoding", *(f"{count:,} points" for count in POINT_COUNTS))
    note = (
        f"{SOURCE}. Single runs of another model on other clouds: the order of the encodings can be compared, the "
        "accuracies cannot."
    )
    table = Table("Accuracy after training with 512 points of each cloud", columns, body, note)
    return Panel("Published accuracy by number of points", (table,))


def motions(data: PageData) -> list[Panel]:
    """Accuracy and change of the logits after a translation or a rotation of the held-out clouds."""
    rows = [row for row in data.rows if row["scheme"] != "blind"]
    panels = []
    for each in conditions_of(data):
        metrics = {0.0: ACCURACY, **{length: f"accuracy_moved_{length:g}" for length in SHIFTS}}
        panels.append(
            line_plot(
                _series(data, each.label, metrics),
                title=f"Accuracy of translated clouds: {each.title}",
                x_label="translation (radii of a cloud)",
                y_label=HELD_OUT,
                chance=1 / class_count(data, each.label),
                held_out=held_out_items(data, each.label),
                note=f"Clouds are not translated in training.{_radius_sentence(data, each.label)}",
            )
        )
        panels.append(
            score_plots(
                rows,
                metrics=MOTIONS,
                condition=each.label,
                held_out=held_out_items(data, each.label),
                title=f"Invariance to translations and rotations: {each.title}",
                caption=MOTION_CAPTION,
            )
        )
    return panels or empty_panel("Accuracy of translated clouds")


def variant_tables(data: PageData) -> list[Panel]:
    """Scheme, position view, features and parameter count of each variant."""
    columns = ("Variant", "Scheme", "Positions (unit)", "Features of a point", "Parameters")
    panels = []
    for each in (condition(label) for label in finished_conditions(data, data.conditions)):
        counts = seeds_by_label(data, "parameters", each.label)
        labels = sorted(data.labels(each.label), key=lambda label: (*VARIANTS, *RECENT, label).index(label))
        body = []
        for label in labels:
            spec = next(spec for spec in data.specs if (spec.condition, spec.variant) == (each.label, label))
            variant = msgspec.convert(spec.settings["row"], PointsVariant)
            scheme = scheme_text({"scheme": variant.scheme, "options": variant.options})
            parameters = sorted({round(value) for value in counts.get(label, {}).values()})
            trained = " to ".join(f"{value:,}" for value in parameters) or "not run"
            own = spec.settings["data"].get("features", "none")
            features = FEATURES[variant.features] + (f", {own}" if own != "none" != variant.features else "")
            body.append((label, scheme, VIEWS[variant.view], features, trained))
        table = Table("Variants", columns, tuple(body), prose=True)
        panels.append(Panel(f"Variants: {each.title}", (table,)))
    return panels or empty_panel("Variants")
