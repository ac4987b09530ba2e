"""Label placement: positions of text beside line ends and points so that labels do not overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""

CHARACTER_WIDTH, LINE_HEIGHT = 0.6, 1.25
"""Character width and line height as fractions of the font size, for a wide font."""


def place_stacked_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Place labels along one axis as near to their wanted centers as possible, without overlap.

    The order of the centers is kept. The placement minimizes the squared distances: labels that would overlap form a
    block, and each block is centered on the mean of its members' wanted positions. If the labels do not fit into the
    range, they extend below `low`.

    Args:
        wanted: Wanted centers.
        heights: Heights of the labels, in the same unit.
        low: Lower end of the range.
        high: Upper end of the range.

    Returns:
        The centers, in the order of `wanted`.
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    # Each block: its members, the sum of the lower edges that they want, and its height.
    blocks: list[tuple[list[int], float, float]] = []
    for i in order:
        block = ([i], wanted[i] - heights[i] / 2, heights[i])
        while blocks and _edge(blocks[-1], low, high) + blocks[-1][2] > _edge(block, low, high):
            members, total, height = blocks.pop()
            block = (members + block[0], total + block[1] - height * len(block[0]), height + block[2])
        blocks.append(block)
    centers = [0.0] * len(wanted)
    for block in blocks:
        edge = _edge(block, low, high)
        for i in block[0]:
            centers[i] = edge + heights[i] / 2
            edge += heights[i]
    return centers


def _edge(block: tuple[list[int], float, float], low: float, high: float) -> float:
    members, total, height = block
    return min(max(total / len(members), low), high - height)


def place_point_labels(
    points: Sequence[tuple[float, float]], names: Sequence[str], size: float, inside: Box, avoid: Sequence[Box] = ()
) -> list[tuple[float, float]]:
    """Place one label near each point.

    Candidate positions lie in rings around the point, nearest first. The candidate with the least overlap is taken, so
    labels of crowded points are further away.

    Args:
        points: (x, y) of each point.
        names: Label of each point.
        size: Font size, in the unit of the points.
        inside: Box that labels should stay in.
        avoid: Boxes that labels should avoid.

    Returns:
        For each label its left end and the height of its middle.
    """
    points = list(points)
    occupied: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    occupied += avoid
    positions: list[tuple[float, float]] = [(0.0, 0.0)] * len(points)
    # Crowded points are placed first, because they have the fewest free candidates.
    crowd = [sum(math.dist(a, b) < 40 for b in points) for a in points]
    for i in sorted(range(len(points)), key=lambda i: (-crowd[i], i)):
        width, height = CHARACTER_WIDTH * size * len(names[i]), LINE_HEIGHT * size
        best, least = None, math.inf
        for box in _candidates(points[i], width, height):
            overlap = sum(_overlap(box, other) for other in occupied) + 20 * _outside(box, inside)
            overlap += 30 * sum(_leader_crosses(points[i], box, other) for other in points[:i] + points[i + 1 :])
            if overlap < least - 1e-9:
                best, least = box, overlap
            if least == 0:
                break
        assert best is not None, "at least one candidate is tried"
        occupied.append(best)
        positions[i] = (best[0], (best[1] + best[3]) / 2)
    return positions


def _candidates(point: tuple[float, float], width: float, height: float) -> list[Box]:
    x, y = point
    boxes = []
    for gap in (6, 12, 20, 30, 42, 56):
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7), (-0.7, -0.7)):
            middle = (x + across * (gap + width / 2), y + up * (gap + height / 2))
            boxes.append((middle[0] - width / 2, middle[1] - height / 2, middle[0] + width / 2, middle[1] + height / 2))
    return boxes


def _leader_crosses(point: tuple[float, float], box: Box, other: tuple[float, float]) -> bool:
    """True if the line from a point to the nearest place of its label runs through another point."""
    end = (min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3]))
    along = (end[0] - point[0], end[1] - point[1])
    length = along[0] ** 2 + along[1] ** 2
    if length == 0 or math.dist(point, other) < 1:
        return False
    part = ((other[0] - point[0]) * along[0] + (other[1] - point[1]) * along[1]) / length
    return 0 < part < 1 and math.dist(other, (point[0] + part * along[0], point[1] + part * along[1])) < 5


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, inside: Box) -> float:
    return (
        max(0.0, inside[0] - box[0])
        + max(0.0, inside[1] - box[1])
        + max(0.0, box[2] - inside[2])
        + max(0.0, box[3] - inside[3])
    )
