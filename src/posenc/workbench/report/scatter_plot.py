"""Scatter plot of two metrics over schemes, with Spearman's rank correlation and its partial form given a control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from posenc.measure.statistics import Estimate, t_interval
from posenc.workbench.report.label_placement import place_point_labels
from posenc.workbench.report.number_format import capitalize, correlation, count, decimals, join_words, number
from posenc.workbench.report.page import Block, Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.svg_style import FIRST, FOREGROUND, GRID, MUTED, canvas, id_prefix, page_svg, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_SCHEMES, FEWEST_FOR_PARTIAL = 4, 5
"""Fewest points of a rank correlation, which has only a handful of values for fewer. A control needs one more."""

LABEL_SIZE = 11
WIDTH = 450
Range = tuple[float, float]


def scatter_plot(
    x: Mapping[str, BySeed],
    y: Mapping[str, BySeed],
    *,
    title: str,
    x_label: str,
    y_label: str,
    null: tuple[float, float] | None = None,
    null_label: str = "a random table",
    own_null: Mapping[str, BySeed] | None = None,
    own_null_label: str = "untrained models",
    control: Mapping[str, float] | None = None,
    control_label: str = "the control",
    published: str = "",
    level: float = 0.95,
    caption: str = "",
) -> Panel:
    """Draw one labeled point per scheme at its means over seeds and report Spearman's ρ over the schemes.

    Args:
        x: scheme -> seed -> value on the horizontal axis.
        y: scheme -> seed -> value on the vertical axis.
        title: Title of the panel.
        x_label: Label of the horizontal axis, with its unit.
        y_label: Label of the vertical axis, with its unit.
        null: Mean and SD of x under the null (for example untrained tables), drawn as a shaded band of ± 2 SD.
        null_label: Name of the null.
        own_null: scheme -> seed -> value on the horizontal axis under a null of the scheme itself, such as its
            untrained models. Its mean is a hollow circle that a line joins to the point of the scheme.
        own_null_label: Name of these nulls.
        control: scheme -> value to control for (for example the norm of a table). The partial ρ is reported too: the
            correlation of the ranks after the control's ranks are regressed out of both.
        control_label: Name of the control.
        published: Sentence about the published result.
        level: Coverage of the intervals.
        caption: Text below the title.

    Returns:
        The panel; text alone if fewer than four schemes have both values.
    """
    shared = [scheme for scheme in x if x[scheme] and y.get(scheme)]
    if len(shared) < FEWEST_SCHEMES:
        names = f": {join_words(shared)}" if shared else ""
        reason = f"A rank correlation needs at least {FEWEST_SCHEMES} encodings with both values; "
        return Panel(title, (Text((reason + f"there are {len(shared)}{names}.",)),), caption)
    at = {scheme: (_t_interval(x[scheme], level), _t_interval(y[scheme], level)) for scheme in shared}
    hollow = {scheme: fmean(own_null[scheme].values()) for scheme in shared if own_null and own_null.get(scheme)}
    svg = _draw(at, null, null_label, hollow, x_label, y_label, id_prefix(title))
    key = "Point: one encoding, mean over seeds. Cross: ± 1 SD over seeds."
    key += f" Shaded band: {null_label}, mean {number(null[0])} ± 2 SD (SD {number(null[1])})." if null else ""
    key += (
        f" Hollow circle, joined by a dashed line: {own_null_label} of the encoding, mean over seeds." if hollow else ""
    )
    sentences = _correlation_sentences(at, control, control_label, level)
    alt = f"{y_label} by {x_label} for {count(len(shared), 'encoding')}. {sentences[0]}"
    figure = Figure(svg, f"{capitalize(y_label)} by {x_label}", alt)
    further = {control_label: control} if control is not None else {}
    further |= {f"{x_label}, {own_null_label}": hollow} if hollow else {}
    table = _table(f"{title}: values", at, x_label, y_label, further)
    blocks: tuple[Block, ...] = (
        Text(tuple(filter(None, (*sentences, published)))),
        FigureGroup((figure,), key, table),
    )
    return Panel(title, blocks, caption)


def _correlation_sentences(
    at: Mapping[str, tuple[Estimate, Estimate]], control: Mapping[str, float] | None, control_label: str, level: float
) -> list[str]:
    from posenc.measure.inference import partial_spearman, spearman

    means = {scheme: (a.mean, b.mean) for scheme, (a, b) in at.items()}
    plain = spearman([a for a, _ in means.values()], [b for _, b in means.values()], level)
    sizes = sorted({estimate.n for pair in at.values() for estimate in pair})
    seeds = count(sizes[0], "seed") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} seeds"
    sentences = [
        f"Spearman’s {correlation(plain)} encodings, computed from means over {seeds}. The {level:.0%} interval is "
        "over encodings, not over seeds."
    ]
    if control is None:
        return sentences
    controlled = [scheme for scheme in means if math.isfinite(control.get(scheme, math.nan))]
    if len(controlled) < FEWEST_FOR_PARTIAL:
        lack = f"{count(len(controlled), 'encoding')} with a value, at least {FEWEST_FOR_PARTIAL} needed"
        return [*sentences, f"Partial ρ given {control_label}: not computed ({lack})."]
    partial = partial_spearman(
        [means[scheme][0] for scheme in controlled],
        [means[scheme][1] for scheme in controlled],
        [control[scheme] for scheme in controlled],
        level,
    )
    return [*sentences, f"Partial Spearman’s ρ given {control_label}: {correlation(partial)} encodings."]


def _draw(
    at: Mapping[str, tuple[Estimate, Estimate]],
    null: tuple[float, float] | None,
    null_label: str,
    own_null: Mapping[str, float],
    x_label: str,
    y_label: str,
    prefix: str,
) -> str:
    with plot_style():
        figure, axes = canvas(WIDTH, 320, 50, 14, 24 if null else 10, 44)
        band = [null[0] - 2 * null[1], null[0] + 2 * null[1]] if null else []
        ends = [end for a, _ in at.values() for end in _sd_range(a)]
        axes.set_xlim(*_with_margin([*ends, *band, *own_null.values()]))
        axes.set_ylim(*_with_margin([end for _, b in at.values() for end in _sd_range(b)]))
        if null:
            _draw_null(axes, null, null_label)
        for a, b in at.values():
            for across, up in ((_sd_range(a), (b.mean, b.mean)), ((a.mean, a.mean), _sd_range(b))):
                axes.plot(across, up, color=FIRST, linewidth=1, alpha=0.4, zorder=1)
        for scheme, value in own_null.items():
            a, b = at[scheme]
            axes.plot([value, a.mean], [b.mean, b.mean], color=MUTED, linewidth=0.6, alpha=0.5, dashes=(3, 2), zorder=0)
            axes.plot([value], [b.mean], "o", markersize=6, markerfacecolor="none", markeredgecolor=MUTED, zorder=1)
        axes.plot(
            [a.mean for a, _ in at.values()],
            [b.mean for _, b in at.values()],
            linestyle="none",
            marker="o",
            markersize=6,
            markerfacecolor=FIRST,
            markeredgewidth=0,
            zorder=2,
        )
        _label_points(axes, at)
        axes.set_xlabel(x_label, fontsize=12)
        axes.set_ylabel(y_label, fontsize=12)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:.4g}".replace("-", "−"))
        axes.tick_params(length=3, labelsize=11)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return page_svg(figure, prefix)


def _draw_null(axes: Axes, null: tuple[float, float], label: str) -> None:
    axes.axvspan(null[0] - 2 * null[1], null[0] + 2 * null[1], color=MUTED, alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(null[0], color=MUTED, linewidth=1, dashes=(3, 2), zorder=0)
    low, high = axes.get_xlim()
    part = (null[0] - low) / (high - low)
    side = "left" if part < 0.3 else "right" if part > 0.7 else "center"
    axes.annotate(
        label,
        (null[0], 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(0, 5),
        textcoords="offset points",
        ha=side,
        va="bottom",
        fontsize=LABEL_SIZE,
        color=FOREGROUND,
        annotation_clip=False,
    )


def _label_points(axes: Axes, at: Mapping[str, tuple[Estimate, Estimate]]) -> None:
    """Print the name of each point near it, with a leader line if it is further away."""
    points = [axes.transData.transform((a.mean, b.mean)) for a, b in at.values()]
    box = axes.get_window_extent()
    places = place_point_labels(
        [(float(x), float(y)) for x, y in points], list(at), LABEL_SIZE, (box.x0, box.y0, box.x1, box.y1)
    )
    for name, (x, y), (left, middle) in zip(at, points, places, strict=True):
        away = abs(middle - y) > 14 or left - x > 12 or x - left > 14 + 0.6 * LABEL_SIZE * len(name)
        axes.annotate(
            name,
            (at[name][0].mean, at[name][1].mean),
            xytext=(left - x, middle - y),
            textcoords="offset points",
            fontsize=LABEL_SIZE,
            color=FOREGROUND,
            ha="left",
            va="center",
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
            if away
            else None,
        )


def _table(
    caption: str,
    at: Mapping[str, tuple[Estimate, Estimate]],
    x_label: str,
    y_label: str,
    further: Mapping[str, Mapping[str, float]],
) -> Table:
    """The values of the points, with a column for each further value of the encodings."""
    body = []
    x_digits, y_digits = (decimals((max(side) - min(side)) / 20) for side in zip(*_means(at), strict=True))
    for scheme, (a, b) in sorted(at.items(), key=lambda item: (-item[1][1].mean, item[0])):
        cells = [
            number(a.mean, x_digits),
            number(a.sd, x_digits),
            number(b.mean, y_digits),
            number(b.sd, y_digits),
            f"{a.n}, {b.n}",
        ]
        cells += [number(values.get(scheme, math.nan), 3) for values in further.values()]
        body.append((scheme, *cells))
    columns = ["Encoding", capitalize(x_label), "SD", capitalize(y_label), "SD", "Seeds (x, y)"]
    columns += map(capitalize, further)
    return Table(caption, tuple(columns), tuple(body))


def _means(at: Mapping[str, tuple[Estimate, Estimate]]) -> list[tuple[float, float]]:
    return [(a.mean, b.mean) for a, b in at.values()]


def _t_interval(seeds: BySeed, level: float) -> Estimate:
    return t_interval(list(seeds.values()), level)


def _sd_range(estimate: Estimate) -> Range:
    spread = estimate.sd if estimate.known else 0.0
    return (estimate.mean - spread, estimate.mean + spread)


def _with_margin(values: Sequence[float]) -> Range:
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.5
    return (low - margin, high + margin)
