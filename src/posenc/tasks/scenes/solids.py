"""What the project's own scene shows: Spot, or a bumpy torus where her mesh is not at hand; paint, light, sky.

Colours are in [0, 1]. Paint is a function of the point alone, the sky one of the direction alone; light adds what
depends on both, a highlight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Solid(NamedTuple):
    """A closed mesh of triangles, outward counter-clockwise, within the cube [-1, 1]^3 about its middle.

    shine: how strong the lamps' highlights are on it; 0 is matte, each of its places then has one colour.
    """

    name: str
    vertices: Array
    faces: NDArray[np.int64]
    digest: str
    shine: float = 0.35


def spot(path: str | Path) -> Solid:
    """The cow Spot from ``mesh/spot.npz`` (v, f), y up. Raises ValueError for a file that holds no such mesh."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as held:
            vertices, faces = held["v"].astype(np.float64), held["f"].astype(np.int64)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} should hold a mesh as arrays v and f of an .npz file; it does not ({error})."
        ) from error
    return _solid("spot", vertices, faces)


def torus(around: int = 160, across: int = 64, bump: float = 0.1) -> Solid:
    """A torus whose tube swells and shrinks in a pattern of bumps that no rotation repeats, y up."""
    u = 2 * np.pi * np.arange(around)[:, None] / around
    v = 2 * np.pi * np.arange(across)[None, :] / across
    tube = 0.36 * (1 + bump * (np.sin(5 * u + 2 * v) + np.sin(3 * u - 3 * v) + np.cos(u)))
    ring = 0.7 + tube * np.cos(v)
    vertices = np.stack([ring * np.cos(u), tube * np.sin(v) + 0 * u, ring * np.sin(u)], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = i * across + j, (i + 1) % around * across + j
    c, d = i * across + (j + 1) % across, (i + 1) % around * across + (j + 1) % across
    faces = np.stack([np.stack([a, c, b], -1), np.stack([b, c, d], -1)], 2).reshape(-1, 3)
    return _solid("torus", vertices, faces)


def _solid(name: str, vertices: Array, faces: NDArray[np.int64]) -> Solid:
    low, high = vertices.min(0), vertices.max(0)
    vertices = (vertices - (low + high) / 2) / ((high - low).max() / 2)
    digest = hashlib.sha256(vertices.astype("<f4").tobytes() + faces.astype("<i4").tobytes()).hexdigest()[:16]
    return Solid(name, vertices, faces, digest)


def normals(solid: Solid) -> Array:
    """Unit normals of the vertices: the sum of the faces' around each, weighted by area."""
    a, b, c = (solid.vertices[solid.faces[:, k]] for k in range(3))
    face = np.cross(b - a, c - a)
    found = np.stack([sum(np.bincount(solid.faces[:, k], face[:, x], len(solid.vertices)) for k in range(3))
                      for x in range(3)], -1)  # fmt: skip
    return found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-12)


PATCHES = np.array([[2.1, 3.4, -1.7], [-3.9, 1.3, 2.6], [1.2, -4.6, 3.1], [4.4, 2.2, 1.9]])
PHASES = np.array([0.3, 1.9, 4.1, 2.7])


def paint(points: Array) -> Array:
    """The colour of the solid at a point ``(.., 3)``: brown patches on cream, ringed, with fine stripes over both."""
    height = np.sin(points @ PATCHES.T + PHASES).sum(-1)
    patch = _step(height, 0.25, 0.08)[..., None]
    edge = np.exp(-(((height - 0.25) / 0.12) ** 2))[..., None]
    stripes = _step(np.sin(38 * points[..., 1] + 9 * np.sin(3 * points[..., 0])), 0.0, 0.3)[..., None]
    cream, brown, dark = np.array([0.93, 0.86, 0.72]), np.array([0.55, 0.27, 0.12]), np.array([0.10, 0.12, 0.30])
    colour = (1 - patch) * cream + patch * brown
    colour = colour * (1 - 0.30 * stripes * np.array([1.0, 0.8, 0.3]))
    return (1 - 0.8 * edge) * colour + 0.8 * edge * dark


def sky(directions: Array) -> Array:
    """The colour behind the solid in a direction ``(.., 3)``: ground to sky, with two glows. Smooth, never flat."""
    up = 0.5 + 0.5 * directions[..., 1:2]
    low, high = np.array([0.36, 0.42, 0.34]), np.array([0.45, 0.62, 0.86])
    colour = (1 - up) * low + up * high
    for towards, glow in (((0.8, 0.2, 0.5), (0.30, 0.18, 0.02)), ((-0.6, -0.3, -0.7), (0.10, 0.02, 0.22))):
        near = directions @ (np.array(towards) / np.linalg.norm(towards))
        colour = colour + np.exp(3 * (near - 1))[..., None] * np.array(glow)
    return np.clip(colour, 0, 1)


LIGHTS: tuple[tuple[tuple[float, float, float], tuple[float, float, float]], ...] = (
    ((0.6, 0.7, 0.4), (0.75, 0.70, 0.60)),
    ((-0.7, 0.1, -0.6), (0.20, 0.28, 0.42)),
)
"""Direction to a lamp far away, and its colour."""


def lit(
    points: Array,
    normal: Array,
    towards_eye: Array,
    shine: float,
    colour: Callable[[Array], Array] = paint,
) -> Array:
    """Blinn-Phong: ``c (a + sum_k l_k max(n . w_k, 0)) + s sum_k l_k max(n . h_k, 0)^24``; h_k halfway to the eye."""
    base, bright = 0.22 * np.ones(3), np.zeros(3)
    for towards, lamp in LIGHTS:
        w = np.array(towards) / np.linalg.norm(towards)
        half = towards_eye + w
        half = half / np.maximum(np.linalg.norm(half, axis=-1, keepdims=True), 1e-12)
        base = base + np.maximum(normal @ w, 0)[..., None] * lamp
        bright = bright + shine * (np.maximum((normal * half).sum(-1), 0) ** 24)[..., None] * lamp
    return np.clip(colour(points) * base + bright, 0, 1)


def _step(value: Array, at: float, width: float) -> Array:
    return 0.5 + 0.5 * np.tanh((value - at) / width)
