"""Token maps and dendrograms: learned positions of tokens in the plane (MDS) and their hierarchical clustering (UPGMA).

Color and shape show the module of a token where modules are known. Color alone never carries information.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc.workbench.report.label_placement import CHARACTER_WIDTH, place_point_labels
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.svg_style import (
    FIRST,
    FOREGROUND,
    FOURTH,
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

COLORS, SHAPES = (FIRST, SECOND, THIRD, FOURTH), ("o", "s", "^", "D", "v", "P")
MAX_NAMED_POINTS, MAX_LEAVES = 40, 120
"""Most points of a map that are labeled, and most leaves of a dendrogram that is drawn."""
LABEL_SIZE = 10
Marker = tuple[str, str]
"""Color and shape."""


def module_markers(modules: Sequence[str]) -> dict[str, Marker]:
    """Assign a color and a shape to each module, in the order of their names; up to 24 modules differ."""
    ordered = sorted(set(modules), key=_module_order)
    # Consecutive modules differ in both. After twelve the shapes are shifted by one, which gives twelve new pairs.
    return {m: (COLORS[n % 4], SHAPES[(n + n // 12) % 6]) for n, m in enumerate(ordered)}


def token_maps(
    items: Sequence[tuple[str, np.ndarray, str]],
    channels: Sequence[str],
    modules: Sequence[str] | None,
    *,
    title: str,
    caption: str = "",
) -> Panel:
    """Draw one map per item: tokens at the first two axes of their positions.

    Args:
        items: (name, positions ``(N, 2)`` or with more axes, note below the map).
        channels: Names of the N tokens.
        modules: Module of each token, or None.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.

    Raises:
        ValueError: Positions have another length than `channels` or are not finite.
    """
    if not items:
        return Panel(title, (Text(("No learned positions are stored.",)),), caption)
    module_of = list(modules) if modules is not None else [""] * len(channels)
    figures = []
    for name, places, note in items:
        points = np.asarray(places, dtype=float)[:, :2]
        if len(points) != len(channels) or not np.isfinite(points).all():
            raise ValueError(
                f"A map needs one finite position per token, {len(channels)} here; {name} has the shape {points.shape}."
            )
        alt = f"{name}: map of {len(channels)} tokens by multidimensional scaling of their learned positions. {note}"
        figures.append(Figure(_draw_map(points, channels, module_of, f"{title}-{name}"), name, alt.strip(), note))
    key = (
        "Point: one token. Multidimensional scaling: distances in the map approximate the distances between learned "
        "positions. Rotation, reflection and axes of the map are arbitrary."
    )
    key += " Color and shape: module." if modules is not None else ""
    key += (
        ""
        if len(channels) <= MAX_NAMED_POINTS
        else f" With {len(channels)} tokens the points are not labeled; the table lists them."
    )
    body = tuple(
        (channel, module or "–", *(f"{number(float(p[n, 0]))}, {number(float(p[n, 1]))}" for _, p, _ in items))
        for n, (channel, module) in enumerate(zip(channels, module_of, strict=True))
    )
    numbers = Table(f"{title}: positions (x, y)", ("Token", "Module", *(name for name, _, _ in items)), body)
    scale = module_legend(module_of, title) if modules is not None else None
    return Panel(title, (FigureGroup(tuple(figures), key, numbers, "wide", legend=scale),), caption)


def _draw_map(points: np.ndarray, channels: Sequence[str], modules: Sequence[str], prefix: str) -> str:
    side = 330
    markers = module_markers(modules)
    with plot_style():
        figure, axes = canvas(side, side, 10, 10, 10, 10)
        low, high = points.min(0), points.max(0)
        center, half = (low + high) / 2, max(float((high - low).max()) / 2 * 1.12, 1e-9)
        axes.set_xlim(center[0] - half, center[0] + half)
        axes.set_ylim(center[1] - half, center[1] + half)
        labeled = len(channels) <= MAX_NAMED_POINTS
        for module, (color, shape) in markers.items():
            own = points[[m == module for m in modules]]
            axes.plot(*own.T, linestyle="none", marker=shape, color=color, markersize=6 if labeled else 4.2, alpha=0.85,
                      markeredgewidth=0)  # fmt: skip
        if labeled:
            _label_points(axes, points, channels)
        axes.set_xticks([])
        axes.set_yticks([])
        return page_svg(figure, id_prefix(prefix))


def _label_points(axes: Axes, points: np.ndarray, names: Sequence[str]) -> None:
    locations = [tuple(map(float, axes.transData.transform(point))) for point in points]
    box = axes.get_window_extent()
    short = [_shorten(name) for name in names]
    places = place_point_labels([(x, y) for x, y in locations], short, LABEL_SIZE, (box.x0, box.y0, box.x1, box.y1))
    for name, point, (x, y), (left, middle) in zip(short, points, locations, places, strict=True):
        away = abs(middle - y) > 14 or left - x > 12 or x - left > 14 + CHARACTER_WIDTH * LABEL_SIZE * len(name)
        leader_line = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(name, (float(point[0]), float(point[1])), xytext=(left - x, middle - y), color=FOREGROUND,
                      ha="left", textcoords="offset points", fontsize=LABEL_SIZE, va="center",
                      arrowprops=leader_line if away else None)  # fmt: skip


def module_legend(modules: Sequence[str], panel_title: str = "") -> Figure:
    """Draw a legend of modules.

    Args:
        modules: Module names; repeated names count once.
        panel_title: Title of the panel, which makes the SVG ids unique where a page has several legends.

    Returns:
        The legend.
    """
    markers, across, gap = module_markers(modules), 10.0, 18
    places, down = [], 0
    for module in markers:
        width = 24 + CHARACTER_WIDTH * 12 * len(module)
        if across + width > 300 and across > 10:
            across, down = 10.0, down + 1
        places.append((across, down))
        across += width + 6
    height = gap * (down + 1) + 4
    with plot_style():
        figure, axes = canvas(300, height, 0, 0, 0, 0)
        axes.set_xlim(0, 300)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        for (module, (color, shape)), (left, row) in zip(markers.items(), places, strict=True):
            axes.plot([left], [gap * row + 11], marker=shape, color=color, markersize=7, markeredgewidth=0)
            axes.text(left + 9, gap * row + 11, module, va="center", fontsize=12, color=FOREGROUND)
        svg = page_svg(figure, id_prefix("modules", panel_title, *markers))
    return Figure(svg, "Modules", f"Legend of modules, each with its color and shape: {', '.join(markers)}.")


def token_dendrogram(
    distances: np.ndarray, channels: Sequence[str], modules: Sequence[str] | None, *, title: str, caption: str = ""
) -> Panel:
    """Draw the dendrogram of average-linkage clustering (UPGMA) of tokens.

    Args:
        distances: Distances between tokens ``(N, N)``.
        channels: Names of the N tokens.
        modules: Module of each token, or None.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel; with more than 120 tokens a table of their order alone.
    """
    from scipy.cluster.hierarchy import dendrogram, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    d = np.asarray(distances, dtype=float)
    near = squareform((d + d.T) / 2, checks=False)
    clusters = optimal_leaf_ordering(linkage(near, "average"), near)
    tree = dendrogram(clusters, no_plot=True)
    order = [int(leaf) for leaf in tree["leaves"]]
    module_of = list(modules) if modules is not None else [""] * len(channels)
    body = tuple((str(place + 1), channels[leaf], module_of[leaf] or "–") for place, leaf in enumerate(order))
    table = Table(f"{title}: tokens in the order of the dendrogram", ("Position", "Token", "Module"), body)
    if len(channels) > MAX_LEAVES:
        text = f"A dendrogram of {len(channels)} tokens is too large for a page; the table lists them in its order."
        return Panel(title, (Text((text,)), table), caption)
    names, ordered_modules = [channels[leaf] for leaf in order], [module_of[leaf] for leaf in order]
    svg = _draw_tree(tree["icoord"], tree["dcoord"], names, ordered_modules, title)
    alt = f"Dendrogram of {len(channels)} tokens. From top to bottom: {', '.join(channels[leaf] for leaf in order)}."
    key = "Two groups join at their mean distance, which increases from right to left (average linkage, UPGMA)."
    tree_figure = Figure(svg, "Dendrogram of tokens", alt)
    return Panel(
        title,
        (
            FigureGroup(
                (tree_figure,), key, table, legend=module_legend(module_of, title) if modules is not None else None
            ),
        ),
        caption,
    )


def _draw_tree(
    across: Sequence[Sequence[float]],
    heights: Sequence[Sequence[float]],
    names: Sequence[str],
    modules: Sequence[str],
    title: str,
) -> str:
    row, width = 14, 450
    short, markers = [_shorten(name) for name in names], module_markers(modules)
    right = round(24 + CHARACTER_WIDTH * LABEL_SIZE * max(map(len, short)))
    with plot_style():
        figure, axes = canvas(width, row * len(names) + 12, 8, right, 6, 6)
        top = max(max(each) for each in heights) or 1.0
        axes.set_xlim(top * 1.03, 0)
        axes.set_ylim(len(names) - 0.5, -0.5)
        for x, y in zip(across, heights, strict=True):
            axes.plot(y, [(value - 5) / 10 for value in x], color=MUTED, linewidth=1.1)
        for place, (name, module) in enumerate(zip(short, modules, strict=True)):
            color, shape = markers[module]
            axes.plot([0], [place], marker=shape, color=color, markersize=5.5, markeredgewidth=0, clip_on=False)
            axes.annotate(name, (0, place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=LABEL_SIZE,
                          color=FOREGROUND, annotation_clip=False)  # fmt: skip
        axes.set_axis_off()
        return page_svg(figure, id_prefix(f"{title}-tree"))


def _shorten(name: str, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _module_order(module: str) -> tuple[float, str]:
    """Sort key that puts "module 2" before "module 10"."""
    last = module.split(" ")[-1]
    return (float(last), module) if last.isdecimal() else (float("inf"), module)
