"""Trained model of a run of the points study: a classifier of point clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from posenc.models.point_cloud import PointsConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.points.variants import PointsVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, Classes, StoredModel
from posenc.workbench.tasks import points as task


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained classifier of a run."""
    variant = msgspec.convert(spec.settings["row"], PointsVariant)
    return BuiltModel(variant.model(msgspec.convert(spec.settings["model"], PointsConfig)))


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the classifier of a run."""
    variant = msgspec.convert(spec.settings["row"], PointsVariant)
    features = spec.settings["data"].get("features", "none")
    more = f" The attributes of a point, {features}, follow as the fourth argument of token_features."
    more = "" if features == "none" or variant.features == "none" else more
    if spec.settings["data"].get("scale", "unit") == "keep":
        unit = "in the common scale of the folder, ``reading`` of the model"
    else:
        unit = "centered, in radii of the cloud: the farthest point has the distance 1"
    return (
        f"A cloud is (B, N, 3) in the order (x, y, z), {unit}. "
        "Input: features and positions of its points, with `from posenc.workbench.tasks import points`: "
        f"model(points.token_features(cloud, {variant.features!r}), points.token_positions(cloud, {variant.view!r}))."
        f"{more} "
        f"Output: logits (B, {spec.settings['model']['classes']}) of the classes. "
        f"Training had {spec.settings['points']} points of each cloud. model.classify(cloud) takes the path of a cloud "
        "or of a mesh, or an array (N, 3), and returns the name of its class."
    )


def classes(model: nn.Module, spec: RunSpec, store: Store) -> Classes:
    """Names of the classes of a run, and the function that classifies one cloud: a path or an array."""
    record, settings = store.record_of(spec), spec.settings
    options = {} if record is None else record.options
    generated = tuple(task.SPOT_PARTS if "mesh" in settings["data"] else task.SOLIDS)
    names = record.classes if record is not None and record.classes else generated
    variant = msgspec.convert(settings["row"], PointsVariant)
    attributes = tuple(filter(None, str(options.get("columns", "")).split(", ")))
    normalization = {name: options[name] for name in task.NORMALIZATION if name in options}

    @torch.no_grad()
    def classify(cloud: Any) -> str:
        sample = task.read_cloud(cloud, settings["points"], attributes, normalization)
        return names[int(model(*variant.tokens(sample)).argmax())]

    reading = {"points": settings["points"], "columns": list(attributes), **normalization}
    return Classes(names, classify, reading)


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"accuracy": "max"}, classes=classes)
