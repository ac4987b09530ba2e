"""Recordings as a folder of tables: one ``.csv`` or ``.parquet`` a recording, rows are times and columns are channels.

A first line of a ``.csv`` that is not all numbers names the channels; commas, semicolons or tabs divide. An empty cell
is a number that is not there; a first column that only counts the times is refused. Recordings are named after their
files, which may differ in length, and ``sub-LABEL`` at the beginning of a name says of whom it is. A file
``channels.csv`` among them, if there is one, tells what is known of the channels: columns ``channel, module, x, y, z``,
any of which but the first may be missing. It names the columns, in its order, of tables that do not.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.recordings.mapping import mapped
from posenc.tasks.recordings.series import Recordings
from posenc.tasks.room import refuse_beyond

ABOUT = "channels.csv"
AXES = ("x", "y", "z")
EVEN = 1e-6
"""Steps of time differ by no more than this part of themselves."""
Table = tuple[tuple[str, ...], np.ndarray]
"""Names of the columns, none where the file has none, and the numbers ``(channel, time)``."""


def read(place: Path, folder: Path | None = None) -> Recordings:
    """The recordings of a folder, in the order of their names.

    folder: where the numbers are kept, and read from in parts, for tables that do not fit in memory together.
    Raises ValueError for no table, tables of other columns, what is no number, and too little memory.
    """
    files = sorted(path for path in place.iterdir() if path.suffix in READERS and path.name != ABOUT)
    if not files:
        raise ValueError(
            f"{place} has no .csv or .parquet. A folder of recordings has one table a recording: rows are times, "
            "columns are channels."
        )
    stems = [path.stem for path in files]
    if twice := [stem for stem in stems if stems.count(stem) > 1]:
        raise ValueError(f"{place} has {twice[0]!r} as .csv and as .parquet. Keep one of the two.")
    first, series = (), []
    for path in files:
        names, numbers = READERS[path.suffix](path)
        _refuse_clock(path, names, numbers[0])
        if not series:
            first = names
            if folder is None:
                refuse_beyond(
                    numbers.nbytes * (len(files) - 1),
                    f"a folder of {len(files)} recordings like {path.name}",
                    "Name a folder to keep them in, as folder=Path('kept'), or write one .npz by numpy.savez.",
                )
        _refuse_others(path, names, files[0], first)
        series.append(numbers if folder is None else _kept(numbers, folder))
    channels, coordinates, modules = _about(place / ABOUT, first) if (place / ABOUT).is_file() else (first, None, None)
    return Recordings(tuple(series), tuple(stems), channels, coordinates, modules)


def _refuse_clock(path: Path, names: tuple[str, ...], first: np.ndarray) -> None:
    """Raises ValueError where the first column counts the times instead of recording something."""
    steps = np.diff(first)
    if len(first) > 10 and (steps > 0).all() and np.ptp(steps) <= EVEN * steps.max():
        raise ValueError(
            f"the first column of {path.name}{f', {names[0]!r},' if names else ''} rises by the same step at every "
            "time, so it is a clock and no channel. Leave it out."
        )


def _refuse_others(path: Path, names: tuple[str, ...], other: Path, others: tuple[str, ...]) -> None:
    """Raises ValueError where two tables have as many channels, but not the same."""
    odd = [pair for pair in zip(names, others, strict=False) if pair[0] != pair[1]]
    if odd and len(names) == len(others):
        raise ValueError(
            f"{path.name} has the channel {odd[0][0]!r} where {other.name} has {odd[0][1]!r}; all recordings have the "
            "same channels in the same order."
        )


def _kept(numbers: np.ndarray, folder: Path) -> np.ndarray:
    file = mapped(folder, numbers.shape, numbers.dtype)
    file[:] = numbers
    return file


def _csv(path: Path) -> Table:
    rows = _rows(path)
    names = () if _numbers(rows[0]) else tuple(cell.strip() for cell in rows[0])
    if names and len(rows) == 1:
        raise ValueError(f"{path.name} has a line of names and no times. Each further line is one time.")
    numbers = np.empty((len(rows) - bool(names), len(rows[0])))
    for row, cells in enumerate(rows[bool(names) :]):
        line = row + 1 + bool(names)
        if len(cells) != len(rows[0]):  # numpy would put a lone cell into every column
            raise ValueError(
                f"{path.name}, line {line}: {len(cells)} columns stand where the first line has {len(rows[0])}."
            )
        try:
            numbers[row] = cells
        except ValueError:
            _refuse_cells(path, line, cells, names)
            numbers[row] = [cell.strip() or "nan" for cell in cells]
    return names, np.ascontiguousarray(numbers.T)


def _rows(path: Path) -> list[list[str]]:
    """The cells of every line that has any."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({error}). A .csv is comma-separated text.") from error
    lines = text.splitlines()
    first = lines[0] if lines else ""
    rows = [row for row in csv.reader(lines, delimiter=max(",;\t", key=first.count)) if row]
    if not rows:
        raise ValueError(f"{path.name} is empty. A table has one line a time and one column a channel.")
    return rows


def _numbers(cells: list[str]) -> bool:
    return all(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, or empty, which is one that is not there."""
    try:
        float(cell.strip() or "nan")
    except ValueError:
        return False
    return True


def _refuse_cells(path: Path, line: int, cells: list[str], names: tuple[str, ...]) -> None:
    for number, cell in enumerate(cells):
        if not _is_number(cell):
            column = repr(names[number]) if names else str(number + 1)
            raise ValueError(
                f"{path.name}, line {line}: {cell!r} in column {column} is no number. Columns are channels; leave out "
                "dates, labels and the like."
            )


def _parquet(path: Path) -> Table:
    try:
        import duckdb
    except ImportError:
        raise ValueError("Parquet needs duckdb: pip install posenc[analysis]") from None
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        try:
            found: dict[str, Any] = connection.read_parquet(str(path)).fetchnumpy()
        except duckdb.Error as error:
            raise ValueError(f"{path} cannot be read ({str(error).splitlines()[0]}). Write it again.") from error
    for name, column in found.items():
        if column.dtype.kind not in "iuf":
            raise ValueError(
                f"{path.name} has {column.dtype} in column {name!r}, which is no number. Columns are channels; leave "
                "out dates, labels and the like."
            )
    return tuple(found), np.stack([np.ma.filled(column.astype(np.float64), np.nan) for column in found.values()])


READERS: Mapping[str, Callable[[Path], Table]] = {".csv": _csv, ".parquet": _parquet}


def _about(path: Path, channels: tuple[str, ...]) -> tuple[tuple[str, ...], np.ndarray | None, tuple[str, ...] | None]:
    """The channels, which the file names in their order where the tables do not; their coordinates and modules, where
    the file has them."""
    names, *rows = _rows(path)
    names = [name.strip().lower() for name in names]
    if "channel" not in names or any(len(row) != len(names) for row in rows):
        raise ValueError(f"{path.name} has a column 'channel' and, in every line, as many cells as the first.")
    table = {row[names.index("channel")].strip(): dict(zip(names, row, strict=True)) for row in rows}
    channels = channels or tuple(table)
    if missing := [channel for channel in channels if channel not in table]:
        raise ValueError(f"{path.name} has no line of the channel {missing[0]!r}. Each channel has one.")
    axes = [axis for axis in AXES if axis in names]
    for channel in channels:
        if bad := [axis for axis in axes if not _is_number(table[channel][axis])]:
            raise ValueError(
                f"{path.name}: {bad[0]} of the channel {channel!r} is no number: {table[channel][bad[0]]!r}."
            )
    places = [[float(table[channel][axis].strip() or "nan") for axis in axes] for channel in channels]
    modules = tuple(table[channel]["module"].strip() for channel in channels) if "module" in names else None
    return channels, (np.array(places) if axes else None), modules
