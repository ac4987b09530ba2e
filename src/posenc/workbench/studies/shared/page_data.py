"""Data of a page: the request, its preset, the runs, and their result rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.declarations import Preset, full_budget_of
from posenc.workbench.training.loop import EVALUATION_FRACTIONS

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageData:
    """Data of a page, from which panels are drawn.

    Attributes:
        request: The request.
        preset: Its preset.
        store: The store.
        specs: The trained runs.
        measured: The runs that measure them.
        page: File name of the page without its ending.
        repeated: Runs on the user's data that repeat the trained ones with half the budget or with other learning
            rates. No panel draws them as a condition of its own.
        remarks: Sentences on runs that the page leaves out, because other code made them than the other seeds.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import PageData, Preset, Request, RunResult, RunSpec, Store
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store = Store(tempfile.mkdtemp())
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> preset = Preset(about="one model", seeds=(0,), panels=())
        >>> data = PageData(request=Request(preset="quick"), preset=preset, store=store, specs=[spec])
        >>> [(row["scheme"], row["metric"], row["value"]) for row in data.rows]
        [('rope', 'loss', 0.5)]
        >>> data.conditions, data.labels("main")
        (['main'], ['rope'])
    """

    request: Request
    preset: Preset
    store: Store
    specs: Sequence[RunSpec]
    measured: Sequence[RunSpec] = ()
    page: str = "page"
    repeated: Sequence[RunSpec] = ()
    remarks: Sequence[str] = ()

    @cached_property
    def done(self) -> list[RunSpec]:
        """Trained runs that are finished."""
        finished = self.store.finished_among(spec.identity for spec in self.specs)
        return [spec for spec in self.specs if spec.identity in finished]

    @cached_property
    def computed(self) -> dict[str, Any]:
        """Values that several panels of a study need, by a name that the study chooses: computed once for a page."""
        return {}

    @cached_property
    def timings(self) -> dict[str, Mapping[str, Any]]:
        """Timing of finished runs by identity, those with half the budget too: seconds, and what was trained."""
        every = dict.fromkeys(spec.identity for spec in (*self.specs, *self.repeated))
        return {each: self.store.read(each).timing for each in every if self.store.finished(each)}

    @cached_property
    def rows(self) -> list[Row]:
        """One row per metric of the trained and the measuring runs."""
        return self.store.rows_of((*self.specs, *self.measured))

    @cached_property
    def curves(self) -> list[Row]:
        """One row per point of the learning curves of the trained runs."""
        return self.store.curve_rows_of(self.specs)

    @cached_property
    def half_specs(self) -> list[RunSpec]:
        """Runs with half the budget, on the user's data. Their conditions are those of ``half_budget_of``."""
        return [spec for spec in self.repeated if full_budget_of(spec.condition) is not None]

    @cached_property
    def half_rows(self) -> list[Row]:
        """One row per metric of the runs with half the budget."""
        return self.store.rows_of(self.half_specs)

    @cached_property
    def half_curves(self) -> list[Row]:
        """One row per point of the learning curves of the runs with half the budget."""
        return self.store.curve_rows_of(self.half_specs)

    @property
    def conditions(self) -> list[str]:
        """Labels of the conditions of the trained runs, each once, in the order of the runs."""
        return list(dict.fromkeys(spec.condition for spec in self.specs))

    def labels(self, setting: str) -> list[str]:
        """Return the variants of a condition, each once, in the order of the runs.

        Args:
            setting: Label of the condition.

        Returns:
            Labels of the variants.
        """
        return list(dict.fromkeys(spec.variant for spec in self.specs if spec.condition == setting))

    def first(self, setting: str, label: str) -> RunSpec | None:
        """Return the finished run with the lowest seed, whose images are shown.

        Args:
            setting: Label of the condition.
            label: Label of the variant.

        Returns:
            The run, or None if none is finished.
        """
        cell = [spec for spec in self.done if spec.condition == setting and spec.variant == label]
        return min(cell, key=lambda spec: spec.seed) if cell else None

    def arrays(self, setting: str, label: str) -> dict[str, np.ndarray]:
        """Return the arrays of the run that ``first`` returns.

        Args:
            setting: Label of the condition.
            label: Label of the variant.

        Returns:
            Arrays by name; empty if no run is finished.
        """
        spec = self.first(setting, label)
        return {} if spec is None else self.store.arrays(spec.identity)

    def over_time(self, setting: str, metric: str) -> dict[str, dict[float, dict[int, float]]]:
        """Return a metric by training time, for models that draw their batches.

        Args:
            setting: Label of the condition.
            metric: Name of the metric.

        Returns:
            Variant -> seconds of training -> seed -> value. The seconds are fractions of the time limit; without a
            limit they are the mean over seeds.
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

    def budget(self, setting: str) -> str:
        """Return the budget of the trainings of a condition in words.

        Args:
            setting: Label of the condition.

        Returns:
            "after 10 s of training each", or "after 350 steps" if the runs stored their steps; otherwise "".
        """
        specs = [spec for spec in self.specs if spec.condition == setting]
        limits = {spec.settings.get("training", {}).get("seconds") for spec in specs} - {None}
        if len(limits) == 1:
            return f"after {limits.pop():g} s of training each"
        timings = [self.timings.get(spec.identity, {}) for spec in specs]
        steps = sorted(float(timing["steps"]) for timing in timings if "steps" in timing)
        ends = dict.fromkeys(f"{end:,.0f}" for end in (*steps[:1], *steps[-1:]))
        return f"after {' to '.join(ends)} steps" if steps else ""

    def beside(self, name: str) -> Path:
        """Return the path of a further file of the page. Its name starts with that of the page.

        Args:
            name: End of the file name.

        Returns:
            The path.
        """
        return self.folder / f"{self.page}-{name}"

    @property
    def folder(self) -> Path:
        """Folder of the page and its further files."""
        return self.store.root / "pages"


def _timed(marks: Iterable[Mapping[int, tuple[float, float]]]) -> dict[float, dict[int, float]]:
    """Mean seconds -> seed -> value. Seconds have three digits, or as many as distinguish them."""
    found = {math.fsum(t for t, _ in seeds.values()) / len(seeds): seeds for seeds in marks}
    told = dict(zip(found, found, strict=True))
    for digits in range(15, 2, -1):
        short = {spent: float(f"{spent:.{digits}g}") for spent in found}
        told = short if len({*short.values()}) == len(found) else told
    return {told[spent]: {seed: value for seed, (_, value) in seeds.items()} for spent, seeds in found.items()}


def _moment(spent: float, limit: float) -> float:
    """Scheduled evaluation time that is nearest to the seconds spent, for a training with a time limit."""
    return min((part * limit for part in EVALUATION_FRACTIONS), key=lambda moment: abs(moment - spent))
