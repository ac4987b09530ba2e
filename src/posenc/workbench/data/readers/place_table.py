"""Places of a CSV table: a header, one place a line, columns for coordinates, a target and features."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.place_coordinates import names_coordinates
from posenc.workbench.data.places import MOST_CELLS, NOUN, PlaceTable, place_record, places_of
from posenc.workbench.data.places import OPTIONS as PLACE_OPTIONS
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.table_cells import Cells, csv_cells, csv_header
from posenc.workbench.dataset_record import DatasetRecord

FORM = "table of places"
KIND = "places"
OPTIONS = PLACE_OPTIONS
ENDINGS = (".csv", ".tsv")


def match(path: Path) -> str:
    """Match files that end in .csv or .tsv."""
    return reason_by_ending(path, ENDINGS)


def names_places(path: Path) -> bool:
    """True if the header of a table names coordinates. Raises UserFileError if it cannot be opened."""
    return names_coordinates(csv_header(path, NOUN.wanted))


def cells_of(path: Path) -> Cells:
    """Read the cells of a table. Raises UserFileError if it is no table."""
    return csv_cells(path, FORM, NOUN, MOST_CELLS)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count rows; the table is read, of a large one some rows."""
    return place_record(read(path, options), path)


def read(path: Path, options: ReadingOptions) -> PlaceTable:
    """Read the places. Raises UserFileError as ``places_of``, or if the file is no table."""
    return places_of(cells_of(path), options)
