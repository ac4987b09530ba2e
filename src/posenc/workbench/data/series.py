"""Time series of a user: the readings of a table, one series or many, long or wide.

A long table has a column with the name of the series. A wide table has one column for each series. Gaps and irregular
steps stay as they are, and a missing value stays missing.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.coordinate_names import LATITUDES, LONGITUDES
from posenc.frequencies import LENGTHS
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.missing_codes import code_sentences
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series_times import is_number, read_times
from posenc.workbench.data.table_cells import (
    TIME_NAMES,
    Cells,
    TableNoun,
    has_numbers,
    is_row_number,
    numbers_of,
    refuse_missing_header,
    refuse_repeated_names,
)
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import UserFileError, number

ID_NAMES = ("unique_id", "series_id", "item_id", "series", "id", "site", "station")
TARGET_NAMES = ("target", "y", "value", "ot")
"""Names by which columns are found, in lower case, the first one first."""
GROUP_NAMES = (
    "sensor",
    "sensor_id",
    "device",
    "device_id",
    "meter",
    "meter_id",
    "store",
    "store_id",
    "shop",
    "location",
    "location_id",
    "station_id",
    "site_id",
    "city",
    "region",
    "country",
    "symbol",
    "ticker",
)
"""Further names of a column with the names of the series, where names repeat."""
CALENDAR_NAMES = ("year", "quarter", "month", "week", "day", "weekday", "dayofweek", "hour", "minute", "second")
"""Names of columns that follow from the time, and are no values to forecast unless they are stated."""
NOUN = TableNoun(
    "a table of series",
    "reading",
    "A table of series has a header and a line for each reading: date,value",
    "A table of series has times and values in rows.",
)
LEAST_READINGS = 3
SUNDAY, CLOCKS_ARE_SET = 7, 4
"""Weekday on which clocks are set back, and an hour by which they have been."""
EPOCH = datetime(1970, 1, 1)
NAMED = 5
"""Series that are left out and named; the others are counted."""


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """Readings of one series.

    Attributes:
        name: Name of the series.
        times: ``(T,)`` seconds since 1970, or since the origin of the numbers; rising.
        values: ``(T,)`` readings, NaN where missing.
    """

    name: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def present(self) -> Series:
        """The readings that have a value."""
        held = np.isfinite(self.values)
        return Series(self.name, self.times[held], self.values[held])


@dataclasses.dataclass(frozen=True, eq=False)
class SeriesTable:
    """Time series of a table.

    Attributes:
        form: Form of the file.
        series: The series, in the order of the table.
        options: Columns of time, series and values, for the record.
        left_out: Sentences on what was found by name, sorted or left out.
        columns: Names of all columns.
    """

    form: str
    series: tuple[Series, ...]
    options: Mapping[str, Any]
    left_out: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


class Columns(NamedTuple):
    """Names of the columns of time, series and values.

    Attributes:
        time: Column of the times.
        series: Column of the names of the series; "" for a wide table.
        targets: Columns of the values.
        other: Columns that are not read.
    """

    time: str
    series: str
    targets: tuple[str, ...]
    other: tuple[str, ...]


def has_times(names: Sequence[str]) -> bool:
    """True if a column of these names holds the times of a table of series."""
    return any(name.strip().lower() in TIME_NAMES for name in names)


def series_of(cells: Cells, options: ReadingOptions) -> SeriesTable:
    """Make the series of a table.

    Args:
        cells: The cells.
        options: Columns of time, series and values, and the unit of times that are numbers; None for those that their
            names show.

    Returns:
        The series, each sorted by time.

    Raises:
        UserFileError: A column is missing or named twice, a time or value cannot be read, a series has two values at
            one time, or no series is left.
    """
    columns = find_columns(cells, options)
    times, notes = read_times(cells.column(columns.time), cells.at, options.unit)
    notes = [*_found(columns, options, cells), *cells.notes, *notes]
    named = cells.column(columns.series) if columns.series else ()
    rows_of: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isfinite(times)).tolist():
        rows_of.setdefault(named[row].strip() if columns.series else "", []).append(row)
    values = {target: numbers_of(cells, target, "target") for target in columns.targets}
    made, unusable, disorder, doubled = list[Series](), list[str](), list[int](), list[int]()
    for name, rows in rows_of.items():
        order = _sorted_rows(cells, times, np.array(rows), values, name, (disorder, doubled))
        for target in columns.targets:
            label = " / ".join(filter(None, (name, target if len(columns.targets) > 1 or not name else "")))
            series = Series(label, times[order], values[target][order])
            reason = _fault(series)
            made += [] if reason else [series]
            unusable += [f"{label}: {reason}"] if reason else []
    notes += [*code_sentences(values), *_row_notes(cells, disorder, doubled), *_left_out(unusable)]
    if not made:
        several = f"each of {len(unusable):,} series" if len(unusable) > 1 else "its series"
        raise UserFileError(
            f"{cells.path} has no series to forecast, because {several} is unusable, such as {unusable[0]}. A series "
            "has many rows at different times; --id COLUMN names the column that tells series apart"
        )
    if missing := sum(int((~np.isfinite(each.values)).sum()) for each in made):
        notes.append(f"Missing values stay missing, and are neither read nor scored: {missing:,}.")
    stated = {"time": columns.time, "id": columns.series, "target": ",".join(columns.targets), "unit": options.unit}
    chosen = {name: value for name, value in stated.items() if value}
    return SeriesTable(cells.form, tuple(made), chosen, tuple(notes), cells.names)


def find_columns(cells: Cells, options: ReadingOptions) -> Columns:
    """Find the columns of a table of series, by the options or by their names.

    Args:
        cells: The cells.
        options: The stated columns.

    Returns:
        The columns.

    Raises:
        UserFileError: One is missing, is named twice, or holds no numbers.
    """
    path, names = cells.path, cells.names
    refuse_repeated_names(cells.path, cells.names)
    lower = {name.strip().lower(): name for name in reversed(names)}

    def by_name(known: Sequence[str]) -> str:
        return next((lower[name] for name in known if name in lower), "")

    time = by_name(TIME_NAMES) if options.time is None else cells.stated("time", options.time)
    if not time:
        refuse_missing_header(cells)
        raise UserFileError(
            f"{path} has no column named {', '.join(TIME_NAMES)}. Name the one with the times: --time {names[0]}"
        )
    repeating = [name for name in GROUP_NAMES if name in lower and _repeats(cells.column(lower[name]))]
    series = by_name([name for name in (*ID_NAMES, *repeating) if lower.get(name) != time])
    series = series if options.id is None else cells.stated("id", options.id)
    number = series if options.id is None and series and _counts_rows(cells.column(series)) else ""
    series = "" if number else series
    others = [name for name in names if name not in (time, series, number)]
    if options.target is not None:
        whole = options.target in names
        asked = [options.target] if whole else [each.strip() for each in options.target.split(",")]
        targets = [cells.stated("target", each) for each in asked]
        if clash := next((each for each in targets if each in (time, series)), ""):
            raise UserFileError(f"{path}: --target {clash} is the column of the times or the names. Name another.")
    else:
        usual = next((lower[name] for name in TARGET_NAMES if lower.get(name) in others), "")
        targets = [usual] if usual else _values(others, cells)
    if not targets:
        mostly = next((name for name in others if sum(map(is_number, cells.column(name))) > len(cells.lines) / 2), "")
        if mostly:
            numbers_of(cells, mostly, "target")  # raises for the first cell that is no number
        raise UserFileError(f"{path} has no column of numbers beside {time}. Name the values: --target NAME")
    used = {time, *targets, *([series] if series else [])}
    not_read = tuple(name for name in names if name not in used)
    return Columns(time, series, tuple(dict.fromkeys(targets)), not_read)


def _values(names: Sequence[str], cells: Cells) -> list[str]:
    """Columns of numbers; row numbers, coordinates and parts of the time only if there are no others."""
    numeric = [name for name in names if has_numbers(cells.column(name))]
    measured = [name for name in numeric if not is_row_number(name, cells.column(name))]
    apart = (*LONGITUDES, *LATITUDES, *CALENDAR_NAMES)
    return [name for name in measured if name.strip().lower() not in apart] or measured or numeric


def _repeats(column: Sequence[str]) -> bool:
    """True if each name of a column has enough rows for a series, and there are several names."""
    counts = Counter(cell.strip() for cell in column)
    return len(counts) > 1 and min(counts.values()) >= LEAST_READINGS


def _counts_rows(column: Sequence[str]) -> bool:
    """True for a column that counts the rows, so that it names no series."""
    if len(column) < 2 or not all(map(is_number, column)):
        return False
    return bool((np.diff([number(cell.strip()) for cell in column]) == 1).all())


def span_phrase(series: Series) -> str:
    """Describe the readings of a series: "1,461 readings, 4 years, a reading every 1 day".

    Args:
        series: The series.

    Returns:
        The phrase.
    """
    times, missing = series.times, int((~np.isfinite(series.values)).sum())
    gaps = np.diff(times)
    steps = dict.fromkeys(time_phrase(float(gap)) for gap in (gaps.min(), np.median(gaps), gaps.max()))
    without = f", {missing:,} of them missing" if missing else ""
    every = " to ".join([next(iter(steps)), *list(steps)[1:][-1:]])
    return f"{len(times):,} readings{without}, over {time_phrase(float(np.ptp(times)))}, a step of {every}"


def time_phrase(seconds: float) -> str:
    """Time in words with two digits: "1.5 days".

    Args:
        seconds: The time.

    Returns:
        The words.
    """
    rounded = seconds * (1 + 1e-9)  # a period of 1 day from a stored frequency is a little less than 86,400 s
    unit = next((each for each in ("year", "day", "hour", "minute") if rounded >= LENGTHS[each]), "second")
    text = f"{seconds / LENGTHS[unit]:.3g}"
    return f"{text} {unit}{'' if text == '1' else 's'}"


def series_record(table: SeriesTable, path: Path) -> DatasetRecord:
    """Record of the series of a table, without a digest.

    Args:
        table: The series.
        path: The file.

    Returns:
        The record.
    """
    counts = {"series": len(table.series), "readings": sum(len(each.present.times) for each in table.series)}
    part = Part(name="all", counts=counts)
    options = {"form": table.form, **table.options}
    return DatasetRecord(
        kind="series", name=path.name, digest="", parts=(part,), options=options, left_out=table.left_out, own=True
    )


def _found(columns: Columns, options: ReadingOptions, cells: Cells) -> list[str]:
    """Sentences on the columns that were found by name, and on those that are not read."""
    found = [f"times in {columns.time}"] if options.time is None else []
    found += [f"names of the series in {columns.series}"] if options.id is None and columns.series else []
    found += [f"values in {', '.join(columns.targets)}"] if options.target is None else []
    sentence = [f"Found by name: {'; '.join(found)}."] if found else []
    some = "s" * (len(columns.other) > 1)
    unread = ", ".join(name or "without a name" for name in columns.other)
    apart = [name for name in columns.other if not has_numbers(cells.column(name)) and _repeats(cells.column(name))]
    hint = f" If it tells series apart: --id {apart[0]}" if apart and not columns.series else ""
    return sentence + ([f"Not read: the column{some} {unread}.{hint}"] if columns.other else [])


def _sorted_rows(
    cells: Cells,
    times: NDArray[np.float64],
    rows: NDArray[np.int64],
    values: Mapping[str, NDArray[np.float64]],
    name: str,
    counted: tuple[list[int], list[int]],
) -> NDArray[np.int64]:
    """Rows of a series by time, without repeated readings; adds those out of order and repeated ones to ``counted``."""
    disorder, doubled = counted
    disorder += rows[1:][np.diff(times[rows]) < 0].tolist()
    order = rows[np.argsort(times[rows], kind="stable")]
    again = np.flatnonzero(np.diff(times[order]) == 0)
    for at in again.tolist():
        first, second = int(order[at]), int(order[at + 1])
        if any(not np.array_equal(each[first], each[second], equal_nan=True) for each in values.values()):
            of = f" of the series {name}" if name else ""
            raise UserFileError(
                f"{cells.at(second)} has the time of {cells.noun} {cells.lines[first]}{of} and another value. Keep one "
                "reading for each time, or name the column of the series: --id NAME."
                f"{_clock_hint(float(times[second]))}"
            )
        doubled.append(second)
    return np.delete(order, again + 1)


def _clock_hint(seconds: float) -> str:
    """Remedy for two readings at a time at which clocks are set back, a Sunday before 4 o'clock; "" for others."""
    time = EPOCH + timedelta(seconds=seconds)
    if time.isoweekday() != SUNDAY or time.hour >= CLOCKS_ARE_SET:
        return ""
    return (
        f" If clocks were set back in this hour, give all times their offset from UTC, as {time:%Y-%m-%dT%H:%M}+02:00 "
        "and then +01:00."
    )


def _fault(series: Series) -> str:
    """Reason for leaving a series out; "" for none."""
    values = series.present.values
    if not len(values):
        return "all its values are missing"
    if len(values) < LEAST_READINGS:
        return f"it has {len(values)} reading{'s' * (len(values) > 1)}, and {LEAST_READINGS} are needed"
    return f"it has the value {values[0]:g} at all times" if np.ptp(values) == 0 else ""


def _row_notes(cells: Cells, disorder: Sequence[int], doubled: Sequence[int]) -> list[str]:
    notes = []
    if disorder:
        first = cells.lines[min(disorder)]
        notes.append(f"Sorted by time: {_readings(len(disorder))} stood too late, first in {cells.noun} {first}.")
    if doubled:
        first = cells.lines[min(doubled)]
        notes.append(f"Left out: {_readings(len(doubled), 'repeated ')}, first in {cells.noun} {first}.")
    return notes


def _readings(count: int, kind: str = "") -> str:
    return count_of(count, f"{kind}readings")


def _left_out(unusable: Sequence[str]) -> list[str]:
    named = [f"Left out: the series {each}." for each in unusable[:NAMED]]
    more = len(unusable) - NAMED
    return [*named, f"Left out: {more:,} more series."] if more > 0 else named
