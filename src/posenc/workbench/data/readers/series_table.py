"""Time series of a CSV table: a header, one reading a line, columns for times, values and perhaps names of series."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import Cells, SeriesTable, has_times, series_of, series_record
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, csv_lines, csv_rows, open_file, read_text

FORM = "table of series"
KIND = "series"
OPTIONS: tuple[str, ...] = ("time", "id", "target", "unit")
ENDINGS = (".csv", ".tsv")
MEMORY_FACTOR = 30
START_BYTES = 1 << 14


def match(path: Path) -> str:
    """Match files that end in .csv or .tsv."""
    return reason_by_ending(path, ENDINGS)


def names_times(path: Path) -> bool:
    """True if the header of a table names a column of times. Other tables are no series.

    Args:
        path: The file.

    Returns:
        True for a table with times.

    Raises:
        UserFileError: It cannot be opened.
    """
    with open_file(path, "a table of series") as file:
        line = file.read(START_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
    return has_times([cell.strip().strip('"') for cell in line.split(_delimiter(path, line))])


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count series and readings; the table is read whole."""
    return series_record(read(path, options), path)


def read(path: Path, options: ReadingOptions) -> SeriesTable:
    """Read the series.

    Args:
        path: The file.
        options: "time", "id", "target", "unit"; None for columns that their names show.

    Returns:
        The series.

    Raises:
        UserFileError: It is no table, or as ``series_of``.
    """
    text = read_text(path, MEMORY_FACTOR, "a table of series")
    first = text.partition("\n")[0]
    (_, header), *rows = csv_rows(csv_lines(text), path, _delimiter(path, first)) or [(1, [])]
    names = tuple(name.strip() for name in header)
    if len(names) < 2 or not rows:
        fault = f"{len(names)} column{'s' * (len(names) != 1)}" if rows else "no reading below its header"
        raise UserFileError(
            f"{path} has {fault}. A table of series has a header and a line for each reading: date,value"
        )
    for line, row in rows:
        if len(row) != len(names):
            raise UserFileError(f"{path}, line {line} has {len(row)} cells, and the header names {len(names)} columns.")
    columns = tuple(zip(*(row for _, row in rows), strict=True))
    return series_of(Cells(path, FORM, names, columns, [line for line, _ in rows]), options)


def _delimiter(path: Path, line: str) -> str:
    if path.name.lower().endswith(".tsv"):
        return "\t"
    return ";" if line.count(";") > line.count(",") else ","
