"""Drawings of one number per seed: dots by scheme, and curves over training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from posenc.measure.statistics import Estimate, mean, t_interval
from posenc.report.ink import COLOURS, GRID, INK, QUIET, Colour, canvas, styled, themed
from posenc.report.labels import CHARACTER
from posenc.report.rows import BySeed, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dots(
    by_scheme: Mapping[str, BySeed],
    order: Sequence[str],
    *,
    prefix: str,
    lines: Mapping[str, float],
    headroom: int | None = None,
    colour: Colour = "first",
    axis_label: str = "accuracy",
    bounds: tuple[float, float] = (0.0, 1.0),
    intervals: Mapping[str, Estimate] | None = None,
    level: float = 0.95,
    digits: int = 2,
    log: bool = False,
) -> str:
    """One row per scheme: every seed as a ring, the mean as a heavy tick, its t-interval as a bar, the mean in figures.

    Args:
        order: the schemes from top to bottom; those without a value keep an empty row that says so.
        prefix: makes the ids of this picture unique on its page.
        lines: name -> value of vertical lines (chance, baselines), each named at the top.
        headroom: room above the rows, in names of lines, so that pictures side by side keep their rows level.
        bounds: the range the quantity can take, which is also the range of the axis; intervals are cut to it.
        intervals: scheme -> an interval to draw in place of the t-interval.
        digits: decimals of the means. log: a logarithmic axis; the means then have three digits each.

    Raises:
        ValueError: `log` with bounds that are not above 0.
    """
    if log and not bounds[0] > 0:
        raise ValueError(f"A logarithmic axis needs numbers above 0; got bounds {bounds}. Use log=False.")
    row, top, bottom = 23, 15 * (len(lines) if headroom is None else headroom) + 6, 40
    known = {scheme: list(by_scheme[scheme].values()) for scheme in order if by_scheme.get(scheme)}
    estimates = {scheme: (intervals or {}).get(scheme) or t_interval(known[scheme], level) for scheme in known}
    means = {scheme: _figures(mean(known[scheme]), estimates[scheme], digits, log) for scheme in known}
    left = min(200, max(52, 10 + round(12 * CHARACTER * max(map(len, order)))))
    right = max(40, 11 + round(12 * CHARACTER * max(map(len, means.values()), default=0)))
    width = 360 + max(0, left - 132)  # long names widen the picture; long means must not, rows of neighbours are level
    height = top + row * len(order) + bottom
    with styled():
        figure, axes = canvas(width, height, left, right, top, bottom)
        axes.set_xscale("log" if log else "linear")
        axes.set_xlim(*bounds)
        axes.set_ylim(len(order) - 0.4, -0.6)
        _vertical_lines(axes, lines, bounds, row)
        for place, scheme in enumerate(order):
            seeds = by_scheme.get(scheme, {})
            _dot_row(axes, place, seeds, COLOURS[colour], bounds, estimates.get(scheme))
            _at_the_right(axes, place, means.get(scheme, ""), bounds, right)
        axes.set_yticks(range(len(order)), list(order))
        axes.set_xticks(_ticks(bounds, log))
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
        axes.set_xlabel(axis_label, fontsize=11)
        axes.tick_params(axis="y", length=0, pad=8)
        axes.tick_params(axis="x", length=3)
        axes.spines[["top", "left", "right"]].set_visible(False)
        return themed(figure, prefix)


def curves(
    by_metric: Mapping[str, Mapping[int, Mapping[int, float]]],
    *,
    prefix: str,
    colours: Mapping[str, Colour],
    chance: float | None = None,
    epochs: int,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> str:
    """Value against epoch for one scheme: the mean over seeds heavy, each seed thin (a min-max band above five seeds).

    Args:
        by_metric: metric -> seed -> epoch -> value, drawn in this order; the first is solid, the others are dashed.
        epochs: where the axis ends, the same for every picture of a panel.
    """
    with styled():
        figure, axes = canvas(180, 132, 30, 12, 8, 24)
        axes.set_xlim(0, epochs)
        axes.set_ylim(*bounds)
        if chance is not None:
            axes.axhline(chance, color=QUIET, linewidth=1, dashes=(1, 2))
        for place, (metric, seeds) in enumerate(by_metric.items()):
            _curve(axes, seeds, COLOURS[colours[metric]], dashed=place > 0)
        axes.set_yticks([bounds[0], sum(bounds) / 2, bounds[1]])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
        axes.set_xticks([0, epochs])
        axes.tick_params(length=3, labelsize=12)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return themed(figure, prefix)


def _ticks(bounds: tuple[float, float], log: bool) -> list[float]:
    """About five round numbers of the axis.

    On a logarithmic one 1, 2, 5, 10, .., where those are too many the powers of ten; evenly spaced ones where it has
    fewer than two of either.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    even = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    locators = (LogLocator(subs=(1, 2, 5)), LogLocator(), even) if log else (even,)
    fine, *coarser = [
        [tick for tick in locator.tick_values(*bounds) if bounds[0] <= tick <= bounds[1]] for locator in locators
    ]
    return fine if 2 <= len(fine) <= 5 else next((ticks for ticks in coarser if len(ticks) > 1), fine)


def thinned(epochs: Sequence[int], most: int) -> list[int]:
    """At most `most` of the epochs, evenly, the first and the last among them."""
    if len(epochs) <= most:
        return list(epochs)
    return [epochs[round(step * (len(epochs) - 1) / (most - 1))] for step in range(most)]


def _figures(centre: float, estimate: Estimate, digits: int, log: bool) -> str:
    """A mean with `digits` decimals, or three digits where the axis is logarithmic."""
    shown = 2 - math.floor(math.log10(estimate.mean)) if log and estimate.mean > 0 else digits
    return number(centre, max(0, shown))


def _at_the_right(axes: Axes, place: int, words: str, bounds: tuple[float, float], margin: int) -> None:
    axes.annotate(
        words,
        (bounds[1], place),
        xytext=(margin - 4, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        annotation_clip=False,
    )


def _vertical_lines(axes: Axes, lines: Mapping[str, float], bounds: tuple[float, float], row: float) -> None:
    from matplotlib.transforms import offset_copy

    for place, (name, value) in enumerate(sorted(lines.items(), key=lambda line: -line[1])):
        # Names are stacked, each line reaching up to its own, so that close values never print over each other.
        height = -0.6 - (15 * place + 4) / row
        axes.plot(
            [value, value], [axes.get_ylim()[0], height], color=QUIET, linewidth=0.9, dashes=(3, 2), clip_on=False
        )
        leftwards = axes.transData.transform((value, 0))[0] > axes.transAxes.transform((0.5, 0))[0]
        axes.text(
            value,
            height,
            f"{name} {number(value)}",
            transform=offset_copy(axes.transData, cast(Any, axes.figure), x=-4 if leftwards else 4, units="points"),
            ha="right" if leftwards else "left",
            va="center",
            fontsize=11,
            color=INK,
        )


def _dot_row(
    axes: Axes,
    place: int,
    seeds: BySeed,
    colour: str,
    bounds: tuple[float, float],
    estimate: Estimate | None,
) -> None:
    axes.plot(bounds, [place, place], color=GRID, linewidth=0.8, zorder=0)
    if not seeds or estimate is None:
        across = axes.get_yaxis_transform()
        axes.text(0.5, place, "no finished seed", ha="center", va="center", fontsize=11, color=QUIET, transform=across)
        return
    if estimate.known:
        reach = [max(estimate.low, bounds[0]), min(estimate.high, bounds[1])]
        axes.plot(reach, [place, place], color=colour, linewidth=5, alpha=0.3, solid_capstyle="butt", clip_on=False)
    spread = [0.0] if len(seeds) == 1 else [0.44 * step / (len(seeds) - 1) - 0.22 for step in range(len(seeds))]
    axes.plot(
        [seeds[seed] for seed in sorted(seeds)],
        [place + shift for shift in spread],
        linestyle="none",
        marker="o",
        markersize=4.6,
        markerfacecolor="none",
        markeredgecolor=colour,
        markeredgewidth=1.2,
        clip_on=False,
    )
    centre = mean(list(seeds.values()))
    axes.plot([centre] * 2, [place - 0.36, place + 0.36], color=INK, linewidth=2, zorder=1.5, clip_on=False)


def _curve(axes: Axes, seeds: Mapping[int, Mapping[int, float]], colour: str, *, dashed: bool) -> None:
    if not seeds:
        return
    line = "--" if dashed else "-"
    shared = thinned(sorted(set.intersection(*(set(points) for points in seeds.values()))), 100)
    columns = [[points[epoch] for points in seeds.values()] for epoch in shared]
    if len(seeds) > 5:
        lowest, highest = [min(column) for column in columns], [max(column) for column in columns]
        axes.fill_between(shared, lowest, highest, color=colour, alpha=0.2, linewidth=0)
    else:
        for points in seeds.values():
            kept = thinned(sorted(points), 100)
            axes.plot(kept, [points[epoch] for epoch in kept], line, color=colour, linewidth=0.8, alpha=0.45)
    axes.plot(shared, [mean(column) for column in columns], line, color=colour, linewidth=1.8)
