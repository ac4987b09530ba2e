"""Learning curves of many encodings on one axis: the mean over seeds of each, with its name at the right."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.measure.statistics import mean
from posenc.workbench.report.label_placement import CHARACTER_WIDTH, LINE_HEIGHT, place_stacked_labels
from posenc.workbench.report.number_format import capitalize, number
from posenc.workbench.report.page import Figure, FigureGroup, Table
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

SIZE, WIDTH, LEAST_AXES, LEAST_HEIGHT = 11.0, 390, 180, 240
"""Size of the labels, width of the figure (a narrow window shows it at 0.85 of its size), least width of its axes, and
its least height, in CSS pixels."""
LEFT, TOP, BOTTOM = 54, 10, 42
COLORS = (FIRST, SECOND, THIRD, FOURTH, FOREGROUND, MUTED)
DASHES: tuple[tuple[float, ...], ...] = ((1, 0), (6, 2), (2, 1.5), (8, 2, 2, 2))
"""Dashes of the first six curves, of the next six, and so on."""


def curve_overlay(
    curves: Mapping[str, Mapping[int, Mapping[int, float]]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    bounds: tuple[float, float] = (0.0, 1.0),
    chance: float | None = None,
) -> tuple[FigureGroup, ...]:
    """Draw the mean curves of all encodings in one plot, with their last values in a table.

    Args:
        curves: Encoding -> seed -> epoch -> value, in the order of the colors.
        title: Title of the panel in which the plot stands.
        x_label: Label of the horizontal axis.
        y_label: Label of the vertical axis, with its unit.
        bounds: Range of the vertical axis; values outside are drawn at its ends.
        chance: Value at chance level, drawn as a dotted line.

    Returns:
        The plot; nothing for fewer than two encodings.
    """
    means: dict[str, dict[int, float]] = {}
    for name, seeds in curves.items():
        epochs = sorted(set.intersection(*map(set, seeds.values()))) if seeds else []  # one seed may have ended early
        if epochs:
            means[name] = {epoch: mean([points[epoch] for points in seeds.values()]) for epoch in epochs}
    if len(means) < 2:
        return ()
    svg = _draw(means, id_prefix(title, "together"), bounds, (x_label, y_label), chance)
    ends = {name: number(points[max(points)], 3) for name, points in means.items()}
    text = "; ".join(f"{name} {end}" for name, end in ends.items())
    figure = Figure(svg, "All encodings", f"Mean {y_label} by {x_label} of {len(means)} encodings. At the end: {text}.")
    table = Table(f"{title}: mean over seeds at the end", ("Encoding", capitalize(y_label)), tuple(ends.items()))
    return (FigureGroup((figure,), f"Mean over seeds. Vertical: {y_label}. Single seeds: below.", table),)


def _draw(
    means: Mapping[str, Mapping[int, float]],
    prefix: str,
    bounds: tuple[float, float],
    labels: tuple[str, str],
    chance: float | None,
) -> str:
    """The plot as an `<svg>` element. labels: of the horizontal and of the vertical axis."""
    height = max(LEAST_HEIGHT, round(TOP + BOTTOM + 1.2 * LINE_HEIGHT * SIZE * len(means)))
    right = 24 + round(CHARACTER_WIDTH * SIZE * max(map(len, means)))
    width = max(LEAST_AXES, WIDTH - LEFT - right)
    first = min(min(points) for points in means.values())
    last = max(max(max(points) for points in means.values()), first + 1)
    clipped = {
        name: {epoch: min(max(value, bounds[0]), bounds[1]) for epoch, value in points.items()}
        for name, points in means.items()
    }
    with plot_style():
        figure, axes = canvas(LEFT + width + right, height, LEFT, right, TOP, BOTTOM)
        axes.set_xlim(first, last)
        axes.set_ylim(*bounds)
        axes.set_xlabel(labels[0], fontsize=12)
        axes.set_ylabel(labels[1], fontsize=12)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1, dashes=(1, 2))
        unit = (bounds[1] - bounds[0]) / (height - TOP - BOTTOM)
        ends = [points[max(points)] for points in clipped.values()]
        places = place_stacked_labels(ends, [LINE_HEIGHT * SIZE * unit] * len(ends), *bounds)
        for index, ((name, points), end, place) in enumerate(zip(clipped.items(), ends, places, strict=True)):
            color, dashes = COLORS[index % len(COLORS)], DASHES[index // len(COLORS) % len(DASHES)]
            mark = "o" if len(points) == 1 else ""
            axes.plot(list(points), list(points.values()), color=color, linewidth=1.8, dashes=dashes, marker=mark,
                      clip_on=False)  # fmt: skip
            axes.annotate(
                name, (max(points), end), xytext=(last + 14 * (last - first) / width, place), textcoords="data",
                fontsize=SIZE, color=color, ha="left", va="center", annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "alpha": 0.6, "shrinkA": 0,
                            "shrinkB": 2, "relpos": (0, 0.5)},
            )  # fmt: skip
        return page_svg(figure, prefix)
