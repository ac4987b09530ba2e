"""Scores without fixed bounds (decibels, errors, seconds): every seed by row, one picture a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.measure.statistics import Estimate, mean, t_interval
from posenc.report.figures import dots
from posenc.report.ink import name_for_ids
from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.rows import BySeed, Row, decimals, interval, number, values

KEY = (
    "Each ring is one {over}, the heavy tick their mean (also printed at the right), the pale bar the {level:.0%} "
    "t-interval over {over}s."
)


BETTER = {True: " (higher is better)", False: " (lower is better)", None: ""}


@dataclass(frozen=True)
class Score:
    """What a metric is: the title of its picture, its unit as the axis says it, and which way is better, if any."""

    title: str
    unit: str
    higher: bool | None = True
    bounds: tuple[float | None, float | None] = (None, None)
    """The range that it can take, where there is one."""
    log: bool = False
    """Drawn on a logarithmic axis, where all values are above 0: for errors that differ by powers of ten."""


def scores(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, Score],
    setting: str = "main",
    lines: Mapping[str, Mapping[str, float]] | None = None,
    level: float = 0.95,
    title: str = "Scores by encoding",
    caption: str = "",
    over: str = "seed",
) -> Panel:
    """Every seed, the mean and its t-interval, one picture a metric, best rows of the first metric first.

    Args:
        metrics: metric -> what it is. lines: metric -> name -> value worth a line of its own.
        over: what the rows' ``seed`` counts, where it is not seeds.
    """
    columns = {metric: _plain(values(rows, metric, setting), setting) for metric in metrics}
    columns = {metric: found for metric, found in columns.items() if found}
    if not columns:
        return Panel(title, (Text(("No unit of this setting has finished.",)),), caption)
    first = next(iter(columns))
    order = _order(columns, higher=metrics[first].higher is not False)
    drawn = lines or {}
    headroom = max(len(drawn.get(metric, {})) for metric in columns)
    pictures = []
    for metric, found in columns.items():
        score, marks = metrics[metric], drawn.get(metric, {})
        log = score.log and min([*marks.values(), *_every(found)]) > 0
        low, high = bounds = _bounds(found, marks, score, level, log)
        svg = dots(
            found,
            order,
            prefix=name_for_ids(title, setting, metric),
            lines=marks,
            headroom=headroom,
            axis_label=score.unit + BETTER[score.higher],
            bounds=bounds,
            level=level,
            digits=max(0, min(5, 2 - math.floor(math.log10(high - low)))),
            log=log,
        )
        told = ", ".join(f"{row} {number(mean(list(found[row].values())), 3)}" for row in order if row in found)
        pictures.append(Picture(svg, score.title, f"{score.title}, {score.unit}, by encoding. Means: {told}."))
    numbers = _numbers(f"{title}: the numbers", columns, metrics, order, level, over)
    return Panel(title, (Pictures(tuple(pictures), KEY.format(level=level, over=over), numbers),), caption)


def _plain(found: Mapping[str, BySeed], setting: str) -> dict[str, BySeed]:
    """By the label of the main setting: a store calls other settings' rows "LABEL, SETTING"."""
    return {row.removesuffix(f", {setting}"): seeds for row, seeds in found.items()}


def _order(columns: Mapping[str, Mapping[str, BySeed]], *, higher: bool) -> list[str]:
    order: list[str] = []
    for found in columns.values():
        best = sorted(found, key=lambda row: ((-1 if higher else 1) * mean(list(found[row].values())), row))
        order += [row for row in best if row not in order]
    return order


def _bounds(
    found: Mapping[str, BySeed], marks: Mapping[str, float], score: Score, level: float, log: bool
) -> tuple[float, float]:
    ends = list(marks.values())
    for seeds in found.values():
        estimate = t_interval(list(seeds.values()), level)
        ends += [*seeds.values(), *((estimate.low, estimate.high) if estimate.known else ())]
    if log:  # an interval that reaches 0 is cut near the smallest value
        low, high = min([*marks.values(), *_every(found)]), max(ends)
        room = (high / low) ** 0.06 if high > low else 1.1
        return (low / room, high * room)
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or max(abs(high), 1e-3) * 0.05
    least, most = score.bounds
    low, high = low - room, high + room
    return (low if least is None else max(low, least), high if most is None else min(high, most))


def _every(found: Mapping[str, BySeed]) -> list[float]:
    return [value for seeds in found.values() for value in seeds.values()]


def _numbers(
    caption: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    metrics: Mapping[str, Score],
    order: Sequence[str],
    level: float,
    over: str,
) -> Table:
    body = []
    for row in order:
        for metric, found in columns.items():
            seeds = found.get(row)
            if not seeds:
                continue
            estimate: Estimate = t_interval(list(seeds.values()), level)
            digits = decimals(estimate.high - estimate.low) if estimate.known else 3
            each = ", ".join(f"{seed}: {number(seeds[seed], digits)}" for seed in sorted(seeds))
            least, most = metrics[metric].bounds
            within = (-math.inf if least is None else least, math.inf if most is None else most)
            reach = interval(estimate, digits, within) if estimate.known else "–"
            what = f"{metrics[metric].title}, {metrics[metric].unit}"
            body.append((row, what, number(estimate.mean, digits), reach, each))
    return Table(caption, ("Encoding", "Score", "Mean", f"{level:.0%} interval", f"Each {over}"), tuple(body))
