"""Cells of a table as text, from CSV or Parquet, which the readers of time series and of places share."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.parquet_table import opened_parquet
from posenc.workbench.data.series_times import MISSING, is_number
from posenc.workbench.files.user_files import (
    UserFileError,
    csv_lines,
    csv_rows,
    number,
    open_file,
    read_text,
    require_reading,
    short,
    streamed_rows,
)

MEMORY_FACTOR, CELL_BYTES = 30, 90
"""Memory for each byte of a CSV; and bytes of a cell of Parquet as text, with its number."""
LARGE_BYTES, LARGE_PARQUET_BYTES = 1 << 26, 1 << 24
"""Bytes of a CSV, and of a Parquet file, from which readers that may draw rows do so."""
START_BYTES = 1 << 14
"""Bytes of a CSV that its header may have."""
TIME_NAMES = ("date", "time", "datetime", "timestamp", "ds")
"""Names of columns of times, in lower case, the first one first."""
INDEX_NAMES = ("unnamed:", "__index_level_")
"""Beginnings of the names that pandas and Arrow give to an index without a name."""
SHORTEST_COUNT = 10
"""Fewest rows of a column with a name that counts them; fewer values from 1 on may be a measurement."""
TSV = ".tsv"
DECIMAL = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")
"""A number with or without a decimal comma."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
"""A number whose commas may divide thousands."""
POINTED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")
"""A number whose points divide thousands, where commas are decimal."""


class Cells(NamedTuple):
    """Cells of a table as text.

    Attributes:
        path: The file.
        form: Form of the file.
        names: Names of the columns.
        columns: Cells of each column.
        lines: Number of the line of each row, for messages.
        noun: What the number of a row counts: "line" or "row".
        of: Number of rows of the file, of which these were drawn at random; 0 if they are all of them.
        decimal_commas: Names of the columns whose decimal commas became points.
        pointed: Names of the columns whose points divide thousands.
    """

    path: Path
    form: str
    names: tuple[str, ...]
    columns: tuple[Sequence[str], ...]
    lines: Sequence[int]
    noun: str = "line"
    of: int = 0
    decimal_commas: tuple[str, ...] = ()
    pointed: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Sentences on how cells were read."""
        said = {"Decimal commas are read as points": self.decimal_commas, "Points divide thousands": self.pointed}
        return [f"{sentence}: {', '.join(names)}." for sentence, names in said.items() if names]

    def column(self, name: str) -> Sequence[str]:
        """Cells of the column of a name."""
        return self.columns[self.names.index(name)]

    def at(self, row: int) -> str:
        """Place of a row in a message: "weather.csv, line 7"."""
        return f"{self.path}, {self.noun} {self.lines[row]}"

    def stated(self, flag: str, name: str) -> str:
        """Return the name of a column that an option states. Raises UserFileError if the table has no such column."""
        if name not in self.names:
            listed = ", ".join(self.names)
            raise UserFileError(f"{self.path}: {unknown('column', name, self.names)} It has {listed}: --{flag} NAME")
        return name


class TableNoun(NamedTuple):
    """Words on a table for messages.

    Attributes:
        wanted: The table, such as "a table of series".
        row: A row, such as "reading".
        shape: Sentence on a CSV of this kind.
        parquet_shape: Sentence on a Parquet table of this kind.
    """

    wanted: str
    row: str
    shape: str
    parquet_shape: str


def csv_header(path: Path, wanted: str) -> list[str]:
    """Read the names in the first line of a CSV.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.

    Returns:
        The names.

    Raises:
        UserFileError: It cannot be opened.
    """
    with open_file(path, wanted) as file:
        line = file.read(START_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
    return [cell.strip().strip('"') for cell in line.split(_delimiter(path, line))]


def parquet_header(path: Path, wanted: str) -> list[str]:
    """Read the names of the columns of a Parquet table.

    Args:
        path: The file.
        wanted: What the reader takes, for messages.

    Returns:
        The names.

    Raises:
        UserFileError: It cannot be opened, or DuckDB is not installed.
    """
    with opened_parquet(path, wanted) as opened:
        return list(opened.table.columns)


def csv_cells(path: Path, form: str, noun: TableNoun, most: int | None = None) -> Cells:
    """Read the cells of a CSV with a header.

    Args:
        path: The file.
        form: Form of the file.
        noun: Words for messages.
        most: Number of cells of a large file (``is_large``) that are read: whole rows, drawn at random; None for all.

    Returns:
        The cells.

    Raises:
        UserFileError: It is no table, is not UTF-8, or does not fit into memory.
    """
    if most is not None and is_large(path):
        return _drawn_csv_cells(path, form, noun, most)
    text = read_text(path, MEMORY_FACTOR, noun.wanted)
    if not text.strip():
        raise UserFileError(f"{path} is empty. {noun.shape}")
    first = text.partition("\n")[0]
    (_, header), *rows = csv_rows(csv_lines(text), path, _delimiter(path, first)) or [(1, [])]
    names = _names(header, bool(rows), path, noun)
    for line, row in rows:
        _refuse_other_length(row, names, path, line)
    columns = tuple(zip(*(row for _, row in rows), strict=True))
    return _with_points(Cells(path, form, names, columns, [line for line, _ in rows]), _delimiter(path, first))


def is_large(path: Path) -> bool:
    """True for a table of so many bytes that its cells as text may need gigabytes."""
    with suppress(OSError):
        return path.stat().st_size > (LARGE_PARQUET_BYTES if path.suffix.lower() == ".parquet" else LARGE_BYTES)
    return False


def _drawn_csv_cells(path: Path, form: str, noun: TableNoun, most: int) -> Cells:
    """Cells of rows of a large CSV that are drawn at random: the file is read twice, one line in memory at a time."""
    count = 0
    with open_file(path, noun.wanted) as file:
        delimiter = _delimiter(path, file.read(START_BYTES).decode("utf-8-sig", errors="replace").partition("\n")[0])
    with _streamed(path, noun) as rows:
        _, header = next(rows, (1, []))
        names = _names(header, True, path, noun)
        for line, row in rows:
            _refuse_other_length(row, names, path, line)
            count += 1
    _names(header, count > 0, path, noun)
    numbers, chosen = drawn_numbers(count, most // len(names)), list[tuple[int, list[str]]]()
    with _streamed(path, noun) as rows:
        next(rows)
        wanted = iter(numbers)
        following = next(wanted)
        for number_of_row, found in enumerate(rows):
            if number_of_row == following:
                chosen.append(found)
                following = next(wanted, count)
    columns = tuple(zip(*(row for _, row in chosen), strict=True))
    of = count if len(chosen) < count else 0
    return _with_points(Cells(path, form, names, columns, [line for line, _ in chosen], of=of), delimiter)


def _with_points(cells: Cells, delimiter: str) -> Cells:
    """Cells with a point in place of the decimal comma, in columns of numbers that another sign than a comma divides.

    A column whose commas all stand before three digits stays, because they may divide thousands. Beside a column with
    decimal commas, points before three digits divide thousands.
    """
    named = dict(zip(cells.names, cells.columns, strict=True)) if delimiter != "," else {}
    commas = {name for name, column in named.items() if _has_decimal_commas(column)}
    if not commas:
        return cells
    pointed = tuple(name for name, column in named.items() if _has_pointed_thousands(column, name in commas))
    columns = tuple(
        [_with_point(cell) for cell in column] if name in commas or name in pointed else column
        for name, column in zip(cells.names, cells.columns, strict=True)
    )
    kept = tuple(name for name in named if name in commas)
    return cells._replace(columns=columns, decimal_commas=kept, pointed=pointed)


def _with_point(cell: str) -> str:
    written = cell.strip()
    return (written.replace(".", "") if POINTED.fullmatch(written) else written).replace(",", ".")


def _has_decimal_commas(column: Sequence[str]) -> bool:
    held = [cell.strip() for cell in column if cell.strip().lower() not in MISSING]
    commas = [cell for cell in held if "," in cell]
    thousands = all(THOUSANDS.fullmatch(cell) for cell in commas)
    numbers = all(DECIMAL.fullmatch(cell) or POINTED.fullmatch(cell) for cell in held)
    return bool(commas) and not thousands and numbers


def _has_pointed_thousands(column: Sequence[str], with_commas: bool) -> bool:
    """True for numbers of which some have points before three digits, and the others neither point nor comma."""
    held = [cell.strip() for cell in column if cell.strip().lower() not in MISSING]
    points = [cell for cell in held if "." in cell]
    whole = with_commas or all(cell.lstrip("+-").isdecimal() for cell in held if "." not in cell)
    return bool(points) and whole and all(POINTED.fullmatch(cell) for cell in points)


def drawn_numbers(count: int, most: int) -> list[int]:
    """Numbers of the rows that are read of a large table: at most ``most`` of ``count``, the same in each call."""
    if count <= most:
        return list(range(count))
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False)).tolist()


@contextmanager
def _streamed(path: Path, noun: TableNoun) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Context with the rows of a CSV, its header first."""
    with open_file(path, noun.wanted) as file:
        start = file.read(START_BYTES).decode("utf-8-sig", errors="replace").partition("\n")[0]
        file.seek(0)
        with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
            yield streamed_rows(lines, path, _delimiter(path, start))


def _names(header: Sequence[str], has_rows: bool, path: Path, noun: TableNoun) -> tuple[str, ...]:
    """Names of the columns; UserFileError for a table of one column or without rows."""
    names = tuple(name.strip() for name in header)
    if not has_rows:
        raise UserFileError(f"{path} has no {noun.row} below its header. {noun.shape}")
    if len(names) < 2:
        shape = "Its cells are divided by tabs: end its name in .tsv." if "\t" in "".join(names) else noun.shape
        raise UserFileError(f"{path} has 1 column, {short(''.join(names), 40)}. {shape}")
    return names


def _refuse_other_length(row: Sequence[str], names: Sequence[str], path: Path, line: int) -> None:
    if len(row) != len(names):
        cells, columns = count_of(len(row), "cells"), count_of(len(names), "columns")
        raise UserFileError(
            f"{path}, line {line} has {cells}, and the header names {columns}. Correct the line; a cell with a comma "
            "stands in quotes."
        )


def parquet_cells(path: Path, form: str, noun: TableNoun, most: int | None = None) -> Cells:
    """Read the cells of a Parquet table with DuckDB.

    Args:
        path: The file.
        form: Form of the file.
        noun: Words for messages.
        most: Number of cells of a large file (``is_large``) that are read: whole rows, drawn at random; None for all.

    Returns:
        The cells.

    Raises:
        UserFileError: DuckDB is not installed, or the file is damaged, too large or no table.
    """
    with opened_parquet(path, noun.wanted) as opened:
        table = opened.table
        names = tuple(table.columns)
        (count,) = table.aggregate("count(*)").fetchall()[0]
        if len(names) < 2 or not count:
            raise UserFileError(f"{path} has {len(names)} columns and {count} rows. {noun.parquet_shape}")
        numbers: Sequence[int] = range(count)
        if most is not None and is_large(path) and count * len(names) > most:
            numbers = drawn_numbers(count, most // len(names))
            table = opened.chosen_rows(numbers)
        require_reading(CELL_BYTES * len(numbers) * len(names), path, "Cut the file.")
        texts = table.project(", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"::VARCHAR' for name in names))
        rows = texts.fetchall()
    columns = tuple(["" if cell is None else cell for cell in column] for column in zip(*rows, strict=True))
    lines, of = [number + 1 for number in numbers], count if len(numbers) < count else 0
    return Cells(path, form, names, columns, lines, "row", of)


def refuse_repeated_names(path: Path, names: Sequence[str]) -> None:
    """Raise an error for a table that names a column twice. Several columns may have no name.

    Args:
        path: The table, for the message.
        names: Names of its columns.

    Raises:
        UserFileError: A name stands twice.
    """
    if twice := next((name for at, name in enumerate(names) if name and name in names[:at]), ""):
        raise UserFileError(f"{path}, line 1 names the column {short(twice, 40)!r} twice. Name each column once.")


def refuse_missing_header(cells: Cells) -> None:
    """Raise an error for a table whose first line has numbers in place of names.

    Args:
        cells: The cells.

    Raises:
        UserFileError: Names are numbers, and none of them is a word. Stations or columns may be numbered.
    """
    if any(name.strip() and not has_digit_first(name) for name in cells.names):
        return
    if value := next((name for name in cells.names if is_number(name)), ""):
        raise UserFileError(
            f"{cells.path}, line 1 has the number {short(value, 40)}, and names of columns are needed. Write a line of "
            "names above it."
        )


def has_digit_first(name: str) -> bool:
    """True for a number or a time in place of a name: it begins with a digit, a sign or a point."""
    return name.strip()[:1] in "0123456789+-."


def has_numbers(cells: Sequence[str]) -> bool:
    """True if the first cells with a value are numbers."""
    held = list(islice((cell.strip() for cell in cells if cell.strip().lower() not in MISSING), 100))
    return bool(held) and all(map(is_number, held))


def missing_words(name: str, texts: Iterable[str]) -> list[str]:
    """Say which words of a column are read as a missing value, as they may be names: NA is Namibia.

    Args:
        name: Name of the column.
        texts: Its cells.

    Returns:
        One sentence, or none without such words. Empty cells and nan are not named.
    """
    words = Counter(text for text in map(str.strip, texts) if text.lower() in MISSING - {"", "nan"})
    listed = ", ".join(f"{word} ({count_of(count, 'rows')})" for word, count in sorted(words.items()))
    return [f"Read as missing in the column {name}: {listed}."] if listed else []


def is_row_number(name: str, cells: Sequence[str]) -> bool:
    """True for a column that numbers the rows: it counts from 0 or 1, or is an index without a name.

    Args:
        name: Name of the column. An index as pandas writes it has no name, and may have gaps.
        cells: Its cells.

    Returns:
        True for whole numbers, none of them twice.
    """
    held = [cell.strip() for cell in cells]
    if len(held) < 2 or not all(map(str.isdecimal, held)):
        return False
    numbers = list(map(int, held))
    if name.strip().lower().startswith(INDEX_NAMES) or not name.strip():
        return len(set(numbers)) == len(numbers)
    return (
        len(held) >= SHORTEST_COUNT
        and numbers[0] in (0, 1)
        and all(after - before == 1 for before, after in pairwise(numbers))
    )


def numbers_of(cells: Cells, name: str, flag: str) -> NDArray[np.float64]:
    """Read the numbers of a column.

    Args:
        cells: The cells.
        name: Name of the column.
        flag: Option that names another column, for messages.

    Returns:
        The numbers ``(N,)``, NaN where missing.

    Raises:
        UserFileError: A cell is no number, or is infinite.
    """
    values = np.full(len(cells.lines), np.nan)
    for row, cell in enumerate(cells.column(name)):
        if cell.strip().lower() in MISSING:
            continue
        try:
            values[row] = number(cell.strip())
        except ValueError:
            remedy = f"Leave the cell empty if the value is missing, or name another column: --{flag} NAME"
            if is_number(cell.strip().replace(",", ".", 1)):
                remedy = "Write decimals with a point, and thousands without a comma."
            raise UserFileError(
                f"{cells.at(row)}: {short(cell, 40)!r} in the column {name} is not a number. {remedy}"
            ) from None
        if np.isinf(values[row]):
            raise UserFileError(f"{cells.at(row)}: the column {name} is infinite. Leave the cell empty if missing.")
    return values


def _delimiter(path: Path, line: str) -> str:
    if path.name.lower().endswith(TSV):
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","
