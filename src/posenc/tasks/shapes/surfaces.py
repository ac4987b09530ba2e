"""From a field back to a surface, and how far that surface is from the true one.

    IoU       |A and B| / |A or B| of what is inside, over points that stand for known shares of the cube
    Chamfer   (mean_{a on A} d(a, B) + mean_{b on B} d(b, A)) / 2, in diagonals of the true shape's box
    normals   the mean angle, both ways too, between the faces at a and at the point nearest to it

d is the exact distance to the other surface's triangles, so that two equal surfaces are 0 apart however many points
are drawn. Angles are between lines, not arrows: a face that is turned round is not an error of the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.tasks.shapes.distance import Tree, signed_distance
from posenc.tasks.shapes.meshes import Mesh, Points
from posenc.tasks.shapes.samples import on_surface

Field = Callable[[Tensor], Tensor]
"""From points ``(N, 3)`` to values ``(N,)``, negative inside."""

RUN = 1 << 15

FOAM = 1 << 20
"""Faces above which a surface is no surface of anything, but noise in every cell of the lattice."""


class Apart(NamedTuple):
    """How far two surfaces are apart: ``chamfer`` in diagonals, ``normal_error`` in degrees."""

    chamfer: float
    normal_error: float


def iou(inside: Tensor, truly: Tensor, volume: Tensor | None = None) -> float:
    """Intersection over union of two sets of points, given as truth values ``(N,)``; 1 where both are empty.

    volume: ``(N,)``, what each point stands for; all the same by default.
    """
    share = torch.ones(len(inside), dtype=torch.float64) if volume is None else volume.double()
    both, either = (share.to(part.device)[part].sum().item() for part in (inside & truly, inside | truly))
    return both / either if either else 1.0


def lattice(resolution: int) -> Tensor:
    """``(resolution^3, 3)`` points of the unit cube, its faces among them, the last axis fastest."""
    if resolution < 2:
        raise ValueError(f"a lattice over the cube has at least 2 points an axis; got {resolution}.")
    steps = torch.linspace(0, 1, resolution)
    return torch.cartesian_prod(steps, steps, steps)


@torch.no_grad()
def sample_field(field: Field, points: Tensor) -> Tensor:
    """The field's values at any number of points, so many at a time as fit anywhere."""
    return torch.cat([field(run) for run in points.split(RUN)])


def distance_on_lattice(tree: Tree, resolution: int) -> Points:
    """The signed distances ``(R, R, R)`` on ``lattice(R)``: exact within two cells of the surface, which is all that
    marching cubes reads, and elsewhere at most so much, on the right side: a distance to a point further away can only
    be shorter by how far that is."""
    points = lattice(resolution).numpy().astype(np.float64)
    coarse = max(resolution // 4, 2)
    known = signed_distance(tree, lattice(coarse).numpy()).reshape(3 * (coarse,))
    beside = np.rint(points * (coarse - 1)).astype(np.intp)
    far = known[tuple(beside.T)]
    least = np.abs(far) - np.linalg.norm(points - beside / (coarse - 1), axis=1)
    near = least <= 2 / (resolution - 1)
    values = np.sign(far) * least
    values[near] = signed_distance(tree, points[near])
    return values.reshape(3 * (resolution,))


def marching_cubes(values: NDArray[np.floating]) -> Mesh | None:
    """The zero level of values ``(R, R, R)`` on ``lattice(R)``, outward; closed at the faces of the cube.

    None where it has no inside or no outside at all. Raises ValueError where scikit-image is not installed.
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


def apart(mesh: Mesh, truth: Mesh, points: int = 10_000, seed: int = 0) -> Apart:
    """The distance between two surfaces, from so many points of each."""
    rng = np.random.default_rng(seed)
    sides = [_one_way(a, b, points, rng) for a, b in ((mesh, truth), (truth, mesh))]
    chamfer, angle = np.mean(sides, axis=0)
    return Apart(float(chamfer) / truth.diagonal, float(angle))


def _one_way(a: Mesh, b: Mesh, points: int, rng: np.random.Generator) -> tuple[float, float]:
    in_turn = np.arange(len(a.faces)) if len(a.faces) > FOAM else None
    place, face = on_surface(a, points, rng, in_turn)
    near = _near(b, place) if len(b.faces) > FOAM else b
    d, nearest = Tree(near).distance(place)
    cosine = np.abs(np.einsum("ni,ni->n", a.normals[face], near.normals[nearest]))
    return float(d.mean()), float(np.degrees(np.arccos(np.clip(cosine, 0, 1))).mean())


def _near(mesh: Mesh, points: Points) -> Mesh:
    """The part of a mesh that holds what is nearest to each of the points: no tree is made of what is further off.

    No point is further from the mesh than from its nearest corner, nor a place of a face from the face's middle than
    its corners are.
    """
    from scipy.spatial import KDTree

    reach = KDTree(mesh.vertices[np.unique(mesh.faces)]).query(points)[0].max()
    middle = mesh.corners.mean(1)
    radius = np.linalg.norm(mesh.corners - middle[:, None], axis=2).max()
    d, _ = KDTree(points).query(middle, distance_upper_bound=(reach + radius) * (1 + 1e-9))
    return Mesh(mesh.vertices, mesh.faces[np.isfinite(d)])


def slice_points(resolution: int, at: float = 0.5) -> Points:
    """``(resolution^2, 3)`` pixel centres of the plane ``x = at``: row by row, y downwards from 1, z along each row."""
    steps = (np.arange(resolution) + 0.5) / resolution
    z, y = np.meshgrid(steps, steps[::-1])
    return np.stack([np.full(resolution**2, at), y.ravel(), z.ravel()], -1)
