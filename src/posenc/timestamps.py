"""Times as positions: dates, ISO strings, pandas and numpy times, or numbers with a unit, in float64 on one axis.

A position in time is a number of units since an origin. float64 has steps of 2.4e-7 s at Unix times of today. float32
has steps of 128 s, so Unix times in float32 are refused.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator
from typing import Any, get_args
from zoneinfo import ZoneInfo

import numpy as np
import torch
from torch import Tensor

from posenc.frequencies import LENGTHS, Period
from posenc.positions import COARSE_IN_FLOAT32, Positions

EPOCH = datetime.datetime(1970, 1, 1)
NANOSECONDS = 10**9
MOST_SECONDS = 9_000_000_000
"""Seconds from 1970 that nanoseconds in 64 bits have room for: the years 1685 to 2255."""


def times(
    stamps: Any, *, unit: Period = "second", origin: Any = None, zone: str | datetime.tzinfo | None = None
) -> Positions:
    """Positions in time, on one axis, in float64.

        coords[n] = (stamps[n] - origin) / unit

    Dates and times are read to the nanosecond before the origin is subtracted. With ``zone`` the coordinate is the wall
    clock of that zone, so that the daily cycle goes on through a change of clocks. The hour that the clock shows twice
    in autumn is passed once, at half the pace, so that the order of its readings is kept and no two coincide.

    Args:
        stamps: Times of N readings, or ``(B, N)``: ``datetime64``, pandas times, ``datetime`` objects or ISO strings,
            for which a missing zone means UTC; or numbers, which count ``unit``.
        unit: Unit of the coordinates, and of ``stamps`` and ``origin`` if they are numbers: "second" (default),
            "minute", "hour", "day", "week", "month" (a twelfth year) or "year" (365.2425 days).
        origin: Time of coordinate 0, in the form of ``stamps``. With ``zone`` an origin without a zone of its own is a
            time of that clock if the stamps state their zones, and refused if they do not. Default: the first of
            January 1970, in UTC or by the clock of ``zone``; 0 for numbers.
        zone: Name of a zone, as "Europe/Berlin", whose wall clock is the coordinate; for times, not for numbers.
            Default: None, elapsed time.

    Returns:
        Positions ``(N, 1)`` or ``(B, N, 1)``, float64.

    Raises:
        ValueError: If a time is missing (NaT, NaN), is a duration, cannot be read, or has no zone while others have
            one; if ``zone`` and ``origin`` are given, and neither the stamps nor the origin state their zones; if
            numbers are float32 and too large for it; if ``unit`` or ``zone`` is unknown; or if ``zone`` is given with
            numbers.

    Example:
        >>> from posenc import times
        >>> times(["2024-03-01", "2024-03-01T12:00"], unit="day", origin="2024-02-29").coords[:, 0].tolist()
        [1.0, 1.5]
    """
    if unit not in LENGTHS:
        raise ValueError(f"times are counted in units of {', '.join(map(repr, get_args(Period)))}; got {unit!r}.")
    stamps = list(stamps) if isinstance(stamps, Iterator) else stamps  # an iterator can be read once
    numbers = _numbers(stamps)
    if numbers is not None:
        if zone is not None:
            raise ValueError(
                "numbers have no zone, as their origin has none. Pass datetime64, pandas times or ISO strings, or "
                "leave zone out."
            )
        start = _number_of(origin)
        return Positions((numbers - start)[..., None])
    nanoseconds = _nanoseconds(stamps)
    start = 0 if origin is None else _nanoseconds_of_origin(origin)
    if zone is not None:
        place = _zone(zone)
        if origin is not None and _without_zone(origin) and _without_zones(stamps):
            raise ValueError(
                f"stamps that state no zone are UTC, and an origin that states none is a time of the clock of {zone}. "
                f"State the zone of the origin: an ISO string with an offset, as '2024-03-01T00:00+01:00', or with "
                "+00:00 for UTC."
            )
        nanoseconds = _wall_clock(nanoseconds, place)
        start = start if origin is None or _without_zone(origin) else int(_wall_clock(np.array([start]), place)[0])
    whole, part = np.divmod(nanoseconds - start, NANOSECONDS)
    seconds = whole.astype(np.float64) + part / NANOSECONDS
    return Positions(torch.from_numpy(seconds / LENGTHS[unit])[..., None])


def _numbers(stamps: Any) -> Tensor | None:
    """Stamps that are numbers, as float64; None for times."""
    if isinstance(stamps, Tensor):
        numbers = stamps
    else:
        array = np.asarray(stamps if isinstance(stamps, np.ndarray) or not _iterable(stamps) else _listed(stamps))
        if array.dtype.kind not in "iuf":
            return None
        numbers = torch.from_numpy(np.ascontiguousarray(array.astype(np.int64) if array.dtype.kind in "iu" else array))
    if numbers.dim() not in (1, 2) or numbers.dtype == torch.bool or numbers.is_complex():
        raise ValueError(f"times have shape (N,) or (B, N), and are real; got {tuple(numbers.shape)}, {numbers.dtype}.")
    if numbers.is_floating_point() and not bool(numbers.isfinite().all()):
        missing = int((~numbers.isfinite()).sum())
        raise ValueError(_missing(missing, numbers.numel()))
    if numbers.dtype in (torch.float16, torch.bfloat16, torch.float32) and numbers.numel():
        farthest = float(numbers.abs().max())
        step = 2.0 ** math.floor(math.log2(farthest)) * torch.finfo(numbers.dtype).eps if farthest else 0.0
        if numbers.dtype != torch.float32 or farthest >= COARSE_IN_FLOAT32:
            raise ValueError(
                f"times up to {farthest:g} in {str(numbers.dtype).removeprefix('torch.')} are rounded to steps of "
                f"{step:g} or more, which no later conversion restores. Keep them in float64 from the start: "
                "times(dates), numpy.array(stamps, dtype='float64'), or torch.tensor(stamps, dtype=torch.float64)."
            )
    return numbers.to(torch.float64)


def _number_of(origin: Any) -> float:
    try:
        return 0.0 if origin is None else float(origin)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"these stamps are numbers, so their origin is a number of the same unit; got {origin!r}. Pass times as "
            "stamps, or a number."
        ) from error


def _nanoseconds_of_origin(origin: Any) -> int:
    try:
        return int(_nanoseconds([origin])[0])
    except (ValueError, TypeError) as error:
        raise ValueError(f"the origin {origin!r} is not a time like the stamps. Pass one time: {error}") from None


def _without_zone(origin: Any) -> bool:
    """True for a time that states no zone."""
    if isinstance(origin, str):
        try:
            return datetime.datetime.fromisoformat(origin).tzinfo is None
        except ValueError:
            return False
    return getattr(origin, "tzinfo", None) is None


def _without_zones(stamps: Any) -> bool:
    """True for times that state no zone."""
    if getattr(getattr(stamps, "dt", stamps), "tz", None) is not None:
        return False
    flat = np.asarray(stamps if isinstance(stamps, np.ndarray) or not _iterable(stamps) else _listed(stamps)).ravel()
    return flat.dtype.kind == "M" or all(map(_without_zone, flat.tolist()))


def _iterable(stamps: Any) -> bool:
    return isinstance(stamps, Iterable) and not isinstance(stamps, str)


def _listed(stamps: Any) -> Any:
    """The values of a pandas column or index, or a list."""
    return stamps if hasattr(stamps, "dtype") else list(stamps)


def _nanoseconds(stamps: Any) -> np.ndarray:
    """Nanoseconds since 1970 in UTC, int64, from datetime64, pandas times, datetime objects or ISO strings."""
    if isinstance(stamps, str) or not _iterable(stamps):
        raise ValueError(f"times are a list or an array of times; got {type(stamps).__name__}. Write times([stamp]).")
    if hasattr(stamps, "tz_convert") or hasattr(getattr(stamps, "dt", None), "tz_convert"):
        of_times = stamps if hasattr(stamps, "tz_convert") else stamps.dt
        stamps = of_times if getattr(of_times, "tz", None) is None else of_times.tz_convert("UTC").tz_localize(None)
        stamps = getattr(stamps, "to_numpy", lambda: np.asarray(stamps))()
    if hasattr(stamps, "to_timestamp"):  # periods of pandas
        raise ValueError("periods of pandas are no times. Write times(index.to_timestamp()), the start of each period.")
    array = stamps if isinstance(stamps, np.ndarray) else np.asarray(_listed(stamps))
    if array.dtype.kind == "m" or (array.dtype.kind == "O" and isinstance(next(array.flat, None), datetime.timedelta)):
        raise ValueError(
            "durations (timedelta64) are no times. Divide them by a unit, and pass numbers: "
            "times(durations / numpy.timedelta64(1, 'D'), unit='day')."
        )
    if array.dtype.kind != "M":
        flat = [_one_time(each) for each in array.ravel()]
        aware = sum(each.tzinfo is not None for each in flat)
        if 0 < aware < len(flat):
            raise ValueError(
                f"{aware} of {len(flat)} times have a zone and the others have none. Give a zone to all: "
                "'2024-03-01T12:00+00:00' is UTC."
            )
        utc = [each.astimezone(datetime.UTC).replace(tzinfo=None) if aware else each for each in flat]
        array = np.array(utc, dtype="datetime64[us]").reshape(array.shape)
    if bool(np.isnat(array).any()):
        raise ValueError(_missing(int(np.isnat(array).sum()), array.size))
    seconds = array.astype("datetime64[s]").astype(np.int64)
    if array.size and int(np.abs(seconds).max()) > MOST_SECONDS:
        raise ValueError(
            f"times are read from 1685 to 2255; got {array.ravel()[int(np.abs(seconds).argmax())]}. Pass numbers "
            "with a unit, as times(years, unit='year')."
        )
    return array.astype("datetime64[ns]").astype(np.int64)


def _one_time(value: Any) -> datetime.datetime:
    if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in ("NaT", "", "nan"):
        raise ValueError(_missing(1, None))
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    try:
        return datetime.datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(
            f"{str(value)!r} is not a time in ISO form, as '2024-03-01' or '2024-03-01T12:00+01:00'. Convert it by "
            "pandas.to_datetime(column, format=..)."
        ) from None


def _missing(count: int, of: int | None) -> str:
    found = f"{count} of {of} times are missing" if of else "a time is missing"
    return (
        f"{found} (NaT or NaN), and a position has to be somewhere. Leave these readings out "
        "(stamps[~isnull(stamps)]), or make them placed=False of Positions."
    )


def _zone(zone: str | datetime.tzinfo) -> datetime.tzinfo:
    if isinstance(zone, datetime.tzinfo):
        return zone
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"there is no zone {zone!r}. Name it as 'Europe/Berlin', 'America/New_York' or 'UTC'."
        ) from None


def _wall_clock(nanoseconds: np.ndarray, zone: datetime.tzinfo) -> np.ndarray:
    """Nanoseconds on the clock of a zone; an hour that it shows twice is passed once, at half the pace."""
    seconds, part = np.divmod(nanoseconds, NANOSECONDS)
    distinct, back = np.unique(seconds, return_inverse=True)
    starts = np.array([_clock(second, zone) for second in distinct.tolist()], dtype=np.int64).reshape(-1, 2)
    clock, pace = starts[back.reshape(-1)].T.reshape(2, *seconds.shape)
    return clock + part // pace


def _clock(second: int, zone: datetime.tzinfo) -> tuple[int, int]:
    """Nanoseconds on the clock at a second since 1970, and 2 in an hour that it shows twice, else 1."""
    there = (EPOCH + datetime.timedelta(seconds=second)).replace(tzinfo=datetime.UTC).astimezone(zone)
    early, late = (_offset(there.replace(fold=fold)) for fold in (0, 1))
    if early <= late:
        return (second + early) * NANOSECONDS, 1
    before, after = second - 2 * (early - late), second + 2 * (early - late)  # the clock is set back between the two
    while after - before > 1:
        middle = (before + after) // 2
        at = (EPOCH + datetime.timedelta(seconds=middle)).replace(tzinfo=datetime.UTC).astimezone(zone)
        before, after = (middle, after) if _offset(at) == early else (before, middle)
    start = after - (early - late)
    return (start + early) * NANOSECONDS + (second - start) * NANOSECONDS // 2, 2


def _offset(time: datetime.datetime) -> int:
    return int((time.utcoffset() or datetime.timedelta()).total_seconds())
