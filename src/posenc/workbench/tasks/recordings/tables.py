"""Recordings as a folder of tables: one ``.csv`` or ``.parquet`` per recording; rows are times, columns channels.

A first line of a ``.csv`` that is not all numbers names the channels, and so do the numbers from 0 or 1 that pandas
writes for columns without names. The separator is a comma, a semicolon or a tab. An empty cell is a missing number. A
column that counts the times is refused: the first one if it rises at every time, one that rises by the same amount at
every time, and one that is called so, such as ``time (s)``. Recordings are named after their files, which may differ in
length; ``sub-LABEL`` or ``subject01`` at the beginning of a name is the subject. An optional file ``channels.csv``
describes the channels, with columns ``channel, module, x, y, z``, of which only the first is required. It names the
columns, in its order, of tables without names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.data.series_times import MISSING
from posenc.workbench.files.user_files import SMALLER, csv_rows, number, read_text, require_file, require_reading, short
from posenc.workbench.memory import require_memory
from posenc.workbench.tasks.recordings.memory_map import memory_mapped_zeros
from posenc.workbench.tasks.recordings.series import Recordings, own_subjects_note, without_subject

CHANNELS_FILE = "channels.csv"
AXES = ("x", "y", "z")
CSV_MEMORY = 40
"""Bytes of memory per byte of a table while its cells are separate texts."""
PARQUET_MEMORY = 32
"""Bytes of memory per number of a table in Parquet while it is read."""
NO_NUMBER = re.compile(r"_|[^\x00-\x7f]")
"""Characters that Python accepts in a number and no other program does."""
TIMES = frozenset(("time", "times", "t", "timestamp", "timestamps", "seconds", "sec", "ms", "frame", "sample", "index"))
"""First words of names of columns that count the times, in lower case."""
WORD = re.compile(r"[^a-z]+")
UNREAD = (".tsv", ".txt", ".mat", ".xlsx", ".edf", ".set", ".fif")
"""Endings of files that may hold recordings and are not read; they are named."""
FEWEST_NUMBERED = 4
"""Fewest columns whose numbers from 0 or 1 in the first line are names."""
SHORTEST_CLOCK = 10
"""A column of more numbers than this that rises at every time counts the times."""
Table = tuple[tuple[str, ...], np.ndarray]
"""Names of the columns, empty where the file has none, and the numbers ``(channel, time)``."""


def read_tables(place: Path, folder: Path | None = None) -> Recordings:
    """Read the recordings of a folder, in the order of their names.

    Args:
        place: The folder.
        folder: Folder for memory-mapped arrays, for tables that do not fit in memory together.

    Raises:
        ValueError: There is no table, the columns differ, a cell is not a number, or the memory is too small.
    """
    files = sorted(
        path for path in place.iterdir() if path.suffix.lower() in READERS and path.name.lower() != CHANNELS_FILE
    )
    if not files:
        raise ValueError(
            f"{place} has no .csv or .parquet. A folder of recordings has one table per recording: rows are times, "
            "columns are channels."
        )
    stems = [path.stem for path in files]
    if twice := [stem for stem in stems if stems.count(stem) > 1]:
        endings = " and as ".join(path.suffix for path in files if path.stem == twice[0])
        raise ValueError(f"{place} has {twice[0]!r} as {endings}. Keep one of the two.")
    first, series, reordered = (), [], list[str]()
    for path in files:
        names, numbers = READERS[path.suffix.lower()](path)
        _check_clock(path, names, numbers)
        if not series:
            first = names
            if folder is None:
                require_memory(
                    numbers.nbytes * (len(files) - 1),
                    f"a folder of {len(files)} recordings like {path.name}",
                    "Name a folder to write them to, folder=Path('frames'), or write one .npz by numpy.savez.",
                )
        _refuse_mixed_names(path, names, files[0], first)
        numbers, moved = _in_order(path, names, numbers, files[0], first)
        reordered += [path.name] if moved else []
        series.append(numbers if folder is None else _store_on_disk(numbers, folder))
    described = next((path for path in sorted(place.iterdir()) if path.name.lower() == CHANNELS_FILE), None)
    channels, coordinates, modules = (first, None, None) if described is None else _read_channels(described, first)
    remarks = (*_remarks(place, files, reordered, first), *_unused_lines(described, channels))
    return Recordings(tuple(series), tuple(stems), channels, coordinates, modules, remarks=remarks)


def _remarks(place: Path, files: Sequence[Path], reordered: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Sentences on names that are numbers, on channels in another order, on files not read and without a subject."""
    said = list[str]()
    if _are_counted(names):
        said.append(f"The numbers {names[0]} to {names[-1]} of the first line are read as names of the channels.")
    if reordered:
        order = f"whose order differs from that of {files[0].name}"
        said.append(f"Aligned by name: the channels of {_listed(reordered)}, {order}.")
    if unread := sorted(path.name for path in place.iterdir() if path.suffix.lower() in UNREAD):
        said.append(f"Not read: {_listed(unread)}. A recording of a folder is a .csv or a .parquet.")
    stems = [path.stem for path in files]
    return (*said, *own_subjects_note(stems, without_subject(stems), "begin their names with sub-LABEL_", "file"))


def _check_clock(path: Path, names: tuple[str, ...], numbers: np.ndarray) -> None:
    """Raise ValueError where a column counts the times instead of recording something."""
    for place, values in enumerate(numbers):
        column = values[~np.isnan(values)]
        named = bool(names) and WORD.split(names[place].strip().lower())[0] in TIMES
        steps = np.diff(column)
        rises = len(column) > SHORTEST_CLOCK and bool((steps >= 0 if named else steps > 0).all() and steps.any())
        if not rises or not (named or place == 0 or (steps == steps[0]).all()):
            continue
        name = f" {names[place]!r}," if names else ""
        where = "the first column" if place == 0 else f"column {place + 1}"
        remedy = "Leave it out."
        if not named and place == 0:
            remedy = "Leave it out, or put another column first if it is a channel."
        raise ValueError(
            f"{where} of {path.name}{',' if name else ''}{name} rises at every time, so it is a clock and no channel. "
            f"{remedy}"
        )


def _in_order(
    path: Path, names: tuple[str, ...], numbers: np.ndarray, other: Path, others: tuple[str, ...]
) -> tuple[np.ndarray, bool]:
    """The numbers of a table in the order of the channels of another one, and True if its own order differs.

    Raises ValueError if one of the tables has channels that the other lacks.
    """
    if names == others or not names or not others:
        return numbers, False
    for table in (names, others):
        if twice := [name for name in table if table.count(name) > 1]:
            raise ValueError(f"{path.name} or {other.name} has the channel {twice[0]!r} twice. Give each its own name.")
    more, fewer = [name for name in names if name not in others], [name for name in others if name not in names]
    if more or fewer:
        differences = [f"{_listed(more)} is only in {path.name}"] if more else []
        differences += [f"{_listed(fewer)} is only in {other.name}"] if fewer else []
        raise ValueError(
            f"all recordings need the same channels, in any order; {' and '.join(differences)}. Rename them, or leave "
            "them out."
        )
    return numbers[[names.index(name) for name in others]], True


def _refuse_mixed_names(path: Path, names: tuple[str, ...], other: Path, others: tuple[str, ...]) -> None:
    """Raise ValueError if one of two tables names its channels and the other does not: their order may differ."""
    if bool(names) != bool(others):
        named, bare = (path, other) if names else (other, path)
        raise ValueError(
            f"{named.name} names its channels in the first line, and {bare.name} does not, so their order may differ. "
            f"Write the names into {bare.name} too, or leave them out of every table."
        )


def _unused_lines(path: Path | None, channels: Sequence[str]) -> tuple[str, ...]:
    """Sentence on lines of ``channels.csv`` whose channel no table has; none without them."""
    if path is None:
        return ()
    names, *rows = _csv_rows(path)
    column = [name.strip().lower() for name in names].index("channel")
    unused = [row[column].strip() for row in rows if row[column].strip() not in channels]
    return (f"Not used: the lines of {path.name} of {_listed(unused)}, which no table has.",) if unused else ()


def _listed(names: Sequence[str]) -> str:
    """The first three names, and the number of the others."""
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _store_on_disk(numbers: np.ndarray, folder: Path) -> np.ndarray:
    file = memory_mapped_zeros(folder, numbers.shape, numbers.dtype)
    file[:] = numbers
    return file


def _read_csv(path: Path) -> Table:
    rows = _csv_rows(path)
    names = tuple(cell.strip() for cell in rows[0]) if _are_names(rows[0]) else ()
    if names and len(rows) == 1:
        raise ValueError(f"{path.name} has a line of names and no times. Each further line is one time.")
    require_reading(8 * (len(rows) - bool(names)) * len(rows[0]), path, SMALLER)  # lines may be empty cells
    numbers = np.empty((len(rows) - bool(names), len(rows[0])))
    for row, cells in enumerate(rows[bool(names) :]):
        line = row + 1 + bool(names)
        if len(cells) != len(rows[0]):  # numpy would copy a single cell into every column
            raise ValueError(
                f"{path.name}, line {line}: {len(cells)} columns stand where the first line has {len(rows[0])}."
            )
        try:
            if NO_NUMBER.search("".join(cells)):
                raise ValueError("numpy would read 1_000 as a number")
            numbers[row] = cells
        except ValueError:
            _check_cells(path, line, cells, names)
            numbers[row] = [cell.strip() or "nan" for cell in cells]
    return names, np.ascontiguousarray(numbers.T)


def _csv_rows(path: Path) -> list[list[str]]:
    """Cells of every line that is not empty."""
    lines = read_text(path, CSV_MEMORY, "a .csv of comma-separated text").splitlines()
    first = lines[0] if lines else ""
    rows = [row for _, row in csv_rows(lines, path, max(",;\t", key=first.count))]
    if not rows:
        raise ValueError(f"{path.name} is empty. A table has one line per time and one column per channel.")
    return rows


def _are_names(cells: list[str]) -> bool:
    """True if a cell of the first line is no number, or if its cells count from 0 or 1, as columns without names do.

    Words for a missing value beside numbers are no names: it is a line of numbers, which names the cell to mend.
    """
    counted = [cell.strip() for cell in (cells[1:] if not cells[0].strip() else cells)]
    words = [cell for cell in cells if not _is_number(cell)]
    missing = len(words) < len(cells) and all(word.strip().lower() in MISSING for word in words)
    return _are_counted(counted) or bool(words and not missing)


def _are_counted(cells: Sequence[str]) -> bool:
    """True for the numbers from 0 or 1 that stand for names of columns."""
    counts = ([str(number + first) for number in range(len(cells))] for first in (0, 1))
    return len(cells) >= FEWEST_NUMBERED and list(cells) in counts


def _is_number(cell: str) -> bool:
    """True for a cell that is a number, or empty, which is a missing number."""
    try:
        number(cell.strip() or "nan")
    except ValueError:
        return False
    return True


def _check_cells(path: Path, line: int, cells: list[str], names: tuple[str, ...]) -> None:
    for place, cell in enumerate(cells):
        if not _is_number(cell):
            column = repr(names[place]) if names else str(place + 1)
            remedy = "Columns are channels; leave out dates, labels and the like."
            if _is_number(cell.replace(",", ".", 1)) or _is_number(cell.partition(";")[0]):
                remedy = "Write decimals with a point."
            raise ValueError(f"{path.name}, line {line}: {cell!r} in column {column} is not a number. {remedy}")


def _read_parquet(path: Path) -> Table:
    try:
        import duckdb
    except ImportError:
        raise ValueError("Parquet needs duckdb: pip install posenc[analysis]") from None
    require_file(path, "a table")
    plain = re.sub(r"([\[*?])", r"[\1]", str(path.absolute()))  # DuckDB takes these characters as patterns
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        try:
            table = connection.read_parquet(plain)
            rows = connection.execute("SELECT num_rows FROM parquet_file_metadata(?)", [plain]).fetchall()[0][0]
            needed = PARQUET_MEMORY * int(rows) * len(table.columns)
            require_memory(needed, f"reading {path}", "Write the recordings as one .npz by numpy.savez.")
            columns: dict[str, Any] = table.fetchnumpy()
        except (duckdb.Error, RuntimeError, UnicodeError) as error:  # the last two: names that are not UTF-8
            raise ValueError(f"{path} cannot be read ({short(error)}). Write it again.") from error
    if not columns or not len(next(iter(columns.values()))):
        raise ValueError(f"{path.name} has no numbers. A table has one line per time and one column per channel.")
    for name, column in columns.items():
        if column.dtype.kind not in "iuf":
            raise ValueError(
                f"{path.name} has {column.dtype} in column {name!r}, which is not a number. Columns are channels; "
                "leave out dates, labels and the like."
            )
    return tuple(columns), np.stack([np.ma.filled(column.astype(np.float64), np.nan) for column in columns.values()])


READERS: Mapping[str, Callable[[Path], Table]] = {".csv": _read_csv, ".parquet": _read_parquet}


def _read_channels(
    path: Path, channels: tuple[str, ...]
) -> tuple[tuple[str, ...], np.ndarray | None, tuple[str, ...] | None]:
    """Names of the channels, their coordinates and their modules, as far as the file has them."""
    names, *rows = _csv_rows(path)
    names = [name.strip().lower() for name in names]
    if "channel" not in names or any(len(row) != len(names) for row in rows):
        raise ValueError(f"{path.name} needs a column 'channel' and, in every line, as many cells as in the first.")
    listed = [row[names.index("channel")].strip() for row in rows]
    if twice := [channel for channel in listed if listed.count(channel) > 1]:
        raise ValueError(f"{path.name} has two lines of the channel {twice[0]!r}. Keep one line of each channel.")
    table = {channel: dict(zip(names, row, strict=True)) for channel, row in zip(listed, rows, strict=True)}
    channels = channels or tuple(table)
    if missing := [channel for channel in channels if channel not in table]:
        raise ValueError(f"{path.name} has no line of the channel {missing[0]!r}. Each channel needs one.")
    axes = [axis for axis in AXES if axis in names]
    for channel in channels:
        if bad := [axis for axis in axes if not _is_number(table[channel][axis])]:
            raise ValueError(
                f"{path.name}: {bad[0]} of the channel {channel!r} is not a number: {table[channel][bad[0]]!r}."
            )
    places = [[number(table[channel][axis].strip() or "nan") for axis in axes] for channel in channels]
    modules = tuple(table[channel]["module"].strip() for channel in channels) if "module" in names else None
    return channels, (np.array(places) if axes else None), modules
