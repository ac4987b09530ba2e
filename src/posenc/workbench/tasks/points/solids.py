"""Solids with random proportions, as triangle meshes.

    ellipsoid box cylinder cone torus capsule pyramid bowl        one piece each
    row, triangle              three equal balls at -1, 0, 1 on a line, or at the corners of a triangle of radius 1
    parallel, crossed          two equal bars one above the other, in one direction, or at right angles
    left helix, right helix    a tube around a helix, and its mirror image

The last three lines are pairs of classes with the same pieces. Sizes and distances from the center have the same
distribution in both classes of a pair. Pieces are further apart than a neighborhood reaches, so the set of
neighborhoods does not separate the classes. All solids are upright.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from posenc.workbench.tasks.shapes import Mesh, clean_mesh, cuboid
from posenc.workbench.tasks.shapes.meshes import Index, Points

ROTATION_STEPS = 24
"""Number of points around the axis of a solid of revolution."""
Faces = tuple[Points, Index]


def _lattice_faces(vertices: Points, *, closed: bool) -> Faces:
    """Faces of a lattice of points ``(K, L, 3)``, closed along L, and along K if ``closed``."""
    rows, columns = vertices.shape[:2]
    i, j = np.meshgrid(np.arange(rows if closed else rows - 1), np.arange(columns), indexing="ij")
    below, beside = (i + 1) % rows, (j + 1) % columns
    a, b, c, d = i * columns + j, below * columns + j, below * columns + beside, i * columns + beside
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
    return vertices.reshape(-1, 3), faces


def _revolve(profile: Points, *, closed: bool = False) -> Faces:
    """Solid of revolution about the z axis of a profile ``(K, 2)`` of (radius, height)."""
    angle = 2 * np.pi * np.arange(ROTATION_STEPS) / ROTATION_STEPS
    radius, height = profile[:, :1], profile[:, 1:]
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height + 0 * angle], -1)
    return _lattice_faces(points, closed=closed)


def _join(*parts: Faces) -> Faces:
    """One mesh of several parts."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    return np.concatenate([v for v, _ in parts]), np.concatenate(
        [faces + start for (_, faces), start in zip(parts, starts, strict=True)]
    )


def _arc(low: float, high: float, steps: int = 12) -> Points:
    """Points ``(K, 2)`` of the unit circle between two latitudes."""
    angle = np.linspace(low, high, steps)
    return np.stack([np.cos(angle), np.sin(angle)], -1).round(12)  # a pole lies on the axis


def ellipsoid(rng: np.random.Generator) -> Faces:
    vertices, faces = _revolve(_arc(-np.pi / 2, np.pi / 2))
    return vertices * rng.uniform(0.5, 1.0, 3), faces


def box(rng: np.random.Generator) -> Faces:
    return cuboid(*rng.uniform(0.5, 1.0, 3))


def cylinder(rng: np.random.Generator) -> Faces:
    radius, height = rng.uniform(0.3, 0.8), rng.uniform(0.4, 1.0)
    return _revolve(np.array([[0, -height], [radius, -height], [radius, height], [0, height]]))


def cone(rng: np.random.Generator) -> Faces:
    radius, height = rng.uniform(0.4, 0.9), rng.uniform(0.5, 1.0)
    return _revolve(np.array([[0, -height], [radius, -height], [0, height]]))


def torus(rng: np.random.Generator) -> Faces:
    ring = _arc(0, 2 * np.pi, 13)[:-1] * rng.uniform(0.15, 0.4)
    return _revolve(ring + np.array([1.0, 0.0]), closed=True)


def capsule(rng: np.random.Generator) -> Faces:
    half = rng.uniform(0.5, 2.0)
    up = np.array([0, half])
    return _revolve(np.concatenate([_arc(-np.pi / 2, 0, 7) - up, _arc(0, np.pi / 2, 7) + up]))


def pyramid(rng: np.random.Generator) -> Faces:
    width, depth = rng.uniform(0.5, 0.9, 2)
    foot = np.array([[-width, -depth], [width, -depth], [width, depth], [-width, depth]])
    vertices = np.concatenate([np.c_[foot, np.full(4, -0.5)], [[0, 0, rng.uniform(0.3, 1.2)]]])
    return vertices, np.array([[0, 2, 1], [0, 3, 2], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def bowl(rng: np.random.Generator) -> Faces:
    """Part of a sphere, open at the top."""
    vertices, faces = _revolve(_arc(-np.pi / 2, rng.uniform(-0.4, 0.3)))
    return vertices * [1, 1, rng.uniform(0.7, 1.1)], faces


def _balls(rng: np.random.Generator, middles: Points) -> Faces:
    vertices, faces = _revolve(_arc(-np.pi / 2, np.pi / 2) * rng.uniform(0.15, 0.3))
    return _join(*((vertices + middle, faces) for middle in middles))


def row(rng: np.random.Generator) -> Faces:
    return _balls(rng, np.array([[-1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))


def triangle(rng: np.random.Generator) -> Faces:
    corner = 2 * np.pi * np.arange(3)[:, None] / 3
    return _balls(rng, np.concatenate([np.cos(corner), np.sin(corner), 0 * corner], -1))


def _bars(rng: np.random.Generator, *, crossed: bool) -> Faces:
    width, up = rng.uniform(0.16, 0.3), np.array([0, 0, rng.uniform(0.4, 0.55)])
    vertices, faces = cuboid(2.0, width, width)
    other = vertices[:, [1, 0, 2]] * [-1, 1, 1] if crossed else vertices
    return _join((vertices + up, faces), (other - up, faces))


def parallel(rng: np.random.Generator) -> Faces:
    return _bars(rng, crossed=False)


def crossed(rng: np.random.Generator) -> Faces:
    return _bars(rng, crossed=True)


def right_helix(rng: np.random.Generator) -> Faces:
    """Tube around a helix that rises as it turns counterclockwise, seen from above."""
    turns, rise, thick = rng.uniform(1.25, 2.25), rng.uniform(0.6, 1.0), rng.uniform(0.1, 0.18)
    t = np.linspace(0, 2 * np.pi * turns, 48)[:, None]
    slope = 2 * rise / (2 * np.pi * turns)
    middle = np.concatenate([np.cos(t), np.sin(t), slope * t - rise], -1)
    out = np.concatenate([np.cos(t), np.sin(t), 0 * t], -1)
    up = np.concatenate([slope * np.sin(t), -slope * np.cos(t), 1 + 0 * t], -1) / np.hypot(1, slope)
    across = 2 * np.pi * np.arange(10)[:, None] / 10
    return _lattice_faces(
        middle[:, None] + thick * (np.cos(across) * out[:, None] + np.sin(across) * up[:, None]), closed=False
    )


def left_helix(rng: np.random.Generator) -> Faces:
    vertices, faces = right_helix(rng)
    return vertices * [-1, 1, 1], faces[:, ::-1]


SOLIDS: Mapping[str, Callable[[np.random.Generator], Faces]] = {
    function.__name__.replace("_", " "): function
    for function in (
        ellipsoid, box, cylinder, cone, torus, capsule, pyramid, bowl, row, triangle, parallel, crossed, left_helix,
        right_helix,
    )
}  # fmt: skip
"""Function that makes vertices and faces, by name of the class. The class number is the place in this order."""
ARRANGEMENT_PAIRS, MIRROR_PAIRS = (("row", "triangle"), ("parallel", "crossed")), (("left helix", "right helix"),)
"""Pairs of classes with the same pieces, in another arrangement, or mirrored."""


def make_solid(name: str, rng: np.random.Generator) -> Mesh:
    """Generate one solid of a class. Raises ValueError for an unknown class."""
    if name not in SOLIDS:
        raise ValueError(f"there is no solid {name!r}. There are {', '.join(SOLIDS)}.")
    return clean_mesh(Mesh(*SOLIDS[name](rng)))[0]  # a profile that meets its axis has faces without area
