"""What a study found, for its page: a scale, the units that were trained at it, and their rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.declarations import Preset
from posenc.workbench.training.loop import EVALUATION_FRACTIONS

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageData:
    """What a page is drawn from: request, preset, trained runs, the runs that measure them, and their rows.

    page: file of the page, without its ending.
    """

    request: Request
    preset: Preset
    store: Store
    specs: Sequence[RunSpec]
    measured: Sequence[RunSpec] = ()
    page: str = "page"

    @cached_property
    def done(self) -> list[RunSpec]:
        return [spec for spec in self.specs if self.store.finished(spec.identity)]

    @cached_property
    def rows(self) -> list[Row]:
        return self.store.rows_of((*self.specs, *self.measured))

    @cached_property
    def curves(self) -> list[Row]:
        return self.store.curve_rows_of(self.specs)

    @property
    def conditions(self) -> list[str]:
        """Conditions of these runs, each once, in their order."""
        return list(dict.fromkeys(spec.condition for spec in self.specs))

    def labels(self, setting: str) -> list[str]:
        return list(dict.fromkeys(spec.variant for spec in self.specs if spec.condition == setting))

    def first(self, setting: str, label: str) -> RunSpec | None:
        """The finished unit of a cell with the lowest seed: the one whose pictures are shown."""
        cell = [spec for spec in self.done if spec.condition == setting and spec.variant == label]
        return min(cell, key=lambda spec: spec.seed) if cell else None

    def arrays(self, setting: str, label: str) -> dict[str, np.ndarray]:
        """What the ``first`` unit of a cell stored; nothing where none has finished."""
        spec = self.first(setting, label)
        return {} if spec is None else self.store.arrays(spec.identity)

    def over_time(self, setting: str, metric: str) -> dict[str, dict[float, dict[int, float]]]:
        """Of trainings that draw their batches: label -> seconds of training -> seed -> value.

        The seconds are those of a limit in time, or the mean over seeds where steps are counted.
        """
        read: dict[str, dict[float, dict[int, tuple[float, float]]]] = {}
        for spec in self.done:
            if spec.condition != setting:
                continue
            limit, at = spec.settings["training"].get("seconds"), {}
            for row in self.store.read(spec.identity).curves:
                at.setdefault(row["epoch"], {})[row["metric"]] = row["value"]
            for epoch, point in at.items():
                spent, value = point.get("seconds"), point.get(metric, math.nan)
                if spent and math.isfinite(value):
                    mark = _moment(spent, limit) if limit else epoch
                    seeds = read.setdefault(spec.variant, {}).setdefault(mark, {})
                    seeds[spec.seed] = (mark if limit else spent, value)
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
    return min((part * limit for part in EVALUATION_FRACTIONS), key=lambda moment: abs(moment - spent))
