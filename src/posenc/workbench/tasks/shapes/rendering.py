"""Rendering of a mesh from a fixed camera, without a display: a z-buffer in numpy.

The projection is parallel. The camera looks from the lower end of z, from one side and a little from above; y points
up. Faces are rasterized all at once, and each pixel shows the nearest one. A strong light comes from the upper left of
the camera and a weak one from below. Vertex normals are the mean of the adjacent faces, so shading is smooth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.shapes.meshes import Index, Mesh, Points

AZIMUTH, ELEVATION = -145.0, 20.0
KEY_LIGHT, FILL_LIGHT = (-0.5, 0.6, 0.65), (0.6, -0.4, 0.3)
BACKGROUND_COLOR, SURFACE_COLOR = (242, 242, 238), (203, 158, 122)
VIEW_SIDE = 1.15
"""Side of the visible square, in sides of the cube."""

CHUNK_PAIRS = 1 << 22
"""Number of pairs of a face and a pixel processed at a time."""


def render_mesh(mesh: Mesh | None, size: int = 256, *, smooth: int = 2) -> NDArray[np.uint8]:
    """Render a mesh in the unit cube, on a pale background; without a mesh the image is empty.

    Args:
        mesh: The mesh, or None.
        size: Side of the image in pixels.
        smooth: Samples per pixel along each axis.

    Returns:
        ``(size, size, 3)``.
    """
    side = size * smooth
    color = np.full((side * side, 3), BACKGROUND_COLOR, np.float64)
    if mesh is not None:
        view, normals = _camera_view(mesh)
        pixel, face, weights = _visible_faces(view, mesh.faces, side)
        n = np.einsum("nk,nkc->nc", weights, normals[mesh.faces[face]])
        n /= np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-12)
        color[pixel] = np.clip(_shade(n)[:, None] * np.array(SURFACE_COLOR, np.float64), 0, 255)
    image = color.reshape(size, smooth, size, smooth, 3).mean((1, 3))
    return image.round().astype(np.uint8)


def camera_direction() -> Points:
    """Unit vector from the center of the cube to the camera."""
    return _camera_rotation()[2]


def _camera_rotation() -> Points:
    a, e = np.radians(AZIMUTH), np.radians(ELEVATION)
    around = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    over = np.array([[1, 0, 0], [0, np.cos(e), -np.sin(e)], [0, np.sin(e), np.cos(e)]])
    return over @ around


def _camera_view(mesh: Mesh) -> tuple[Points, Points]:
    """Vertices in camera axes (right, up, towards the camera), relative to the cube's center; and their normals."""
    rotation = _camera_rotation()
    normals = np.zeros_like(mesh.vertices)
    for corner in range(3):
        np.add.at(normals, mesh.faces[:, corner], mesh.area_vectors)
    return (mesh.vertices - 0.5) @ rotation.T, normals @ rotation.T


def _visible_faces(view: Points, faces: Index, side: int) -> tuple[Index, Index, Points]:
    """For every covered pixel its number, the nearest face, and the barycentric weights ``(n, 3)``."""
    place = np.stack([view[:, 0], -view[:, 1]], -1) * (side / VIEW_SIDE) + side / 2 - 0.5
    low = np.clip(np.ceil(place[faces].min(1)), 0, side).astype(np.int64)
    high = np.clip(np.floor(place[faces].max(1)) + 1, 0, side).astype(np.int64)
    wide, tall = np.maximum(high - low, 0).T
    depth, nearest = np.full(side * side, -np.inf), np.full(side * side, -1)
    best_weights = np.zeros((side * side, 3))
    until = np.cumsum(wide * tall)
    chunks = np.split(np.arange(len(faces)), np.searchsorted(until, np.arange(CHUNK_PAIRS, until[-1], CHUNK_PAIRS)))
    for chunk in chunks:
        face = np.repeat(chunk, (wide * tall)[chunk])
        inner = np.arange(len(face)) - np.repeat(
            np.cumsum((wide * tall)[chunk]) - (wide * tall)[chunk], (wide * tall)[chunk]
        )
        x, y = low[face, 0] + inner % np.maximum(wide[face], 1), low[face, 1] + inner // np.maximum(wide[face], 1)
        weights = _barycentric(place[faces[face]], np.stack([x, y], -1))
        covered = (weights >= 0).all(1)
        face, pixel, weights = face[covered], (y * side + x)[covered], weights[covered]
        z = np.einsum("nk,nk->n", weights, view[faces[face], 2])
        far_first = np.argsort(z, kind="stable")  # assignment keeps the last of several values for a pixel
        face, pixel, weights, z = face[far_first], pixel[far_first], weights[far_first], z[far_first]
        nearer = z > depth[pixel]
        face, pixel, weights, z = face[nearer], pixel[nearer], weights[nearer], z[nearer]
        depth[pixel], nearest[pixel], best_weights[pixel] = z, face, weights
    pixel = np.flatnonzero(nearest >= 0)
    return pixel, nearest[pixel], best_weights[pixel]


def _barycentric(corners: Points, at: Points) -> Points:
    """Barycentric coordinates ``(n, 3)`` of points in triangles of the plane; nan for a triangle without area."""
    a, b, c = corners.swapaxes(0, 1)
    parts = np.stack([_cross_2d(b - at, c - at), _cross_2d(c - at, a - at), _cross_2d(a - at, b - at)], -1)
    whole = parts.sum(1)
    return np.divide(parts, whole[:, None], out=np.full_like(parts, np.nan), where=(whole != 0)[:, None])


def _cross_2d(a: Points, b: Points) -> Points:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _shade(normals: Points) -> Points:
    light = np.full(len(normals), 0.30)
    for direction, strength in ((KEY_LIGHT, 0.85), (FILL_LIGHT, 0.18)):
        towards = np.array(direction) / np.linalg.norm(direction)
        light += strength * np.maximum(normals @ towards, 0)
    return light
