"""Value against a number (the spread of an initial table, the size of a noise), with published curves laid under."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from posenc.measure.statistics import Estimate, t_interval
from posenc.report.ink import FIRST, FOURTH, GRID, INK, QUIET, SECOND, THIRD, canvas, name_for_ids, styled, themed
from posenc.report.labels import CHARACTER, LINE, spread
from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.rows import BySeed, capital, decimals, interval, listed, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Mapping[float, BySeed]
Printed = Mapping[float, tuple[float, float]]

MOST_IN_ONE_PICTURE = 6
FEW_SEEDS = 5
LABEL = 11.5
Look = tuple[str, tuple[float, ...], str]
LOOKS: tuple[Look, ...] = (
    (FIRST, (), "o"),
    (SECOND, (6, 2), "s"),
    (THIRD, (2, 1.5), "^"),
    (FOURTH, (8, 2, 2, 2), "D"),
    (INK, (4, 1.5, 1, 1.5, 1, 1.5), "v"),
    (QUIET, (), "X"),
)
"""Colour, dashes and marker of a series: any one of the three tells them apart."""


class Frame(NamedTuple):
    """What every picture of a panel shares."""

    x: tuple[float, ...]
    bounds: tuple[float, float]
    x_label: str
    y_label: str
    log_x: bool
    chance: float | None
    level: float
    cut: bool


def lines(
    series: Mapping[str, Points],
    *,
    title: str,
    x_label: str,
    y_label: str,
    caption: str = "",
    bounds: tuple[float, float] | None = (0.0, 1.0),
    under: Mapping[str, Printed] | None = None,
    chance: float | None = None,
    level: float = 0.95,
    log_x: bool = False,
    note: str = "",
) -> Panel:
    """Per series the mean over seeds heavy, its t-interval as a band, and each seed as a ring up to five seeds.

    Up to six series share one picture; more get one small picture each.

    Args:
        series: name -> number -> seed -> value.
        bounds: the range that the value can take, which is the range of the axis and cuts the intervals; None for a
            quantity without bounds.
        under: name -> number -> (mean, sd) of curves from elsewhere, laid under in grey. One that is named as a series
            goes into that series' picture where each has its own.
        chance: the value of guessing, a dotted line.
        note: a sentence after the key.

    Raises:
        ValueError: `log_x` with a number that is not positive.
    """
    kept = {name: {x: seeds for x, seeds in sorted(points.items()) if seeds} for name, points in series.items()}
    kept = {name: points for name, points in kept.items() if points}
    if not kept:
        return Panel(title, (Text(("No unit of these curves has finished.",)),), caption)
    under = {name: dict(sorted(points.items())) for name, points in (under or {}).items() if points}
    numbers = sorted({x for points in (*kept.values(), *under.values()) for x in points})
    if log_x and numbers[0] <= 0:
        raise ValueError(f"A logarithmic axis needs numbers above 0; got {numbers[0]:g}. Use log_x=False.")
    cut = bounds is not None
    limits = bounds if bounds is not None else _limits(kept, under, chance, level)
    frame = Frame(tuple(numbers), limits, x_label, y_label, log_x, chance, level, cut)
    together = len(kept) <= MOST_IN_ONE_PICTURE and _lines_of_text(kept, under) <= 13
    pictures = _one(kept, under, frame, title) if together else _many(kept, under, frame, title)
    key = _key(kept, under, frame, together)
    table = _table(f"{title}: the numbers", kept, under, x_label, level, frame)
    block = Pictures(pictures, f"{key} {note}".strip(), table, "wide" if together else "small")
    return Panel(title, (block,), caption)


def _one(series: Mapping[str, Points], under: Mapping[str, Printed], frame: Frame, title: str) -> tuple[Picture, ...]:
    named = {(f"{name}, published" if name in series else name): points for name, points in under.items()}
    svg = _together(series, named, frame, name_for_ids(title))
    return (Picture(svg, f"{capital(frame.y_label)} against {frame.x_label}", _alt(series, frame)),)


def _many(series: Mapping[str, Points], under: Mapping[str, Printed], frame: Frame, title: str) -> tuple[Picture, ...]:
    shared = {name: points for name, points in under.items() if name not in series}
    return tuple(
        Picture(
            _alone(points, [*([under[name]] if name in under else []), *shared.values()], frame, f"{title}-{name}"),
            name,
            _alt({name: points}, frame),
        )
        for name, points in series.items()
    )


def _together(series: Mapping[str, Points], under: Mapping[str, Printed], frame: Frame, prefix: str) -> str:
    texts = {name: _wrapped(name) for name in (*series, *under)}
    longest = max(len(line) for text in texts.values() for line in text)
    right = round(min(150, 20 + CHARACTER * LABEL * longest))
    with styled():
        figure, axes = canvas(450, 280, 54, right, 10, 42)
        _frame(axes, frame, labelled=True)
        ends: list[tuple[str, float, float, str]] = []
        for place, (name, points) in enumerate(under.items()):
            _printed(axes, points, place)
            x = max(points)
            ends.append((name, x, points[x][0], QUIET))
        few = max(len(seeds) for points in series.values() for seeds in points.values()) <= FEW_SEEDS
        for look, (name, points) in zip(LOOKS, series.items(), strict=False):
            drawn = _series(axes, points, look, frame, rings=few, markers=len(series) > 1)
            ends.append((name, max(points), drawn, look[0]))
        _label_ends(axes, ends, texts, frame)
        return themed(figure, prefix)


def _alone(points: Points, under: Sequence[Printed], frame: Frame, name: str) -> str:
    with styled():
        figure, axes = canvas(180, 140, 34, 12, 8, 24)
        _frame(axes, frame, labelled=False)
        for place, printed in enumerate(under):
            _printed(axes, printed, place)
        few = max(len(seeds) for seeds in points.values()) <= FEW_SEEDS
        _series(axes, points, LOOKS[0], frame, rings=few, markers=False)
        return themed(figure, name_for_ids(name))


def _frame(axes: Axes, frame: Frame, *, labelled: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    low, high = frame.x[0], frame.x[-1]
    if frame.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if low < high:
        axes.set_xlim(low, high)
        axes.margins(x=0)
    axes.set_ylim(*frame.bounds)
    if frame.log_x or len(frame.x) <= (7 if labelled else 2):
        axes.set_xticks(_apart(frame.x, frame.log_x, 7 if labelled else 3))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6 if labelled else 2))
    axes.yaxis.set_major_locator(MaxNLocator(5 if labelled else 2))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _at(value).replace("-", "−"))
    axes.tick_params(length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if frame.chance is not None:
        axes.axhline(frame.chance, color=QUIET, linewidth=1, dashes=(1, 2))
    if labelled:
        axes.set_xlabel(frame.x_label, fontsize=12)
        axes.set_ylabel(frame.y_label, fontsize=12)


def _series(axes: Axes, points: Points, look: Look, frame: Frame, *, rings: bool, markers: bool) -> float:
    """Draws one series; the last mean, where its label belongs."""
    colour, dashes, marker = look
    estimates = {x: t_interval(list(seeds.values()), frame.level) for x, seeds in points.items()}
    means = [estimate.mean for estimate in estimates.values()]
    banded = {x: _cut(estimate, frame) for x, estimate in estimates.items() if estimate.known}
    if banded:
        low, high = zip(*banded.values(), strict=True)
        axes.fill_between(list(banded), low, high, color=colour, alpha=0.14, linewidth=0)
    if rings:
        placed = [(x, value) for x, seeds in points.items() for value in seeds.values()]
        across, up = zip(*placed, strict=True)
        axes.plot(
            across, up, "o", markersize=3.6, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=0.8,
            alpha=0.75, clip_on=False,
        )  # fmt: skip
    axes.plot(
        list(points), means, color=colour, linewidth=2, marker=marker if markers or len(points) == 1 else "",
        markersize=5, markeredgewidth=0, dashes=dashes or (1, 0), clip_on=False,
    )  # fmt: skip
    return means[-1]


def _printed(axes: Axes, points: Printed, place: int) -> None:
    x, means = list(points), [mean for mean, _ in points.values()]
    spread_out = [(mean - sd, mean + sd) for mean, sd in points.values() if math.isfinite(sd)]
    if len(spread_out) == len(x):
        low, high = zip(*spread_out, strict=True)
        axes.fill_between(x, low, high, color=QUIET, alpha=0.13, linewidth=0)
    axes.plot(x, means, color=QUIET, linewidth=1.4, dashes=((1, 0), (5, 2), (2, 2))[place % 3])


def _label_ends(
    axes: Axes, ends: Sequence[tuple[str, float, float, str]], texts: Mapping[str, Sequence[str]], frame: Frame
) -> None:
    """Each line's name at the right, at the height of its end or as near as the other names let it."""
    height = axes.get_window_extent().height
    low, high = frame.bounds
    unit = (high - low) / height
    heights = [LINE * LABEL * len(texts[name]) * unit for name, *_ in ends]
    places = spread([y for _, _, y, _ in ends], heights, low - 6 * unit, high + 6 * unit)
    right = axes.get_window_extent().x1
    for (name, x, y, colour), place in zip(ends, places, strict=True):
        gap = right - axes.transData.transform((x, y))[0]
        axes.annotate(
            "\n".join(texts[name]),
            (x, y),
            xytext=(gap + 14, (place - y) / unit),
            textcoords="offset points",
            fontsize=LABEL,
            color=colour,
            ha="left",
            va="center",
            linespacing=1.1,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "alpha": 0.6, "relpos": (0, 0.5),
                        "shrinkA": 0, "shrinkB": 3},
        )  # fmt: skip


def _limits(
    series: Mapping[str, Points], under: Mapping[str, Printed], chance: float | None, level: float
) -> tuple[float, float]:
    """Round numbers around everything that is drawn."""
    from matplotlib.ticker import MaxNLocator

    drawn = [value for points in series.values() for seeds in points.values() for value in seeds.values()]
    for points in series.values():
        estimates = [t_interval(list(seeds.values()), level) for seeds in points.values()]
        drawn += [end for estimate in estimates if estimate.known for end in (estimate.low, estimate.high)]
    drawn += [mean for points in under.values() for mean, _ in points.values()]
    drawn += [] if chance is None else [chance]
    ticks = MaxNLocator(5).tick_values(min(drawn), max(drawn))
    return (float(ticks[0]), float(ticks[-1]))


def _cut(estimate: Estimate, frame: Frame) -> tuple[float, float]:
    if not frame.cut:
        return (estimate.low, estimate.high)
    return (max(estimate.low, frame.bounds[0]), min(estimate.high, frame.bounds[1]))


def _at(value: float) -> str:
    """A number of an axis, in digits that are read at a glance."""
    return f"{value:.4g}" if abs(value) < 1e4 else f"{float(f'{value:.3g}'):,.0f}"


def _apart(numbers: Sequence[float], log_x: bool, most: int) -> list[float]:
    """The numbers that can carry a label: the ends, and between them those far enough from the last one kept."""
    scale = math.log if log_x else float
    low, high = scale(numbers[0]), scale(numbers[-1])
    gap = (high - low) / most
    kept = [numbers[0]]
    for number_ in numbers[1:-1]:
        if scale(number_) - scale(kept[-1]) >= gap and high - scale(number_) >= gap:
            kept.append(number_)
    return [*kept, numbers[-1]] if high > low else kept


def _wrapped(name: str) -> list[str]:
    return textwrap.wrap(name, 18) or [name]


def _lines_of_text(series: Mapping[str, Points], under: Mapping[str, Printed]) -> int:
    return sum(len(_wrapped(name)) for name in (*series, *under))


def _key(series: Mapping[str, Points], under: Mapping[str, Printed], frame: Frame, together: bool) -> str:
    most = max(len(seeds) for points in series.values() for seeds in points.values())
    if most == 1:
        key = "One value a point."
    else:
        key = f"Heavy: the mean over seeds; the band: its {frame.level:.0%} t-interval"
        key += f", cut at {frame.bounds[0]:g} and {frame.bounds[1]:g}" if frame.cut else ""
        key += "; each ring: one seed." if most <= FEW_SEEDS else f" ({most} seeds at most)."
    if under:
        key += f" Grey, laid under: {listed(list(under))}, mean and one sd either way."
    key += f" Dotted: guessing, {number(frame.chance)}." if frame.chance is not None else ""
    if not together:
        ends = f"{_at(frame.x[0])} to {_at(frame.x[-1])}{', on a logarithmic axis' if frame.log_x else ''}"
        key = f"{capital(frame.y_label)} against {frame.x_label}, {ends}. {key}"
    return key


def _table(
    caption: str,
    series: Mapping[str, Points],
    under: Mapping[str, Printed],
    x_label: str,
    level: float,
    frame: Frame,
) -> Table:
    body = []
    digits = decimals((frame.bounds[1] - frame.bounds[0]) / 20)
    for name, points in series.items():
        for x, seeds in points.items():
            estimate = t_interval(list(seeds.values()), level)
            reach = interval(estimate, digits, frame.bounds if frame.cut else (-math.inf, math.inf))
            each = ", ".join(f"{seed}: {number(seeds[seed], digits)}" for seed in sorted(seeds))
            cells = (number(estimate.mean, digits), number(estimate.sd, digits), reach if estimate.known else "–", each)
            body.append((name, f"{x:g}", *cells))
    for name, points in under.items():
        where = f"{name}, published" if name in series else name
        body += [
            (where, f"{x:g}", number(m, digits), number(sd, digits), "–", "not ours") for x, (m, sd) in points.items()
        ]
    return Table(caption, ("Curve", capital(x_label), "Mean", "Sd", f"{level:.0%} interval", "Each seed"), tuple(body))


def _alt(series: Mapping[str, Points], frame: Frame) -> str:
    told = []
    for name, points in series.items():
        means = {x: t_interval(list(seeds.values())).mean for x, seeds in points.items()}
        first, last, top = min(means), max(means), max(means, key=lambda x: means[x])
        ends = f"{number(means[first])} at {first:g}"
        ends += f", {number(means[last])} at {last:g}, highest {number(means[top])} at {top:g}" if last > first else ""
        told.append(f"{name}: {ends}")
    return f"{capital(frame.y_label)} against {frame.x_label}. Means: {'; '.join(told)}. The table below has them all."
