"""Mesh of a trained radiance field: the surface of a density by marching cubes, with colors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.models.radiance import Radiance
from posenc.workbench.studies.scene.execute import RENDERED_POINTS, stored_scene
from posenc.workbench.studies.shared.stored_model import ColoredMesh
from posenc.workbench.tasks import shapes

LATTICE = 96
"""Lattice points per axis of a mesh, unless a user asks for others."""
DENSITY = 22.0
"""Density of the surface per side of the cube: half of the light is absorbed in a path of 1/32 of the side."""
IN_FRONT = 1 / 32
"""Distance from a vertex of the start of the ray that finds its color, in sides of the cube."""


@torch.no_grad()
def density_mesh(model: nn.Module, root: Path, resolution: int | None) -> ColoredMesh:
    """Surface where the density of a radiance field reaches ``DENSITY``, in the coordinates of the world.

    Densities outside of the occupied cells count as 0, because a training without samples leaves them arbitrary. The
    color of a vertex is the one that a camera in front of the surface sees.

    Args:
        model: The loaded radiance field.
        root: Root of its store.
        resolution: Lattice points per axis; None for 96.

    Returns:
        The mesh, with colors.

    Raises:
        ValueError: No density is as high, the store lacks the scene, or scikit-image is not installed.
    """
    assert isinstance(model, Radiance)
    loaded: Any = model
    scene, points = stored_scene(root, loaded.run_spec.settings["scene"]), resolution or LATTICE

    def below(places: Tensor) -> Tensor:
        density, _ = model.density(places)
        return DENSITY - (density if model.occupancy is None else density * model.occupancy(places))

    values = shapes.evaluate_field(below, shapes.lattice_points(points))
    mesh = shapes.marching_cubes(values.reshape(3 * (points,)).double().numpy())
    if mesh is None:
        raise ValueError(
            f"this scene has no surface: its density is nowhere, or everywhere, above {DENSITY:g} per side of the cube."
        )
    world = mesh.vertices * scene.side + np.array(scene.low)
    return ColoredMesh(world, mesh.faces, _colors(model, mesh))


def _colors(model: Radiance, mesh: shapes.Mesh) -> np.ndarray:
    """Bytes ``(V, 3)``: the colors of rays that start in front of the vertices, against their normals."""
    normals = np.zeros_like(mesh.vertices)
    for corner in range(3):
        np.add.at(normals, mesh.faces[:, corner], mesh.area_vectors)
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-12)[:, None]
    origin, direction = (torch.from_numpy(each).float() for each in (mesh.vertices + IN_FRONT * normals, -normals))
    rays = max(1, RENDERED_POINTS // model.config.per_ray)
    parts = zip(origin.split(rays), direction.split(rays), strict=True)
    colors = torch.cat([model(*part).color for part in parts])
    return colors.clamp(0, 1).mul(255).round().byte().numpy()
