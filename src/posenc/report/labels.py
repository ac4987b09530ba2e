"""Where words go in a picture so that none prints over another: beside the ends of lines, and beside points."""

from __future__ import annotations

import math
from collections.abc import Sequence

Box = tuple[float, float, float, float]
"""left, bottom, right, top."""

CHARACTER, LINE = 0.6, 1.25
"""Width of a character and height of a line over the size of the font: a wide font's, so that others fit too."""


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Centres as near to `wanted` as may be, in its order, whose spans of `heights` neither meet nor leave [low, high].

    Least squares: spans that would meet form a block around the mean of what its members want. Where all together are
    higher than the range they run over its low end.
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    # each block: members, the sum of what they want of the block's lower edge, its height
    blocks: list[tuple[list[int], float, float]] = []
    for i in order:
        block = ([i], wanted[i] - heights[i] / 2, heights[i])
        while blocks and _edge(blocks[-1], low, high) + blocks[-1][2] > _edge(block, low, high):
            members, total, height = blocks.pop()
            block = (members + block[0], total + block[1] - height * len(block[0]), height + block[2])
        blocks.append(block)
    placed = [0.0] * len(wanted)
    for block in blocks:
        edge = _edge(block, low, high)
        for i in block[0]:
            placed[i] = edge + heights[i] / 2
            edge += heights[i]
    return placed


def _edge(block: tuple[list[int], float, float], low: float, high: float) -> float:
    members, total, height = block
    return min(max(total / len(members), low), high - height)


def beside(
    points: Sequence[tuple[float, float]], names: Sequence[str], size: float, inside: Box, kept_free: Sequence[Box] = ()
) -> list[tuple[float, float]]:
    """The left end and middle height of each point's name, in the same unit as the points: near it and on nothing else.

    Tried in rings around the point, nearest first; the place with the least overlap is taken, so crowded points get
    names further off.

    Args:
        size: of the font.
        inside: names stay in this box.
        kept_free: boxes that names avoid.
    """
    points = list(points)
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    taken += kept_free
    placed: list[tuple[float, float]] = [(0.0, 0.0)] * len(points)
    # crowded points choose first: they have the fewest places to go
    crowd = [sum(math.dist(a, b) < 40 for b in points) for a in points]
    for i in sorted(range(len(points)), key=lambda i: (-crowd[i], i)):
        width, height = CHARACTER * size * len(names[i]), LINE * size
        best, least = None, math.inf
        for box in _around(points[i], width, height):
            overlap = sum(_common(box, other) for other in taken) + 20 * _outside(box, inside)
            overlap += 30 * sum(_on_the_way(points[i], box, other) for other in points[:i] + points[i + 1 :])
            if overlap < least - 1e-9:
                best, least = box, overlap
            if least == 0:
                break
        assert best is not None, "there is always a place tried"
        taken.append(best)
        placed[i] = (best[0], (best[1] + best[3]) / 2)
    return placed


def _around(point: tuple[float, float], width: float, height: float) -> list[Box]:
    x, y = point
    boxes = []
    for gap in (6, 12, 20, 30, 42, 56):
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (0.7, 0.7), (-0.7, 0.7), (0.7, -0.7), (-0.7, -0.7)):
            middle = (x + across * (gap + width / 2), y + up * (gap + height / 2))
            boxes.append((middle[0] - width / 2, middle[1] - height / 2, middle[0] + width / 2, middle[1] + height / 2))
    return boxes


def _on_the_way(point: tuple[float, float], box: Box, other: tuple[float, float]) -> bool:
    """Whether a line from the point to the nearest place of the box would run through another point."""
    end = (min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3]))
    along = (end[0] - point[0], end[1] - point[1])
    length = along[0] ** 2 + along[1] ** 2
    if length == 0 or math.dist(point, other) < 1:
        return False
    part = ((other[0] - point[0]) * along[0] + (other[1] - point[1]) * along[1]) / length
    return 0 < part < 1 and math.dist(other, (point[0] + part * along[0], point[1] + part * along[1])) < 5


def _common(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _outside(box: Box, inside: Box) -> float:
    return (
        max(0.0, inside[0] - box[0])
        + max(0.0, inside[1] - box[1])
        + max(0.0, box[2] - inside[2])
        + max(0.0, box[3] - inside[3])
    )
