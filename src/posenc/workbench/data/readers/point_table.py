"""Points of a table: ``.xyz``, ``.txt`` or ``.csv``, one point a line, columns by a header or in the order x, y, z."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posenc.workbench.data.clouds import PointCloud, cloud_record, point_cloud
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, number, open_file, read_text, short

FORM = "table of points"
KIND = "clouds"
OPTIONS: tuple[str, ...] = ()
ENDINGS = (".xyz", ".txt", ".csv")
MEMORY_FACTOR = 12
START_BYTES = 1 << 14
COMMENT = ("#", "//")


class _Table(NamedTuple):
    """Lines of a table.

    Attributes:
        names: Names of the columns; None without a header.
        delimiter: Separator of the cells; None for blanks.
        lines: Lines with points.
        numbers: Their line numbers, counted from 1.
    """

    names: list[str] | None
    delimiter: str | None
    lines: list[str]
    numbers: list[int]


def match(path: Path) -> str:
    """Match files that end in .xyz, .txt or .csv."""
    return reason_by_ending(path, ENDINGS)


def has_points(path: Path) -> bool:
    """True if the first line of a file is a point, or names columns x, y, z. Other files are a text.

    Args:
        path: The file.

    Returns:
        True for points.

    Raises:
        UserFileError: It cannot be opened.
    """
    with open_file(path, "a cloud") as file:
        start = file.read(START_BYTES)
    whole = start if len(start) < START_BYTES else start.rpartition(b"\n")[0]
    try:
        table = _table(whole.decode("utf-8-sig", errors="replace"))
        return bool(table.names) or len(_numbers(table.lines[0], table.delimiter)) >= 3
    except (ValueError, IndexError):
        return False


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the lines with points."""
    table = _table(read_text(path, MEMORY_FACTOR, "a cloud"))
    return cloud_record(path, FORM, len(table.lines), table.names)


def read(path: Path, options: ReadingOptions) -> PointCloud:
    """Read the points.

    Args:
        path: The file.
        options: No option.

    Returns:
        The cloud. Columns without a header are x, y, z; further ones are normals if they have the length 1, colors if
        they are from 0 to 255.

    Raises:
        UserFileError: A line is not a point of as many numbers as the first one (the message has its number), or there
            are too few points.
    """
    table = _table(read_text(path, MEMORY_FACTOR, "a cloud"))
    if not table.lines:
        raise UserFileError(f"{path} has 0 points. A cloud needs at least 3.")
    try:
        columns = np.loadtxt(table.lines, delimiter=table.delimiter, ndmin=2, comments=None)
    except ValueError as error:
        raise UserFileError(_fault(path, table) or f"{path} is no table of points ({short(error)}).") from None
    if table.names is not None and len(table.names) != columns.shape[1]:
        raise UserFileError(
            f"{path} names {len(table.names)} columns, and line {table.numbers[0]} has {columns.shape[1]} numbers. "
            "Name each column once."
        )
    return point_cloud(path, FORM, columns, table.names, lambda row: f"line {table.numbers[row - 1]}")


def _table(text: str) -> _Table:
    names, lines, numbers = None, list[str](), list[int]()
    for line_number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        comment = next((mark for mark in COMMENT if stripped.startswith(mark)), "")
        if not stripped or (comment and lines):
            continue
        if not lines and names is None:
            cells = re.split(r"[,;\s]+", stripped.removeprefix(comment).strip().replace('"', ""))
            if {"x", "y", "z"} <= {cell.lower() for cell in cells}:
                names = cells
                continue
        if not comment:
            lines.append(stripped)
            numbers.append(line_number)
    delimiter = next((mark for mark in (",", ";") if lines and mark in lines[0]), None)
    return _Table(names, delimiter, lines, numbers)


def _numbers(line: str, delimiter: str | None) -> list[float]:
    return [number(cell.strip()) for cell in line.split(delimiter)]


def _fault(path: Path, table: _Table) -> str:
    """Sentence on the first line that is not a point."""
    wanted = len(table.lines[0].split(table.delimiter))
    for line_number, line in zip(table.numbers, table.lines, strict=True):
        cells = line.split(table.delimiter)
        if len(cells) != wanted:
            return f"{path}, line {line_number} has {len(cells)} columns, and the first point has {wanted}."
        try:
            _numbers(line, table.delimiter)
        except ValueError:
            return f"{path}, line {line_number} is no point: {short(line, 40)!r}. A point is numbers: x, y, z."
    return ""
