"""Layout plots: two-dimensional positions of grid tokens before and after training, over the true grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.svg_style import FIRST, FOREGROUND, MUTED, SECOND, canvas, id_prefix, page_svg, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def layout_plots(
    items: Sequence[tuple[str, np.ndarray, np.ndarray]],
    truth: np.ndarray,
    *,
    shape: tuple[int, int],
    title: str,
    caption: str = "",
    residuals: Mapping[str, tuple[float, float]] | None = None,
) -> Panel:
    """Draw each layout before and after training: a point per token, lines between neighbors of the grid.

    Args:
        items: (name, before, after) with positions ``(N, 2)``, one row per token in row-major order, aligned with
            `truth` by the caller (Procrustes).
        truth: ``(N, 2)``, true positions of the tokens; drawn alone, and in gray under every layout.
        shape: Rows and columns of the grid.
        title: Title of the panel.
        caption: Text below the title.
        residuals: name -> Procrustes disparity to the true grid before and after training.

    Returns:
        The panel.

    Raises:
        ValueError: Positions have another shape than ``(rows * columns, 2)`` or are not finite.
    """
    if not items:
        return Panel(title, (Text(("No layout is stored.",)),), caption)
    truth = _check_positions("the true grid", truth, shape)
    layouts = [
        (name, _check_positions(name, before, shape), _check_positions(name, after, shape))
        for name, before, after in items
    ]
    figures = [Figure(_draw([("", truth)], truth, shape, f"{title}-truth"), "The true grid", _true_grid_alt(shape))]
    for name, before, after in layouts:
        ends = (residuals or {}).get(name)
        panes = [
            (f"{when}, {number(ends[index])}" if ends else when, points)
            for index, (when, points) in enumerate((("before", before), ("after", after)))
        ]
        alt = f"{name}: positions before and after training over the true grid."
        alt += f" Procrustes disparity to it: {number(ends[0])} before, {number(ends[1])} after." if ends else ""
        figures.append(Figure(_draw(panes, truth, shape, f"{title}-{name}"), name, alt))
    key = (
        "Points: tokens. Thick line: first row. Dashed line: first column. Large point: first token. Gray: true grid. "
        "Each plot has its own scale."
    )
    key += " Numbers: Procrustes disparity to the true grid." if residuals else ""
    return Panel(title, (FigureGroup(tuple(figures), key, _table(title, layouts, truth, shape)),), caption)


def _check_positions(name: str, points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    array = np.asarray(points, dtype=float)
    needed = (shape[0] * shape[1], 2)
    if array.shape != needed:
        raise ValueError(f"A layout of a {shape[0]} x {shape[1]} grid is {needed}; {name} has the shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"A layout plot needs finite positions; {name} has some that are not. Leave it out.")
    return array


def _draw(panes: Sequence[tuple[str, np.ndarray]], truth: np.ndarray, shape: tuple[int, int], prefix: str) -> str:
    side, top, gap = 160, 20, 16
    with plot_style():
        width = 2 * side + gap
        figure, first = canvas(width, side + top, 0, side + gap, top, 0)
        second = figure.add_axes(((side + gap) / width, 0, side / width, side / (side + top)))
        for axes, (header, points) in zip((first, second), panes, strict=False):
            if points is not truth:
                _draw_grid(axes, truth, shape, background=True)
            _draw_grid(axes, points, shape, background=False)
            _set_limits(axes, np.concatenate([points, truth]))
            axes.text(0, 1.02, header, transform=axes.transAxes, fontsize=12, color=FOREGROUND, va="bottom")
        for axes in (first, second):
            axes.set_axis_off()
        return page_svg(figure, id_prefix(prefix))


def _draw_grid(axes: Axes, points: np.ndarray, shape: tuple[int, int], *, background: bool) -> None:
    square = points.reshape(*shape, 2)
    for index, line in enumerate([*square, *square.transpose(1, 0, 2)]):
        row, column = index == 0, index == shape[0]
        color, width, dashes = (
            (FIRST, 2.2, (1, 0)) if row else (SECOND, 2.2, (3, 1.2)) if column else (MUTED, 0.9, (1, 0))
        )
        if background:
            color, width, dashes = MUTED, 0.8, (1, 0)
        axes.plot(
            line[:, 0],
            line[:, 1],
            color=color,
            linewidth=width,
            dashes=dashes,
            alpha=0.35 if background else 1,
            zorder=0 if background else 1,
        )
    if background:
        return
    axes.plot(points[1:, 0], points[1:, 1], "o", color=FOREGROUND, markersize=3.6, markeredgewidth=0, zorder=2)
    axes.plot(points[:1, 0], points[:1, 1], "o", color=FOREGROUND, markersize=7.5, markeredgewidth=0, zorder=2)


def _set_limits(axes: Axes, points: np.ndarray) -> None:
    """Set square axis limits around all points; rows run downwards."""
    low, high = points.min(0), points.max(0)
    half = max(float((high - low).max()) / 2 * 1.1, 1e-9)
    center = (low + high) / 2
    axes.set_xlim(center[0] - half, center[0] + half)
    axes.set_ylim(center[1] + half, center[1] - half)


def _table(
    title: str, items: Sequence[tuple[str, np.ndarray, np.ndarray]], truth: np.ndarray, shape: tuple[int, int]
) -> Table:
    def position_text(points: np.ndarray, token: int) -> str:
        return f"({number(points[token, 0])}, {number(points[token, 1])})"

    def token_name(token: int) -> str:
        return f"row {token // shape[1] + 1}, column {token % shape[1] + 1}"

    body = [
        (
            name,
            token_name(token),
            position_text(before, token),
            position_text(after, token),
            position_text(truth, token),
        )
        for name, before, after in items
        for token in range(len(truth))
    ]
    return Table(
        f"{title}: positions", ("Encoding", "Token", "Before (x, y)", "After (x, y)", "True (x, y)"), tuple(body)
    )


def _true_grid_alt(shape: tuple[int, int]) -> str:
    return f"The true grid of {shape[0]} rows and {shape[1]} columns, first row thick, first column dashed."
