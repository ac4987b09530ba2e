"""Line plots: a metric by a numeric parameter (noise level, parameter count), with published reference curves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from posenc.measure.held_out_interval import HeldOut
from posenc.measure.statistics import UNBOUNDED, Bounds, Estimate, mean
from posenc.workbench.report.label_placement import CHARACTER_WIDTH, LINE_HEIGHT, place_stacked_labels
from posenc.workbench.report.number_format import capitalize, decimals, interval, join_words, number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.seed_interval import FEWEST_DRAWN, interval_name, is_drawn, seed_interval, two_seeds_note
from posenc.workbench.report.svg_style import (
    FIRST,
    FOREGROUND,
    FOURTH,
    GRID,
    MUTED,
    SECOND,
    THIRD,
    canvas,
    id_prefix,
    page_svg,
    plot_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Mapping[float, BySeed]
"""x -> seed -> value."""
ReferenceCurve = Mapping[float, tuple[float, float]]
"""x -> (mean, SD)."""

MAX_LINES_PER_PLOT = 6
MAX_SEED_MARKERS = 5
LABEL_SIZE = 11.5
TICK_SIZE = 12
LEFT, TITLE = 54, 28
TITLE_SIZE, Y_TITLE_LETTERS = 12, 34
"""Letter size of the titles of axes, and letters of a line of the vertical one: more are longer than the axis."""
"""Least left margin, and the part of it that the title of the axis needs, in CSS pixels."""
FLAT = 1e-6
"""Range of values, relative to their size, below which they are drawn as a constant."""
MAX_MARKED_POINTS = 25
"""Most points of a curve that are marked."""
MAX_TABLE_POINTS = 200
"""Most points of a curve that the table lists; of a longer curve it lists evenly spaced ones."""
LineStyle = tuple[str, tuple[float, ...], str]
LINE_STYLES: tuple[LineStyle, ...] = (
    (FIRST, (), "o"),
    (SECOND, (6, 2), "s"),
    (THIRD, (2, 1.5), "^"),
    (FOURTH, (8, 2, 2, 2), "D"),
    (FOREGROUND, (4, 1.5, 1, 1.5, 1, 1.5), "v"),
    (MUTED, (), "X"),
)
"""Color, dashes and marker of each series; each of the three alone distinguishes the series."""


class Frame(NamedTuple):
    """Axes that all plots of a panel share."""

    x: tuple[float, ...]
    limits: tuple[float, float]
    x_label: str
    y_label: str
    log_x: bool
    chance: float | None
    level: float
    bounds: Bounds
    held_out: HeldOut | Mapping[float, HeldOut | None] | None = None

    def estimate(self, x: float, seeds: BySeed) -> Estimate:
        """Mean over seeds at x with its interval."""
        return seed_interval(list(seeds.values()), self.level, self.bounds, self.held_out_at(x))

    def held_out_at(self, x: float) -> HeldOut | None:
        """Held-out items of the values at x."""
        return self.held_out.get(x) if isinstance(self.held_out, Mapping) else self.held_out


def line_plot(
    series: Mapping[str, Points],
    *,
    title: str,
    x_label: str,
    y_label: str,
    caption: str = "",
    bounds: Bounds | None = (0.0, 1.0),
    limits: tuple[float, float] | Literal["values"] | None = None,
    reference: Mapping[str, ReferenceCurve] | None = None,
    chance: float | None = None,
    level: float = 0.95,
    log_x: bool = False,
    note: str = "",
    held_out: HeldOut | Mapping[float, HeldOut | None] | None = None,
) -> Panel:
    """Draw a metric by a numeric parameter, with one line per series.

    A thick line is the mean over seeds and a band the t-interval of three or more; up to five seeds are drawn as
    circles. Up to six series share one plot; more series get one small plot each.

    Args:
        series: name -> x -> seed -> value.
        title: Title of the panel.
        x_label: Label of the horizontal axis, with its unit.
        y_label: Label of the vertical axis, with its unit.
        caption: Text below the title.
        bounds: Lowest and highest possible value of the metric, at which intervals are cut; None if it has none.
        limits: Range of the vertical axis; "values" for round numbers around the values. Default: the bounds, or round
            numbers without bounds.
        reference: name -> x -> (mean, SD) of reference curves, such as published ones, drawn in gray. A curve with the
            name of a series is drawn in that series' plot if each series has its own.
        chance: Value at chance level, drawn as a dotted line.
        level: Coverage of the t-intervals.
        log_x: Use a logarithmic horizontal axis.
        note: Sentence after the key.
        held_out: Held-out items that the intervals cover, of all values or of those at each x; None for t-intervals
            over seeds.

    Returns:
        The panel.

    Raises:
        ValueError: `log_x` is set and a value of x is not above 0.
    """
    curves = {name: {x: seeds for x, seeds in sorted(points.items()) if seeds} for name, points in series.items()}
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return Panel(title, (Text(("No run of these curves has finished.",)),), caption)
    reference = {name: dict(sorted(points.items())) for name, points in (reference or {}).items() if points}
    numbers = sorted({x for points in (*curves.values(), *reference.values()) for x in points})
    if log_x and numbers[0] <= 0:
        raise ValueError(f"A logarithmic axis needs numbers above 0; got {numbers[0]:g}. Use log_x=False.")
    if limits is None:
        limits = bounds or "values"
    bounds = bounds or UNBOUNDED
    rounded = limits == "values"
    frame = Frame(
        tuple(numbers), (0.0, 1.0) if limits == "values" else limits, x_label, y_label, log_x, chance, level, bounds,
        held_out,
    )  # fmt: skip
    if rounded:
        frame = frame._replace(limits=_round_limits(curves, reference, frame))
    one_plot = len(curves) <= MAX_LINES_PER_PLOT and _label_lines(curves, reference) <= 13
    figures = (
        _single_figure(curves, reference, frame, title) if one_plot else _small_figures(curves, reference, frame, title)
    )
    key = _key(curves, reference, frame, one_plot)
    table = _table(f"{title}: values", curves, reference, x_label, level, frame)
    block = FigureGroup(figures, f"{key} {note}".strip(), table, "wide" if one_plot else "small")
    return Panel(title, (block,), caption)


def _single_figure(
    series: Mapping[str, Points], reference: Mapping[str, ReferenceCurve], frame: Frame, title: str
) -> tuple[Figure, ...]:
    labeled_reference = {
        (f"{name}, published" if name in series else name): points for name, points in reference.items()
    }
    svg = _draw_together(series, labeled_reference, frame, id_prefix(title))
    return (Figure(svg, f"{capitalize(frame.y_label)} by {frame.x_label}", _alt(series, frame)),)


def _small_figures(
    series: Mapping[str, Points], reference: Mapping[str, ReferenceCurve], frame: Frame, title: str
) -> tuple[Figure, ...]:
    shared = {name: points for name, points in reference.items() if name not in series}
    return tuple(
        Figure(
            _draw_alone(
                points, [*([reference[name]] if name in reference else []), *shared.values()], frame, f"{title}-{name}"
            ),
            name,
            _alt({name: points}, frame),
        )
        for name, points in series.items()
    )


def _draw_together(
    series: Mapping[str, Points], reference: Mapping[str, ReferenceCurve], frame: Frame, prefix: str
) -> str:
    texts = {name: _wrap(name) for name in (*series, *reference)}
    longest = max(len(line) for text in texts.values() for line in text)
    right = round(min(150, 20 + CHARACTER_WIDTH * LABEL_SIZE * longest))
    with plot_style():
        left = _left_margin(frame)
        figure, axes = canvas(450 + left - LEFT, 280, left, right, 10, 42)
        _draw_axes(axes, frame, labeled=True)
        ends: list[tuple[str, float, float, str]] = []
        for place, (name, points) in enumerate(reference.items()):
            _draw_reference(axes, points, place)
            x = max(points)
            ends.append((name, x, points[x][0], MUTED))
        seed_markers = 1 < _most_seeds(series) <= MAX_SEED_MARKERS
        markers = len(series) > 1 and max(map(len, series.values())) <= MAX_MARKED_POINTS
        for style, (name, points) in zip(LINE_STYLES, series.items(), strict=False):
            last_mean = _draw_series(axes, points, style, frame, seed_markers=seed_markers, markers=markers)
            ends.append((name, max(points), last_mean, style[0]))
        _label_ends(axes, ends, texts, frame)
        return page_svg(figure, prefix)


def _left_margin(frame: Frame) -> int:
    """Margin that holds the tick labels of the vertical axis and its title."""
    from matplotlib.ticker import MaxNLocator

    ticks = (tick for tick in MaxNLocator(5).tick_values(*frame.bounds) if frame.bounds[0] <= tick <= frame.bounds[1])
    longest = max((len(_tick(float(tick))) for tick in ticks), default=0)
    further = TITLE_SIZE * LINE_HEIGHT * (len(_y_title(frame)) - 1)
    return round(max(LEFT, TITLE + CHARACTER_WIDTH * TICK_SIZE * longest) + further)


def _y_title(frame: Frame) -> list[str]:
    """Lines of the title of the vertical axis, which stands along the axis."""
    return textwrap.wrap(frame.y_label, Y_TITLE_LETTERS) or [""]


def _draw_alone(points: Points, reference: Sequence[ReferenceCurve], frame: Frame, name: str) -> str:
    with plot_style():
        figure, axes = canvas(180, 140, 34, 12, 8, 24)
        _draw_axes(axes, frame, labeled=False)
        for place, curve in enumerate(reference):
            _draw_reference(axes, curve, place)
        seed_markers = 1 < _most_seeds({name: points}) <= MAX_SEED_MARKERS
        _draw_series(axes, points, LINE_STYLES[0], frame, seed_markers=seed_markers, markers=False)
        return page_svg(figure, id_prefix(name))


def _draw_axes(axes: Axes, frame: Frame, *, labeled: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    low, high = frame.x[0], frame.x[-1]
    if frame.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if low < high:
        axes.set_xlim(low, high)
        axes.margins(x=0)
    axes.set_ylim(*frame.limits)
    if frame.log_x or len(frame.x) <= (7 if labeled else 2):
        axes.set_xticks(_select_ticks(frame.x, frame.log_x, 7 if labeled else 3))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6 if labeled else 2))
    axes.yaxis.set_major_locator(MaxNLocator(5 if labeled else 2))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _tick(value).replace("-", "−"))
    axes.tick_params(length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if frame.chance is not None:
        axes.axhline(frame.chance, color=MUTED, linewidth=1, dashes=(1, 2))
    if labeled:
        axes.set_xlabel(frame.x_label, fontsize=TITLE_SIZE)
        axes.set_ylabel("\n".join(_y_title(frame)), fontsize=TITLE_SIZE)


def _draw_series(
    axes: Axes, points: Points, style: LineStyle, frame: Frame, *, seed_markers: bool, markers: bool
) -> float:
    """Draw one series and return its last mean, where its label is placed."""
    color, dashes, marker = style
    estimates = {x: frame.estimate(x, seeds) for x, seeds in points.items()}
    means = [estimate.mean for estimate in estimates.values()]
    banded = {x: (estimate.low, estimate.high) for x, estimate in estimates.items() if is_drawn(estimate)}
    if banded:
        low, high = zip(*banded.values(), strict=True)
        axes.fill_between(list(banded), low, high, color=color, alpha=0.14, linewidth=0)
    if seed_markers:
        seed_points = [(x, value) for x, seeds in points.items() for value in seeds.values()]
        across, up = zip(*seed_points, strict=True)
        axes.plot(
            across, up, "o", markersize=3.6, markerfacecolor="none", markeredgecolor=color, markeredgewidth=0.8,
            alpha=0.75, clip_on=False,
        )  # fmt: skip
    axes.plot(
        list(points), means, color=color, linewidth=2, marker=marker if markers or len(points) == 1 else "",
        markersize=5, markeredgewidth=0, dashes=dashes or (1, 0), clip_on=False,
    )  # fmt: skip
    return means[-1]


def _draw_reference(axes: Axes, points: ReferenceCurve, place: int) -> None:
    x, means = list(points), [mean for mean, _ in points.values()]
    bands = [(mean - sd, mean + sd) for mean, sd in points.values() if math.isfinite(sd)]
    if len(bands) == len(x):
        low, high = zip(*bands, strict=True)
        axes.fill_between(x, low, high, color=MUTED, alpha=0.13, linewidth=0)
    axes.plot(x, means, color=MUTED, linewidth=1.4, dashes=((1, 0), (5, 2), (2, 2))[place % 3])


def _label_ends(
    axes: Axes, ends: Sequence[tuple[str, float, float, str]], texts: Mapping[str, Sequence[str]], frame: Frame
) -> None:
    """Print the name of each line at the right, near the height of its last point and without overlap."""
    height = axes.get_window_extent().height
    low, high = frame.limits
    unit = (high - low) / height
    heights = [LINE_HEIGHT * LABEL_SIZE * len(texts[name]) * unit for name, *_ in ends]
    places = place_stacked_labels([y for _, _, y, _ in ends], heights, low - 6 * unit, high + 6 * unit)
    right = axes.get_window_extent().x1
    for (name, x, y, color), place in zip(ends, places, strict=True):
        gap = right - axes.transData.transform((x, y))[0]
        axes.annotate(
            "\n".join(texts[name]),
            (x, y),
            xytext=(gap + 14, (place - y) / unit),
            textcoords="offset points",
            fontsize=LABEL_SIZE,
            color=color,
            ha="left",
            va="center",
            linespacing=1.1,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.7, "alpha": 0.6, "relpos": (0, 0.5),
                        "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip


def _round_limits(
    series: Mapping[str, Points],
    reference: Mapping[str, ReferenceCurve],
    frame: Frame,
) -> tuple[float, float]:
    """Round limits that contain all drawn values."""
    from matplotlib.ticker import MaxNLocator

    values = [value for points in series.values() for seeds in points.values() for value in seeds.values()]
    for points in series.values():
        estimates = [frame.estimate(x, seeds) for x, seeds in points.items()]
        values += [end for estimate in estimates if is_drawn(estimate) for end in (estimate.low, estimate.high)]
    values += [center for points in reference.values() for center, _ in points.values()]
    values += [] if frame.chance is None else [frame.chance]
    low, high = min(values), max(values)
    if high - low <= FLAT * max(abs(low), abs(high), 1.0):  # ticks of a constant would differ in digits not printed
        return (math.floor(2 * low - 1) / 2, math.ceil(2 * high + 1) / 2)
    ticks = MaxNLocator(5).tick_values(low, high)
    return (float(ticks[0]), float(ticks[-1]))


def _tick(value: float) -> str:
    """Format a tick: four significant digits, or three and a thousands separator from 10,000."""
    return f"{value:.4g}" if abs(value) < 1e4 else f"{float(f'{value:.3g}'):,.0f}"


def _select_ticks(numbers: Sequence[float], log_x: bool, most: int) -> list[float]:
    """Select ticks with enough space for their labels: both ends, and those far enough from the previous tick."""
    scale = math.log if log_x else float
    low, high = scale(numbers[0]), scale(numbers[-1])
    gap = (high - low) / most
    ticks = [numbers[0]]
    for x in numbers[1:-1]:
        if scale(x) - scale(ticks[-1]) >= gap and high - scale(x) >= gap:
            ticks.append(x)
    return [*ticks, numbers[-1]] if high > low else ticks


def _wrap(name: str) -> list[str]:
    return textwrap.wrap(name, 18) or [name]


def _label_lines(series: Mapping[str, Points], reference: Mapping[str, ReferenceCurve]) -> int:
    return sum(len(_wrap(name)) for name in (*series, *reference))


def _key(series: Mapping[str, Points], reference: Mapping[str, ReferenceCurve], frame: Frame, one_plot: bool) -> str:
    most = _most_seeds(series)
    if most == 1:
        key = "One value per point."
    else:
        held_out = next(filter(None, map(frame.held_out_at, frame.x)), None)
        name = "t-interval" if held_out is None else interval_name(held_out)
        clipped = f", clipped to [{frame.bounds[0]:g}, {frame.bounds[1]:g}]" if math.isfinite(sum(frame.bounds)) else ""
        key = "Thick line: mean over seeds."
        key += f" Band: {frame.level:.0%} {name}{clipped}." if most >= FEWEST_DRAWN else ""
        key += " Circles: single seeds." if most <= MAX_SEED_MARKERS else f" Up to {most} seeds per point."
        key += two_seeds_note((len(seeds) for points in series.values() for seeds in points.values()), "band")
    if reference:
        key += f" Gray: {join_words(list(reference))}, mean ± 1 SD."
    key += f" Dotted line: chance, {number(frame.chance)}." if frame.chance is not None else ""
    if not one_plot:
        ends = f"{_tick(frame.x[0])} to {_tick(frame.x[-1])}{', logarithmic' if frame.log_x else ''}"
        key = f"Horizontal: {frame.x_label} ({ends}). Vertical: {frame.y_label}. {key}"
    return key


def _most_seeds(series: Mapping[str, Points]) -> int:
    return max(len(seeds) for points in series.values() for seeds in points.values())


def _table(
    caption: str,
    series: Mapping[str, Points],
    reference: Mapping[str, ReferenceCurve],
    x_label: str,
    level: float,
    frame: Frame,
) -> Table:
    body = []
    digits = decimals((frame.limits[1] - frame.limits[0]) / 20)
    single = _most_seeds(series) == 1 and not reference
    longest = max(map(len, series.values()))
    step = -(-longest // MAX_TABLE_POINTS)
    for name, points in series.items():
        for x, seeds in list(points.items())[::step]:
            estimate = frame.estimate(x, seeds)
            if single:
                body.append((name, f"{x:g}", number(estimate.mean, digits)))
                continue
            reach = interval(estimate, digits)
            each = ", ".join(f"{seed}: {number(seeds[seed], digits)}" for seed in sorted(seeds))
            cells = (number(estimate.mean, digits), number(estimate.sd, digits), reach if estimate.known else "–", each)
            body.append((name, f"{x:g}", *cells))
    for name, points in reference.items():
        label = f"{name}, published" if name in series else name
        body += [
            (label, f"{x:g}", number(m, digits), number(sd, digits), "–", "reference") for x, (m, sd) in points.items()
        ]
    measured = ("Value",) if single else ("Mean", "SD", f"{level:.0%} interval", "Seed: value")
    note = f"One of {step} points is listed." if step > 1 else ""
    return Table(caption, ("Curve", capitalize(x_label), *measured), tuple(body), note)


def _alt(series: Mapping[str, Points], frame: Frame) -> str:
    summaries = []
    for name, points in series.items():
        means = {x: mean(list(seeds.values())) for x, seeds in points.items()}
        first, last, top = min(means), max(means), max(means, key=lambda x: means[x])
        ends = f"{number(means[first])} at {first:g}"
        ends += f", {number(means[last])} at {last:g}, highest {number(means[top])} at {top:g}" if last > first else ""
        summaries.append(f"{name}: {ends}")
    alt = f"{capitalize(frame.y_label)} by {frame.x_label}. Means: {'; '.join(summaries)}."
    return f"{alt} The table below lists all values."
