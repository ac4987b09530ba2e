"""The scene that the project renders itself: a painted solid under two lamps before a coloured sky.

Cameras stand on a sphere about the solid, on a golden spiral from a little below its equator to high above, and every
sixth is held out: no held-out camera is within ``APART`` degrees of any other, as seen from the middle. Each pixel is
the mean of ``fine x fine`` rays; a triangle's part of them is found by the signs of three planes:

    e_a = r . (b x c),  e_b = r . (c x a),  e_c = r . (a x b)  of one sign,   t = a . (b x c) / (e_a + e_b + e_c)

for a triangle (a, b, c) seen from the origin along r (Olano and Greer 1997); the nearest t > 0 is what a ray sees.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.tasks.scenes.solids import Array, Solid, lit, normals, sky
from posenc.tasks.scenes.views import Scene, Views, look_at, through

APART = 15.0
DISTANCE, FOCAL = 3.6, 1.4
"""Cameras stand so far from the middle of a solid of half-width 1; the focal length in widths of the picture."""
PAIRS = 1 << 21
"""(Triangle, ray) pairs looked at in one go: it bounds the memory."""


def make(solid: Solid, *, train: int = 40, held: int = 8, side: int = 100, fine: int = 3) -> Scene:
    """``train`` + ``held`` pictures of a solid, ``side x side`` pixels, with the mask of the solid on each.

    A pixel is the solid's where at least half of its rays meet it. Raises ValueError where the cameras do not fit:
    too many of them to keep held-out ones ``APART`` degrees from the rest.
    """
    if train < 1 or held < 1 or side < 2 or fine < 1:
        raise ValueError(
            f"a scene has training and held-out views of at least 2 x 2 pixels; got train={train}, held={held}, "
            f"side={side}, fine={fine}."
        )
    count = train + held
    eye = DISTANCE * torch.from_numpy(spiral(count))
    index = [round((n + 0.5) * count / held - 0.5) for n in range(held)]
    rest = [n for n in range(count) if n not in index]
    gap = nearest_degrees(eye[index].numpy(), eye[rest].numpy())
    if gap < APART:
        raise ValueError(
            f"with {count} cameras a held-out one is {gap:.1f} degrees from a training one, less than {APART:g}. "
            "Ask for fewer views."
        )
    poses = look_at(eye, torch.zeros(3, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    lens = torch.tensor([FOCAL * side, FOCAL * side, side / 2, side / 2, 0, 0, 0, 0], dtype=torch.float64)
    easel = Easel(solid, normals(solid), lens.numpy(), side, fine)
    shots = [easel.picture(pose.numpy()) for pose in poses]
    views = Views(
        torch.from_numpy(np.stack([colour for colour, _ in shots])),
        poses,
        lens.repeat(count, 1),
        tuple(f"view {n}" for n in range(count)),
        torch.from_numpy(np.stack([mask for _, mask in shots])),
    )
    about: dict[str, Any] = {"solid": solid.name, "mesh": solid.digest, "views": count, "degrees": round(gap, 2)}
    half = 1.1
    return Scene(
        views.take(rest), views.take(index), (-half, -half, -half), 2 * half, (0.0, 1.0, 0.0), "learned", about
    )


def spiral(count: int) -> Array:
    """Unit vectors ``(count, 3)``, evenly over the zone from 20 degrees below to 70 above the equator, y up."""
    low, high = math.sin(math.radians(-20)), math.sin(math.radians(70))
    y = low + (high - low) * (np.arange(count) + 0.5) / count
    turn = np.pi * (3 - math.sqrt(5)) * np.arange(count)
    across = np.sqrt(1 - y * y)
    return np.stack([across * np.cos(turn), y, across * np.sin(turn)], -1)


def nearest_degrees(some: Array, others: Array) -> float:
    """The smallest angle, in degrees and as seen from the origin, between one of some points and one of others."""
    a, b = (points / np.linalg.norm(points, axis=-1, keepdims=True) for points in (some, others))
    return math.degrees(math.acos(float(np.clip((a @ b.T).max(), -1, 1))))


class Easel:
    """One lens before one solid: pictures of it from any pose."""

    def __init__(self, solid: Solid, normal: Array, lens: Array, side: int, fine: int) -> None:
        self.solid, self.normal, self.side, self.fine = solid, normal, side, fine
        self.many, self.lens = side * fine, lens * fine
        j, i = np.meshgrid(np.arange(self.many) + 0.5, np.arange(self.many) + 0.5)
        x, y = (torch.from_numpy(part.reshape(-1)) for part in (j, i))
        self.ray = through(x, y, torch.from_numpy(self.lens)[None]).numpy()

    def picture(self, pose: Array) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """One picture ``(side, side, 3)`` and the mask of the solid on it."""
        face, weight = self.seen(pose)
        unit = self.ray @ pose[:3, :3].T
        unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
        colour, hit = sky(unit), face >= 0
        corner, weight = self.solid.faces[face[hit]], weight[hit][..., None]
        point = (weight * self.solid.vertices[corner]).sum(1)
        normal = (weight * self.normal[corner]).sum(1)
        normal = normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
        colour[hit] = lit(point, normal, -unit[hit], self.solid.shine)
        parts = (self.side, self.fine, self.side, self.fine)
        coarse, covered = colour.reshape(*parts, 3).mean((1, 3)), hit.reshape(parts).mean((1, 3))
        return np.round(coarse * 255).astype(np.uint8), covered >= 0.5

    def seen(self, pose: Array) -> tuple[NDArray[np.int64], Array]:
        """The face that each ray ``(many^2, 3)`` of the camera meets first, or -1, and the weights of its corners."""
        many, faces = self.many, self.solid.faces
        local = (self.solid.vertices - pose[:3, 3]) @ pose[:3, :3]
        a, b, c = (local[faces[:, k]] for k in range(3))
        planes = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], 1)
        volume = (a * planes[:, 0]).sum(-1)
        front = np.flatnonzero(volume < 0)  # seen from outside; the others lie behind the solid's own front
        low, wide = self._boxes(local, faces[front])
        nearest, face, weight = np.full(many * many, np.inf), np.full(many * many, -1), np.zeros((many * many, 3))
        area, start = np.cumsum(wide[:, 0] * wide[:, 1]), 0
        while start < len(front):
            before = area[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(area, before + PAIRS, "right")))
            number, cell = _cells(low[start:stop], wide[start:stop], many)
            which = front[start:stop][number]
            e = np.einsum("nkx,nx->nk", planes[which], self.ray[cell])
            total = e.sum(-1)
            inside = (e <= 0).all(-1) & (total < 0)
            which, cell, e, total = which[inside], cell[inside], e[inside], total[inside]
            t = volume[which] / total
            # the last of equal indices is what an assignment leaves: farthest first, so that the nearest stays
            order = np.argsort(-t, kind="stable")
            order = order[t[order] < nearest[cell[order]]]
            nearest[cell[order]], face[cell[order]] = t[order], which[order]
            weight[cell[order]] = (e / total[:, None])[order]
            start = stop
        return face, weight

    def _boxes(self, local: Array, faces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each face, the first column and row whose ray may meet it, and how many columns and rows may."""
        x = self.lens[2] - self.lens[0] * local[:, 0] / local[:, 2]
        y = self.lens[3] + self.lens[1] * local[:, 1] / local[:, 2]
        corners = np.stack([x, y], -1)[faces]
        low = np.clip(np.ceil(corners.min(1) - 0.5), 0, self.many).astype(np.int64)
        high = np.clip(np.floor(corners.max(1) - 0.5) + 1, 0, self.many).astype(np.int64)
        return low, np.maximum(high - low, 0)


def _cells(low: NDArray[np.int64], wide: NDArray[np.int64], many: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every cell of every box: the boxes' numbers, and the cells' as row times ``many`` plus column."""
    size = wide[:, 0] * wide[:, 1]
    number = np.repeat(np.arange(len(size)), size)
    place = np.arange(len(number)) - np.repeat(np.cumsum(size) - size, size)
    across = wide[number, 0]
    return number, (low[number, 1] + place // across) * many + low[number, 0] + place % across
