"""Trained model of a run of the scene study: a radiance field in a cube of the world."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.scene.density_mesh import density_mesh
from posenc.workbench.studies.scene.execute import radiance_field
from posenc.workbench.studies.scene.turntable import film
from posenc.workbench.studies.shared.stored_model import BuiltModel, StoredModel


def build(spec: RunSpec, root: Path) -> BuiltModel:
    """The untrained radiance field of a run."""
    return BuiltModel(radiance_field(spec.settings))


def convention(spec: RunSpec) -> str:
    """Sentences on the input and the output of the model of a run."""
    return (
        "Input: rays, origins (R, 3) and unit directions (R, 3) in the order (x, y, z), in the coordinates of the cube "
        "[0, 1]^3 of the scene. Output: color (R, 3) from 0 to 1, opacity (R,) and depth (R,) in sides of the cube. "
        "model.density(points) takes points (M, 3) of the cube and returns the density per side of the cube (M,) and "
        "features. A point p of the world has the coordinates (p - low) / side: both are in the scene's file in the "
        "folder data of the store. posenc export RUN --to mesh.ply writes a mesh in the coordinates of the world, "
        "and --to turntable.gif (or .mp4) an animation."
    )


STORED_MODEL = StoredModel(
    build=build, convention=convention, metrics={"psnr_mask": "max", "psnr": "max"}, surface=density_mesh, film=film
)
