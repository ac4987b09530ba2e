"""Places of a user: rows of a table with coordinates, features and a target, and sentences on what needs care."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.class_names import case_sentences, refuse_equal_numbers
from posenc.workbench.data.missing_codes import code_sentences, place_sentences
from posenc.workbench.data.place_coordinates import Coordinates, Geometry, find_coordinates, listed
from posenc.workbench.data.place_features import Features, read_features
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.series_times import MISSING, is_number, read_times
from posenc.workbench.data.table_cells import (
    TIME_NAMES,
    Cells,
    TableNoun,
    has_numbers,
    is_row_number,
    missing_words,
    numbers_of,
    refuse_repeated_names,
)
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import UserFileError

NOUN = TableNoun(
    "a table of places",
    "row",
    "A table of places has a header and a line for each place: longitude,latitude,price",
    "A table of places has coordinates and a target in rows.",
)
OPTIONS: tuple[str, ...] = ("coordinates", "geometry", "target", "features", "time", "groups", "unit")
"""Names of the reading options."""
MOST_CELLS = 2_000_000
"""Number of cells that are read of a large table: 400,000 rows of five columns."""
LEAST_ROWS = 50
"""Fewest rows with coordinates and a target: five folds, each with a part that chooses the step."""
MOST_CLASSES = 100
MOST_NUMBERED = 10
"""Most different whole numbers of a target that may be numbers of classes."""
ARRAYS = ("coords", "numeric", "codes", "targets", "times", "groups", "lines")
"""Fields of a table with one entry per row."""
CUT_SHARE, CUT_FACTOR = 0.005, 5
"""Targets look cut at their maximum if this share of the rows has it, and so many times more than the largest other."""


@dataclasses.dataclass(frozen=True, eq=False)
class PlaceTable:
    """Places of a table, one a row.

    Attributes:
        form: Form of the file.
        geometry: Kind of the coordinates.
        names: Names of the columns of coordinates.
        coords: Coordinates ``(N, P)``; longitude and latitude in degrees on a sphere.
        numeric: Numbers ``(N, F)``, NaN where missing.
        numeric_names: Their names.
        codes: Numbers of categories ``(N, C)``, -1 where missing.
        categories: Name of each column of categories with the names of its categories.
        targets: Values ``(N,)``, or class numbers.
        classes: Names of the classes; empty for values.
        times: Seconds ``(N,)`` since 1970; empty without a column of times.
        groups: Number ``(N,)`` of the group of each row; empty without groups.
        options: Columns and other options, for the record.
        left_out: Sentences on what was found, left out or needs care.
        lines: Further coordinates ``(N, L)``, each of its own unit, which are among the numbers too; empty without any.
    """

    form: str
    geometry: Geometry
    names: tuple[str, ...]
    coords: NDArray[np.float64]
    numeric: NDArray[np.float64]
    numeric_names: tuple[str, ...]
    codes: NDArray[np.int64]
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    targets: NDArray[Any]
    classes: tuple[str, ...] = ()
    times: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(0))
    groups: NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    lines: NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def further(self) -> NDArray[np.float64]:
        """Axes of a row beside its place ``(N, L)``: further coordinates, then the time."""
        parts = [each for each in (self.lines, self.times[:, None]) if len(each)]
        return np.concatenate([np.zeros((len(self), 0)), *parts], 1)

    def __len__(self) -> int:
        return len(self.coords)

    def rows(self, chosen: NDArray[np.int64]) -> PlaceTable:
        """Some rows of the table, by their numbers."""
        held = {name: getattr(self, name) for name in ARRAYS}
        return dataclasses.replace(self, **{name: each[chosen] for name, each in held.items() if len(each)})


def places_of(cells: Cells, options: ReadingOptions) -> PlaceTable:
    """Make the places of a table.

    Args:
        cells: The cells.
        options: The reading options of places.

    Returns:
        The places. Rows without a coordinate, a target, a time or a group are left out.

    Raises:
        UserFileError: Coordinates or target are missing, constant or of a wrong kind, or fewer than 50 rows are left.
    """
    refuse_repeated_names(cells.path, cells.names)
    found = find_coordinates(cells, options)
    coordinates = (*found.names, *found.further_names)
    target, said = target_name(cells, coordinates, options)
    special = {name: cells.stated(name, value) for name, value in (("time", options.time), ("groups", options.groups))
               if value is not None}  # fmt: skip
    if clash := next((name for name in special.values() if name in (*coordinates, target)), ""):
        raise UserFileError(f"{cells.path}: the column {clash} is a coordinate or the target too. Name another.")
    texts = [cell.strip() for cell in cells.column(target)]
    held = (
        np.isfinite(found.values).all(1)
        & np.isfinite(found.further).all(1)
        & np.array([text.lower() not in MISSING for text in texts])
    )
    times, notes = np.zeros(0), [*found.notes, *cells.notes, *said]
    if cells.of:
        notes.append(f"Read: {len(texts):,} of {cells.of:,} rows, drawn at random, because the table is large.")
    if "time" in special:
        times, more = read_times(cells.column(special["time"]), cells.at, options.unit)
        held &= np.isfinite(times)
        notes += more
    if "groups" in special:
        held &= np.array([cell.strip().lower() not in MISSING for cell in cells.column(special["groups"])])
    rows = np.flatnonzero(held)
    notes += _left_out(len(texts) - len(rows), target, texts)
    if len(rows) < LEAST_ROWS:
        raise UserFileError(
            f"{cells.path} has {len(rows)} rows with coordinates and {target}, and five folds need {LEAST_ROWS}. Give "
            "more rows."
        )
    targets, classes, more = _targets(cells, target, texts, rows)
    features = read_features(cells, options, (*coordinates, target, *special.values()), rows)
    if found.further_names:  # Every model reads further axes as columns, as it does the time.
        numbers = np.concatenate([found.further[rows], features.numeric], 1)
        features = features._replace(numeric=numbers, numeric_names=(*found.further_names, *features.numeric_names))
    groups = np.zeros(0, np.int64)
    if "groups" in special:
        named = np.array([cell.strip() for cell in cells.column(special["groups"])])[rows]
        groups = np.unique(named, return_inverse=True)[1].astype(np.int64)
    coords = found.values[rows]
    _refuse_one_place(cells, found, coords, times)
    notes += [*more, *features.notes, *shared_places(coords), *place_sentences(found.names, coords)]
    stated = _stated(found, target, features, options) | special
    return PlaceTable(
        cells.form, found.geometry, found.names, coords, features.numeric, features.numeric_names, features.codes,
        features.categories, targets, classes, times[rows] if len(times) else times, groups, stated, tuple(notes),
        found.further[rows] if found.further_names else np.zeros((0, 0)),
    )  # fmt: skip


def _stated(found: Coordinates, target: str, features: Features, options: ReadingOptions) -> dict[str, Any]:
    """Options of a record: the columns that were read, and those options that the user states."""
    made = {"coordinates": ",".join((*found.names, *found.further_names)), "geometry": found.geometry, "target": target}
    named = [*features.numeric_names, *(name for name, _ in features.categories)]
    made["features"] = options.features if options.features is not None else ",".join(named) or "none"
    return made | ({"unit": options.unit} if options.unit else {})


def target_name(cells: Cells, coordinates: tuple[str, ...], options: ReadingOptions) -> tuple[str, list[str]]:
    """Name of the column to predict, and a sentence if it is not stated.

    Args:
        cells: The cells.
        coordinates: Names of the coordinates.
        options: The reading options. Without "target" it is the only column of numbers that has no other use.

    Returns:
        The name and the sentences.

    Raises:
        UserFileError: It is not stated and there are several such columns or none; or it is a coordinate, or empty.
    """
    if options.target is not None:
        name = cells.stated("target", options.target)
        if name in coordinates:
            raise UserFileError(f"{cells.path}: --target {name} is a coordinate. Name another column.")
        if all(cell.strip().lower() in MISSING for cell in cells.column(name)):
            raise UserFileError(f"{cells.path}: the target {name} is empty in all rows. Name another column.")
        return name, []
    others = [name for name in cells.names if name not in coordinates]
    if not others:
        raise UserFileError(f"{cells.path} has coordinates alone, and a target to predict is needed. Add a column.")
    stated = listed(options.features, cells.names) if options.features else []
    used = {options.time, options.groups, *stated}
    numeric = [name for name in others if name not in used and is_possible_target(cells.column(name), name)]
    if len(numeric) == 1:
        return numeric[0], [f"Target: {numeric[0]}, the only other column of numbers. Another one: --target NAME."]
    varied = [name for name in others if len(set(cells.column(name)) - {""}) > 1]
    if not varied:
        raise UserFileError(
            f"{cells.path} has no column to predict, because all rows are empty or have the same value: "
            f"{', '.join(others[:12])}. Add a column with different values."
        )
    example = numeric[-1] if numeric else varied[-1]
    raise UserFileError(
        f"{cells.path} has the columns {', '.join(others[:12])}. Name the one to predict: --target {example}"
    )


def is_possible_target(column: Sequence[str], name: str) -> bool:
    """True for a column of numbers that may be a target unless it is stated: no time, no constant, no count of rows.

    Args:
        column: Cells of the column.
        name: Its name.

    Returns:
        True if it may be one.
    """
    if name.strip().lower() in TIME_NAMES or not has_numbers(column):
        return False
    held = {cell.strip() for cell in column if cell.strip().lower() not in MISSING}
    return len(held) > 1 and not is_row_number(name, column)


def _left_out(lacking: int, target: str, texts: list[str]) -> list[str]:
    """Sentences on rows that are left out, and on words of the target that are read as missing."""
    if not lacking:
        return []
    rows = f"Left out: {count_of(lacking, 'rows')} without a coordinate, target, time or group."
    return [rows, *missing_words(target, texts)]


def _targets(
    cells: Cells, name: str, texts: list[str], rows: NDArray[np.int64]
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """Values, or class numbers with the names of the classes, and sentences."""
    held = Counter(texts[row] for row in rows.tolist())
    if len(held) < 2:
        raise UserFileError(f"{cells.path}: the target {name} is {next(iter(held))} in all rows. Name another column.")
    if has_numbers(cells.column(name)) and len(held) > 2:
        values = numbers_of(cells, name, "target")[rows]
        if np.ptp(values) == 0:
            raise UserFileError(f"{cells.path}: the target {name} is {values[0]:g} in all rows. Name another column.")
        notes = [*code_sentences({name: values}, "rows"), *_cut_targets(name, values), *_may_be_classes(name, values)]
        return values, (), notes
    if len(held) > MOST_CLASSES:
        raise UserFileError(
            f"{cells.path}: the target {name} has {len(held):,} different texts, and there may be {MOST_CLASSES} "
            "classes. Name a column of numbers or of classes."
        )
    refuse_equal_numbers(held, cells.path)
    classes = tuple(sorted(held, key=lambda text: (float(text), text) if is_number(text) else (0.0, text)))
    number = {text: at for at, text in enumerate(classes)}
    few = [f"{text} ({count})" for text, count in held.items() if count < 5]
    notes = [f"{name} has {len(classes)} classes: {', '.join(classes[:10])}{' ..' * (len(classes) > 10)}."]
    notes += case_sentences(classes)
    notes += [f"Some folds lack classes of fewer than 5 rows: {', '.join(sorted(few)[:10])}."] if few else []
    return np.array([number[texts[row]] for row in rows.tolist()], np.int64), classes, notes


def _may_be_classes(name: str, values: NDArray[np.float64]) -> list[str]:
    """Sentence on targets of few whole numbers, which may be numbers of classes; none for others."""
    different = np.unique(values)
    if len(different) > MOST_NUMBERED or not np.equal(different, np.round(different)).all():
        return []
    return [
        f"{name} has {len(different)} whole numbers alone and is predicted as a number. If they are classes, write "
        f"them as texts: class {different[0]:.0f}."
    ]


def _cut_targets(name: str, values: NDArray[np.float64]) -> list[str]:
    """Sentence on targets that were cut at their maximum; none if they were not."""
    different, counts = np.unique(values, return_counts=True)
    upper = counts[:-1][different[:-1] >= np.quantile(values, 0.8)]
    if len(different) < 20 or counts[-1] < max(CUT_SHARE * len(values), CUT_FACTOR * upper.max(initial=1)):
        return []
    return [
        f"{counts[-1]:,} of {len(values):,} values of {name} are {different[-1]:,.10g}, the maximum: they look cut "
        "there, and errors above it are not seen."
    ]


def _refuse_one_place(
    cells: Cells, found: Coordinates, coords: NDArray[np.float64], times: NDArray[np.float64]
) -> None:
    if not (np.ptp(coords, 0).any() or len(times) or found.further_names):
        at = ", ".join(f"{name} {value:g}" for name, value in zip(found.names, coords[0], strict=True))
        raise UserFileError(
            f"{cells.path}: all rows are at one place, {at}, so no encoding tells them apart. Name other columns: "
            "--coordinates A B"
        )


def shared_places(coords: NDArray[np.float64]) -> list[str]:
    """Sentence on rows that share their place with another row; none if no row does."""
    _, counts = np.unique(coords, axis=0, return_counts=True)
    if not (shared := int(counts[counts > 1].sum())):
        return []
    return [
        f"{shared:,} of {len(coords):,} rows share their place with another row: a random split puts the same place "
        "into training and test (a leak), a split by blocks does not."
    ]


def place_record(table: PlaceTable, path: Path) -> DatasetRecord:
    """Record of the places of a table, without a digest.

    Args:
        table: The places.
        path: The file.

    Returns:
        The record.
    """
    by_class = tuple(np.bincount(table.targets, minlength=len(table.classes)).tolist()) if table.classes else ()
    part = Part(name="all", counts={"rows": len(table)}, by_class=by_class)
    return DatasetRecord(
        kind="places",
        name=path.name,
        digest="",
        parts=(part,),
        classes=table.classes,
        options={"form": table.form, **table.options},
        left_out=table.left_out,
        own=True,
    )
