"""Polygons of a mesh as triangles: a fan from the first corner where it covers the polygon, and ears elsewhere.

A fan covers every convex polygon. In others it may overlap itself, so that area and volume are wrong.

References:
    Meisters 1975, Polygons have ears, The American Mathematical Monthly 82(6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.files.user_files import UserFileError

FLAT = 1e-12
"""Triangles of smaller area, as a share of the polygon's, are flat. They would leave an edge without a neighbor."""
MOST_CORNERS, OVERLAP = 1000, 1e-6
"""Largest number of corners of a polygon with ears, for the time grows with its square. Larger ones may have a fan that
overlaps itself in this share of their area."""


class Polygons(NamedTuple):
    """Polygons of a mesh.

    Attributes:
        vertices: ``(V, 3)`` float64.
        counts: ``(P,)`` number of corners of each polygon.
        corners: Vertex numbers of all polygons, one polygon after another.
    """

    vertices: NDArray[np.float64]
    counts: NDArray[np.int64]
    corners: NDArray[np.int64]

    def of_size(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers ``(M,)`` of the polygons of a size, and their corners ``(M, size)``."""
        numbers = np.flatnonzero(self.counts == size)
        starts = np.cumsum(self.counts)[numbers] - size
        return numbers, self.corners[starts[:, None] + np.arange(size)]


def _fan_shares(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares ``(M, N - 2)`` of the fans' triangles in the areas of polygons ``(M, N, 3)``; negative if turned over."""
    doubled = np.cross(points[:, 1:-1] - points[:, :1], points[:, 2:] - points[:, :1])
    normals = doubled.sum(1, keepdims=True)
    squares = (normals**2).sum(-1)
    return np.where(squares == 0, 1, (doubled * normals).sum(-1) / np.where(squares == 0, 1, squares))


def fans_fit(polygons: Polygons) -> bool:
    """True if a fan from its first corner covers each polygon.

    Args:
        polygons: The polygons.

    Returns:
        True for triangles and convex polygons.
    """
    sizes = [size for size in np.unique(polygons.counts).tolist() if size > 3]
    return all((_fan_shares(polygons.vertices[polygons.of_size(size)[1]]) > FLAT).all() for size in sizes)


def triangulate(polygons: Polygons, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Divide polygons into triangles, in their order. Polygons of fewer than three corners have none.

    Args:
        polygons: The polygons.
        name: Name of the file, for messages.

    Returns:
        ``(F, 3)`` vertex numbers, and a sentence on polygons that cross themselves.

    Raises:
        UserFileError: A polygon that no fan covers has more than ``MOST_CORNERS`` corners.
    """
    made = np.maximum(polygons.counts - 2, 0)
    firsts, crossing = np.cumsum(made) - made, 0
    faces = np.zeros((int(made.sum()), 3), np.int64)
    for size in np.unique(polygons.counts[made > 0]).tolist():
        numbers, corners = polygons.of_size(size)
        fan = np.stack([np.zeros(size - 2, np.int64), np.arange(1, size - 1), np.arange(2, size)], 1)
        rows = firsts[numbers][:, None] + np.arange(size - 2)
        faces[rows] = corners[:, fan]
        points = polygons.vertices[corners]
        shares = _fan_shares(points)
        for at in np.flatnonzero((shares <= FLAT).any(1)) if size > 3 else ():
            if size > MOST_CORNERS:
                _refuse_overlap(shares[at], name)
                continue
            ears = _ears(points[at])
            crossing += ears is None
            faces[rows[at]] = corners[at][fan if ears is None else np.array(ears)]
    notes = (
        (f"Faces that cross themselves and were divided from their first corner: {crossing:,}.",) if crossing else ()
    )
    return faces, notes


def _refuse_overlap(shares: NDArray[np.float64], name: str) -> None:
    """Refuse a large polygon whose fan overlaps itself."""
    if -shares[shares < 0].sum() > OVERLAP:
        raise UserFileError(
            f"{name} has a face of {len(shares) + 2:,} corners that is not convex; up to {MOST_CORNERS:,} are read. "
            "Triangulate it in the program that made it."
        )


def _ears(points: NDArray[np.float64]) -> list[tuple[int, int, int]] | None:
    """Triangles of a polygon ``(N, 3)``, cut off one after another; None if it crosses itself."""
    normal = np.cross(points[1:-1] - points[0], points[2:] - points[0]).sum(0)
    across = np.eye(3)[np.argmin(np.abs(normal))]
    first = np.cross(across, normal)
    flat = (points - points[0]) @ np.stack([first, np.cross(normal, first) / np.linalg.norm(normal)], 1)
    least = FLAT * _cross(flat, np.roll(flat, -1, 0)).sum()
    ring, found = list(range(len(points))), []
    while len(ring) > 3:
        ear = next((at for at in range(len(ring)) if _is_ear(flat, ring, at, least)), None)
        if ear is None:
            return None
        found.append((ring[ear - 1], ring[ear], ring[(ear + 1) % len(ring)]))
        del ring[ear]
    sides = flat[ring[1:]] - flat[ring[0]]
    return [*found, (ring[0], ring[1], ring[2])] if _cross(sides[0], sides[1]) >= -least else None


def _is_ear(flat: NDArray[np.float64], ring: list[int], at: int, least: float) -> bool:
    """True if the triangle at a corner turns left and has no other corner inside."""
    triangle = flat[[ring[at - 1], ring[at], ring[(at + 1) % len(ring)]]]
    sides = np.roll(triangle, -1, 0) - triangle
    if _cross(sides[0], sides[1]) <= least:
        return False
    others = flat[ring]
    others = others[(others[:, None] != triangle).any(-1).all(1)]  # a corner may be met twice, as beside a hole
    inside = _cross(sides, others[:, None] - triangle) >= 0
    return not inside.all(1).any()


def _cross(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
