"""Generated series with irregular times: with planted periods of a day, a week and a year, or without any period.

gap ~ log-uniform from 1 s to 30 days
periods:      y(t) = sum_T a_T sin(2 pi t / T + phi_T) + noise,       T: day, week, year
no periods:   y(t') = r y(t) + sqrt(1 - r^2) e,   r = exp(-(t' - t) / 3 days)     (Ornstein-Uhlenbeck process)
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posenc.frequencies import LENGTHS
from posenc.workbench.data.series import Series

Kind = Literal["periods", "no periods"]
SHORTEST_GAP, LONGEST_GAP = 1.0, 30 * LENGTHS["day"]
PERIODS = ("day", "week", "year")
START = 1_577_836_800.0
"""Time of the first reading: 2020-01-01 in UTC, in seconds since 1970."""
TICKS = 1024
"""Parts of a second to which gaps are rounded: times and scales are then the same numbers on every machine."""
NOISE = 0.2
"""Standard deviation of the noise of a reading with periods."""
CORRELATION = 3 * LENGTHS["day"]
"""Time in which the correlation of the process without periods falls to 1 / e."""


def made_series(kind: Kind, count: int, readings: int, seed: int) -> tuple[Series, ...]:
    """Generate series.

    Args:
        kind: "periods", or "no periods".
        count: Number of series. Those of one seed have the same phases and other amplitudes.
        readings: Number of readings of each.
        seed: Seed of the values. The times are the same for every seed, so that all seeds have the same scales of time.

    Returns:
        The series.
    """
    draw, draw_gaps = np.random.default_rng([seed, 0 if kind == "periods" else 1]), np.random.default_rng(0)
    phases = draw.uniform(0, 2 * math.pi, len(PERIODS))
    made = []
    for number in range(count):
        gaps = np.exp(draw_gaps.uniform(math.log(SHORTEST_GAP), math.log(LONGEST_GAP), readings - 1))
        gaps = np.round(gaps * TICKS) / TICKS
        times = START + np.concatenate([[0.0], np.cumsum(gaps)])
        values = _periodic(times, phases, draw) if kind == "periods" else _process(gaps, draw)
        made.append(Series(f"made {number + 1}", times, values))
    return tuple(made)


def _periodic(
    times: NDArray[np.float64], phases: NDArray[np.float64], draw: np.random.Generator
) -> NDArray[np.float64]:
    amplitudes = draw.uniform(0.5, 1.5, len(PERIODS))
    values = NOISE * draw.normal(size=len(times))
    for name, amplitude, phase in zip(PERIODS, amplitudes, phases, strict=True):
        values = values + amplitude * np.sin(2 * math.pi * times / LENGTHS[name] + phase)
    return values


def _process(gaps: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
    kept, noise = np.exp(-gaps / CORRELATION), draw.normal(size=len(gaps) + 1)
    values = [noise[0]]
    for each, step in zip(kept, noise[1:], strict=True):
        values.append(each * values[-1] + math.sqrt(1 - each**2) * step)
    return np.array(values)
