"""Small learning-curve plots: a score by training epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from posenc.measure.statistics import mean
from posenc.workbench.report.svg_style import COLORS, GRID, MUTED, Color, canvas, page_svg, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learning_curve_plot(
    by_metric: Mapping[str, Mapping[int, Mapping[int, float]]],
    *,
    prefix: str,
    colors: Mapping[str, Color],
    chance: float | None = None,
    epochs: int,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> str:
    """Draw the learning curves of one scheme.

    A thick line is the mean over seeds. Up to five seeds are drawn as thin lines; more seeds become a band from the
    minimum to the maximum.

    Args:
        by_metric: metric -> seed -> epoch -> value. The first metric is a solid line, the others are dashed.
        prefix: Text that makes the SVG ids unique on the page.
        colors: metric -> color.
        chance: Score at chance level, drawn as a dotted line.
        epochs: End of the horizontal axis.
        bounds: Range of the vertical axis.

    Returns:
        The `<svg>` element as text.
    """
    with plot_style():
        figure, axes = canvas(180, 132, 30, 12, 8, 24)
        axes.set_xlim(0, epochs)
        axes.set_ylim(*bounds)
        if chance is not None:
            axes.axhline(chance, color=MUTED, linewidth=1, dashes=(1, 2))
        for place, (metric, seeds) in enumerate(by_metric.items()):
            _draw_curve(axes, seeds, COLORS[colors[metric]], dashed=place > 0)
        axes.set_yticks([bounds[0], sum(bounds) / 2, bounds[1]])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
        axes.set_xticks([0, epochs])
        axes.tick_params(length=3, labelsize=12)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        return page_svg(figure, prefix)


def evenly_spaced(epochs: Sequence[int], most: int) -> list[int]:
    """Select at most `most` evenly spaced epochs, including the first and the last."""
    if len(epochs) <= most:
        return list(epochs)
    return [epochs[round(step * (len(epochs) - 1) / (most - 1))] for step in range(most)]


def _draw_curve(axes: Axes, seeds: Mapping[int, Mapping[int, float]], color: str, *, dashed: bool) -> None:
    if not seeds:
        return
    line = "--" if dashed else "-"
    shared = evenly_spaced(sorted(set.intersection(*(set(points) for points in seeds.values()))), 100)
    columns = [[points[epoch] for points in seeds.values()] for epoch in shared]
    if len(seeds) > 5:
        lowest, highest = [min(column) for column in columns], [max(column) for column in columns]
        axes.fill_between(shared, lowest, highest, color=color, alpha=0.2, linewidth=0)
    else:
        for points in seeds.values():
            epochs = evenly_spaced(sorted(points), 100)
            axes.plot(epochs, [points[epoch] for epoch in epochs], line, color=color, linewidth=0.8, alpha=0.45)
    axes.plot(shared, [mean(column) for column in columns], line, color=color, linewidth=1.8)
