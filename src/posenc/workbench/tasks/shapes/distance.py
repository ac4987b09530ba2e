"""Exact distance and winding number of points relative to a mesh, by a bounding-box tree over the triangles.

    d(p) = min_f |p - closest point of triangle f|
    w(p) = 1 / (4 pi) sum_f Omega_f(p),   tan(Omega / 2) = det(a, b, c) / (|a||b||c| + a.b |c| + b.c |a| + c.a |b|)

w is the generalized winding number, with the solid angle Omega of a triangle. It is a whole number off a watertight
surface, and a fraction near holes. A distant group of triangles is approximated by one dipole,
``A . (c - p) / |c - p|^3``, where A is the sum of the area vectors. Where the approximate w is within
``WINDING_MARGIN`` of 1/2, it is computed again exactly. Distances are always exact.

The tree is traversed level by level in numpy, for all undecided pairs of a point and a node.

References:
    Winding number: Jacobson et al. 2013, "Robust inside-outside segmentation using generalized winding numbers". Solid
    angle: van Oosterom and Strackee 1983. Dipoles: Barill et al. 2018, "Fast winding numbers for soups and clouds".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc.workbench.tasks.shapes.meshes import Index, Mesh, Points

LEAF_FACES, BRANCHES = 4, 2
CHUNK_POINTS = 1 << 10
"""Number of points processed at a time."""

CHUNK_PAIRS = 1 << 21
"""Number of pairs of a point and a triangle processed at a time, where all pairs are computed."""

FAR_RADII = 1.5
"""Distance, in radii of a group of triangles, beyond which the group is approximated by a dipole."""

WINDING_MARGIN = 0.2
"""Distance from 1/2 within which a winding number is computed again without dipoles."""


class _Level(NamedTuple):
    """Nodes of one level of the tree: their boxes, and the dipoles of their triangles."""

    low: Points
    high: Points
    area: Points
    center: Points
    radius: Points
    dipole: Points

    def __len__(self) -> int:
        return len(self.low)


class MeshTree:
    """Bounding-box tree of a mesh, for distances and winding numbers of points ``(N, 3)``."""

    def __init__(self, mesh: Mesh) -> None:
        from scipy.spatial import KDTree

        self.order = _halving_order(mesh.corners.mean(1))
        self.corners = mesh.corners[self.order]
        self.corner_tree = KDTree(self.corners.reshape(-1, 3))
        self.levels = [_leaves(self.corners, mesh.area_vectors[self.order])]
        while len(self.levels[0]) > BRANCHES:
            below = self.levels[0]
            self.levels.insert(0, _group_nodes(below.low, below.high, below.area, below.center, below.dipole, BRANCHES))

    def distance(self, points: Points) -> tuple[Points, Index]:
        """Distances ``(N,)``, and the mesh's number of the nearest face of each point."""
        parts = [self._distance(chunk) for chunk in _chunks(points)]
        return np.concatenate([d for d, _ in parts]), self.order[np.concatenate([face for _, face in parts])]

    def winding(self, points: Points) -> Points:
        """Winding numbers ``(N,)``."""
        parts = []
        for chunk in _chunks(points):
            w = self._winding(chunk, FAR_RADII)
            unsure = np.flatnonzero(np.abs(w - 0.5) < WINDING_MARGIN)
            for some in np.array_split(unsure, 1 + len(unsure) * len(self.corners) // CHUNK_PAIRS):
                w[some] = self._winding(chunk[some], np.inf)
            parts.append(w)
        return np.concatenate(parts)

    def _distance(self, p: Points) -> tuple[Points, Index]:
        best, corner = self.corner_tree.query(p)
        best, face = best**2, np.asarray(corner) // 3
        point, node = self._top(p)
        for depth, level in enumerate(self.levels):
            near = _squared_box_distance(p[point], level.low[node], level.high[node]) < best[point]
            point, node = self._below(point[near], node[near], depth)
        d = _squared_triangle_distance(p[point], self.corners[node])
        first = np.lexsort((d, point))
        point, node, d = point[first], node[first], d[first]
        point, place = np.unique(point, return_index=True)
        better = d[place] < best[point]
        best[point[better]], face[point[better]] = d[place][better], node[place][better]
        return np.sqrt(best), face

    def _winding(self, p: Points, far: float) -> Points:
        w = np.zeros(len(p))
        point, node = self._top(p)
        for depth, level in enumerate(self.levels):
            towards = level.center[node] - p[point]
            r = np.linalg.norm(towards, axis=1)
            away = r > far * level.radius[node]
            terms = np.einsum("ni,ni->n", level.dipole[node[away]], towards[away]) / r[away] ** 3
            w += np.bincount(point[away], terms, len(p)) / (4 * np.pi)
            point, node = self._below(point[~away], node[~away], depth)
        return w + np.bincount(point, solid_angle(p[point], self.corners[node]), len(p)) / (4 * np.pi)

    def _top(self, p: Points) -> tuple[Index, Index]:
        return np.repeat(np.arange(len(p)), len(self.levels[0])), np.tile(np.arange(len(self.levels[0])), len(p))

    def _below(self, point: Index, node: Index, depth: int) -> tuple[Index, Index]:
        """Children of nodes, or triangles of leaves, each with its point."""
        last = depth == len(self.levels) - 1
        each, count = (LEAF_FACES, len(self.corners)) if last else (BRANCHES, len(self.levels[depth + 1]))
        point, node = np.repeat(point, each), (node[:, None] * each + np.arange(each)).ravel()
        exists = node < count
        return point[exists], node[exists]


def signed_distance(tree: MeshTree, points: Points) -> Points:
    """Signed distances ``(N,)``, negative inside, where the winding number is above 1/2."""
    d, _ = tree.distance(points)
    return np.where(tree.winding(points) > 0.5, -d, d)


def _chunks(points: Points) -> Iterator[Points]:
    points = np.asarray(points, np.float64).reshape(-1, 3)
    yield from (points[start : start + CHUNK_POINTS] for start in range(0, max(len(points), 1), CHUNK_POINTS))


def _halving_order(centers: Points) -> Index:
    """Order in which chunks of ``LEAF_FACES 2^k`` are the halves of larger chunks, divided along the longest side."""
    order, size = np.arange(len(centers)), LEAF_FACES
    while size < len(centers):
        size *= 2
    while size > LEAF_FACES:
        chunk, starts = np.arange(len(centers)) // size, np.arange(0, len(centers), size)
        sides = np.maximum.reduceat(centers[order], starts) - np.minimum.reduceat(centers[order], starts)
        along = centers[order, sides.argmax(1)[chunk]]
        order, size = order[np.lexsort((along, chunk))], size // 2
    return order


def _leaves(corners: Points, vectors: Points) -> _Level:
    area = np.linalg.norm(vectors, axis=1)
    return _group_nodes(corners.min(1), corners.max(1), area, corners.mean(1), vectors, LEAF_FACES)


def _group_nodes(low: Points, high: Points, area: Points, center: Points, dipole: Points, each: int) -> _Level:
    starts = np.arange(0, len(low), each)
    low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    center = np.add.reduceat(area[:, None] * center, starts)
    area, dipole = np.add.reduceat(area, starts), np.add.reduceat(dipole, starts)
    center /= area[:, None]
    return _Level(low, high, area, center, np.linalg.norm(np.maximum(high - center, center - low), axis=1), dipole)


def _dot(a: Points, b: Points) -> Points:
    return np.einsum("ni,ni->n", a, b)


def _squared_box_distance(p: Points, low: Points, high: Points) -> Points:
    outside = np.maximum(low - p, 0) + np.maximum(p - high, 0)
    return _dot(outside, outside)


def _squared_triangle_distance(p: Points, corners: Points) -> Points:
    """Squared distance to triangles: to the plane above the inside of a triangle, to the nearest edge elsewhere."""
    a = corners.swapaxes(0, 1)
    normal = np.cross(a[1] - a[0], a[2] - a[0])
    nearest, inside = np.full(len(p), np.inf), np.ones(len(p), bool)
    for k in range(3):
        edge, to = a[(k + 1) % 3] - a[k], p - a[k]
        along = np.clip(_dot(to, edge) / np.maximum(_dot(edge, edge), np.finfo(np.float64).tiny), 0, 1)
        off = to - along[:, None] * edge
        nearest = np.minimum(nearest, _dot(off, off))
        inside &= _dot(np.cross(normal, edge), to) >= 0
    above = _dot(p - a[0], normal) ** 2 / np.maximum(_dot(normal, normal), np.finfo(np.float64).tiny)
    return np.where(inside, np.minimum(above, nearest), nearest)


def solid_angle(p: Points, corners: Points) -> Points:
    """Signed solid angles ``(N,)`` of triangles ``(N, 3, 3)`` at points ``(N, 3)``."""
    a, b, c = (corners - p[:, None]).swapaxes(0, 1)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    below = la * lb * lc + _dot(a, b) * lc + _dot(b, c) * la + _dot(c, a) * lb
    return 2 * np.arctan2(_dot(a, np.cross(b, c)), below)
