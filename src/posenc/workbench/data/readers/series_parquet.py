"""Time series of a Parquet table: one reading a row, columns for times, values and perhaps names of series."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import NOUN, SeriesTable, has_times, series_of, series_record
from posenc.workbench.data.table_cells import parquet_cells, parquet_header
from posenc.workbench.dataset_record import DatasetRecord

FORM = "Parquet table of series"
KIND = "series"
OPTIONS: tuple[str, ...] = ("time", "id", "target", "unit")
ENDINGS = (".parquet",)


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
    return has_times(parquet_header(path, NOUN.wanted))


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
    return series_of(parquet_cells(path, FORM, NOUN), options)
