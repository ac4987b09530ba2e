"""Comparison of a parameter value that was chosen before a sweep with the best value of the sweep."""

from __future__ import annotations

from posenc.workbench.report.line_plot import Points
from posenc.workbench.studies.shared.best_variant import Scores


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
    scores = Scores({f"{x:g}": seeds for x, seeds in points.items()}, metric="", higher=higher)
    label, order = f"{chosen:g}", scores.order
    if label not in order or len(order) < 2:
        return ""
    best, second = order[:2]
    if best == label:
        if all(scores.better(best, other) for other in order[1:]):
            return ", the best of this sweep too"
        return f", which has the best mean of this sweep and is not distinguishable from {second}"
    if scores.better(best, label):
        return f", not the best of this sweep: {best} is better"
    return f", not distinguishable from {best}, which has the best mean of this sweep"
