"""Heat maps of matrices, such as attention maps and distances between tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Literal

import numpy as np

from posenc.workbench.report.number_format import join_words, number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text

LEVELS = 12
MAX_CELLS_PER_SIDE = 64
"""Largest side drawn cell by cell; cells of larger matrices are averaged."""
MAX_TABLE_CELLS = 600
"""Most cells listed one by one in the table; beyond, the table has one summary row per matrix."""


def heat_maps(
    groups: Sequence[tuple[str, np.ndarray]],
    *,
    title: str,
    caption: str = "",
    shared_scale: bool = True,
    labels: Sequence[str] | None = None,
    low_label: str = "low",
    high_label: str = "high",
    columns: int | None = None,
    size: Literal["wide", "small", "tiny"] = "tiny",
) -> Panel:
    """Draw one heat map per matrix: the stronger the color, the higher the value; nonfinite cells are blank.

    Args:
        groups: (name, matrix) in reading order.
        title: Title of the panel.
        caption: Text below the title.
        shared_scale: Use one color scale for all maps; otherwise each map has its own, from its minimum to its maximum.
        labels: One label per row and column of every matrix. Runs of equal labels are blocks, separated by lines.
        low_label: Meaning of the lower end of the scale.
        high_label: Meaning of the upper end of the scale.
        columns: Number of maps in a row, such as the number of layers of a model.
        size: Minimum width of one map on the page.

    Returns:
        The panel.

    Raises:
        ValueError: A matrix has no cells, other than two axes or no finite value, or the labels do not fit it.
    """
    if not groups:
        return Panel(title, (Text(("No map is stored.",)),), caption)
    maps = [(name, _check_matrix(name, matrix, labels)) for name, matrix in groups]
    cell_maps = [_average_cells(matrix, _averaging_factor(matrix)) for _, matrix in maps]
    ends = [(float(np.nanmin(cells)), float(np.nanmax(cells))) for cells in cell_maps]
    whole = (min(low for low, _ in ends), max(high for _, high in ends))
    figures = tuple(
        Figure(
            _draw(
                cells,
                whole if shared_scale else own,
                [border / _averaging_factor(matrix) for border in _borders(labels)],
            ),
            name,
            _alt(name, matrix, own),
            "" if shared_scale else " – ".join(_format_ends(own)),
        )
        for (name, matrix), cells, own in zip(maps, cell_maps, ends, strict=True)
    )
    numbers = _value_table(title, maps, labels)
    key = _key(maps, labels, shared_scale)
    scale = _color_scale(low_label, high_label, whole if shared_scale else None)
    return Panel(title, (FigureGroup(figures, key, numbers, size, columns, scale),), caption)


def _alt(name: str, matrix: np.ndarray, ends: tuple[float, float]) -> str:
    mean = _format_value(float(np.nanmean(matrix)))
    return f"Heat map of {name}: from {' to '.join(_format_ends(ends))}, mean {mean}."


def _check_matrix(name: str, matrix: np.ndarray, labels: Sequence[str] | None) -> np.ndarray:
    array = np.asarray(matrix, dtype=float)
    if array.ndim != 2 or not array.size:
        raise ValueError(f"A heat map shows a matrix; {name} has the shape {array.shape}. Pass one of (rows, columns).")
    if not np.isfinite(array).any():
        raise ValueError(f"{name} has no finite number, so there is nothing to show. Leave it out.")
    if labels is not None and (len(labels),) * 2 != array.shape:
        raise ValueError(f"There are {len(labels)} labels, and {name} has the shape {array.shape}. Pass one per row.")
    return np.where(np.isfinite(array), array, np.nan)


def _draw(cells: np.ndarray, scale: tuple[float, float], borders: Sequence[float]) -> str:
    """Draw the map with one path per color level; each run of equal cells is a stroke one cell high."""
    height, width = cells.shape
    low, high = scale
    filled = np.where(np.isfinite(cells), cells, low)
    level = np.clip(np.rint((filled - low) / (high - low or 1.0) * LEVELS), 0, LEVELS).astype(int)
    unit = 96 / width
    tall = height * unit
    drawing = "".join(
        f'<path d="{path}" stroke-opacity="{step / LEVELS:.2f}"/>'
        for step in range(1, LEVELS + 1)
        if (path := _strokes(level == step))
    )
    places = [border * unit for border in borders]
    lines = "".join(f"M{place:.4g} 0V{tall:.4g}M0 {place:.4g}H96" for place in places)
    parts = [f'<g transform="scale({unit:.4g})" stroke="var(--first)" fill="none" shape-rendering="crispEdges">']
    parts += [drawing, "</g>"]
    parts += [f'<path d="{lines}" fill="none" stroke="var(--foreground)" stroke-width="0.6"/>'] if lines else []
    parts.append(f'<rect width="96" height="{tall:.4g}" fill="none" stroke="var(--muted)" stroke-width="0.6"/>')
    box = f'viewBox="-0.5 -0.5 97 {tall + 1:.4g}"'
    return f'<svg {box} aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def _strokes(selected: np.ndarray) -> str:
    """Path of horizontal strokes through the selected cells, one per run of neighboring cells, in relative moves."""
    path, pen = [], (0.0, 0.0)
    for row, cells in enumerate(selected):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(int), [0]))))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            start_point = (float(start), row + 0.5)
            path.append(f"m{start_point[0] - pen[0]:g} {start_point[1] - pen[1]:g}h{end - start}".replace(" -", "-"))
            pen = (float(end), row + 0.5)
    return "".join(path)


def _averaging_factor(matrix: np.ndarray) -> int:
    return math.ceil(max(matrix.shape) / MAX_CELLS_PER_SIDE)


def _average_cells(matrix: np.ndarray, factor: int) -> np.ndarray:
    """Average squares of `factor` x `factor` cells, smaller at the ends; nan if all cells are nan."""
    if factor == 1:
        return matrix
    is_known = np.isfinite(matrix)
    sums, counts = np.where(is_known, matrix, 0.0), is_known.astype(float)
    for axis, length in enumerate(matrix.shape):
        starts = np.arange(0, length, factor)
        sums, counts = np.add.reduceat(sums, starts, axis), np.add.reduceat(counts, starts, axis)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _borders(labels: Sequence[str] | None) -> list[int]:
    if labels is None:
        return []
    return [place for place in range(1, len(labels)) if labels[place] != labels[place - 1]]


def _color_scale(low_label: str, high_label: str, ends: tuple[float, float] | None) -> Figure:
    """Draw the color scale with the labels of its two ends."""
    left, right = low_label, high_label
    if ends:
        low, high = _format_ends(ends)
        left, right = f"{left} {low}", f"{high} {right}"

    step = 300 / (LEVELS + 1)
    ramp = "".join(
        f'<rect x="{place * step:.4g}" width="{step:.4g}" height="12" fill="var(--first)" '
        f'fill-opacity="{place / LEVELS:.2f}"/>'
        for place in range(LEVELS + 1)
    )
    outline = '<rect width="300" height="12" fill="none" stroke="var(--muted)" stroke-width="0.6"/>'
    text = f'<text x="0" y="26">{escape(left)}</text><text x="300" y="26" text-anchor="end">{escape(right)}</text>'
    svg = '<svg viewBox="-0.5 -0.5 301 32" aria-hidden="true" focusable="false">'
    svg += f'{ramp}{outline}<g style="font-size: 12px" fill="currentColor">{text}</g></svg>'
    return Figure(svg, "Scale", f"Color scale of the maps: no color is {left}, full color is {right}.")


def _key(maps: Sequence[tuple[str, np.ndarray]], labels: Sequence[str] | None, shared: bool) -> str:
    key = "The stronger the color, the higher the value. "
    key += "All maps share one scale." if shared else "Each map has its own scale; its ends are printed below it."
    factor = max(_averaging_factor(matrix) for _, matrix in maps)
    key += f" Each drawn cell is the mean of {factor} × {factor} cells or fewer." if factor > 1 else ""
    if labels is not None and _borders(labels):
        runs = [labels[0], *(labels[place] for place in _borders(labels))]
        key += f" Lines separate, from top and left: {join_words(runs)}."
    key += " Blank cells: no finite value." if any(np.isnan(matrix).any() for _, matrix in maps) else ""
    return key


def _value_table(title: str, maps: Sequence[tuple[str, np.ndarray]], labels: Sequence[str] | None) -> Table:
    if sum(matrix.size for _, matrix in maps) <= MAX_TABLE_CELLS:
        widest = max(matrix.shape[1] for _, matrix in maps)
        headers = list(labels) if labels is not None else [str(place) for place in range(widest)]
        body = tuple(
            (
                name,
                labels[row] if labels is not None else str(row),
                *map(_format_value, cells),
                *[""] * (widest - len(cells)),
            )
            for name, matrix in maps
            for row, cells in enumerate(matrix.tolist())
        )
        return Table(f"{title}: values", ("Map", "Row", *headers), body)
    same = np.equal.outer(np.array(labels), np.array(labels)) if labels is not None else None
    body = []
    for name, matrix in maps:
        cells = [np.nanmin(matrix), np.nanmean(matrix), np.nanmax(matrix)]
        if same is not None:
            off = ~np.eye(len(matrix), dtype=bool)
            cells += [_mean(matrix[same & off]), _mean(matrix[~same])]
        body.append((name, *(_format_value(float(cell)) for cell in cells)))
    columns = ["Map", "Minimum", "Mean", "Maximum"]
    columns += ["Mean within blocks, diagonal excluded", "Mean between blocks"] if same is not None else []
    return Table(f"{title}: summary of each map", tuple(columns), tuple(body))


def _mean(cells: np.ndarray) -> float:
    finite = cells[np.isfinite(cells)]
    return float(finite.mean()) if finite.size else math.nan


def _format_ends(ends: tuple[float, float]) -> list[str]:
    """Format both ends with as many decimals as the larger one needs."""
    size = max(map(abs, ends))
    digits = 2 if size == 0 else max(0, min(6, 2 - math.floor(math.log10(size))))
    return [number(end, digits) for end in ends]


def _format_value(value: float) -> str:
    """Format a value with three significant digits."""
    if not math.isfinite(value) or value == 0:
        return number(value)
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return number(value, min(digits, 6))
