"""One quantity against another over schemes: does the one predict the other, and what is left when a third is held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from posenc.measure.statistics import Estimate, t_interval
from posenc.report.ink import FIRST, GRID, INK, QUIET, canvas, name_for_ids, styled, themed
from posenc.report.labels import beside
from posenc.report.page import Block, Panel, Picture, Pictures, Table, Text
from posenc.report.rows import BySeed, capital, correlation, count, decimals, listed, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_SCHEMES, FEWEST_FOR_PARTIAL = 4, 5
"""Below four points a rank correlation takes a handful of values and says nothing; a control costs one more."""

LABEL = 11
WIDE = 450
Range = tuple[float, float]


def relation(
    x: Mapping[str, BySeed],
    y: Mapping[str, BySeed],
    *,
    title: str,
    x_label: str,
    y_label: str,
    null: tuple[float, float] | None = None,
    null_label: str = "a random table",
    given: Mapping[str, float] | None = None,
    given_label: str = "the control",
    published: str = "",
    level: float = 0.95,
    caption: str = "",
) -> Panel:
    """One named point per scheme at its means, with a cross of one SD, and Spearman's ρ over the schemes.

    Args:
        null: mean and sd of x for what has learned nothing, shaded two SD either way.
        given: scheme -> a control (the norm of a table): the partial ρ, that of the ranks with the control's taken out
            of both, is stated beside the plain one.
        published: a sentence on what was published.
    """
    shared = [scheme for scheme in x if x[scheme] and y.get(scheme)]
    if len(shared) < FEWEST_SCHEMES:
        named = f": {listed(shared)}" if shared else ""
        refused = f"A rank correlation needs at least {FEWEST_SCHEMES} encodings with both numbers; "
        return Panel(title, (Text((refused + f"there are {len(shared)}{named}.",)),), caption)
    at = {scheme: (_estimate(x[scheme], level), _estimate(y[scheme], level)) for scheme in shared}
    svg = _drawn(at, null, null_label, x_label, y_label, name_for_ids(title))
    key = "Each point is an encoding at its means over seeds, its cross one sd either way."
    key += f" Shaded: {null_label}, {number(null[0])} ± 2 sd of {number(null[1])}." if null else ""
    told = _told(at, given, given_label, level)
    alt = f"{y_label} against {x_label} for {count(len(shared), 'encoding')}. {told[0]}"
    picture = Picture(svg, f"{capital(y_label)} against {x_label}", alt)
    table = _table(f"{title}: the numbers", at, x_label, y_label, given, given_label)
    blocks: tuple[Block, ...] = (
        Text(tuple(filter(None, (*told, published)))),
        Pictures((picture,), key, table),
    )
    return Panel(title, blocks, caption)


def _told(
    at: Mapping[str, tuple[Estimate, Estimate]], given: Mapping[str, float] | None, given_label: str, level: float
) -> list[str]:
    from posenc.measure.inference import partial_spearman, spearman

    means = {scheme: (a.mean, b.mean) for scheme, (a, b) in at.items()}
    found = spearman([a for a, _ in means.values()], [b for _, b in means.values()], level)
    seeds = sorted({estimate.n for pair in at.values() for estimate in pair})
    each = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    told = [
        f"Spearman’s {correlation(found)}, over the means of {each} each. The interval ({level:.0%}) is about other "
        "encodings of this kind, not about other seeds."
    ]
    if given is None:
        return told
    held = [scheme for scheme in means if math.isfinite(given.get(scheme, math.nan))]
    if len(held) < FEWEST_FOR_PARTIAL:
        return [*told, f"With {given_label} held it cannot be told: {count(len(held), 'encoding')} have it."]
    partial = partial_spearman(
        [means[scheme][0] for scheme in held],
        [means[scheme][1] for scheme in held],
        [given[scheme] for scheme in held],
        level,
    )
    return [*told, f"With {given_label} held (partial ρ of the ranks): {correlation(partial)}."]


def _drawn(
    at: Mapping[str, tuple[Estimate, Estimate]],
    null: tuple[float, float] | None,
    null_label: str,
    x_label: str,
    y_label: str,
    prefix: str,
) -> str:
    with styled():
        figure, axes = canvas(WIDE, 320, 50, 14, 24 if null else 10, 44)
        band = [null[0] - 2 * null[1], null[0] + 2 * null[1]] if null else []
        axes.set_xlim(*_room([end for a, _ in at.values() for end in _reach(a)] + band))
        axes.set_ylim(*_room([end for _, b in at.values() for end in _reach(b)]))
        if null:
            _null(axes, null, null_label)
        for a, b in at.values():
            for across, up in ((_reach(a), (b.mean, b.mean)), ((a.mean, a.mean), _reach(b))):
                axes.plot(across, up, color=FIRST, linewidth=1, alpha=0.4, zorder=1)
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
        _names(axes, at)
        axes.set_xlabel(x_label, fontsize=12)
        axes.set_ylabel(y_label, fontsize=12)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:.4g}".replace("-", "−"))
        axes.tick_params(length=3, labelsize=11)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return themed(figure, prefix)


def _null(axes: Axes, null: tuple[float, float], label: str) -> None:
    axes.axvspan(null[0] - 2 * null[1], null[0] + 2 * null[1], color=QUIET, alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(null[0], color=QUIET, linewidth=1, dashes=(3, 2), zorder=0)
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
        fontsize=LABEL,
        color=INK,
        annotation_clip=False,
    )


def _names(axes: Axes, at: Mapping[str, tuple[Estimate, Estimate]]) -> None:
    """Every point's name beside it, with a hair to the point where it had to go further off."""
    points = [axes.transData.transform((a.mean, b.mean)) for a, b in at.values()]
    box = axes.get_window_extent()
    places = beside([(float(x), float(y)) for x, y in points], list(at), LABEL, (box.x0, box.y0, box.x1, box.y1))
    for name, (x, y), (left, middle) in zip(at, points, places, strict=True):
        away = abs(middle - y) > 14 or left - x > 12 or x - left > 14 + 0.6 * LABEL * len(name)
        axes.annotate(
            name,
            (at[name][0].mean, at[name][1].mean),
            xytext=(left - x, middle - y),
            textcoords="offset points",
            fontsize=LABEL,
            color=INK,
            ha="left",
            va="center",
            arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
            if away
            else None,
        )


def _table(
    caption: str,
    at: Mapping[str, tuple[Estimate, Estimate]],
    x_label: str,
    y_label: str,
    given: Mapping[str, float] | None,
    given_label: str,
) -> Table:
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
        cells += [number(given.get(scheme, math.nan), 3)] if given is not None else []
        body.append((scheme, *cells))
    columns = ["Encoding", capital(x_label), "Sd", capital(y_label), "Sd", "Seeds of each"]
    columns += [capital(given_label)] if given is not None else []
    return Table(caption, tuple(columns), tuple(body))


def _means(at: Mapping[str, tuple[Estimate, Estimate]]) -> list[tuple[float, float]]:
    return [(a.mean, b.mean) for a, b in at.values()]


def _estimate(seeds: BySeed, level: float) -> Estimate:
    return t_interval(list(seeds.values()), level)


def _reach(estimate: Estimate) -> Range:
    spread = estimate.sd if estimate.known else 0.0
    return (estimate.mean - spread, estimate.mean + spread)


def _room(drawn: Sequence[float]) -> Range:
    low, high = min(drawn), max(drawn)
    margin = 0.06 * (high - low) or 0.5
    return (low - margin, high + margin)
