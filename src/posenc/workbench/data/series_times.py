"""Times of a table of series: ISO strings, or numbers that count a unit; in seconds, in float64."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from posenc.frequencies import LENGTHS
from posenc.timestamps import times
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.reading_options import TimeUnit
from posenc.workbench.files.user_files import UserFileError, number, short

MISSING = frozenset({"", "na", "nan", "n/a", "null", "none", "nat", "?"})
"""Cells without a value, in lower case."""
COMPACT_DATE = re.compile(r"(?:1[6-9]|20|21)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
"""A date of eight digits, as 20240301. A column of such times alone is dates, for numbers need a unit."""
LATEST = 8_000 * LENGTHS["year"]
"""Most seconds that times in seconds to months count; more are milliseconds or dates that were taken for numbers."""


def read_times(
    cells: Sequence[str], at: Callable[[int], str], unit: TimeUnit | None
) -> tuple[NDArray[np.float64], list[str]]:
    """Read the times of the rows of a table.

    Args:
        cells: One cell for each row.
        at: Place of a row in a message.
        unit: Unit of times that are numbers; None for dates.

    Returns:
        Seconds ``(T,)`` since 1970 in UTC, or since the origin of the numbers, NaN for a row without a time; and
        sentences on what was left out or converted.

    Raises:
        UserFileError: A time cannot be read, some times have a zone and others none, or numbers have no unit.
    """
    stripped = [cell.strip() for cell in cells]
    held = [row for row, cell in enumerate(stripped) if cell.lower() not in MISSING]
    if not held:
        raise UserFileError(f"{at(0)} and all others have no time. Name the column with the times: --time NAME")
    seconds, notes = np.full(len(cells), np.nan), list[str]()
    if len(held) < len(cells):
        first = next(row for row, cell in enumerate(stripped) if cell.lower() in MISSING)
        notes.append(
            f"Left out: {count_of(len(cells) - len(held), 'readings')} without a time; the first is {at(first)}."
        )
    if all(COMPACT_DATE.fullmatch(stripped[row]) for row in held):
        if unit is not None:
            raise UserFileError(
                f"{at(held[0])} has the time {stripped[held[0]]}, which is a date and no count of {unit}s. Leave "
                "--unit out."
            )
        notes.append(f"{stripped[held[0]]} and the other times are read as dates: year, month, day.")
        stripped = [f"{cell[:4]}-{cell[4:6]}-{cell[6:]}" if cell else cell for cell in stripped]
    if is_number(stripped[held[0]]):
        seconds[held] = _counted([(row, stripped[row]) for row in held], at, unit)
        return seconds, notes
    if unit is not None:
        raise UserFileError(f"{at(held[0])} has the time {stripped[held[0]]!r}, which has no unit. Leave --unit out.")
    stamps = [stripped[row] for row in held]
    offsets = _offsets(held, stamps, at)
    try:
        seconds[held] = times(stamps).coords[:, 0].numpy()
    except ValueError as error:
        raise UserFileError(f"{at(held[0])} and following: {short(error, 300)}") from None
    if len(offsets) > 1:
        listed = ", ".join(sorted(map(str, offsets)))
        notes.append(f"Times have {len(offsets)} offsets from UTC ({listed}) and are compared in UTC.")
    return seconds, notes


def _offsets(rows: Sequence[int], stamps: Sequence[str], at: Callable[[int], str]) -> set[str]:
    """Offsets of the times from UTC. Raises UserFileError for a time that is none, or if some have no zone."""
    first: dict[bool, int] = {}
    offsets = set[str]()
    for row, stamp in zip(rows, stamps, strict=True):
        try:
            zone = datetime.fromisoformat(stamp).strftime("%z")
        except ValueError:
            raise UserFileError(
                f"{at(row)}: {short(stamp, 40)!r} is not a time in ISO form, as 2024-03-01 or 2024-03-01T12:00+01:00. "
                "Write it so, or name another column: --time NAME"
            ) from None
        first.setdefault(bool(zone), row)
        offsets.add(zone)
    if len(first) == 2:
        raise UserFileError(
            f"{at(first[True])} has a zone, and {at(first[False]).rpartition(', ')[2]} has none. Give all times a "
            "zone, as +00:00 for UTC, or none."
        )
    return offsets


def _counted(cells: Sequence[tuple[int, str]], at: Callable[[int], str], unit: TimeUnit | None) -> NDArray[np.float64]:
    """Numbers in units as seconds."""
    if unit is None:
        raise UserFileError(
            f"{at(cells[0][0])}: the time {cells[0][1]!r} is a number. State what it counts: --unit second, --unit day"
        )
    counts = []
    for row, cell in cells:
        try:
            counts.append(number(cell))
        except ValueError:
            raise UserFileError(f"{at(row)}: {short(cell, 40)!r} is not a number, as the other times are.") from None
        if not np.isfinite(counts[-1]):
            raise UserFileError(f"{at(row)}: the time {cell} is infinite. Leave the line out.")
    seconds = np.array(counts) * LENGTHS[unit]
    if unit != "year" and np.abs(seconds).max() > LATEST:
        row, cell = cells[int(np.abs(seconds).argmax())]
        raise UserFileError(
            f"{at(row)}: {cell} {unit}s are more than 8,000 years. State the unit that the times count, or change "
            "them: milliseconds divided by 1000 are seconds, and a date is written as 2024-03-01."
        )
    return seconds


def is_number(cell: str) -> bool:
    """True for a cell with a number."""
    try:
        number(cell)
    except ValueError:
        return False
    return True
