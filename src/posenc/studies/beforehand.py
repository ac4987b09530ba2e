"""What was chosen before a sweep was run, judged by the sweep."""

from __future__ import annotations

from posenc.measure.statistics import mean, paired_difference
from posenc.report.lines import Points


def standing(points: Points, chosen: float, *, higher: bool) -> str:
    """Whether a number is the best of a sweep, as the end of a sentence; nothing where it was not swept."""
    means = {x: mean(list(seeds.values())) for x, seeds in points.items()}
    if chosen not in means:
        return ""
    best = (max if higher else min)(means, key=means.__getitem__)
    if best == chosen:
        return ", the best of this sweep too"
    apart = paired_difference(points[best], points[chosen]) if points[best].keys() & points[chosen].keys() else None
    if apart is not None and (apart.above(0) or apart.below(0)):
        return f", not the best of this sweep: {best:g} is"
    return f", not told apart from {best:g}, which has the best mean of this sweep"
