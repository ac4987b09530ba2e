"""How far a point is from a mesh, exactly, and on which side: a tree of boxes over the triangles.

    d(p) = min_f |p - closest point of triangle f|
    w(p) = 1 / (4 pi) sum_f Omega_f(p),   tan(Omega / 2) = det(a, b, c) / (|a||b||c| + a.b |c| + b.c |a| + c.a |b|)

w is the generalised winding number (Jacobson et al. 2013), with the solid angle of van Oosterom and Strackee 1983: a
whole number off a watertight surface, and still a sensible fraction where there are holes. Groups of triangles that
are far away are taken as one dipole (Barill et al. 2018), ``A . (c - p) / |c - p|^3`` with A the sum of their area
vectors; a number that then lies within ``DOUBT`` of 1/2 is summed anew without that. Distances are never approximated.

A tree goes level by level over all pairs of a point and a node that are still in question, in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from posenc.tasks.shapes.meshes import Index, Mesh, Points

LEAF, BRANCH = 4, 2
RUN = 1 << 10
"""Points at a time."""

PAIRS = 1 << 21
"""Pairs of a point and a triangle at a time, where every pair is looked at."""

FAR = 1.5
"""From this many radii away a group of triangles is one dipole."""

DOUBT = 0.2


class _Level(NamedTuple):
    """Nodes of one level: their boxes, and the dipoles of the triangles in them."""

    low: Points
    high: Points
    area: Points
    centre: Points
    radius: Points
    dipole: Points

    def __len__(self) -> int:
        return len(self.low)


class Tree:
    """A mesh, ready to be asked; ``distance`` and ``winding`` take points ``(N, 3)`` anywhere in space."""

    def __init__(self, mesh: Mesh) -> None:
        from scipy.spatial import KDTree

        self.order = _in_halves(mesh.corners.mean(1))
        self.corners = mesh.corners[self.order]
        self.every_corner = KDTree(self.corners.reshape(-1, 3))
        self.levels = [_leaves(self.corners, mesh.area_vectors[self.order])]
        while len(self.levels[0]) > BRANCH:
            below = self.levels[0]
            self.levels.insert(0, _grouped(below.low, below.high, below.area, below.centre, below.dipole, BRANCH))

    def distance(self, points: Points) -> tuple[Points, Index]:
        """The distances ``(N,)``, and the number in the mesh of the nearest face of each point."""
        found = [self._distance(run) for run in _runs(points)]
        return np.concatenate([d for d, _ in found]), self.order[np.concatenate([face for _, face in found])]

    def winding(self, points: Points) -> Points:
        """The winding numbers ``(N,)``."""
        found = []
        for run in _runs(points):
            w = self._winding(run, FAR)
            unsure = np.flatnonzero(np.abs(w - 0.5) < DOUBT)
            for some in np.array_split(unsure, 1 + len(unsure) * len(self.corners) // PAIRS):
                w[some] = self._winding(run[some], np.inf)
            found.append(w)
        return np.concatenate(found)

    def _distance(self, p: Points) -> tuple[Points, Index]:
        best, corner = self.every_corner.query(p)
        best, face = best**2, np.asarray(corner) // 3
        point, node = self._top(p)
        for depth, level in enumerate(self.levels):
            near = _to_box(p[point], level.low[node], level.high[node]) < best[point]
            point, node = self._below(point[near], node[near], depth)
        d = _to_triangle(p[point], self.corners[node])
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
            towards = level.centre[node] - p[point]
            r = np.linalg.norm(towards, axis=1)
            away = r > far * level.radius[node]
            terms = np.einsum("ni,ni->n", level.dipole[node[away]], towards[away]) / r[away] ** 3
            w += np.bincount(point[away], terms, len(p)) / (4 * np.pi)
            point, node = self._below(point[~away], node[~away], depth)
        return w + np.bincount(point, _solid_angle(p[point], self.corners[node]), len(p)) / (4 * np.pi)

    def _top(self, p: Points) -> tuple[Index, Index]:
        return np.repeat(np.arange(len(p)), len(self.levels[0])), np.tile(np.arange(len(self.levels[0])), len(p))

    def _below(self, point: Index, node: Index, depth: int) -> tuple[Index, Index]:
        """The children of nodes, the triangles of leaves, each with its point."""
        last = depth == len(self.levels) - 1
        each, count = (LEAF, len(self.corners)) if last else (BRANCH, len(self.levels[depth + 1]))
        point, node = np.repeat(point, each), (node[:, None] * each + np.arange(each)).ravel()
        there = node < count
        return point[there], node[there]


def signed_distance(tree: Tree, points: Points) -> Points:
    """The distances ``(N,)``, negative inside, where the winding number is above 1/2."""
    d, _ = tree.distance(points)
    return np.where(tree.winding(points) > 0.5, -d, d)


def _runs(points: Points) -> Iterator[Points]:
    points = np.asarray(points, np.float64).reshape(-1, 3)
    yield from (points[start : start + RUN] for start in range(0, max(len(points), 1), RUN))


def _in_halves(centres: Points) -> Index:
    """An order whose runs of ``LEAF 2^k`` are the halves of longer runs, divided along the longest side."""
    order, size = np.arange(len(centres)), LEAF
    while size < len(centres):
        size *= 2
    while size > LEAF:
        run, starts = np.arange(len(centres)) // size, np.arange(0, len(centres), size)
        sides = np.maximum.reduceat(centres[order], starts) - np.minimum.reduceat(centres[order], starts)
        along = centres[order, sides.argmax(1)[run]]
        order, size = order[np.lexsort((along, run))], size // 2
    return order


def _leaves(corners: Points, vectors: Points) -> _Level:
    area = np.linalg.norm(vectors, axis=1)
    return _grouped(corners.min(1), corners.max(1), area, corners.mean(1), vectors, LEAF)


def _grouped(low: Points, high: Points, area: Points, centre: Points, dipole: Points, each: int) -> _Level:
    starts = np.arange(0, len(low), each)
    low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    centre = np.add.reduceat(area[:, None] * centre, starts)
    area, dipole = np.add.reduceat(area, starts), np.add.reduceat(dipole, starts)
    centre /= area[:, None]
    return _Level(low, high, area, centre, np.linalg.norm(np.maximum(high - centre, centre - low), axis=1), dipole)


def _dot(a: Points, b: Points) -> Points:
    return np.einsum("ni,ni->n", a, b)


def _to_box(p: Points, low: Points, high: Points) -> Points:
    outside = np.maximum(low - p, 0) + np.maximum(p - high, 0)
    return _dot(outside, outside)


def _to_triangle(p: Points, corners: Points) -> Points:
    """Squared: to the plane above the triangle's inside, and to its nearest edge elsewhere."""
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


def _solid_angle(p: Points, corners: Points) -> Points:
    a, b, c = (corners - p[:, None]).swapaxes(0, 1)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    below = la * lb * lc + _dot(a, b) * lc + _dot(b, c) * la + _dot(c, a) * lb
    return 2 * np.arctan2(_dot(a, np.cross(b, c)), below)
