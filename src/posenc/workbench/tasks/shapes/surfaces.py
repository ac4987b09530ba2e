"""Surface of a field by marching cubes, and its error: IoU, Chamfer distance and normal angle.

    IoU       |A and B| / |A or B| of the insides, over points that represent known shares of the cube
    Chamfer   (mean_{a on A} d(a, B) + mean_{b on B} d(b, A)) / 2, in diagonals of the true shape's box
    normals   mean angle, in both directions too, between the face at a and the face at the point nearest to a

d is the exact distance to the other surface's triangles, so two equal surfaces have Chamfer distance 0 for any number
of points. Angles are between lines without direction, so a face with the wrong orientation is not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.workbench.tasks.shapes.distance import MeshTree, signed_distance
from posenc.workbench.tasks.shapes.meshes import Mesh, Points
from posenc.workbench.tasks.shapes.samples import surface_points

Field = Callable[[Tensor], Tensor]
"""Function from points ``(N, 3)`` to values ``(N,)``, negative inside."""

CHUNK_POINTS = 1 << 15
"""Number of points evaluated at a time."""

NOISE_FACES = 1 << 20
"""Number of faces above which a surface is noise in every cell of the lattice, and no shape."""


class SurfaceError(NamedTuple):
    """Error of a surface: ``chamfer`` in diagonals of the true box, ``normal_error`` in degrees."""

    chamfer: float
    normal_error: float


def iou(inside: Tensor, truly: Tensor, volume: Tensor | None = None) -> float:
    """Intersection over union of two sets of points; 1 where both are empty.

    Args:
        inside: ``(N,)`` bool, the predicted set.
        truly: ``(N,)`` bool, the true set.
        volume: ``(N,)``, volume that each point represents; equal by default.
    """
    share = torch.ones(len(inside), dtype=torch.float64) if volume is None else volume.double()
    both, either = (share.to(part.device)[part].sum().item() for part in (inside & truly, inside | truly))
    return both / either if either else 1.0


def lattice_points(resolution: int) -> Tensor:
    """``(resolution^3, 3)`` points of the unit cube including its faces, the last axis fastest."""
    if resolution < 2:
        raise ValueError(f"a lattice over the cube has at least 2 points per axis; got {resolution}.")
    steps = torch.linspace(0, 1, resolution)
    return torch.cartesian_prod(steps, steps, steps)


@torch.no_grad()
def evaluate_field(field: Field, points: Tensor) -> Tensor:
    """Values of a field at any number of points, computed in chunks."""
    return torch.cat([field(chunk) for chunk in points.split(CHUNK_POINTS)])


def lattice_distances(tree: MeshTree, resolution: int) -> Points:
    """Signed distances ``(R, R, R)`` on ``lattice_points(R)``, exact near the surface.

    Within two cells of the surface, which is all that marching cubes reads, the values are exact. Elsewhere they have
    the correct sign and are lower bounds from a coarser lattice, by the triangle inequality.
    """
    points = lattice_points(resolution).numpy().astype(np.float64)
    coarse = max(resolution // 4, 2)
    known = signed_distance(tree, lattice_points(coarse).numpy()).reshape(3 * (coarse,))
    nearest = np.rint(points * (coarse - 1)).astype(np.intp)
    far = known[tuple(nearest.T)]
    least = np.abs(far) - np.linalg.norm(points - nearest / (coarse - 1), axis=1)
    near = least <= 2 / (resolution - 1)
    values = np.sign(far) * least
    values[near] = signed_distance(tree, points[near])
    return values.reshape(3 * (resolution,))


def marching_cubes(values: NDArray[np.floating]) -> Mesh | None:
    """Zero level of values ``(R, R, R)`` on ``lattice_points(R)``, oriented outward, closed at the cube's faces.

    Returns:
        The mesh, or None where the values have no inside or no outside, or are not finite.

    Raises:
        ValueError: scikit-image is not installed.
    """
    try:
        from skimage import measure
    except ImportError:
        raise ValueError(
            "marching cubes is scikit-image's, which is not installed: pip install 'posenc[fields]'"
        ) from None
    values = np.asarray(values, np.float64)
    finite = np.isfinite(values).all()
    if not finite or values.min() >= 0 or values.max() < 0:
        return None
    padded = np.pad(values, 1, constant_values=np.abs(values).max())
    vertices, faces, _, _ = measure.marching_cubes(padded, 0.0, gradient_direction="descent", allow_degenerate=False)
    return Mesh((vertices - 1) / (len(values) - 1), faces)


def surface_error(mesh: Mesh, truth: Mesh, points: int = 10_000, seed: int = 0) -> SurfaceError:
    """Chamfer distance and normal angle between two surfaces, from ``points`` points of each."""
    rng = np.random.default_rng(seed)
    sides = [_directed_error(a, b, points, rng) for a, b in ((mesh, truth), (truth, mesh))]
    chamfer, angle = np.mean(sides, axis=0)
    return SurfaceError(float(chamfer) / truth.diagonal, float(angle))


def _directed_error(a: Mesh, b: Mesh, points: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean distance and normal angle from points of one mesh to another mesh."""
    order = np.arange(len(a.faces)) if len(a.faces) > NOISE_FACES else None
    place, face = surface_points(a, points, rng, order)
    near = _nearby_faces(b, place) if len(b.faces) > NOISE_FACES else b
    d, nearest = MeshTree(near).distance(place)
    cosine = np.abs(np.einsum("ni,ni->n", a.normals[face], near.normals[nearest]))
    return float(d.mean()), float(np.degrees(np.arccos(np.clip(cosine, 0, 1))).mean())


def _nearby_faces(mesh: Mesh, points: Points) -> Mesh:
    """Part of a mesh that contains the nearest face of each point, so that the tree can be smaller.

    The distance of a point to the mesh is at most the distance to its nearest vertex, and every point of a face is at
    most as far from the face's center as a corner is.
    """
    from scipy.spatial import KDTree

    reach = KDTree(mesh.vertices[np.unique(mesh.faces)]).query(points)[0].max()
    center = mesh.corners.mean(1)
    radius = np.linalg.norm(mesh.corners - center[:, None], axis=2).max()
    d, _ = KDTree(points).query(center, distance_upper_bound=(reach + radius) * (1 + 1e-9))
    return Mesh(mesh.vertices, mesh.faces[np.isfinite(d)])


def slice_points(resolution: int, at: float = 0.5) -> Points:
    """``(resolution^2, 3)`` pixel centers of the plane ``x = at``: row by row, y downwards from 1, z along each row."""
    steps = (np.arange(resolution) + 0.5) / resolution
    z, y = np.meshgrid(steps, steps[::-1])
    return np.stack([np.full(resolution**2, at), y.ravel(), z.ravel()], -1)
