"""The panels of the Latin-square study, drawn from what a store holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from posenc.measure.inference import FEWEST_SEEDS_FOR_BOOTSTRAP, accuracy_interval
from posenc.measure.statistics import Estimate
from posenc.report.page import Panel
from posenc.report.panels import accuracy_by_class, accuracy_by_scheme, against_published, contrast, learning_curves
from posenc.report.rows import BySeed, values
from posenc.store import Store, Unit
from posenc.studies import Request
from posenc.studies.latin_squares import planning, published, work
from posenc.studies.latin_squares.panels import CLEAN_OF, HEADS_ROWS, PANELS, needed
from posenc.studies.latin_squares.presets import FOUR_HEADS, GAP_CLOSES, PRESETS, TWO_HEADS, Preset
from posenc.studies.latin_squares.rows import learned
from posenc.tasks import latin_squares as task

Row = dict[str, Any]
OOD, IID, CHANCE = "accuracy_ood", "accuracy_iid", 0.25
OOD_LABEL, IID_LABEL = "accuracy out of distribution", "accuracy in distribution"

CHOSEN = (
    "The main setting was chosen, among about twenty, to show the gap between small and large initial tables: its size "
    "is therefore selected; its sign was the same in every three-seed run. Here the same encodings train in a setting "
    "chosen because the gap closes in it: 8,000 puzzles, a learning rate three times as large, layer norm before "
    "attention, tokens as large as the positions (standard deviation 1), the encoding added once, at the input."
)


@dataclasses.dataclass(frozen=True)
class Found:
    """What a page is drawn from: the request, its trained units, their rows and those of their measurements."""

    request: Request
    store: Store
    units: Sequence[Unit]

    @cached_property
    def preset(self) -> Preset:
        return PRESETS[self.request.preset]

    @cached_property
    def measured(self) -> list[Unit]:
        units = planning.measure_units(self.request, self.store, self.units)
        return [unit for unit in units if self.store.finished(unit.key)]

    @cached_property
    def rows(self) -> list[Row]:
        keys = {unit.key for unit in (*self.units, *self.measured)}
        return self.store.results(study=planning.STUDY_NAME, keys=keys)

    @cached_property
    def curves(self) -> list[Row]:
        return self.store.curves(study=planning.STUDY_NAME, keys={unit.key for unit in self.units})

    def of(self, labels: Sequence[str]) -> list[Row]:
        """The rows of these labels in every setting, under the label alone."""
        return [row for row in map(_plain, self.rows) if row["scheme"] in labels]

    def by_sigma(self, metric: str, sigmas: Sequence[float], setting: str = "main") -> dict[float, BySeed]:
        found = values(self.of([learned(sigma) for sigma in sigmas]), metric, setting)
        return {sigma: found[learned(sigma)] for sigma in sigmas if learned(sigma) in found}

    def needs(self, panel: str) -> tuple[str, ...]:
        """The rows of a panel in the main setting, and whatever was trained beyond the preset's own."""
        named = needed([panel], self.preset)["main"]
        every = {label for labels in needed(list(PANELS), self.preset).values() for label in labels}
        extra = [unit.scheme for unit in self.units if unit.setting == "main" and unit.scheme not in every]
        return (*named, *dict.fromkeys(extra))

    @property
    def same_model(self) -> bool:
        return self.request.preset != "quick"

    @property
    def label(self) -> str:
        return "the paper's model, fewer epochs" if self.same_model else "another model, another scale"

    def dataset(self) -> task.Dataset | None:
        for unit in self.units:
            if unit.setting == "main":
                path = work.dataset_path(self.store.root, unit.settings["data"])
                return task.load(path) if path.exists() else None
        return None

    def baselines(self) -> dict[str, dict[str, float]]:
        """What can be scored without seeing the grid: the commonest symbol of a cell, and the rarest clue."""
        data = self.dataset()
        if data is None:
            return {}
        return {
            metric: {
                "commonest at the cell": task.cell_prior(data.train, held),
                "rarest symbol": task.least_frequent_symbol(held),
            }
            for metric, held in ((OOD, data.ood), (IID, data.iid))
        }

    def intervals(self, labels: Sequence[str]) -> dict[str, dict[str, Estimate]]:
        """From ten seeds up, the intervals of a bootstrap over seeds and puzzles."""
        found: dict[str, dict[str, Estimate]] = {}
        for metric, array in ((OOD, "right_ood"), (IID, "right_iid")):
            right: dict[str, dict[int, np.ndarray]] = {}
            for unit in self.units:
                if unit.setting == "main" and unit.scheme in labels and self.store.finished(unit.key):
                    right.setdefault(unit.scheme, {})[unit.seed] = self.store.arrays(unit.key)[array]
            found[metric] = {
                label: accuracy_interval(seeds)
                for label, seeds in right.items()
                if len(seeds) >= FEWEST_SEEDS_FOR_BOOTSTRAP
            }
        return {metric: rows for metric, rows in found.items() if rows}

    def arrays(self, label: str) -> dict[str, np.ndarray]:
        """The measured arrays of a row's first seed; none where it was not measured."""
        units = sorted((unit for unit in self.measured if unit.scheme == label), key=lambda unit: unit.seed)
        return self.store.arrays(units[0].key) if units else {}


def _plain(row: Row) -> Row:
    return {**row, "scheme": row["scheme"].removesuffix(f", {row['setting']}")}


def accuracy(found: Found) -> list[Panel]:
    labels = found.needs("accuracy")
    rows = [row for row in found.of(labels) if row["setting"] == "main"]
    return [
        accuracy_by_scheme(
            rows,
            metrics={OOD: "Out of distribution", IID: "In distribution"},
            chance=CHANCE,
            baselines=found.baselines(),
            intervals=found.intervals(labels),
        ),
        accuracy_by_class(
            rows,
            metrics={f"{OOD}_{kind}": f"{kind}-vector puzzles" for kind in (1, 2, 3)},
            chance=CHANCE,
            order_by=OOD,
            caption="How many rows and columns must be combined to know the symbol. Out of distribution.",
        ),
        learning_curves(
            [row for row in found.curves if row["scheme"] in labels],
            metrics={OOD: "out of distribution", "accuracy_train": "training"},
            chance=CHANCE,
        ),
        against_published(
            rows,
            metric=OOD,
            published={label: number for label, number in published.ACCURACY.items() if label in labels},
            source=published.SOURCE.format("1 and A2"),
            n_published=published.SEEDS_PUBLISHED if found.same_model else None,
            label=found.label,
        ),
    ]


def gap_closes(found: Found) -> list[Panel]:
    return [
        contrast(
            found.of(("learned-0.2", "learned-2")),
            metric=OOD,
            settings={"main": "The main setting", GAP_CLOSES: "Where the gap closes"},
            pairs=[("learned-0.2", "learned-2")],
            chance=CHANCE,
            chosen=CHOSEN,
        )
    ]


def heads(found: Found) -> list[Panel]:
    return [
        contrast(
            found.of(HEADS_ROWS),
            metric=OOD,
            settings={"main": "One head", TWO_HEADS: "Two heads", FOUR_HEADS: "Four heads"},
            pairs=[("2d-fixed", "learned-0.2")],
            chance=CHANCE,
            chosen=(
                "The same width split into more heads. The paper (Fig. A14) says that learned-0.2 gets worse with two "
                "and four heads and that only rope gets better."
            ),
            title="More heads",
        )
    ]


def as_run(found: Found) -> list[Panel]:
    return [
        accuracy_by_scheme(
            [row for row in found.of((*CLEAN_OF, *CLEAN_OF.values())) if row["setting"] == "main"],
            metrics={OOD: "Out of distribution", IID: "In distribution"},
            chance=CHANCE,
            title="What the authors' code runs, beside what their text says",
            caption=(
                "2d-fixed and 1d-fixed as run: dropout of 0.1 on the sum of token and position, never switched off, "
                "not even for evaluation. relative as run: causal, without values and output projection, its table "
                "from N(0, 1). causal-nope as run: logits times 100. The other rows are the clean mathematics."
            ),
        )
    ]


DRAWN: Mapping[str, Callable[[Found], list[Panel]]] = {
    "accuracy": accuracy,
    "gap-closes": gap_closes,
    "heads": heads,
    "as-run": as_run,
}
"""Panels of scores alone; ``sweeps`` has those over a number and ``maps`` those of measured models."""
