"""Content of posenc's own scene: the cow Spot, or a bumpy torus without her mesh; paint, light and sky.

Colors are in [0, 1]. The paint depends on the point only, and the sky on the direction only. The light adds a
highlight, which depends on both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import TooLargeError

Array = NDArray[np.float64]


class Solid(NamedTuple):
    """Closed triangle mesh, faces counterclockwise seen from outside, inside the cube [-1, 1]^3.

    Attributes:
        name: Name of the solid.
        vertices: ``(V, 3)``.
        faces: ``(F, 3)`` vertex numbers.
        digest: Digest of the mesh.
        shine: Strength of the highlights. 0 is a matte surface, on which every point has one color from all directions.
    """

    name: str
    vertices: Array
    faces: NDArray[np.int64]
    digest: str
    shine: float = 0.35


def load_spot(path: str | Path) -> Solid:
    """Load the cow Spot from ``mesh/spot.npz`` (arrays v and f), y up. Raises ValueError for a file without a mesh."""
    path = Path(path)
    try:
        with open_arrays(path, "a mesh") as content:
            vertices = content.array("v", (None, 3), "f").astype(np.float64)
            faces = content.array("f", (None, 3), "iu").astype(np.int64)
        if not len(vertices) or not len(faces) or not 0 <= faces.min() <= faces.max() < len(vertices):
            raise ValueError("a face names a vertex that it lacks, or it has no faces")
    except TooLargeError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} should hold a mesh as arrays v and f of an .npz file; it does not ({error})."
        ) from error
    return _centered_solid("spot", vertices, faces)


def bumpy_torus(around: int = 160, across: int = 64, bump: float = 0.1) -> Solid:
    """Torus with a bumpy tube; no rotation maps the pattern of bumps to itself; y up."""
    u = 2 * np.pi * np.arange(around)[:, None] / around
    v = 2 * np.pi * np.arange(across)[None, :] / across
    tube = 0.36 * (1 + bump * (np.sin(5 * u + 2 * v) + np.sin(3 * u - 3 * v) + np.cos(u)))
    ring = 0.7 + tube * np.cos(v)
    vertices = np.stack([ring * np.cos(u), tube * np.sin(v) + 0 * u, ring * np.sin(u)], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(around), np.arange(across), indexing="ij")
    a, b = i * across + j, (i + 1) % around * across + j
    c, d = i * across + (j + 1) % across, (i + 1) % around * across + (j + 1) % across
    faces = np.stack([np.stack([a, c, b], -1), np.stack([b, c, d], -1)], 2).reshape(-1, 3)
    return _centered_solid("torus", vertices, faces)


def _centered_solid(name: str, vertices: Array, faces: NDArray[np.int64]) -> Solid:
    low, high = vertices.min(0), vertices.max(0)
    vertices = (vertices - (low + high) / 2) / ((high - low).max() / 2)
    digest = hashlib.sha256(vertices.astype("<f4").tobytes() + faces.astype("<i4").tobytes()).hexdigest()[:16]
    return Solid(name, vertices, faces, digest)


def vertex_normals(solid: Solid) -> Array:
    """Unit normals of the vertices: the sum of the normals of adjacent faces, weighted by area."""
    a, b, c = (solid.vertices[solid.faces[:, k]] for k in range(3))
    face = np.cross(b - a, c - a)
    normals = np.stack([sum(np.bincount(solid.faces[:, k], face[:, x], len(solid.vertices)) for k in range(3))
                      for x in range(3)], -1)  # fmt: skip
    return normals / np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)


PATCHES = np.array([[2.1, 3.4, -1.7], [-3.9, 1.3, 2.6], [1.2, -4.6, 3.1], [4.4, 2.2, 1.9]])
PHASES = np.array([0.3, 1.9, 4.1, 2.7])


def paint_color(points: Array) -> Array:
    """Color of the solid at points ``(.., 3)``: brown patches on cream, with rings and fine stripes."""
    height = np.sin(points @ PATCHES.T + PHASES).sum(-1)
    patch = _smooth_step(height, 0.25, 0.08)[..., None]
    edge = np.exp(-(((height - 0.25) / 0.12) ** 2))[..., None]
    stripes = _smooth_step(np.sin(38 * points[..., 1] + 9 * np.sin(3 * points[..., 0])), 0.0, 0.3)[..., None]
    cream, brown, dark = np.array([0.93, 0.86, 0.72]), np.array([0.55, 0.27, 0.12]), np.array([0.10, 0.12, 0.30])
    color = (1 - patch) * cream + patch * brown
    color = color * (1 - 0.30 * stripes * np.array([1.0, 0.8, 0.3]))
    return (1 - 0.8 * edge) * color + 0.8 * edge * dark


def sky_color(directions: Array) -> Array:
    """Color of the sky in directions ``(.., 3)``: from ground to sky with two glows, smooth and nowhere constant."""
    up = 0.5 + 0.5 * directions[..., 1:2]
    low, high = np.array([0.36, 0.42, 0.34]), np.array([0.45, 0.62, 0.86])
    color = (1 - up) * low + up * high
    for towards, glow in (((0.8, 0.2, 0.5), (0.30, 0.18, 0.02)), ((-0.6, -0.3, -0.7), (0.10, 0.02, 0.22))):
        near = directions @ (np.array(towards) / np.linalg.norm(towards))
        color = color + np.exp(3 * (near - 1))[..., None] * np.array(glow)
    return np.clip(color, 0, 1)


LIGHTS: tuple[tuple[tuple[float, float, float], tuple[float, float, float]], ...] = (
    ((0.6, 0.7, 0.4), (0.75, 0.70, 0.60)),
    ((-0.7, 0.1, -0.6), (0.20, 0.28, 0.42)),
)
"""Direction to each distant lamp, and its color."""


def blinn_phong(
    points: Array,
    normal: Array,
    towards_eye: Array,
    shine: float,
    color: Callable[[Array], Array] = paint_color,
) -> Array:
    """Blinn-Phong shading.

        c (a + sum_k l_k max(n . w_k, 0)) + s sum_k l_k max(n . h_k, 0)^24

    with w_k the direction to lamp k, l_k its color, and h_k halfway between w_k and the direction to the eye.

    Args:
        points: ``(R, 3)``.
        normal: ``(R, 3)`` unit normals n.
        towards_eye: ``(R, 3)`` unit directions to the camera.
        shine: s.
        color: Function that gives the paint c at points.
    """
    base, bright = 0.22 * np.ones(3), np.zeros(3)
    for towards, lamp in LIGHTS:
        w = np.array(towards) / np.linalg.norm(towards)
        half = towards_eye + w
        half = half / np.maximum(np.linalg.norm(half, axis=-1, keepdims=True), 1e-12)
        base = base + np.maximum(normal @ w, 0)[..., None] * lamp
        bright = bright + shine * (np.maximum((normal * half).sum(-1), 0) ** 24)[..., None] * lamp
    return np.clip(color(points) * base + bright, 0, 1)


def _smooth_step(value: Array, at: float, width: float) -> Array:
    return 0.5 + 0.5 * np.tanh((value - at) / width)
