"""Trained model of a run of the shape study: a field from a point of the unit cube to a signed distance or a logit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shape_fit.stored_shape import load_points
from posenc.workbench.studies.shared.field_variants import FieldVariant
from posenc.workbench.studies.shared.stored_model import BuiltModel, ColoredMesh, StoredModel
from posenc.workbench.tasks import shapes


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


def surface(model: nn.Module, root: Path, resolution: int | None) -> ColoredMesh:
    """Surface of a field by marching cubes, in the coordinates of the mesh's file.

    Args:
        model: The loaded field.
        root: Root of its store.
        resolution: Lattice points per axis; None for those of the run.

    Returns:
        The mesh.

    Raises:
        ValueError: The field has no surface in the cube, or scikit-image is not installed.
    """
    field: Any = model
    settings = field.run_spec.settings
    points = resolution or settings["resolution"]
    values = shapes.evaluate_field(lambda places: field(places)[..., 0], shapes.lattice_points(points))
    mesh = shapes.marching_cubes(values.reshape(3 * (points,)).numpy())
    if mesh is None:
        raise ValueError("this field has no surface: it is inside or outside at every lattice point of the cube.")
    placement = load_points(root, settings["points"]).shape.placement
    return ColoredMesh(placement.from_cube(mesh.vertices), mesh.faces)


STORED_MODEL = StoredModel(
    build=build,
    convention=convention,
    metrics={"chamfer": "min", "iou": "max"},
    example=lambda spec: torch.rand(8, 3),
    surface=surface,
)
