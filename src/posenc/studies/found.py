"""What a study found, for its page: a scale, the units that were trained at it, and their rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.training.loop import MOMENTS

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """A scale. about: what it trains and how long that takes. scale: the same in the page's words. asks: before it
    starts, because it is long."""

    about: str
    scale: str
    seeds: Sequence[int]
    panels: Sequence[str]
    asks: bool = True
    own: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the study itself keeps for a scale: sizes, seconds, .."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What a page is drawn from: the request, its scale, its trained units, those that measure them, and their rows."""

    request: Request
    preset: Preset
    store: Store
    units: Sequence[Unit]
    measured: Sequence[Unit] = ()
    page: str = "page"
    """The page's file, without its ending."""

    @cached_property
    def done(self) -> list[Unit]:
        return [unit for unit in self.units if self.store.finished(unit.key)]

    @cached_property
    def rows(self) -> list[Row]:
        return self.store.results(keys={unit.key for unit in (*self.units, *self.measured)})

    @cached_property
    def curves(self) -> list[Row]:
        return self.store.curves(keys={unit.key for unit in self.units})

    @property
    def settings(self) -> list[str]:
        """The settings of these units, each once, in their order."""
        return list(dict.fromkeys(unit.setting for unit in self.units))

    def labels(self, setting: str) -> list[str]:
        return list(dict.fromkeys(plain_label(unit) for unit in self.units if unit.setting == setting))

    def first(self, setting: str, label: str) -> Unit | None:
        """The finished unit of a cell with the lowest seed: the one whose pictures are shown."""
        cell = [unit for unit in self.done if unit.setting == setting and plain_label(unit) == label]
        return min(cell, key=lambda unit: unit.seed) if cell else None

    def arrays(self, setting: str, label: str) -> dict[str, np.ndarray]:
        """What the ``first`` unit of a cell stored; nothing where none has finished."""
        unit = self.first(setting, label)
        return {} if unit is None else self.store.arrays(unit.key)

    def over_time(self, setting: str, metric: str) -> dict[str, dict[float, dict[int, float]]]:
        """Of trainings that draw their batches: label -> seconds of training -> seed -> value.

        The seconds are those of a limit in time, or the mean over seeds where steps are counted.
        """
        read: dict[str, dict[float, dict[int, tuple[float, float]]]] = {}
        for unit in self.done:
            if unit.setting != setting:
                continue
            limit, at = unit.settings["training"].get("seconds"), {}
            for row in self.store.read(unit.key).curves:
                at.setdefault(row["epoch"], {})[row["metric"]] = row["value"]
            for epoch, point in at.items():
                spent, value = point.get("seconds"), point.get(metric, math.nan)
                if spent and math.isfinite(value):
                    mark = _moment(spent, limit) if limit else epoch
                    seeds = read.setdefault(plain_label(unit), {}).setdefault(mark, {})
                    seeds[unit.seed] = (mark if limit else spent, value)
        return {label: _timed(marks.values()) for label, marks in read.items()}

    def beside(self, name: str) -> Path:
        """A file that goes with the page, and is named after it: a store has several pages."""
        return self.folder / f"{self.page}-{name}"

    @property
    def folder(self) -> Path:
        """Where the page lies, and files beside it."""
        return self.store.root / "pages"


def _timed(marks: Iterable[Mapping[int, tuple[float, float]]]) -> dict[float, dict[int, float]]:
    """Mean seconds, to three digits or as many as tell them apart -> seed -> value."""
    found = {math.fsum(t for t, _ in seeds.values()) / len(seeds): seeds for seeds in marks}
    told = dict(zip(found, found, strict=True))
    for digits in range(15, 2, -1):
        short = {spent: float(f"{spent:.{digits}g}") for spent in found}
        told = short if len({*short.values()}) == len(found) else told
    return {told[spent]: {seed: value for seed, (_, value) in seeds.items()} for spent, seeds in found.items()}


def _moment(spent: float, limit: float) -> float:
    """The moment at which a training of so many seconds was measured when it had spent these."""
    return min((part * limit for part in MOMENTS), key=lambda moment: abs(moment - spent))


def stored_label(label: str, setting: str) -> str:
    """A row's name in the store: with its setting, so that nobody averages over two settings unawares."""
    return label if setting == "main" else f"{label}, {setting}"


def plain_label(unit: Unit) -> str:
    return unit.scheme.removesuffix(f", {unit.setting}")
