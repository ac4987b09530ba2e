"""Time series of a Parquet table: one reading a row, columns for times, values and perhaps names of series."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.parquet_table import opened_parquet
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import Cells, SeriesTable, has_times, series_of, series_record
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, require_reading

FORM = "Parquet table of series"
KIND = "series"
OPTIONS: tuple[str, ...] = ("time", "id", "target", "unit")
ENDINGS = (".parquet",)
CELL_BYTES = 90
"""Bytes of a cell as text, with its number."""


def match(path: Path) -> str:
    """Match files that end in .parquet."""
    return reason_by_ending(path, ENDINGS)


def names_times(path: Path) -> bool:
    """True if a column of the table has a name of times. Other tables are no series.

    Args:
        path: The file.

    Returns:
        True for a table with times.

    Raises:
        UserFileError: It cannot be opened, or DuckDB is not installed.
    """
    with opened_parquet(path, "a table of series") as opened:
        return has_times(opened.table.columns)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count series and readings; the table is read whole."""
    return series_record(read(path, options), path)


def read(path: Path, options: ReadingOptions) -> SeriesTable:
    """Read the series with DuckDB.

    Args:
        path: The file.
        options: "time", "id", "target", "unit"; None for columns that their names show.

    Returns:
        The series.

    Raises:
        UserFileError: DuckDB is not installed, the file is damaged or too large, or as ``series_of``.
    """
    with opened_parquet(path, "a table of series") as opened:
        table = opened.table
        names = tuple(table.columns)
        (count,) = table.aggregate("count(*)").fetchall()[0]
        require_reading(CELL_BYTES * count * len(names), path, "Cut the file.")
        if len(names) < 2 or not count:
            raise UserFileError(
                f"{path} has {len(names)} columns and {count} rows. A table of series has times and values in rows."
            )
        texts = table.project(", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"::VARCHAR' for name in names))
        rows = texts.fetchall()
    columns = tuple(["" if cell is None else cell for cell in column] for column in zip(*rows, strict=True))
    return series_of(Cells(path, FORM, names, columns, range(1, count + 1), "row"), options)
