"""How much sooner a grid of many levels is as near to a picture as the best network of waves is in the end.

    sooner = T / t,    t when multires first reaches  max over waves of psnr(T);    0 where it never does: censored

psnr: means over seeds, on the grid of pixels that is looked at while a field trains for T seconds; ``psnr@PART`` of
them in the store. Between two looks log t is interpolated; before the first one it is not, so that t is at most that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from posenc.measure.statistics import Estimate, mean
from posenc.report.quantities import Paired, Sides
from posenc.report.rows import Row, values
from posenc.studies.image_fit.choosing import choose
from posenc.studies.image_fit.presets import kind_of
from posenc.studies.image_fit.rows import is_wave
from posenc.training.loop import MOMENTS

QUICK = "multires"
FEWEST = 6
"""Pictures from which on the least and the greatest are a 95% interval of the median: 1 - 2 / 2^6."""
AIM = 5.0


class Crossing(NamedTuple):
    """The best network of waves, what it reaches in decibels, and after which part of the time the grid is there."""

    rival: str
    reaches: float
    part: float

    @property
    def sooner(self) -> float:
        return 1 / self.part


def crossings(rows: Sequence[Row]) -> dict[str, Crossing]:
    """Of each picture that both were fitted to in limited time; scales that were not chosen are no rivals."""
    rejected, found = choose(rows).rejected, {}
    for setting in dict.fromkeys(str(row["setting"]) for row in rows if kind_of(str(row["setting"])) == "fit"):
        looks = {part: _means(rows, f"psnr@{part:g}", setting) for part in MOMENTS}
        last = {label: psnr for label, psnr in looks[1.0].items() if is_wave(label) and label not in rejected}
        if QUICK in looks[1.0] and last:
            rival = max(last, key=lambda label: last[label])
            curve = {part: means[QUICK] for part, means in looks.items() if QUICK in means}
            found[setting] = Crossing(rival, last[rival], crossing(curve, last[rival]))
    return found


def crossing(curve: Mapping[float, float], target: float) -> float:
    """When a curve first reaches the target; infinite where it does not."""
    before: tuple[float, float] | None = None
    for x, value in sorted(curve.items()):
        if value >= target:
            if before is None or value == before[1]:
                return x
            part = (target - before[1]) / (value - before[1])
            return math.exp(math.log(before[0]) + part * (math.log(x) - math.log(before[0])))
        before = (x, value)
    return math.inf


def median_of(found: Sequence[float]) -> Estimate:
    """The median, and from the least to the greatest: the interval of the sign test, unknown below ``FEWEST``."""
    n = len(found)
    low, high = (min(found), max(found)) if n >= FEWEST else (math.nan, math.nan)
    return Estimate(median(found), math.nan, low, high, n, 1 - 2 / 2**n if n >= FEWEST else 0.95)


def _parts(rows: Sequence[Row]) -> Sides | None:
    found = list(crossings(rows).values())
    return (dict.fromkeys(range(len(found)), 1.0), {i: each.part for i, each in enumerate(found)}) if found else None


@dataclass(frozen=True)
class Sooner(Paired):
    """The median over pictures, where a paired difference would have a mean; sides: the parts of the time they took."""

    sides: Callable[[Sequence[Row]], Sides | None] = _parts
    over: str = "picture"

    def __call__(self, rows: Sequence[Row]) -> Estimate | None:
        sides = self.sides(rows)
        return None if sides is None else median_of([whole / sides[1][i] for i, whole in sides[0].items()])

    def p_value(self, rows: Sequence[Row]) -> None:
        return None


def _means(rows: Sequence[Row], metric: str, setting: str) -> dict[str, float]:
    held = values(rows, metric, setting)
    return {scheme.removesuffix(f", {setting}"): mean(list(seeds.values())) for scheme, seeds in held.items()}
