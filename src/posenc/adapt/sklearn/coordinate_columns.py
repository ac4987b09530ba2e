"""Positions from columns of a table: which kind of coordinates they are, and how a scheme reads each kind.

    kind        column values                      positions of a scheme, by its number of axes
    "sphere"    longitude, latitude in degrees     2 axes: both in radians;  3 axes: points of the unit sphere, in a box
    "planar"    n columns in one unit              n axes: the columns, in a box
    "cyclic"    n columns, each with a period      n axes: angles in [0, 2 pi);  2n axes: (cosine, sine) of each angle
    "time"      one column of times                1 axis: time since 1970, in ``unit``

"In a box" means that the box of the fitted points becomes part of [0, 1] on every axis. All axes are divided by the
same number, so that distances keep their ratios.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch

from posenc.coordinate_names import LATITUDES, LONGITUDES
from posenc.frequencies import LENGTHS
from posenc.positions import Positions, sphere
from posenc.timestamps import times

Kind = Literal["sphere", "planar", "cyclic", "time"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TIMES = frozenset({"time", "date", "datetime", "timestamp"})
PERIODS: Mapping[str, float] = {
    "hour": 24.0, "minute": 60.0, "weekday": 7.0, "dayofweek": 7.0, "month": 12.0, "dayofyear": 365.2425,
    "angle": 360.0, "azimuth": 360.0, "bearing": 360.0, "heading": 360.0,
}  # fmt: skip
"""Period of columns with such a name, in the unit that tables use for them."""


@dataclasses.dataclass(frozen=True)
class CoordinateReader:
    """Kind of the fitted coordinate columns, and the numbers that turn their values into positions.

    Attributes:
        kind: Kind of the coordinates.
        names: Names of the columns, for errors.
        periods: Period of each column, for "cyclic"; else empty.
        unit: Length of a unit of planar coordinates, a name of a period for times, or None.
        origins: Smallest coordinate on each axis by number of axes, for coordinates in a box.
        extents: Largest extent of the fitted points by number of axes, for coordinates in a box.
    """

    kind: Kind
    names: tuple[str, ...]
    periods: tuple[float, ...] = ()
    unit: float | str | None = None
    origins: Mapping[int, np.ndarray] = dataclasses.field(default_factory=dict)
    extents: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def axes(self) -> tuple[int, ...]:
        """Numbers of axes that a scheme may have; the first is the one for a scheme that has a choice."""
        columns = len(self.names)
        return {"sphere": (3, 2), "planar": (columns,), "cyclic": (2 * columns, columns), "time": (1,)}[self.kind]

    def positions(self, columns: Sequence[Any], axes: int) -> Positions:
        """Positions of the rows of a table.

        Args:
            columns: Values of each column.
            axes: Number of axes of the scheme, one of ``axes()``.

        Returns:
            Positions ``(N, axes)``, float64.

        Raises:
            ValueError: If a value is outside the range of its kind.
        """
        if self.kind == "time":
            return _time_positions(columns[0], self.names[0], self.unit)
        table = np.stack([np.asarray(column, np.float64) for column in columns], 1)
        coordinates = _coordinates(self.kind, table, self.names, self.periods, axes)
        if axes in self.extents:
            coordinates = (coordinates - self.origins[axes]) / self.extents[axes]
        return Positions(torch.tensor(coordinates, dtype=torch.float64))

    def values(self, columns: Sequence[Any]) -> np.ndarray:
        """The columns as one array ``(N, columns)`` of float64; times as their positions."""
        if self.kind == "time":
            return self.positions(columns, 1).coords.numpy()
        return np.stack([np.asarray(column, np.float64) for column in columns], 1)


def fit_reader(
    columns: Sequence[Any],
    names: Sequence[str],
    kind: str | None,
    period: float | Sequence[float] | None,
    unit: float | str | None,
) -> CoordinateReader:
    """Find how to read columns as positions.

    Args:
        columns: Values of each column.
        names: Name of each column.
        kind: Kind of the coordinates; None to find it by names, types and ranges.
        period: Period of cyclic columns, one number or one for each; None to find it by name.
        unit: Length of a unit of planar coordinates, or name of the unit of times; None for the defaults.

    Returns:
        The reader.

    Raises:
        ValueError: If the columns are not of the kind, or of several kinds, or an argument does not fit the kind.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind is {', '.join(map(repr, KINDS))} or None to find it; got {kind!r}.")
    names = tuple(map(str, names))
    found = _found_kind(columns, names, period, unit) if kind is None else kind
    _refuse_arguments(found, period, unit)
    if found == "time":
        if len(names) != 1:
            raise ValueError(f"kind='time' reads one column; got {_listed(names)}. Use one PositionEncoder for each.")
        reader = CoordinateReader("time", names, unit=unit)
        reader.positions(columns, 1)
        return reader
    table = np.stack([np.asarray(column, np.float64) for column in columns], 1)
    if found == "cyclic":
        return CoordinateReader("cyclic", names, periods=_periods_of(names, period))
    if found == "sphere":
        points = _coordinates("sphere", table, names, (), 3)
        return CoordinateReader("sphere", names, origins={3: points.min(0)}, extents={3: _extent(points)})
    if unit is not None:
        origin = np.zeros(len(names))
        return CoordinateReader(
            "planar", names, unit=unit, origins={len(names): origin}, extents={len(names): float(unit)}
        )
    return CoordinateReader("planar", names, origins={len(names): table.min(0)}, extents={len(names): _extent(table)})


def is_time(column: Any, name: str) -> bool:
    """True for a column of dates or times: of numpy, pandas, polars or Python, or text under such a name.

    Args:
        column: Values of one column.
        name: Name of the column.

    Returns:
        True for times.
    """
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "kind", "O") == "M":
        return True
    first = next(iter(column), None)
    return hasattr(first, "isoformat") or (isinstance(first, str) and bool(_words(name) & TIMES))


def _words(name: str) -> set[str]:
    return set(re.split(r"[^a-z]+", name.lower()))


def _found_kind(columns: Sequence[Any], names: tuple[str, ...], period: Any, unit: Any) -> Kind:
    kinds: list[Kind] = [_kind_of(column, name, period, unit) for column, name in zip(columns, names, strict=True)]
    if len(set(kinds)) > 1:
        listed = ", ".join(f"{name} ({kind})" for name, kind in zip(names, kinds, strict=True))
        raise ValueError(
            f"the columns are of several kinds: {listed}. Use one PositionEncoder(columns=.., kind=..) for each kind, "
            "in a ColumnTransformer or FeatureUnion, or give the kind of all."
        )
    return kinds[0]


def _kind_of(column: Any, name: str, period: Any, unit: Any) -> Kind:
    if is_time(column, name) or isinstance(unit, str):
        return "time"
    if period is not None:
        return "cyclic"
    if _words(name) & {*LONGITUDES, *LATITUDES} and unit is None and _within(column, -360, 360):
        return "sphere"
    known = _period_of(name)
    return "cyclic" if known is not None and unit is None and _of_period(column, known) else "planar"


def _within(column: Any, low: float, high: float) -> bool:
    values = np.asarray(column, np.float64)
    return bool(low <= values.min() and values.max() <= high)


def _period_of(name: str) -> float | None:
    plain = re.sub(r"[^a-z]+", "", name.lower())
    words = _words(name)
    return next((length for known, length in PERIODS.items() if known == plain or known in words), None)


def _of_period(column: Any, period: float) -> bool:
    """True for values of at most one period. Angles within one turn of radians may be radians."""
    values = np.asarray(column, np.float64)
    radians = period == 360 and np.abs(values).max() <= 2 * math.pi
    return not radians and -period / 2 <= values.min() and values.max() <= math.ceil(period)


def _refuse_arguments(kind: Kind, period: Any, unit: Any) -> None:
    if period is not None and kind != "cyclic":
        raise ValueError(f"`period` is of kind='cyclic'; these columns are of kind {kind!r}. Leave it out.")
    if unit is not None and kind in ("sphere", "cyclic"):
        raise ValueError(f"`unit` is of kind='planar' or 'time'; these columns are of kind {kind!r}. Leave it out.")
    number = isinstance(unit, int | float) and not isinstance(unit, bool) and 0 < unit < math.inf
    if kind == "planar" and unit is not None and not number:
        raise ValueError(f"`unit` of planar coordinates is a positive number, their length of 1; got {unit!r}.")
    if kind == "time" and unit is not None and unit not in LENGTHS:
        raise ValueError(f"`unit` of times is {', '.join(map(repr, LENGTHS))}; got {unit!r}.")


def _periods_of(names: tuple[str, ...], period: float | Sequence[float] | None) -> tuple[float, ...]:
    if period is None:
        by_name = [_period_of(name) for name in names]
        unknown = next((name for name, length in zip(names, by_name, strict=True) if length is None), None)
        if unknown is not None:
            raise ValueError(
                f"kind='cyclic' needs the period of {unknown!r}. Pass period=24 for hours, one number for all columns "
                "or one for each."
            )
        return tuple(length for length in by_name if length is not None)
    several = tuple(map(float, period)) if isinstance(period, Sequence) else (float(period),) * len(names)
    if len(several) != len(names) or not all(0 < length < math.inf for length in several):
        raise ValueError(
            f"`period` is one positive number, or one for each of {_listed(names)}; got {period!r}. As period=24."
        )
    return several


def _coordinates(
    kind: Kind, table: np.ndarray, names: tuple[str, ...], periods: tuple[float, ...], axes: int
) -> np.ndarray:
    if kind == "planar":
        return table
    if kind == "cyclic":
        angle = np.mod(table, periods) * (2 * math.pi / np.array(periods))
        return angle if axes == len(names) else np.stack([np.cos(angle), np.sin(angle)], -1).reshape(len(angle), -1)
    _refuse_places(table, names)
    lon, lat = np.mod(table[:, 0] + 180, 360) - 180, table[:, 1]  # 190 and -170 are one meridian
    angles = sphere(torch.tensor(lon), torch.tensor(lat)).coords.numpy()
    if axes == 2:
        return angles
    lon, lat = angles.T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)


def _refuse_places(table: np.ndarray, names: tuple[str, ...]) -> None:
    """Raise ValueError for columns that are not longitude and latitude in degrees, in this order."""
    if len(names) != 2:
        raise ValueError(
            f"kind='sphere' reads 2 features, longitude and latitude; got n_features = {len(names)}: {_listed(names)}. "
            "Choose two: columns=['longitude', 'latitude']."
        )
    first, second = map(_words, names)
    if first & {*LATITUDES} or second & {*LONGITUDES}:
        raise ValueError(
            f"longitude comes before latitude; got {_listed(names)}. Write columns=[{names[1]!r}, {names[0]!r}]."
        )
    if len(table) == 0:
        return
    lon, lat = np.abs(table).max(0)
    if lat > 90:
        raise ValueError(
            f"latitude lies within ±90 degrees; {names[1]} reaches {lat:g}. Exchange the columns if longitude comes "
            "second, or write kind='planar' for projected coordinates."
        )
    if lon > 360:
        raise ValueError(
            f"longitude lies within ±360 degrees; {names[0]} reaches {lon:g}. Write kind='planar' for projected "
            "coordinates."
        )


def _time_positions(column: Any, name: str, unit: Any) -> Positions:
    missing = _missing_times(column)
    if missing:
        raise ValueError(
            f"{missing} of {len(column)} times of column {name!r} are missing (NaN or NaT). Leave these rows out, or "
            "fill them."
        )
    numbers = not is_time(column, name) and not isinstance(next(iter(column), None), str)
    if numbers and unit is None:
        raise ValueError(
            f"{name} holds numbers, which have no unit. Pass the unit that they count, as unit='second', or a column "
            "of dates and times."
        )
    if numbers:
        held = np.asarray(column)  # in its own type, for `times` refuses float32 that is rounded already
        stamps: Any = held if held.dtype.kind in "iuf" else np.array(column, np.float64)
    elif hasattr(column, "dt") and hasattr(column, "iloc"):  # of pandas, whose zones numpy does not know
        stamps = column
    else:
        stamps = np.array(column)
        stamps = stamps.tolist() if stamps.dtype.kind == "O" else stamps
    return times(stamps, unit=unit or "day")


def _missing_times(column: Any) -> int:
    """Number of times that are missing, in a column of numpy, pandas, polars or Python."""
    if hasattr(column, "isna"):
        return int(column.isna().sum())
    values = np.asarray(column)
    if values.dtype.kind in "mM":
        return int(np.isnat(values).sum())
    return sum(each is None or each != each for each in values.tolist())  # NaN and NaT differ from themselves


def _extent(points: np.ndarray) -> float:
    """The largest extent of points on an axis; 1 for points at one place."""
    extent = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    return extent if extent > 0 else 1.0


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
