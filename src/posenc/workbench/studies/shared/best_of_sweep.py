"""Comparison of a parameter value that was chosen before a sweep with the best value of the sweep."""

from __future__ import annotations

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.line_plot import Points


def judge_choice(points: Points, chosen: float, *, higher: bool) -> str:
    """Compare a chosen value with the best value of a sweep, as the end of a sentence.

    Two values differ if the 95% t-interval of their difference, paired by seed, excludes 0.

    Args:
        points: Swept value to seed to score.
        chosen: The value that was chosen.
        higher: True if higher scores are better.

    Returns:
        Text that begins with a comma; "" if the chosen value was not swept.
    """
    means = {x: mean(list(seeds.values())) for x, seeds in points.items()}
    if chosen not in means:
        return ""
    best = (max if higher else min)(means, key=means.__getitem__)
    if best == chosen:
        return ", the best of this sweep too"
    shared = points[best].keys() & points[chosen].keys()
    difference = paired_difference(points[best], points[chosen]) if shared else None
    if difference is not None and (difference.above(0) or difference.below(0)):
        return f", not the best of this sweep: {best:g} is"
    return f", not distinguishable from {best:g}, which has the best mean of this sweep"
