"""Columns of coordinates of a table: found by name, checked by range.

sphere   longitude and latitude in degrees, in this order; longitudes from 0 to 360 become -180 to 180
plane    two coordinates in one unit, such as meters
space    three coordinates in one unit
further  a coordinate behind longitude and latitude, such as a depth: an axis of its own unit, as the time is
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.coordinate_names import LATITUDES, LONGITUDES
from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.data.table_cells import TIME_NAMES, Cells, has_numbers, numbers_of, refuse_missing_header
from posenc.workbench.files.user_files import UserFileError

Geometry = Literal["sphere", "plane", "space"]
AXES: dict[Geometry, int] = {"sphere": 2, "plane": 2, "space": 3}
OTHERS = (("x", "y", "z"), ("x", "y"), ("easting", "northing"), ("east", "north"))
"""Names of planar and spatial coordinates, in lower case, the first set that a table has."""
MOST_LATITUDE, MOST_LONGITUDE, TURN = 90.0, 180.0, 360.0
SWAPPED = 0.05
"""Share of latitudes beyond the poles from which longitude and latitude look swapped; fewer are wrong lines."""
UNITS: dict[Geometry, str] = {"sphere": "degrees", "plane": "units of the columns", "space": "units of the columns"}


class Coordinates(NamedTuple):
    """Coordinates of the rows of a table.

    Attributes:
        names: Names of the columns; longitude first on a sphere.
        geometry: Kind of the coordinates.
        values: Coordinates ``(N, P)``, NaN where missing.
        notes: Sentences on how they were found.
        further_names: Names of the columns of further axes, each of its own unit.
        further: Their numbers ``(N, L)``, NaN where missing.
    """

    names: tuple[str, ...]
    geometry: Geometry
    values: NDArray[np.float64]
    notes: tuple[str, ...]
    further_names: tuple[str, ...]
    further: NDArray[np.float64]


def names_coordinates(names: list[str]) -> bool:
    """True if a table has columns with names of coordinates, and others than these and times."""
    found = _by_name(tuple(names))
    return bool(found) and any(name not in found and name.lower() not in TIME_NAMES for name in names)


def other_coordinates(names: Sequence[str], used: Sequence[str]) -> tuple[str, ...]:
    """Further columns of a table that state the place again, as x and y beside longitude and latitude.

    Args:
        names: Names of all columns.
        used: Names of the coordinates, and of other columns with a use.

    Returns:
        Their names, of which none is used.
    """
    lower = {name.strip().lower(): name for name in reversed(names) if name not in used}
    pairs = [(a, b) for a in LONGITUDES for b in LATITUDES] + [(some[0], some[1]) for some in OTHERS]
    return tuple(dict.fromkeys(lower[name] for pair in pairs if lower.keys() >= set(pair) for name in pair))


def listed(text: str, names: tuple[str, ...]) -> list[str]:
    """Names in an option, which commas divide; a name of a column may have commas itself."""
    return [text] if text in names else [each.strip() for each in text.split(",") if each.strip()]


def find_coordinates(cells: Cells, options: ReadingOptions) -> Coordinates:
    """Find, read and check the coordinates of a table.

    Args:
        cells: The cells.
        options: The options "coordinates" and "geometry"; None for columns that their names show.

    Returns:
        The coordinates.

    Raises:
        UserFileError: There are no numeric coordinates, their number does not fit, or a latitude is beyond 90 degrees.
    """
    if options.coordinates is None:
        names = _by_name(cells.names)
        if not names:
            refuse_missing_header(cells)
            raise UserFileError(_not_found(cells))
    else:
        names = tuple(cells.stated("coordinates", name) for name in listed(options.coordinates, cells.names))
    every = names
    names, further = _divided(names, options)
    if len(names) not in (2, 3) or len(set(every)) != len(every):
        raise UserFileError(
            f"{cells.path}: coordinates are two or three different columns; got {', '.join(every)}. Name them: "
            "--coordinates longitude latitude. Further axes stand behind longitude and latitude."
        )
    columns = {name: numbers_of(cells, name, "coordinates") for name in every}
    if empty := next((name for name in every if not np.isfinite(columns[name]).any()), ""):
        raise UserFileError(f"{cells.path}: the column {empty} has no number. Name another: --coordinates A B")
    geometry = _geometry(cells, names, options)
    ordered = names
    if geometry == "sphere" and _is(names[0], LATITUDES) and _is(names[1], LONGITUDES):
        ordered = (names[1], names[0])
    values = np.stack([columns[name] for name in ordered], 1)
    found = "Found by name" if options.coordinates is None else "Coordinates"
    notes = [f"{found}: {', '.join(ordered)}, {_phrase(geometry)}."]
    if ordered != names:
        notes.append(f"Read in the order {', '.join(ordered)}, as their names show.")
    if geometry == "sphere":
        values, turned = _on_sphere(cells, ordered, values)
        notes += turned
    elif geometry == "plane" and _fits_sphere(values):
        notes.append(
            f"{', '.join(ordered)} are read as planar. If they are longitude and latitude, add --geometry sphere."
        )
    if further:
        notes.append(f"Further axes, each of its own unit: {', '.join(further)}.")
    more = np.stack([columns[name] for name in further], 1) if further else np.zeros((len(values), 0))
    return Coordinates(ordered, geometry, values, tuple(notes), further, more)


def _divided(names: tuple[str, ...], options: ReadingOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Coordinates of the place, and further axes: those behind longitude and latitude or behind two of a plane."""
    of_sphere = tuple(name for name in names if _is(name, LONGITUDES) or _is(name, LATITUDES))
    if len(names) > 2 and len(of_sphere) == 2 and options.geometry in (None, "sphere"):
        return of_sphere, tuple(name for name in names if name not in of_sphere)
    if len(names) > 2 and options.geometry in ("plane", "sphere"):
        return names[:2], names[2:]
    return names, ()


def _phrase(geometry: Geometry) -> str:
    """Kind of coordinates in words."""
    return {
        "sphere": "longitude and latitude in degrees",
        "plane": "planar coordinates of one unit",
        "space": "three coordinates of one unit",
    }[geometry]


def _by_name(names: tuple[str, ...]) -> tuple[str, ...]:
    lower = {name.strip().strip('"').lower(): name for name in reversed(names)}
    longitude = next((lower[name] for name in LONGITUDES if name in lower), "")
    latitude = next((lower[name] for name in LATITUDES if name in lower), "")
    if longitude and latitude:
        return (longitude, latitude)
    wanted = next((some for some in OTHERS if lower.keys() >= set(some)), ())
    return tuple(lower[name] for name in wanted)


def _not_found(cells: Cells) -> str:
    numeric = [name for name in cells.names if has_numbers(cells.column(name))]
    if len(numeric) < 2:
        named = f", {numeric[0]}" if numeric else ""
        return (
            f"{cells.path} has {count_of(len(numeric), 'columns')} of numbers{named}, and a place has two or three "
            "numeric coordinates. Add columns such as longitude and latitude."
        )
    return (
        f"{cells.path} has no columns named longitude and latitude, x and y, or easting and northing. Name the "
        f"coordinates among its columns of numbers, {', '.join(numeric[:12])}: --coordinates {numeric[0]} {numeric[1]}"
    )


def _is(name: str, known: tuple[str, ...]) -> bool:
    """True if a name is a known one, or begins or ends with it, as "pickup_longitude"."""
    words = name.strip().lower().replace("-", "_").replace(" ", "_").split("_")
    return bool(set(words) & set(known))


def _geometry(cells: Cells, names: tuple[str, ...], options: ReadingOptions) -> Geometry:
    """Kind of coordinates: that of the option, or the one that the names show."""
    pair = (_is(names[0], LONGITUDES), _is(names[1], LATITUDES), _is(names[0], LATITUDES), _is(names[1], LONGITUDES))
    by_name: Geometry = "space" if len(names) == 3 else "sphere" if all(pair[:2]) or all(pair[2:]) else "plane"
    if options.geometry is None:
        return by_name
    fitting_kinds: list[Geometry] = [each for each, axes in AXES.items() if axes == len(names)]
    geometry: Geometry | None = next((each for each in fitting_kinds if each == options.geometry), None)
    if geometry is None:
        fitting = " or ".join(fitting_kinds)
        raise UserFileError(
            f"{cells.path}: {', '.join(names)} are {len(names)} coordinates; got --geometry {options.geometry}. Use "
            f"--geometry {fitting}"
        )
    return geometry


def _on_sphere(
    cells: Cells, names: tuple[str, ...], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], list[str]]:
    """Longitudes from -180 to 180 and checked latitudes, with a sentence on longitudes that were moved."""
    longitude, latitude = values.T
    beyond = np.flatnonzero(np.abs(latitude) > MOST_LATITUDE)
    if len(beyond):
        at, (first, second) = int(beyond[0]), names
        fault = f"{cells.at(at)}: {second} is {latitude[at]:g}, and a latitude is from -90 to 90 degrees."
        if len(beyond) > SWAPPED * len(latitude) and np.nanmax(np.abs(longitude)) <= MOST_LATITUDE:
            remedy = f"name them in the other order: --coordinates {second} {first}"
            if _is(first, LONGITUDES) and _is(second, LATITUDES):  # Their names state the order.
                remedy = f"exchange the names {first} and {second} in the header"
            raise UserFileError(f"{fault} Longitude and latitude look swapped: {remedy}.")
        lines = f"{len(beyond):,} lines with such a latitude" if len(beyond) > 1 else "line"
        raise UserFileError(f"{fault} Correct the {lines}, or read the columns as planar: --geometry plane")
    beyond = np.flatnonzero((longitude < -MOST_LONGITUDE) | (longitude > TURN))
    if len(beyond):
        at = int(beyond[0])
        raise UserFileError(
            f"{cells.at(at)}: {names[0]} is {longitude[at]:g}, and a longitude is from -180 to 180 or "
            "from 0 to 360 degrees. Correct the line, or read the columns as planar: --geometry plane"
        )
    if (np.nanmax(np.abs(values), 0) <= (math.pi, math.pi / 2)).all():
        return values, [
            "All longitudes are from -3.14 to 3.14 and all latitudes from -1.57 to 1.57, as in radians. If "
            f"{names[0]} and {names[1]} are in radians, multiply them by 57.29578: degrees are read."
        ]
    if np.nanmax(longitude) <= MOST_LONGITUDE:
        return values, []
    moved = np.where(longitude > MOST_LONGITUDE, longitude - TURN, longitude)
    return np.stack([moved, latitude], 1), ["Longitudes above 180 degrees count from the west: 190 is -170."]


def _fits_sphere(values: NDArray[np.float64]) -> bool:
    """True if the ranges of two planar coordinates are those of degrees."""
    values = values[np.isfinite(values).all(1)]
    if not len(values):
        return False
    first, second = np.nanmax(np.abs(values), 0)
    fractions = np.nanmax(np.abs(values - np.round(values)), 0)
    return bool(MOST_LATITUDE / 10 < first <= MOST_LONGITUDE and second <= MOST_LATITUDE and (fractions > 0).all())
