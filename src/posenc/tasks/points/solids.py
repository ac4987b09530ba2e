"""Solids with random proportions, as triangle meshes: some differ in what they are made of, some in arrangement alone.

    ellipsoid box cylinder cone torus capsule pyramid bowl        one piece each
    row, triangle              three equal balls at -1, 0, 1 on a line, or at the corners of a triangle of radius 1
    parallel, crossed          two equal bars one above the other, along one direction, or at right angles
    left helix, right helix    a tube around a helix, and its mirror image

The last three are pairs: pieces, sizes and distance from the middle are drawn alike, and pieces stand further apart
than a neighbourhood reaches, so that no bag of neighbourhoods tells one of a pair from the other. All stand upright.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from posenc.tasks.shapes import Mesh, cuboid, tidy
from posenc.tasks.shapes.meshes import Index, Points

AROUND = 24
Faces = tuple[Points, Index]


def _sheet(vertices: Points, *, closed: bool) -> Faces:
    """The faces of a lattice ``(K, L, 3)`` of points: closed along L, and along K if ``closed``."""
    rows, columns = vertices.shape[:2]
    i, j = np.meshgrid(np.arange(rows if closed else rows - 1), np.arange(columns), indexing="ij")
    below, beside = (i + 1) % rows, (j + 1) % columns
    a, b, c, d = i * columns + j, below * columns + j, below * columns + beside, i * columns + beside
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
    return vertices.reshape(-1, 3), faces


def _revolved(profile: Points, *, closed: bool = False) -> Faces:
    """What a profile ``(K, 2)`` of (radius, height) makes when it is turned about the z axis."""
    angle = 2 * np.pi * np.arange(AROUND) / AROUND
    radius, height = profile[:, :1], profile[:, 1:]
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height + 0 * angle], -1)
    return _sheet(points, closed=closed)


def _together(*parts: Faces) -> Faces:
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    return np.concatenate([v for v, _ in parts]), np.concatenate(
        [faces + start for (_, faces), start in zip(parts, starts, strict=True)]
    )


def _arc(low: float, high: float, steps: int = 12) -> Points:
    """Points ``(K, 2)`` of the unit circle between two latitudes."""
    angle = np.linspace(low, high, steps)
    return np.stack([np.cos(angle), np.sin(angle)], -1).round(12)  # a pole lies on the axis


def ellipsoid(rng: np.random.Generator) -> Faces:
    vertices, faces = _revolved(_arc(-np.pi / 2, np.pi / 2))
    return vertices * rng.uniform(0.5, 1.0, 3), faces


def box(rng: np.random.Generator) -> Faces:
    return cuboid(*rng.uniform(0.5, 1.0, 3))


def cylinder(rng: np.random.Generator) -> Faces:
    radius, height = rng.uniform(0.3, 0.8), rng.uniform(0.4, 1.0)
    return _revolved(np.array([[0, -height], [radius, -height], [radius, height], [0, height]]))


def cone(rng: np.random.Generator) -> Faces:
    radius, height = rng.uniform(0.4, 0.9), rng.uniform(0.5, 1.0)
    return _revolved(np.array([[0, -height], [radius, -height], [0, height]]))


def torus(rng: np.random.Generator) -> Faces:
    ring = _arc(0, 2 * np.pi, 13)[:-1] * rng.uniform(0.15, 0.4)
    return _revolved(ring + np.array([1.0, 0.0]), closed=True)


def capsule(rng: np.random.Generator) -> Faces:
    half = rng.uniform(0.5, 2.0)
    up = np.array([0, half])
    return _revolved(np.concatenate([_arc(-np.pi / 2, 0, 7) - up, _arc(0, np.pi / 2, 7) + up]))


def pyramid(rng: np.random.Generator) -> Faces:
    width, depth = rng.uniform(0.5, 0.9, 2)
    foot = np.array([[-width, -depth], [width, -depth], [width, depth], [-width, depth]])
    vertices = np.concatenate([np.c_[foot, np.full(4, -0.5)], [[0, 0, rng.uniform(0.3, 1.2)]]])
    return vertices, np.array([[0, 2, 1], [0, 3, 2], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def bowl(rng: np.random.Generator) -> Faces:
    """Part of a sphere without a lid."""
    vertices, faces = _revolved(_arc(-np.pi / 2, rng.uniform(-0.4, 0.3)))
    return vertices * [1, 1, rng.uniform(0.7, 1.1)], faces


def _balls(rng: np.random.Generator, middles: Points) -> Faces:
    vertices, faces = _revolved(_arc(-np.pi / 2, np.pi / 2) * rng.uniform(0.15, 0.3))
    return _together(*((vertices + middle, faces) for middle in middles))


def row(rng: np.random.Generator) -> Faces:
    return _balls(rng, np.array([[-1.0, 0, 0], [0, 0, 0], [1, 0, 0]]))


def triangle(rng: np.random.Generator) -> Faces:
    corner = 2 * np.pi * np.arange(3)[:, None] / 3
    return _balls(rng, np.concatenate([np.cos(corner), np.sin(corner), 0 * corner], -1))


def _bars(rng: np.random.Generator, *, crossed: bool) -> Faces:
    width, up = rng.uniform(0.16, 0.3), np.array([0, 0, rng.uniform(0.4, 0.55)])
    vertices, faces = cuboid(2.0, width, width)
    other = vertices[:, [1, 0, 2]] * [-1, 1, 1] if crossed else vertices
    return _together((vertices + up, faces), (other - up, faces))


def parallel(rng: np.random.Generator) -> Faces:
    return _bars(rng, crossed=False)


def crossed(rng: np.random.Generator) -> Faces:
    return _bars(rng, crossed=True)


def right_helix(rng: np.random.Generator) -> Faces:
    """Rises as it turns anticlockwise seen from above."""
    turns, rise, thick = rng.uniform(1.25, 2.25), rng.uniform(0.6, 1.0), rng.uniform(0.1, 0.18)
    t = np.linspace(0, 2 * np.pi * turns, 48)[:, None]
    slope = 2 * rise / (2 * np.pi * turns)
    middle = np.concatenate([np.cos(t), np.sin(t), slope * t - rise], -1)
    out = np.concatenate([np.cos(t), np.sin(t), 0 * t], -1)
    up = np.concatenate([slope * np.sin(t), -slope * np.cos(t), 1 + 0 * t], -1) / np.hypot(1, slope)
    across = 2 * np.pi * np.arange(10)[:, None] / 10
    return _sheet(
        middle[:, None] + thick * (np.cos(across) * out[:, None] + np.sin(across) * up[:, None]), closed=False
    )


def left_helix(rng: np.random.Generator) -> Faces:
    vertices, faces = right_helix(rng)
    return vertices * [-1, 1, 1], faces[:, ::-1]


SOLIDS: Mapping[str, Callable[[np.random.Generator], Faces]] = {
    made.__name__.replace("_", " "): made
    for made in (
        ellipsoid, box, cylinder, cone, torus, capsule, pyramid, bowl, row, triangle, parallel, crossed, left_helix,
        right_helix,
    )
}  # fmt: skip
"""Name to a maker of vertices and faces; a class is its place in this order."""
ARRANGED, MIRRORED = (("row", "triangle"), ("parallel", "crossed")), (("left helix", "right helix"),)
"""Pairs of classes of the same pieces, in another arrangement or mirrored."""


def solid(name: str, rng: np.random.Generator) -> Mesh:
    """One solid of a class. Raises ValueError for a class that nobody has."""
    if name not in SOLIDS:
        raise ValueError(f"there is no solid {name!r}. There are {', '.join(SOLIDS)}.")
    return tidy(Mesh(*SOLIDS[name](rng)))[0]  # a profile that meets its axis has faces without area
