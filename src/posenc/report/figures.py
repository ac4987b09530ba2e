"""Pictures as inline SVG that takes its colours from the page.

Matplotlib draws with stand-in colours, one per role; `themed` replaces them by the page's CSS variables, so one picture
is right in light, in dark and on paper. Text stays text, in the reader's own font. Nothing in the result depends on the
date, the machine or a random number.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, cast

from posenc.measure.statistics import mean, t_interval
from posenc.report.rows import BySeed, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, GRID, PAPER, FIRST, SECOND = "#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04", "#0a0a05", "#0a0a06"
PAGE_COLOURS = {
    INK: "currentColor",
    QUIET: "var(--quiet)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
}
Colour = Literal["first", "second", "quiet"]
COLOURS: dict[Colour, str] = {"first": FIRST, "second": SECOND, "quiet": QUIET}

# Matplotlib's points become the SVG's user units, so these are CSS pixels at the picture's natural size.
INCH = 72
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posenc",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "text.color": INK,
    "axes.facecolor": "none",
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 12,
}


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
    level: float = 0.95,
) -> str:
    """One row per scheme: every seed as a ring, the mean as a heavy tick, its t-interval as a bar, the mean in figures.

    Args:
        order: the schemes from top to bottom; those without a value keep an empty row that says so.
        prefix: makes the ids of this picture unique on its page.
        lines: name -> value of vertical lines (chance, baselines), each named at the top.
        headroom: room above the rows, in names of lines, so that pictures side by side keep their rows level.
        bounds: the range the quantity can take, which is also the range of the axis; intervals are cut to it.
    """
    row, top, bottom = 23, 15 * (len(lines) if headroom is None else headroom) + 6, 40
    left, right, width = min(132, max(52, 12 + 7 * max(map(len, order)))), 40, 360
    height = top + row * len(order) + bottom
    with _style():
        figure, axes = _canvas(width, height, left, right, top, bottom)
        axes.set_xlim(*bounds)
        axes.set_ylim(len(order) - 0.4, -0.6)
        _vertical_lines(axes, lines, bounds, row)
        for place, scheme in enumerate(order):
            _dot_row(axes, place, by_scheme.get(scheme, {}), COLOURS[colour], bounds, level)
        axes.set_yticks(range(len(order)), list(order))
        axes.set_xticks([bounds[0] + (bounds[1] - bounds[0]) * part / 4 for part in range(5)])
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
    with _style():
        figure, axes = _canvas(180, 132, 30, 12, 8, 24)
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


def themed(figure: Figure, prefix: str) -> str:
    """The figure as an `<svg>` for a page: roles for colours, the page's font, ids under `prefix`, no metadata."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for pattern in (r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<!--.*?-->", r"<defs>\s*</defs>"):
        svg = re.sub(pattern, "", svg, flags=re.DOTALL)
    view_box = re.search(r'viewBox="[^"]*"', svg)
    assert view_box, "matplotlib's SVG always has a viewBox"
    svg = re.sub(r"<svg[^>]*>", f'<svg {view_box[0]} aria-hidden="true" focusable="false">', svg, count=1)
    svg = svg.replace("xlink:href", "href")
    # Matplotlib writes either the short `font:` or the long properties, depending on its version.
    svg = re.sub(r"font: (?:(\d+) )?([\d.]+)px [^;\"]*", _font, svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    for stand_in, colour in PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in referred else "", svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()


def thinned(epochs: Sequence[int], most: int) -> list[int]:
    """At most `most` of the epochs, evenly, the first and the last among them."""
    if len(epochs) <= most:
        return list(epochs)
    return [epochs[round(step * (len(epochs) - 1) / (most - 1))] for step in range(most)]


def _style() -> AbstractContextManager[None]:
    from matplotlib import rc_context

    return rc_context(cast(Any, STYLE))


def _font(found: re.Match[str]) -> str:
    return f"font-size: {found[2]}px" + (f"; font-weight: {found[1]}" if found[1] else "")


def _canvas(width: int, height: int, left: int, right: int, top: int, bottom: int) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / INCH, height / INCH), dpi=INCH, facecolor="none")
    inside = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    return figure, figure.add_axes(inside)


def _vertical_lines(axes: Axes, lines: Mapping[str, float], bounds: tuple[float, float], row: float) -> None:
    from matplotlib.transforms import offset_copy

    for place, (name, value) in enumerate(sorted(lines.items(), key=lambda line: -line[1])):
        # Names are stacked, each line reaching up to its own, so that close values never print over each other.
        height = -0.6 - (15 * place + 4) / row
        axes.plot(
            [value, value], [axes.get_ylim()[0], height], color=QUIET, linewidth=0.9, dashes=(3, 2), clip_on=False
        )
        leftwards = value > bounds[0] + 0.5 * (bounds[1] - bounds[0])
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


def _dot_row(axes: Axes, place: int, seeds: BySeed, colour: str, bounds: tuple[float, float], level: float) -> None:
    axes.plot(bounds, [place, place], color=GRID, linewidth=0.8, zorder=0)
    if not seeds:
        axes.text(sum(bounds) / 2, place, "no finished seed", ha="center", va="center", fontsize=11, color=QUIET)
        return
    estimate = t_interval(list(seeds.values()), level)
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
    axes.plot([estimate.mean] * 2, [place - 0.36, place + 0.36], color=INK, linewidth=2, zorder=1.5, clip_on=False)
    axes.annotate(
        number(estimate.mean),
        (bounds[1], place),
        xytext=(36, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        annotation_clip=False,
    )


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
