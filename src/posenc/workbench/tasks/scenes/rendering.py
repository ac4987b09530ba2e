"""Rendering of posenc's own scene: a painted solid under two lamps in front of a colored sky.

Cameras lie on a sphere around the solid, on a golden spiral from a little below its equator to high above it. Every
sixth camera is held out. At the center, the angle between a held-out camera and any training camera is at least
``MIN_ANGLE`` degrees. Each pixel is the mean of ``fine x fine`` rays. The signs of three planes give the rays that meet
a triangle:

    e_a = r . (b x c),  e_b = r . (c x a),  e_c = r . (a x b)  of one sign,   t = a . (b x c) / (e_a + e_b + e_c)

for a triangle (a, b, c) and a ray from the origin along r. The smallest t > 0 gives the visible triangle.

References:
    Olano and Greer 1997, "Triangle scan conversion using 2D homogeneous coordinates".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.workbench.tasks.scenes.solids import Array, Solid, blinn_phong, sky_color, vertex_normals
from posenc.workbench.tasks.scenes.views import Scene, Views, look_at, pixel_directions

MIN_ANGLE = 15.0
"""Smallest allowed angle in degrees between a held-out camera and a training camera."""
DISTANCE, FOCAL = 3.6, 1.4
"""Distance of the cameras from the center of a solid of half-width 1, and the focal length in image widths."""
CHUNK_PAIRS = 1 << 21
"""Number of (triangle, ray) pairs tested at a time, to limit the memory."""


def render_scene(solid: Solid, *, train: int = 40, held: int = 8, side: int = 100, fine: int = 3) -> Scene:
    """Render ``train`` + ``held`` images of a solid, ``side x side`` pixels, with masks of the solid.

    A pixel belongs to the solid where at least half of its rays meet it.

    Args:
        solid: The solid.
        train: Number of training views.
        held: Number of held-out views.
        side: Side of the images in pixels.
        fine: Rays per pixel along each side.

    Raises:
        ValueError: A number is too small, or there are so many cameras that a held-out one is less than ``MIN_ANGLE``
            degrees from a training one.
    """
    if train < 1 or held < 1 or side < 2 or fine < 1:
        raise ValueError(
            f"a scene has training and held-out views of at least 2 x 2 pixels; got train={train}, held={held}, "
            f"side={side}, fine={fine}."
        )
    count = train + held
    eye = DISTANCE * torch.from_numpy(camera_spiral(count))
    index = [round((n + 0.5) * count / held - 0.5) for n in range(held)]
    rest = [n for n in range(count) if n not in index]
    gap = smallest_angle(eye[index].numpy(), eye[rest].numpy())
    if gap < MIN_ANGLE:
        raise ValueError(
            f"with {count} cameras a held-out one is {gap:.1f} degrees from a training one, less than {MIN_ANGLE:g}. "
            "Ask for fewer views."
        )
    poses = look_at(eye, torch.zeros(3, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    lens = torch.tensor([FOCAL * side, FOCAL * side, side / 2, side / 2, 0, 0, 0, 0], dtype=torch.float64)
    renderer = SolidRenderer(solid, vertex_normals(solid), lens.numpy(), side, fine)
    rendered = [renderer.render(pose.numpy()) for pose in poses]
    views = Views(
        torch.from_numpy(np.stack([color for color, _ in rendered])),
        poses,
        lens.repeat(count, 1),
        tuple(f"view {n}" for n in range(count)),
        torch.from_numpy(np.stack([mask for _, mask in rendered])),
    )
    about: dict[str, Any] = {"solid": solid.name, "mesh": solid.digest, "views": count, "degrees": round(gap, 2)}
    half = 1.1
    return Scene(
        views.take(rest), views.take(index), (-half, -half, -half), 2 * half, (0.0, 1.0, 0.0), "learned", about
    )


def camera_spiral(count: int) -> Array:
    """Unit vectors ``(count, 3)``, uniform over the zone from 20 degrees below to 70 above the equator, y up."""
    low, high = math.sin(math.radians(-20)), math.sin(math.radians(70))
    y = low + (high - low) * (np.arange(count) + 0.5) / count
    turn = np.pi * (3 - math.sqrt(5)) * np.arange(count)
    across = np.sqrt(1 - y * y)
    return np.stack([across * np.cos(turn), y, across * np.sin(turn)], -1)


def smallest_angle(some: Array, others: Array) -> float:
    """Smallest angle in degrees, measured from the origin, between a point of one set and a point of another."""
    a, b = (points / np.linalg.norm(points, axis=-1, keepdims=True) for points in (some, others))
    return math.degrees(math.acos(float(np.clip((a @ b.T).max(), -1, 1))))


class SolidRenderer:
    """Renderer of one solid through one lens, from any pose."""

    def __init__(self, solid: Solid, normal: Array, lens: Array, side: int, fine: int) -> None:
        self.solid, self.normal, self.side, self.fine = solid, normal, side, fine
        self.many, self.lens = side * fine, lens * fine
        j, i = np.meshgrid(np.arange(self.many) + 0.5, np.arange(self.many) + 0.5)
        x, y = (torch.from_numpy(part.reshape(-1)) for part in (j, i))
        self.ray = pixel_directions(x, y, torch.from_numpy(self.lens)[None]).numpy()

    def render(self, pose: Array) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Image ``(side, side, 3)`` uint8 and mask of the solid ``(side, side)``, from a camera-to-world pose."""
        face, weight = self.first_hits(pose)
        unit = self.ray @ pose[:3, :3].T
        unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
        color, hit = sky_color(unit), face >= 0
        corner, weight = self.solid.faces[face[hit]], weight[hit][..., None]
        point = (weight * self.solid.vertices[corner]).sum(1)
        normal = (weight * self.normal[corner]).sum(1)
        normal = normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
        color[hit] = blinn_phong(point, normal, -unit[hit], self.solid.shine)
        parts = (self.side, self.fine, self.side, self.fine)
        coarse, covered = color.reshape(*parts, 3).mean((1, 3)), hit.reshape(parts).mean((1, 3))
        return np.round(coarse * 255).astype(np.uint8), covered >= 0.5

    def first_hits(self, pose: Array) -> tuple[NDArray[np.int64], Array]:
        """First face that each ray ``(many^2, 3)`` of the camera meets, or -1, and its barycentric weights."""
        many, faces = self.many, self.solid.faces
        local = (self.solid.vertices - pose[:3, 3]) @ pose[:3, :3]
        a, b, c = (local[faces[:, k]] for k in range(3))
        planes = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], 1)
        volume = (a * planes[:, 0]).sum(-1)
        front = np.flatnonzero(volume < 0)  # faces turned to the camera; the others are hidden by the solid itself
        low, wide = self._boxes(local, faces[front])
        nearest, face, weight = np.full(many * many, np.inf), np.full(many * many, -1), np.zeros((many * many, 3))
        area, start = np.cumsum(wide[:, 0] * wide[:, 1]), 0
        while start < len(front):
            before = area[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(area, before + CHUNK_PAIRS, "right")))
            number, cell = _box_cells(low[start:stop], wide[start:stop], many)
            which = front[start:stop][number]
            e = np.einsum("nkx,nx->nk", planes[which], self.ray[cell])
            total = e.sum(-1)
            inside = (e <= 0).all(-1) & (total < 0)
            which, cell, e, total = which[inside], cell[inside], e[inside], total[inside]
            t = volume[which] / total
            # assignment keeps the last of equal indices, so sort from far to near
            order = np.argsort(-t, kind="stable")
            order = order[t[order] < nearest[cell[order]]]
            nearest[cell[order]], face[cell[order]] = t[order], which[order]
            weight[cell[order]] = (e / total[:, None])[order]
            start = stop
        return face, weight

    def _boxes(self, local: Array, faces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each face, the first column and row of rays that may meet it, and the number of such columns and rows."""
        x = self.lens[2] - self.lens[0] * local[:, 0] / local[:, 2]
        y = self.lens[3] + self.lens[1] * local[:, 1] / local[:, 2]
        corners = np.stack([x, y], -1)[faces]
        low = np.clip(np.ceil(corners.min(1) - 0.5), 0, self.many).astype(np.int64)
        high = np.clip(np.floor(corners.max(1) - 0.5) + 1, 0, self.many).astype(np.int64)
        return low, np.maximum(high - low, 0)


def _box_cells(
    low: NDArray[np.int64], wide: NDArray[np.int64], many: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All cells of all boxes: the number of the box, and the cell as row times ``many`` plus column."""
    size = wide[:, 0] * wide[:, 1]
    number = np.repeat(np.arange(len(size)), size)
    place = np.arange(len(number)) - np.repeat(np.cumsum(size) - size, size)
    across = wide[number, 0]
    return number, (low[number, 1] + place // across) * many + low[number, 0] + place % across
