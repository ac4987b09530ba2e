"""Time series of a CSV table: a header, one reading a line, columns for times, values and perhaps names of series."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series import NOUN, SeriesTable, has_times, series_of, series_record
from posenc.workbench.data.table_cells import csv_cells, csv_header
from posenc.workbench.dataset_record import DatasetRecord

FORM = "table of series"
KIND = "series"
OPTIONS: tuple[str, ...] = ("time", "id", "target", "unit")
ENDINGS = (".csv", ".tsv")


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
    return has_times(csv_header(path, NOUN.wanted))


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
    return series_of(csv_cells(path, FORM, NOUN), options)
