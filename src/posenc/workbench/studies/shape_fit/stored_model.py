"""Trained model of a run of the shape study: a field from a point of the unit cube to a signed distance or a logit."""

from __future__ import annotations

from pathlib import Path

import msgspec

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.field_variants import FieldVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained field of a run."""
    return BuiltModel(msgspec.convert(spec.settings["row"], FieldVariant).field())


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the field of a run."""
    value = "the signed distance to the surface in sides of the cube"
    if spec.settings["loss"]["kind"] == "occupancy":
        value = "minus the logit of the probability that the point is inside"
    return (
        "Input: points (N, 3) in the order (x, y, z) in the unit cube [0, 1]^3. The mesh is scaled and centered in the "
        "cube without distortion, its longest axis fills the cube up to a margin, and its axes keep their order. "
        f"Output: (N, 1), {value}: negative inside. posenc export RUN --to mesh.ply writes the surface in the "
        "coordinates of the mesh's file."
    )


STORED_MODEL = StoredModel(build=build, convention=convention, metrics={"chamfer": "min", "iou": "max"})
