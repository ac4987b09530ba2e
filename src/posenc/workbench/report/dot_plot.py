"""Dot plot: one row per scheme with every seed, the mean and its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from posenc.measure.statistics import Bounds, Estimate, mean, t_interval
from posenc.workbench.report.label_placement import CHARACTER_WIDTH
from posenc.workbench.report.number_format import number
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.seed_interval import is_drawn
from posenc.workbench.report.svg_style import COLORS, FOREGROUND, GRID, MUTED, Color, canvas, page_svg, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def dot_plot(
    by_scheme: Mapping[str, BySeed],
    order: Sequence[str],
    *,
    prefix: str,
    lines: Mapping[str, float],
    headroom: int | None = None,
    color: Color = "first",
    axis_label: str = "accuracy",
    bounds: Bounds = (0.0, 1.0),
    limits: tuple[float, float] | None = None,
    intervals: Mapping[str, Estimate] | None = None,
    level: float = 0.95,
    digits: int = 2,
    log: bool = False,
) -> str:
    """Draw a dot plot: circles for seeds, a tick for the mean, a bar for its interval, and the mean as a number.

    Two seeds have no bar.

    Args:
        by_scheme: scheme -> seed -> value.
        order: Schemes from top to bottom. A scheme without a value keeps an empty row labeled "no finished run".
        prefix: Text that makes the SVG ids unique on the page.
        lines: name -> value of vertical reference lines, such as chance and baselines, labeled at the top.
        headroom: Number of label lines reserved above the rows, so that rows of neighboring plots stay aligned;
            by default the number of `lines`.
        color: Color of circles and bars.
        axis_label: Label of the horizontal axis, with its unit.
        bounds: Lowest and highest possible value, at which t-intervals are cut.
        limits: Range of the axis. Default: the bounds.
        intervals: scheme -> interval drawn in place of the t-interval.
        level: Coverage of the t-intervals.
        digits: Decimals of the printed means.
        log: Use a logarithmic axis; means are then printed with three significant digits.

    Returns:
        The `<svg>` element as text.

    Raises:
        ValueError: `log` is set and the limits are not above 0.
    """
    limits = bounds if limits is None else limits
    if log and not limits[0] > 0:
        raise ValueError(f"A logarithmic axis needs numbers above 0; got limits {limits}. Use log=False.")
    row, top, bottom = 23, 15 * (len(lines) if headroom is None else headroom) + 6, 40
    seed_values = {scheme: list(by_scheme[scheme].values()) for scheme in order if by_scheme.get(scheme)}
    estimates = {name: t_interval(values, level, bounds) for name, values in seed_values.items()} | dict(
        intervals or {}
    )
    means = {
        scheme: _format_value(mean(seed_values[scheme]), estimates[scheme].mean, digits, log) for scheme in seed_values
    }
    left = min(200, max(52, 10 + round(12 * CHARACTER_WIDTH * max(map(len, order)))))
    right = max(40, 11 + round(12 * CHARACTER_WIDTH * max(map(len, means.values()), default=0)))
    # Long names widen the plot. Long means must not, so that rows of neighboring plots stay aligned.
    width = 360 + max(0, left - 132)
    height = top + row * len(order) + bottom
    with plot_style():
        figure, axes = canvas(width, height, left, right, top, bottom)
        axes.set_xscale("log" if log else "linear")
        axes.set_xlim(*limits)
        axes.set_ylim(len(order) - 0.4, -0.6)
        _draw_vertical_lines(axes, lines, row, digits, log)
        for place, scheme in enumerate(order):
            seeds = by_scheme.get(scheme, {})
            _draw_row(axes, place, seeds, COLORS[color], limits, estimates.get(scheme))
            _print_at_right(axes, place, means.get(scheme, ""), limits, right)
        axes.set_yticks(range(len(order)), list(order))
        axes.set_xticks(_ticks(limits, log))
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
        axes.set_xlabel(axis_label, fontsize=11)
        axes.tick_params(axis="y", length=0, pad=8)
        axes.tick_params(axis="x", length=3)
        axes.spines[["top", "left", "right"]].set_visible(False)
        return page_svg(figure, prefix)


def _ticks(bounds: tuple[float, float], log: bool) -> list[float]:
    """About five round ticks.

    A logarithmic axis gets 1, 2, 5, 10, ...; if those are more than five, powers of ten; if there are fewer than two of
    either, evenly spaced ticks.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    even = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    locators = (LogLocator(subs=(1, 2, 5)), LogLocator(), even) if log else (even,)
    fine, *coarser = [
        [tick for tick in locator.tick_values(*bounds) if bounds[0] <= tick <= bounds[1]] for locator in locators
    ]
    return fine if 2 <= len(fine) <= 5 else next((ticks for ticks in coarser if len(ticks) > 1), fine)


def _format_value(value: float, size: float, digits: int, log: bool) -> str:
    """Format a value with `digits` decimals; on a logarithmic axis with three significant digits of `size`."""
    decimals = 2 - math.floor(math.log10(size)) if log and size > 0 else digits
    return number(value, max(0, decimals))


def _print_at_right(axes: Axes, place: int, words: str, bounds: tuple[float, float], margin: int) -> None:
    axes.annotate(
        words,
        (bounds[1], place),
        xytext=(margin - 4, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        annotation_clip=False,
    )


def _draw_vertical_lines(axes: Axes, lines: Mapping[str, float], row: float, digits: int, log: bool) -> None:
    from matplotlib.transforms import offset_copy

    for place, (name, value) in enumerate(sorted(lines.items(), key=lambda line: -line[1])):
        # Labels are stacked and each line ends at its own label, so that labels of close values do not overlap.
        height = -0.6 - (15 * place + 4) / row
        axes.plot(
            [value, value], [axes.get_ylim()[0], height], color=MUTED, linewidth=0.9, dashes=(3, 2), clip_on=False
        )
        leftwards = axes.transData.transform((value, 0))[0] > axes.transAxes.transform((0.5, 0))[0]
        axes.text(
            value,
            height,
            f"{name} {_format_value(value, value, digits, log)}",
            transform=offset_copy(axes.transData, cast(Any, axes.figure), x=-4 if leftwards else 4, units="points"),
            ha="right" if leftwards else "left",
            va="center",
            fontsize=11,
            color=FOREGROUND,
        )


def _draw_row(
    axes: Axes,
    place: int,
    seeds: BySeed,
    color: str,
    bounds: tuple[float, float],
    estimate: Estimate | None,
) -> None:
    axes.plot(bounds, [place, place], color=GRID, linewidth=0.8, zorder=0)
    if not seeds or estimate is None:
        across = axes.get_yaxis_transform()
        axes.text(0.5, place, "no finished run", ha="center", va="center", fontsize=11, color=MUTED, transform=across)
        return
    if is_drawn(estimate):
        ends = [max(estimate.low, bounds[0]), min(estimate.high, bounds[1])]
        axes.plot(ends, [place, place], color=color, linewidth=5, alpha=0.3, solid_capstyle="butt", clip_on=False)
    spread = [0.0] if len(seeds) == 1 else [0.44 * step / (len(seeds) - 1) - 0.22 for step in range(len(seeds))]
    axes.plot(
        [seeds[seed] for seed in sorted(seeds)],
        [place + shift for shift in spread],
        linestyle="none",
        marker="o",
        markersize=4.6,
        markerfacecolor="none",
        markeredgecolor=color,
        markeredgewidth=1.2,
        clip_on=False,
    )
    center = mean(list(seeds.values()))
    axes.plot([center] * 2, [place - 0.36, place + 0.36], color=FOREGROUND, linewidth=2, zorder=1.5, clip_on=False)
