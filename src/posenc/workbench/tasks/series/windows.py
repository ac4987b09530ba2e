"""Windows of readings: a context and the readings after it, divided by time into training, validation and test parts.

The origin of a window is the time of its last context reading. Origins roll through a part: at every reading in
training, and in the other parts so that no reading is forecast twice. A window belongs to the part that holds all
readings after its origin; its context may reach back. `fill_in_windows` makes those in which readings are filled in.
Values are standardized by the training part of their series.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.frequencies import LENGTHS
from posenc.workbench.data.series import Series

TRAINING, VALIDATION, TEST = PARTS = ("training", "validation", "test")
SHARES = (0.7, 0.1)
"""Shares of all readings for training and validation; the rest is for testing."""
ETT_COLUMNS = frozenset({"date", "HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"})
"""Columns of the tables ETTh and ETTm, whose standard parts are 12, 4 and 4 months of 30 days (arXiv 2012.07436)."""
ETT_DAYS = (360, 480, 600)
LEAST_CONTEXT = 4
"""Readings of the shortest context."""


class PartTimes(NamedTuple):
    """Times that end the parts: a reading belongs to the first part that ends after it.

    Attributes:
        training: End of the training part, in seconds.
        validation: End of the validation part.
        test: End of the test part.
    """

    training: float
    validation: float
    test: float


class Windows(NamedTuple):
    """Windows of a part.

    Attributes:
        starts: ``(W,)`` number of the first reading of each window among all readings.
        series: ``(W,)`` number of the series.
    """

    starts: Tensor
    series: Tensor

    def take(self, index: Tensor) -> Windows:
        """Some of the windows."""
        return Windows(self.starts[index], self.series[index])


class Hiding(NamedTuple):
    """Hidden readings of the windows of a part: how many, among which, and in how many windows of one place.

    Attributes:
        own: Last readings of a window that belong to the part, and to no window of another place.
        hidden: How many of them a window hides.
        copies: Windows of one place, which hide different readings.
    """

    own: int
    hidden: int
    copies: int


class Readings(NamedTuple):
    """Readings of some windows.

    Attributes:
        times: ``(B, N)`` seconds, float64.
        values: ``(B, N)`` standardized values, float32.
    """

    times: Tensor
    values: Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class SeriesWindows:
    """Standardized series with their windows.

    Attributes:
        names: Names of the S series.
        times: ``(R,)`` times of all present readings, series after series, in seconds, float64.
        values: ``(R,)`` standardized values, float32.
        first: ``(S,)`` number of the first reading of each series.
        naive: ``(S,)`` mean absolute change from one training reading to the next, by which MASE divides.
        context: Readings of a context.
        horizon: Readings that are forecast.
        parts: Windows of each part.
        part_times: Ends of the parts.
        left_out: Sentences on series that were left out.
        hiding: Hidden readings of the validation and the test part, if readings are filled in.
    """

    names: tuple[str, ...]
    times: Tensor
    values: Tensor
    first: Tensor
    naive: Tensor
    context: int
    horizon: int
    parts: Mapping[str, Windows]
    part_times: PartTimes
    left_out: tuple[str, ...] = ()
    hiding: Mapping[str, Hiding] = dataclasses.field(default_factory=dict[str, Hiding])

    @property
    def length(self) -> int:
        """Readings of a window."""
        return self.context + self.horizon

    def readings(self, windows: Windows) -> Readings:
        """Times and values of the readings of windows."""
        at = windows.starts[:, None] + torch.arange(self.length)
        return Readings(self.times[at], self.values[at])


def part_times(series: Sequence[Series], columns: Sequence[str] = ()) -> PartTimes:
    """Choose the times that end the parts.

    Args:
        series: The series.
        columns: Names of the columns of their table. A table ETTh or ETTm has its standard parts.

    Returns:
        The times: after 70% and 80% of all readings, unless the table has standard parts.
    """
    times = np.sort(np.concatenate([each.present.times for each in series]))
    start, stop = float(times[0]), float(times[-1])
    ends = [start + days * LENGTHS["day"] for days in ETT_DAYS]
    if set(columns) >= ETT_COLUMNS and ends[-2] < stop:
        return PartTimes(*ends)
    training = times[round(SHARES[0] * len(times))]
    validation = times[round(sum(SHARES) * len(times))]
    return PartTimes(float(training), float(validation), math.nextafter(stop, math.inf))


def part_limits(ends: PartTimes, part: str) -> tuple[float, float]:
    """Times between which the readings of a part lie, without the second one."""
    return {
        TRAINING: (-math.inf, ends.training),
        VALIDATION: (ends.training, ends.validation),
        TEST: (ends.validation, ends.test),
    }[part]


def make_windows(series: Sequence[Series], context: int, horizon: int, ends: PartTimes, name: str) -> SeriesWindows:
    """Standardize series and find their windows.

    Args:
        series: The series. Missing readings are left out.
        context: Readings of a context.
        horizon: Readings that are forecast.
        ends: Ends of the parts.
        name: Name of the data, for messages.

    Returns:
        The series with their windows.

    Raises:
        ValueError: No series varies in the training part, or a part has no window.
    """
    usable, left_out = list[tuple[Series, float]](), list[str]()
    for each in (one.present for one in series):
        training = each.values[each.times < ends.training]
        changes = float(np.abs(np.diff(training)).mean()) if len(training) > 1 else 0.0
        if changes > 0:
            usable.append((_standardized(each, training), changes / float(training.std())))
        else:
            reason = "all training values are equal" if len(training) > 1 else "it has no training readings"
            left_out.append(f"Left out: the series {each.name}: {reason}.")
    sizes = [len(each.times) for each, _ in usable]
    first = np.concatenate([[0], np.cumsum(sizes)])[: len(sizes)].astype(np.int64)
    if not usable:
        raise ValueError(f"{name} has no series to learn from. {left_out[0]} Give series that vary in their first 70%.")
    found = {part: _windows(usable, first, context, horizon, ends, part) for part in PARTS}
    if empty := [part for part, windows in found.items() if not len(windows.starts)]:
        shorter = _shorter_windows(usable, context, horizon, ends)
        raise ValueError(_no_windows(series, context, horizon, empty[0], name) + shorter)
    return SeriesWindows(
        names=tuple(each.name for each, _ in usable),
        times=torch.from_numpy(np.concatenate([each.times for each, _ in usable])),
        values=torch.from_numpy(np.concatenate([each.values for each, _ in usable])).float(),
        first=torch.from_numpy(first),
        naive=torch.tensor([naive for _, naive in usable], dtype=torch.float64),
        context=context,
        horizon=horizon,
        parts=found,
        part_times=ends,
        left_out=tuple(left_out),
    )


def _standardized(series: Series, training: NDArray[np.float64]) -> Series:
    return Series(series.name, series.times, (series.values - training.mean()) / training.std())


def _windows(
    series: Sequence[tuple[Series, float]],
    first: NDArray[np.int64],
    context: int,
    horizon: int,
    ends: PartTimes,
    part: str,
) -> Windows:
    """Windows of a part: all readings after the origin lie in it, and the origins are its stride apart."""
    before, until = part_limits(ends, part)
    stride, starts, numbers = 1 if part == TRAINING else horizon, list[int](), list[int]()
    for number, (each, _) in enumerate(series):
        low, high = np.searchsorted(each.times, [before, until])
        origins = range(max(int(low), context), int(high) - horizon + 1, stride)
        starts += [int(first[number]) + origin - context for origin in origins]
        numbers += [number] * len(origins)
    return Windows(torch.tensor(starts, dtype=torch.int64), torch.tensor(numbers, dtype=torch.int64))


def _no_windows(series: Sequence[Series], context: int, horizon: int, part: str, name: str) -> str:
    most = max(len(each.present.times) for each in series)
    needed = int(np.ceil(max((context + horizon) / SHARES[0], horizon / SHARES[1])))
    return (
        f"the longest series of {name} has {most:,} readings, and its {part} part has no room for {horizon} readings "
        f"after a context of {context}. Give series of at least {needed:,} readings"
    )


def _shorter_windows(series: Sequence[tuple[Series, float]], context: int, horizon: int, ends: PartTimes) -> str:
    """End of a sentence with the longest horizon, and then the longest context, that have windows in all parts."""
    first, least = np.zeros(len(series), np.int64), min(context, LEAST_CONTEXT)
    for ahead in _halves(horizon, 1):
        for before in _halves(context, least):
            if all(len(_windows(series, first, before, ahead, ends, part).starts) for part in PARTS):
                return f", or shorter windows: --set context={before} --set horizon={ahead}"
    return "."


def _halves(size: int, least: int) -> list[int]:
    """A size, its half, its quarter, and so on, down to the least."""
    return [size, *_halves(max(size // 2, least), least)] if size > least else [size]
