"""Time that a multi-resolution grid needs to reach the final PSNR of the best network without a grid.

    speed-up = T / t,    t: first time at which multires reaches  max over networks without a grid of psnr(T)

The speed-up is 0 if that PSNR is never reached (a censored value). psnr is the mean over seeds on the pixels that are
monitored during a training of T seconds, ``psnr@FRACTION`` in the store. Between two evaluations log t is interpolated.
At the first evaluation it is not, so that t is an upper limit there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from posenc.measure.statistics import Estimate, mean
from posenc.workbench.report.estimators import PairedDifference, PairedValues
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.studies.image_fit.conditions import FIT, protocol_of
from posenc.workbench.studies.image_fit.scale_selection import select_scales
from posenc.workbench.studies.image_fit.variants import is_gridless
from posenc.workbench.training.config import EVALUATION_FRACTIONS

GRID = "multires"
FEWEST_IMAGES = 6
"""Fewest images for which minimum and maximum are a 95% interval of the median: 1 - 2 / 2^6 = 0.97."""


class Crossing(NamedTuple):
    """Point at which the curve of the grid reaches the final PSNR of the best network without a grid.

    Attributes:
        rival: Label of that network.
        psnr: Its final PSNR in dB.
        fraction: Fraction of the training time after which the grid reaches it; infinite if never.
    """

    rival: str
    psnr: float
    fraction: float

    @property
    def speed_up(self) -> float:
        """Training time divided by the time that the grid needs."""
        return 1 / self.fraction


def crossings(rows: Sequence[Row]) -> dict[str, Crossing]:
    """Condition to crossing, for images that the grid and a network without a grid were fitted to in limited time."""
    rejected, crossing_of = select_scales(rows).rejected, dict[str, Crossing]()
    for condition in dict.fromkeys(str(row["setting"]) for row in rows):
        if protocol_of(condition) != FIT:
            continue
        means = {part: _means(rows, f"psnr@{part:g}", condition) for part in EVALUATION_FRACTIONS}
        final = {label: psnr for label, psnr in means[1.0].items() if is_gridless(label) and label not in rejected}
        if GRID in means[1.0] and final:
            rival = max(final, key=lambda label: final[label])
            curve = {part: by_label[GRID] for part, by_label in means.items() if GRID in by_label}
            crossing_of[condition] = Crossing(rival, final[rival], first_crossing(curve, final[rival]))
    return crossing_of


def first_crossing(curve: Mapping[float, float], target: float) -> float:
    """First x at which a curve reaches a target, interpolated in log x; infinite if it does not reach it."""
    before: tuple[float, float] | None = None
    for x, value in sorted(curve.items()):
        if value >= target:
            if before is None or value == before[1]:
                return x
            part = (target - before[1]) / (value - before[1])
            return math.exp(math.log(before[0]) + part * (math.log(x) - math.log(before[0])))
        before = (x, value)
    return math.inf


def median_estimate(values: Sequence[float]) -> Estimate:
    """Median with minimum and maximum as interval (sign test); no interval below ``FEWEST_IMAGES`` values."""
    n = len(values)
    low, high = (min(values), max(values)) if n >= FEWEST_IMAGES else (math.nan, math.nan)
    return Estimate(median(values), math.nan, low, high, n, 1 - 2 / 2**n if n >= FEWEST_IMAGES else 0.95)


def _fractions(rows: Sequence[Row]) -> PairedValues | None:
    each = list(crossings(rows).values())
    return (dict.fromkeys(range(len(each)), 1.0), {i: one.fraction for i, one in enumerate(each)}) if each else None


@dataclass(frozen=True)
class MedianSpeedUp(PairedDifference):
    """Median speed-up over images, in place of the mean of a paired difference; sides: whole time and time needed."""

    sides: Callable[[Sequence[Row]], PairedValues | None] = _fractions
    over: str = "image"

    def __call__(self, rows: Sequence[Row]) -> Estimate | None:
        sides = self.sides(rows)
        return None if sides is None else median_estimate([whole / sides[1][i] for i, whole in sides[0].items()])

    def p_value(self, rows: Sequence[Row]) -> None:
        """No p-value: the interval is that of the sign test."""
        return


def _means(rows: Sequence[Row], metric: str, condition: str) -> dict[str, float]:
    return {label: mean(list(seeds.values())) for label, seeds in values_by_scheme(rows, metric, condition).items()}
