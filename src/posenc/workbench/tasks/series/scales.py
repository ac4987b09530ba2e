"""Scales of time of a training part: the shortest and the longest distance, and the periods of the calendar in it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from posenc.frequencies import LENGTHS
from posenc.workbench.tasks.series.windows import TRAINING, SeriesWindows

PERCENTILE = 0.05
"""Quantile of the gaps that is the shortest distance."""
CALENDAR = ("day", "week", "year")


class TimeScales(NamedTuple):
    """Scales of time, in seconds. Field names are stored.

    Attributes:
        shortest: Fifth percentile of the gaps of the training part.
        longest: Longest time that a window of the training part spans.
        span: Time from the first to the last reading of the training part.
        start: Time of the first reading, at which coordinates are 0.
        periods: Periods of the calendar that the training part can show: at least two shortest gaps long, and no longer
            than the part.
    """

    shortest: float
    longest: float
    span: float
    start: float
    periods: tuple[str, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """The scales as plain JSON."""
        return {**self._asdict(), "periods": list(self.periods)}


def time_scales(data: SeriesWindows) -> TimeScales:
    """Measure the scales of the training part.

    Args:
        data: The series. No reading after the training part has an effect.

    Returns:
        The scales.
    """
    windows = data.readings(data.parts[TRAINING]).times
    training = data.times < data.part_times.training
    gaps = data.times.diff()
    within = training[1:] & (gaps > 0)
    within[data.first[1:] - 1] = False  # from one series to the next
    shortest = float(torch.quantile(_at_most(gaps[within]), PERCENTILE))
    held = data.times[training]
    span, start = float(held.max() - held.min()), float(held.min())
    periods = tuple(name for name in CALENDAR if 2 * shortest <= LENGTHS[name] <= span)
    longest = max(float((windows[:, -1] - windows[:, 0]).max()), 4 * shortest)
    return TimeScales(shortest, longest, span, start, periods)


def _at_most(values: torch.Tensor, most: int = 2**20) -> torch.Tensor:
    """Evenly spaced ones of many values, because torch's quantile takes 16 million at most."""
    return values[:: len(values) // most + 1]
