"""A picture of a mesh from a fixed place, without a display: a z-buffer in numpy.

The camera stands at the lower end of z, to one side and a little above, infinitely far away (a parallel projection of
the unit cube); y points up. Every face is cut into the pixels that it may cover, all faces at once, and each pixel
keeps the nearest. Light comes from the camera's left above, with a faint one from below; normals are the vertices',
the mean of the faces around, so that what is seen is the shape and not the triangles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.tasks.shapes.meshes import Index, Mesh, Points

AZIMUTH, ELEVATION = -145.0, 20.0
KEY, FILL = (-0.5, 0.6, 0.65), (0.6, -0.4, 0.3)
PAPER, CLAY = (242, 242, 238), (203, 158, 122)
SPAN = 1.15
"""Side of the square that is seen, in lengths of the cube."""

AT_ONCE = 1 << 22
"""Pairs of a face and a pixel at a time."""


def render(mesh: Mesh | None, size: int = 256, *, smooth: int = 2) -> NDArray[np.uint8]:
    """``(size, size, 3)``: the mesh, in the unit cube, in clay before a pale ground; no mesh is an empty picture.

    smooth: samples a pixel on each axis.
    """
    side = size * smooth
    colour = np.full((side * side, 3), PAPER, np.float64)
    if mesh is not None:
        view, normals = _turned(mesh)
        pixel, face, weights = _visible(view, mesh.faces, side)
        n = np.einsum("nk,nkc->nc", weights, normals[mesh.faces[face]])
        n /= np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-12)
        colour[pixel] = np.clip(_lit(n)[:, None] * np.array(CLAY, np.float64), 0, 255)
    picture = colour.reshape(size, smooth, size, smooth, 3).mean((1, 3))
    return picture.round().astype(np.uint8)


def towards_camera() -> Points:
    """The direction, of length 1, in which the camera is."""
    return _turn()[2]


def _turn() -> Points:
    a, e = np.radians(AZIMUTH), np.radians(ELEVATION)
    around = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
    over = np.array([[1, 0, 0], [0, np.cos(e), -np.sin(e)], [0, np.sin(e), np.cos(e)]])
    return over @ around


def _turned(mesh: Mesh) -> tuple[Points, Points]:
    """The vertices as the camera has them, right, up and towards it, in cubes from the middle; and their normals."""
    turn = _turn()
    normals = np.zeros_like(mesh.vertices)
    for corner in range(3):
        np.add.at(normals, mesh.faces[:, corner], mesh.area_vectors)
    return (mesh.vertices - 0.5) @ turn.T, normals @ turn.T


def _visible(view: Points, faces: Index, side: int) -> tuple[Index, Index, Points]:
    """Of every covered pixel its number, the nearest face, and the corners' weights there ``(n, 3)``."""
    place = np.stack([view[:, 0], -view[:, 1]], -1) * (side / SPAN) + side / 2 - 0.5
    low = np.clip(np.ceil(place[faces].min(1)), 0, side).astype(np.int64)
    high = np.clip(np.floor(place[faces].max(1)) + 1, 0, side).astype(np.int64)
    wide, tall = np.maximum(high - low, 0).T
    depth, nearest = np.full(side * side, -np.inf), np.full(side * side, -1)
    kept = np.zeros((side * side, 3))
    until = np.cumsum(wide * tall)
    runs = np.split(np.arange(len(faces)), np.searchsorted(until, np.arange(AT_ONCE, until[-1], AT_ONCE)))
    for run in runs:
        face = np.repeat(run, (wide * tall)[run])
        inner = np.arange(len(face)) - np.repeat(np.cumsum((wide * tall)[run]) - (wide * tall)[run], (wide * tall)[run])
        x, y = low[face, 0] + inner % np.maximum(wide[face], 1), low[face, 1] + inner // np.maximum(wide[face], 1)
        weights = _weights(place[faces[face]], np.stack([x, y], -1))
        covered = (weights >= 0).all(1)
        face, pixel, weights = face[covered], (y * side + x)[covered], weights[covered]
        z = np.einsum("nk,nk->n", weights, view[faces[face], 2])
        far_first = np.argsort(z, kind="stable")  # of several values for one pixel the last one is assigned
        face, pixel, weights, z = face[far_first], pixel[far_first], weights[far_first], z[far_first]
        nearer = z > depth[pixel]
        face, pixel, weights, z = face[nearer], pixel[nearer], weights[nearer], z[nearer]
        depth[pixel], nearest[pixel], kept[pixel] = z, face, weights
    pixel = np.flatnonzero(nearest >= 0)
    return pixel, nearest[pixel], kept[pixel]


def _weights(corners: Points, at: Points) -> Points:
    """Barycentric coordinates ``(n, 3)`` of points in triangles of the plane; nan where a triangle is a line."""
    a, b, c = corners.swapaxes(0, 1)
    parts = np.stack([_cross(b - at, c - at), _cross(c - at, a - at), _cross(a - at, b - at)], -1)
    whole = parts.sum(1)
    return np.divide(parts, whole[:, None], out=np.full_like(parts, np.nan), where=(whole != 0)[:, None])


def _cross(a: Points, b: Points) -> Points:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _lit(normals: Points) -> Points:
    light = np.full(len(normals), 0.30)
    for direction, strength in ((KEY, 0.85), (FILL, 0.18)):
        towards = np.array(direction) / np.linalg.norm(direction)
        light += strength * np.maximum(normals @ towards, 0)
    return light
