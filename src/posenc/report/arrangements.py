"""Where tokens lie by what was learned of them: a map in the plane, and a tree of who joins whom first.

Colour and shape are those of a token's module where modules are known; nothing is drawn by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc.report.ink import FIRST, FOURTH, INK, QUIET, SECOND, THIRD, canvas, name_for_ids, styled, themed
from posenc.report.labels import CHARACTER, beside
from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.rows import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS, SHAPES = (FIRST, SECOND, THIRD, FOURTH), ("o", "s", "^", "D", "v", "P")
MOST_NAMED, MOST_LEAVES = 40, 120
"""Points of a map that are named one by one, and leaves of a tree that a picture has room for."""
LABEL = 10
Look = tuple[str, str]


def looks(modules: Sequence[str]) -> dict[str, Look]:
    """Colour and shape of each module, in the order of their names; two are alike only beyond 24."""
    ordered = sorted(set(modules), key=_by_number)
    # neighbours differ in both; after twelve the shapes move on by one, and pairs begin anew
    return {m: (COLOURS[n % 4], SHAPES[(n + n // 12) % 6]) for n, m in enumerate(ordered)}


def maps(
    items: Sequence[tuple[str, np.ndarray, str]],
    channels: Sequence[str],
    modules: Sequence[str] | None,
    *,
    title: str,
    caption: str = "",
) -> Panel:
    """One map an item: tokens at the first two axes of their places.

    Args:
        items: (name, places (N, 2 or more), a note below the map). channels: the names of the N tokens.
        modules: of each token, or None.

    Raises:
        ValueError: places of another length or not finite.
    """
    if not items:
        return Panel(title, (Text(("No arrangement was stored.",)),), caption)
    of = list(modules) if modules is not None else [""] * len(channels)
    drawn = []
    for name, places, note in items:
        points = np.asarray(places, dtype=float)[:, :2]
        if len(points) != len(channels) or not np.isfinite(points).all():
            raise ValueError(f"a map has one finite place a token, {len(channels)} here; {name} has {points.shape}.")
        alt = f"{name}: {len(channels)} tokens in the plane that their learned positions unroll to. {note}"
        drawn.append(Picture(_map(points, channels, of, f"{title}-{name}"), name, alt.strip(), note))
    key = (
        "Each point is a token, at the plane that distances between learned positions unroll to; its axes mean nothing"
    )
    key += ", and maps may be turned and mirrored." + (" Colour and shape: the module." if modules is not None else "")
    key += "" if len(channels) <= MOST_NAMED else f" {len(channels)} tokens are too many to name in it; the table does."
    body = tuple(
        (channel, module or "–", *(f"{number(float(p[n, 0]))}, {number(float(p[n, 1]))}" for _, p, _ in items))
        for n, (channel, module) in enumerate(zip(channels, of, strict=True))
    )
    numbers = Table(f"{title}: the places", ("Token", "Module", *(name for name, _, _ in items)), body)
    scale = legend(of, title) if modules is not None else None
    return Panel(title, (Pictures(tuple(drawn), key, numbers, "wide", scale=scale),), caption)


def _map(points: np.ndarray, channels: Sequence[str], modules: Sequence[str], prefix: str) -> str:
    side = 330
    look = looks(modules)
    with styled():
        figure, axes = canvas(side, side, 10, 10, 10, 10)
        low, high = points.min(0), points.max(0)
        centre, half = (low + high) / 2, max(float((high - low).max()) / 2 * 1.12, 1e-9)
        axes.set_xlim(centre[0] - half, centre[0] + half)
        axes.set_ylim(centre[1] - half, centre[1] + half)
        few = len(channels) <= MOST_NAMED
        for module, (colour, shape) in look.items():
            own = points[[m == module for m in modules]]
            axes.plot(*own.T, linestyle="none", marker=shape, color=colour, markersize=6 if few else 4.2, alpha=0.85,
                      markeredgewidth=0)  # fmt: skip
        if few:
            _name_points(axes, points, channels)
        axes.set_xticks([])
        axes.set_yticks([])
        return themed(figure, name_for_ids(prefix))


def _name_points(axes: Axes, points: np.ndarray, names: Sequence[str]) -> None:
    where = [tuple(map(float, axes.transData.transform(point))) for point in points]
    box = axes.get_window_extent()
    short = [_short(name) for name in names]
    places = beside([(x, y) for x, y in where], short, LABEL, (box.x0, box.y0, box.x1, box.y1))
    for name, point, (x, y), (left, middle) in zip(short, points, where, places, strict=True):
        away = abs(middle - y) > 14 or left - x > 12 or x - left > 14 + CHARACTER * LABEL * len(name)
        hair = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(name, (float(point[0]), float(point[1])), xytext=(left - x, middle - y), color=INK, ha="left",
                      textcoords="offset points", fontsize=LABEL, va="center",
                      arrowprops=hair if away else None)  # fmt: skip


def legend(modules: Sequence[str], of: str = "") -> Picture:
    """Every module with its colour and shape. of: the panel that it stands in, where a page has several."""
    look, across, gap = looks(modules), 10.0, 18
    places, down = [], 0
    for module in look:
        width = 24 + CHARACTER * 12 * len(module)
        if across + width > 300 and across > 10:
            across, down = 10.0, down + 1
        places.append((across, down))
        across += width + 6
    height = gap * (down + 1) + 4
    with styled():
        figure, axes = canvas(300, height, 0, 0, 0, 0)
        axes.set_xlim(0, 300)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        for (module, (colour, shape)), (left, row) in zip(look.items(), places, strict=True):
            axes.plot([left], [gap * row + 11], marker=shape, color=colour, markersize=7, markeredgewidth=0)
            axes.text(left + 9, gap * row + 11, module, va="center", fontsize=12, color=INK)
        svg = themed(figure, name_for_ids("modules", of, *look))
    return Picture(svg, "Modules", f"The modules, each with its colour and shape: {', '.join(look)}.")


def tree(
    distances: np.ndarray, channels: Sequence[str], modules: Sequence[str] | None, *, title: str, caption: str = ""
) -> Panel:
    """Tokens joined from the nearest up, by the mean distance between groups (UPGMA): ``(N, N)`` distances."""
    from scipy.cluster.hierarchy import dendrogram, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    d = np.asarray(distances, dtype=float)
    near = squareform((d + d.T) / 2, checks=False)
    joined = optimal_leaf_ordering(linkage(near, "average"), near)
    drawn = dendrogram(joined, no_plot=True)
    order = [int(leaf) for leaf in drawn["leaves"]]
    of = list(modules) if modules is not None else [""] * len(channels)
    body = tuple((str(place + 1), channels[leaf], of[leaf] or "–") for place, leaf in enumerate(order))
    table = Table(f"{title}: tokens in the order of the tree", ("Place", "Token", "Module"), body)
    if len(channels) > MOST_LEAVES:
        text = f"A tree of {len(channels)} leaves is too large for a page; the table has their order."
        return Panel(title, (Text((text,)), table), caption)
    svg = _tree(drawn["icoord"], drawn["dcoord"], [channels[leaf] for leaf in order], [of[leaf] for leaf in order],
                title)  # fmt: skip
    alt = f"A tree of {len(channels)} tokens. From top to bottom: {', '.join(channels[leaf] for leaf in order)}."
    key = "Tokens join from the right: the further left, the farther apart the groups that meet there are on average."
    picture = Picture(svg, "Who joins whom first", alt)
    return Panel(
        title, (Pictures((picture,), key, table, scale=legend(of, title) if modules is not None else None),), caption
    )


def _tree(
    across: Sequence[Sequence[float]],
    heights: Sequence[Sequence[float]],
    names: Sequence[str],
    modules: Sequence[str],
    title: str,
) -> str:
    row, width = 14, 450
    short, look = [_short(name) for name in names], looks(modules)
    right = round(24 + CHARACTER * LABEL * max(map(len, short)))
    with styled():
        figure, axes = canvas(width, row * len(names) + 12, 8, right, 6, 6)
        top = max(max(each) for each in heights) or 1.0
        axes.set_xlim(top * 1.03, 0)
        axes.set_ylim(len(names) - 0.5, -0.5)
        for x, y in zip(across, heights, strict=True):
            axes.plot(y, [(value - 5) / 10 for value in x], color=QUIET, linewidth=1.1)
        for place, (name, module) in enumerate(zip(short, modules, strict=True)):
            colour, shape = look[module]
            axes.plot([0], [place], marker=shape, color=colour, markersize=5.5, markeredgewidth=0, clip_on=False)
            axes.annotate(name, (0, place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=LABEL,
                          color=INK, annotation_clip=False)  # fmt: skip
        axes.set_axis_off()
        return themed(figure, name_for_ids(f"{title}-tree"))


def _short(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _by_number(module: str) -> tuple[float, str]:
    """Names that end in a number in its order: module 2 before module 10."""
    last = module.split(" ")[-1]
    return (float(last), module) if last.isdecimal() else (float("inf"), module)
