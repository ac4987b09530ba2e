"""Trained model of a run of the points study: a classifier of point clouds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.models.point_cloud import PointsConfig
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.points.variants import PointsVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained classifier of a run."""
    variant = msgspec.convert(spec.settings["row"], PointsVariant)
    return BuiltModel(variant.model(msgspec.convert(spec.settings["model"], PointsConfig)))


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the classifier of a run."""
    variant = msgspec.convert(spec.settings["row"], PointsVariant)
    return (
        "A cloud is (B, N, 3) in the order (x, y, z), centered, in radii of the cloud: the farthest point has the "
        "distance 1. Input: features and positions of its points, with `from posenc.workbench.tasks import points`: "
        f"model(points.token_features(cloud, {variant.features!r}), points.token_positions(cloud, {variant.view!r})). "
        f"Output: logits (B, {spec.settings['model']['classes']}) of the classes. "
        f"Training had {spec.settings['points']} points of each cloud."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"accuracy": "max"})
