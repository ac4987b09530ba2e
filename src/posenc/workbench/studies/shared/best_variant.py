"""Best variant of a study, compared with the second by their paired difference."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.measure.statistics import mean, paired_difference
from posenc.workbench.report.number_format import count, interval, number, signed_number
from posenc.workbench.report.result_rows import BySeed

BASELINE = "none"
"""Variant without an encoding."""


def best_variant(
    values: Mapping[str, BySeed],
    *,
    metric: str,
    unit: str,
    where: str = "",
    higher: bool = True,
    over: str = "seed",
    digits: int = 2,
) -> str:
    """Name the best variant if its difference from the second excludes 0, and both variants otherwise.

    The interval is the 95% t-interval of the difference, paired by seed (or by what `over` names).

    Args:
        values: Variant to seed to score.
        metric: Name of the score, such as "PSNR".
        unit: Unit of the score; "" if it has none.
        where: Data that the scores are of, such as "on held-out pixels".
        higher: True if higher scores are better.
        over: Noun for the keys of the inner mapping, such as "seed" or "image".
        digits: Decimals of the scores.

    Returns:
        One or two sentences; "" for no variant.
    """
    means = {variant: mean(list(scores.values())) for variant, scores in values.items() if scores}
    order = sorted(means, key=lambda variant: ((-1 if higher else 1) * means[variant], variant))
    if not order:
        return ""
    best, *others = order
    heading = f"Best {where}" if where else "Best"
    ending = f" {unit}" if unit else ""
    first = f"{metric} {number(means[best], digits)}{ending}"
    if not others:
        return f"{heading}: inconclusive, {best} is the only variant with results ({first})."
    second = others[0]
    shared = values[best].keys() & values[second].keys()
    difference = paired_difference(values[best], values[second]) if shared else None
    if difference is None:
        size = f"no {over} in common"
    else:
        size = f"{signed_number(difference.mean, digits)}{ending} {interval(difference, digits, over=over)}"
        size += f" ({count(difference.n, over)})" if difference.known else ""
    if difference is not None and (difference.above(0) if higher else difference.below(0)):
        answer = f"{heading}: {best}, {first}; difference from the second, {second}: {size}."
    else:
        answer = (
            f"{heading}: {best} or {second}, cannot be told apart. {best}: {first}; difference from {second}: {size}."
        )
    if BASELINE in means and BASELINE not in (best, second):
        answer += f" Without an encoding: {number(means[BASELINE], digits)}{ending}."
    return answer
