"""Heat maps side by side: distances between tokens, attention maps beside those of a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Literal

import numpy as np

from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.rows import listed, number

LEVELS = 12
MOST_CELLS = 64
"""Beyond so many rows a picture of 150 pixels shows no single cell: neighbours are averaged."""
MOST_NUMBERS = 600
"""Beyond so many cells in all, the table sums each map up: the cells would be most of the page."""


def matrices(
    groups: Sequence[tuple[str, np.ndarray]],
    *,
    title: str,
    caption: str = "",
    shared_scale: bool = True,
    labels: Sequence[str] | None = None,
    low_label: str = "low",
    high_label: str = "high",
    rows_of: int | None = None,
    size: Literal["wide", "small", "tiny"] = "tiny",
) -> Panel:
    """One small map per matrix: the stronger the colour, the higher the number; what is not finite stays blank.

    Args:
        groups: (name, matrix) in reading order.
        shared_scale: one scale for all, so that maps can be compared; else each from its lowest to its highest.
        labels: one per row and column of every matrix; runs of the same label are blocks, parted by lines.
        low_label, high_label: what the two ends of the scale mean.
        rows_of: so many maps stand in a row, for instance the layers of one model.
        size: of one map on the page.

    Raises:
        ValueError: no matrix, one that has no rows, not two axes or no finite number, or labels that do not fit it.
    """
    if not groups:
        return Panel(title, (Text(("No map of this kind was stored.",)),), caption)
    maps = [(name, _checked(name, matrix, labels)) for name, matrix in groups]
    drawn = [_averaged(matrix, _factor(matrix)) for _, matrix in maps]
    ends = [(float(np.nanmin(cells)), float(np.nanmax(cells))) for cells in drawn]
    whole = (min(low for low, _ in ends), max(high for _, high in ends))
    pictures = tuple(
        Picture(
            _drawn(cells, whole if shared_scale else own, [border / _factor(matrix) for border in _borders(labels)]),
            name,
            f"Heat map of {name}: from {' to '.join(_pair(own))}, mean {_short(float(np.nanmean(matrix)))}.",
            "" if shared_scale else " – ".join(_pair(own)),
        )
        for (name, matrix), cells, own in zip(maps, drawn, ends, strict=True)
    )
    numbers = _cells(title, maps, labels)
    key = _key(maps, labels, shared_scale)
    scale = _scale(low_label, high_label, whole if shared_scale else None)
    return Panel(title, (Pictures(pictures, key, numbers, size, rows_of, scale),), caption)


def _checked(name: str, matrix: np.ndarray, labels: Sequence[str] | None) -> np.ndarray:
    found = np.asarray(matrix, dtype=float)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"A heat map shows a matrix; {name} has the shape {found.shape}. Pass one of (rows, columns).")
    if not np.isfinite(found).any():
        raise ValueError(f"{name} holds no finite number, so there is nothing to show. Leave it out and say so.")
    if labels is not None and (len(labels),) * 2 != found.shape:
        raise ValueError(f"There are {len(labels)} labels, and {name} has the shape {found.shape}. Pass one per row.")
    return np.where(np.isfinite(found), found, np.nan)


def _drawn(cells: np.ndarray, scale: tuple[float, float], borders: Sequence[float]) -> str:
    """The map as one path per level: each run of equal cells is a stroke one cell high."""
    height, width = cells.shape
    low, high = scale
    filled = np.where(np.isfinite(cells), cells, low)
    level = np.clip(np.rint((filled - low) / (high - low or 1.0) * LEVELS), 0, LEVELS).astype(int)
    unit = 96 / width
    tall = height * unit
    drawing = "".join(
        f'<path d="{path}" stroke-opacity="{step / LEVELS:.2f}"/>'
        for step in range(1, LEVELS + 1)
        if (path := _runs(level == step))
    )
    places = [border * unit for border in borders]
    lines = "".join(f"M{place:.4g} 0V{tall:.4g}M0 {place:.4g}H96" for place in places)
    parts = [f'<g transform="scale({unit:.4g})" stroke="var(--first)" fill="none" shape-rendering="crispEdges">']
    parts += [drawing, "</g>"]
    parts += [f'<path d="{lines}" fill="none" stroke="var(--ink)" stroke-width="0.6"/>'] if lines else []
    parts.append(f'<rect width="96" height="{tall:.4g}" fill="none" stroke="var(--quiet)" stroke-width="0.6"/>')
    box = f'viewBox="-0.5 -0.5 97 {tall + 1:.4g}"'
    return f'<svg {box} aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def _runs(chosen: np.ndarray) -> str:
    """A path of horizontal strokes through the chosen cells, each run of neighbours one stroke; relative moves."""
    path, at = [], (0.0, 0.0)
    for row, cells in enumerate(chosen):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(int), [0]))))
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            there = (float(start), row + 0.5)
            path.append(f"m{there[0] - at[0]:g} {there[1] - at[1]:g}h{end - start}".replace(" -", "-"))
            at = (float(end), row + 0.5)
    return "".join(path)


def _factor(matrix: np.ndarray) -> int:
    return math.ceil(max(matrix.shape) / MOST_CELLS)


def _averaged(matrix: np.ndarray, factor: int) -> np.ndarray:
    """Means over squares of `factor` x `factor` cells, the last ones smaller; nan where all are nan."""
    if factor == 1:
        return matrix
    known = np.isfinite(matrix)
    sums, counts = np.where(known, matrix, 0.0), known.astype(float)
    for axis, length in enumerate(matrix.shape):
        starts = np.arange(0, length, factor)
        sums, counts = np.add.reduceat(sums, starts, axis), np.add.reduceat(counts, starts, axis)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _borders(labels: Sequence[str] | None) -> list[int]:
    if labels is None:
        return []
    return [place for place in range(1, len(labels)) if labels[place] != labels[place - 1]]


def _scale(low_label: str, high_label: str, ends: tuple[float, float] | None) -> Picture:
    """The ramp from the lowest level to the highest, with what they mean."""
    left, right = low_label, high_label
    if ends:
        low, high = _pair(ends)
        left, right = f"{left} {low}", f"{high} {right}"

    step = 300 / (LEVELS + 1)
    ramp = "".join(
        f'<rect x="{place * step:.4g}" width="{step:.4g}" height="12" fill="var(--first)" '
        f'fill-opacity="{place / LEVELS:.2f}"/>'
        for place in range(LEVELS + 1)
    )
    outline = '<rect width="300" height="12" fill="none" stroke="var(--quiet)" stroke-width="0.6"/>'
    text = f'<text x="0" y="26">{escape(left)}</text><text x="300" y="26" text-anchor="end">{escape(right)}</text>'
    svg = '<svg viewBox="-0.5 -0.5 301 32" aria-hidden="true" focusable="false">'
    svg += f'{ramp}{outline}<g style="font-size: 12px" fill="currentColor">{text}</g></svg>'
    return Picture(svg, "Scale", f"Scale of the maps: no colour is {left}, full colour is {right}.")


def _key(maps: Sequence[tuple[str, np.ndarray]], labels: Sequence[str] | None, shared: bool) -> str:
    key = "The stronger the colour, the higher the number; "
    key += "one scale for all maps." if shared else "each map has its own scale, printed below it."
    factor = max(_factor(matrix) for _, matrix in maps)
    key += f" Each drawn cell is the mean of {factor} × {factor} or fewer." if factor > 1 else ""
    if labels is not None and _borders(labels):
        runs = [labels[0], *(labels[place] for place in _borders(labels))]
        key += f" Lines part, from the top and from the left: {listed(runs)}."
    key += " Blank: not a number." if any(np.isnan(matrix).any() for _, matrix in maps) else ""
    return key


def _cells(title: str, maps: Sequence[tuple[str, np.ndarray]], labels: Sequence[str] | None) -> Table:
    if sum(matrix.size for _, matrix in maps) <= MOST_NUMBERS:
        widest = max(matrix.shape[1] for _, matrix in maps)
        named = list(labels) if labels is not None else [str(place) for place in range(widest)]
        body = tuple(
            (name, labels[row] if labels is not None else str(row), *map(_short, cells), *[""] * (widest - len(cells)))
            for name, matrix in maps
            for row, cells in enumerate(matrix.tolist())
        )
        return Table(f"{title}: every cell", ("Map", "Row", *named), body)
    same = np.equal.outer(np.array(labels), np.array(labels)) if labels is not None else None
    body = []
    for name, matrix in maps:
        cells = [np.nanmin(matrix), np.nanmean(matrix), np.nanmax(matrix)]
        if same is not None:
            off = ~np.eye(len(matrix), dtype=bool)
            cells += [_mean(matrix[same & off]), _mean(matrix[~same])]
        body.append((name, *(_short(float(cell)) for cell in cells)))
    columns = ["Map", "Lowest", "Mean", "Highest"]
    columns += ["Mean within blocks (no diagonal)", "Mean between blocks"] if same is not None else []
    return Table(f"{title}: each map summed up", tuple(columns), tuple(body))


def _mean(cells: np.ndarray) -> float:
    known = cells[np.isfinite(cells)]
    return float(known.mean()) if known.size else math.nan


def _pair(ends: tuple[float, float]) -> list[str]:
    """Both ends with as many decimals as the larger one needs."""
    size = max(map(abs, ends))
    digits = 2 if size == 0 else max(0, min(6, 2 - math.floor(math.log10(size))))
    return [number(end, digits) for end in ends]


def _short(value: float) -> str:
    """Three digits that count, where the size of a number is not known beforehand."""
    if not math.isfinite(value) or value == 0:
        return number(value)
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return number(value, min(digits, 6))
