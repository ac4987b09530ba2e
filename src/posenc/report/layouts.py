"""Positions in the plane as a model holds them, before and after training, beside the grid that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc.report.ink import FIRST, INK, QUIET, SECOND, canvas, name_for_ids, styled, themed
from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.rows import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def layouts(
    items: Sequence[tuple[str, np.ndarray, np.ndarray]],
    truth: np.ndarray,
    *,
    shape: tuple[int, int],
    title: str,
    caption: str = "",
    residuals: Mapping[str, tuple[float, float]] | None = None,
) -> Panel:
    """Per item two drawings, before and after: a point per token, lines between neighbours of the grid.

    Args:
        items: (name, before, after), each (N, 2), one row per token in row-major order, turned and scaled to `truth`
            by the caller.
        truth: (N, 2), where the tokens truly are; drawn alone, and faintly under every layout.
        shape: rows and columns of the grid.
        residuals: name -> what is left of the distance to the truth, before and after.

    Raises:
        ValueError: positions that are not (rows · columns, 2) or not finite.
    """
    if not items:
        return Panel(title, (Text(("No layout was stored.",)),), caption)
    truth = _checked("the true grid", truth, shape)
    checked = [(name, _checked(name, before, shape), _checked(name, after, shape)) for name, before, after in items]
    left = residuals or {}
    pictures = [Picture(_drawn([("", truth)], truth, shape, f"{title}-truth"), "The true grid", _true(shape))]
    for name, before, after in checked:
        ends = left.get(name)
        headed = [
            (f"{when}, {number(ends[place])}" if ends else when, points)
            for place, (when, points) in enumerate((("before", before), ("after", after)))
        ]
        alt = f"{name}: positions before and after training over the true grid."
        alt += f" What is left of the distance: {number(ends[0])} before, {number(ends[1])} after." if ends else ""
        pictures.append(Picture(_drawn(headed, truth, shape, f"{title}-{name}"), name, alt))
    key = (
        "Points: tokens. Heavy: the first row; dashed: the first column; disc: the first token. Under them, pale, the "
    )
    key += "true grid; each drawing has a window of its own." + (
        " In figures: what is left of the distance to it." if left else ""
    )
    return Panel(title, (Pictures(tuple(pictures), key, _table(title, checked, truth, shape)),), caption)


def _checked(name: str, points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    found = np.asarray(points, dtype=float)
    needed = (shape[0] * shape[1], 2)
    if found.shape != needed:
        raise ValueError(f"A layout of a {shape[0]} x {shape[1]} grid is {needed}; {name} has the shape {found.shape}.")
    if not np.isfinite(found).all():
        raise ValueError(f"Positions must be finite to be drawn; {name} holds some that are not. Leave it out.")
    return found


def _drawn(headed: Sequence[tuple[str, np.ndarray]], truth: np.ndarray, shape: tuple[int, int], prefix: str) -> str:
    side, top, gap = 160, 20, 16
    with styled():
        width = 2 * side + gap
        figure, first = canvas(width, side + top, 0, side + gap, top, 0)
        second = figure.add_axes(((side + gap) / width, 0, side / width, side / (side + top)))
        for axes, (head, points) in zip((first, second), headed, strict=False):
            if points is not truth:
                _grid(axes, truth, shape, faint=True)
            _grid(axes, points, shape, faint=False)
            _window(axes, np.concatenate([points, truth]))
            axes.text(0, 1.02, head, transform=axes.transAxes, fontsize=12, color=INK, va="bottom")
        for axes in (first, second):
            axes.set_axis_off()
        return themed(figure, name_for_ids(prefix))


def _grid(axes: Axes, points: np.ndarray, shape: tuple[int, int], *, faint: bool) -> None:
    square = points.reshape(*shape, 2)
    for place, line in enumerate([*square, *square.transpose(1, 0, 2)]):
        row, column = place == 0, place == shape[0]
        colour, heavy, dashes = (
            (FIRST, 2.2, (1, 0)) if row else (SECOND, 2.2, (3, 1.2)) if column else (QUIET, 0.9, (1, 0))
        )
        if faint:
            colour, heavy, dashes = QUIET, 0.8, (1, 0)
        axes.plot(
            line[:, 0],
            line[:, 1],
            color=colour,
            linewidth=heavy,
            dashes=dashes,
            alpha=0.35 if faint else 1,
            zorder=0 if faint else 1,
        )
    if faint:
        return
    axes.plot(points[1:, 0], points[1:, 1], "o", color=INK, markersize=3.6, markeredgewidth=0, zorder=2)
    axes.plot(points[:1, 0], points[:1, 1], "o", color=INK, markersize=7.5, markeredgewidth=0, zorder=2)


def _window(axes: Axes, points: np.ndarray) -> None:
    """A square window around everything drawn; rows run downwards, as they are read."""
    low, high = points.min(0), points.max(0)
    half = max(float((high - low).max()) / 2 * 1.1, 1e-9)
    centre = (low + high) / 2
    axes.set_xlim(centre[0] - half, centre[0] + half)
    axes.set_ylim(centre[1] + half, centre[1] - half)


def _table(
    title: str, items: Sequence[tuple[str, np.ndarray, np.ndarray]], truth: np.ndarray, shape: tuple[int, int]
) -> Table:
    def place(points: np.ndarray, token: int) -> str:
        return f"({number(points[token, 0])}, {number(points[token, 1])})"

    def named(token: int) -> str:
        return f"row {token // shape[1] + 1}, column {token % shape[1] + 1}"

    body = [
        (name, named(token), place(before, token), place(after, token), place(truth, token))
        for name, before, after in items
        for token in range(len(truth))
    ]
    return Table(f"{title}: the positions", ("Encoding", "Token", "Before", "After", "Truth"), tuple(body))


def _true(shape: tuple[int, int]) -> str:
    return f"The true grid of {shape[0]} rows and {shape[1]} columns, its first row heavy, its first column dashed."
