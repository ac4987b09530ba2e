"""Execute one run of the places study: train a network on places and other columns, or take a baseline."""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.models.place_network import PlaceConfig, PlaceNetwork
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.places.stored_places import read_parts, read_table
from posenc.workbench.studies.places.variants import BOOSTING, PROCESS, PlaceVariant
from posenc.workbench.studies.shared.training_run import execute_training, store_root, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import places as task
from posenc.workbench.tasks.class_split import Parts
from posenc.workbench.training.fit import endless_batches
from posenc.workbench.training.loop import Fit, Report, TrainingConfig

CHUNK = 8192
"""Rows whose outputs are computed at once."""
SCORING_SECONDS = 0.3
BASELINE_SECONDS = {"knn": 0.3, "gp": 12.0, "ridge": 0.5, "boosting": 3.0}
"""Approximate time of a baseline with 20,000 rows, without an encoding."""
ENCODED = 4
"""Approximate factor on the time of boosting that reads an encoding."""
USUAL_ROWS = 20_000


class PlacesOfRun:
    """Places of a run with their parts, views and targets."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        data = spec.settings["data"]
        self.table = read_table(root, data, spec.seed)
        self.parts: Parts = read_parts(self.table, data, spec.seed)
        self.region = task.Region(**{**data["region"], "middle": tuple(data["region"]["middle"])})
        self.spans = data.get("spans", [])
        self.targets = task.Targets(self.table, self.parts.train, logarithm=data["logarithm"])

    def view(self, view: task.PlaceView) -> Tensor:
        """Positions ``(N, P)`` of all rows."""
        place = self.region.view(self.table.coords, task.MIXED.get(view, view))
        return task.mixed_view(place, self.table.further, self.spans) if view in task.MIXED else place


class PlacesModel:
    """A network on its places: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.spec = spec.settings, spec
        self.data = PlacesOfRun(spec, root)
        self.device: str = settings["device"]
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.variant = msgspec.convert(settings["row"], PlaceVariant)
        self.started = time.process_time()
        torch.manual_seed(spec.seed)
        self.model: PlaceNetwork = self.variant.model(msgspec.convert(settings["model"], PlaceConfig)).to(self.device)

    @cached_property
    def places(self) -> Tensor:
        return self.data.view(self.variant.view).to(self.device)

    @cached_property
    def columns(self) -> Tensor:
        made = task.standardized_columns(self.data.table, self.data.parts.train)
        return torch.from_numpy(made).to(self.device)

    @cached_property
    def true(self) -> Tensor:
        """Targets of all rows, as the model learns them."""
        return self.data.targets.learned(np.arange(len(self.data.table))).to(self.device)

    def fit(self) -> Fit:
        """The training problem: an epoch is a step."""
        train = self.data.parts.train
        draw = endless_batches(len(train), self.training.batch, self.spec.seed)
        return Fit(self.model, len(train), self.loss, self.evaluate, draw=draw)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross-entropy or mean squared error of a batch of training rows."""
        rows = torch.from_numpy(self.data.parts.train)[batch].to(self.device)
        return self.data.targets.loss(self.model(self.places[rows], self.columns[rows]), self.true[rows])

    @torch.no_grad()
    def outputs(self, rows: NDArray[np.int64]) -> Tensor:
        """Logits or standardized values of rows, on the CPU."""
        some = torch.from_numpy(rows).to(self.device).split(CHUNK)
        return torch.cat([self.model(self.places[each], self.columns[each]).cpu() for each in some])

    def evaluate(self) -> dict[str, float]:
        """Scores on the validation part."""
        validation = self.data.parts.validation
        return self.data.targets.scores(self.outputs(validation), validation)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores and predictions on the test part, and the processor time."""
        trained = time.process_time()
        outputs = self.outputs(self.data.parts.test)
        times = {"train_seconds": trained - self.started, "predict_seconds": time.process_time() - trained}
        made = tested(self.data, outputs, times)
        made.metrics["parameters"] = float(self.model.parameter_count)
        made.curves, made.weights = curve, weights_of(self.model)
        return made


def tested(data: PlacesOfRun, outputs: Tensor, more: dict[str, float]) -> RunResult:
    """Scores of outputs on the test part with further ones, and the predictions for the maps."""
    test = data.parts.test
    arrays = {"tested": test.astype(np.int32), "predicted": data.targets.predicted(outputs)}
    return RunResult(metrics=data.targets.scores(outputs, test) | more, arrays=arrays)


def build(spec: RunSpec, root: Path, workdir: Path | None) -> PlacesModel:
    """The model of a run on its places, untrained."""
    return PlacesModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it, or compute a baseline."""
    if "baseline" in spec.settings:
        return baseline_result(spec, store_root(workdir))
    return execute_training(spec, workdir, report, build)


def baseline_result(spec: RunSpec, root: Path) -> RunResult:
    """Scores of a baseline on the test part. It trains on the training and the validation part."""
    data = PlacesOfRun(spec, root)
    started = time.process_time()
    name = spec.settings["baseline"]
    places, raw = data.view("region").numpy(), data.table.coords
    columns = task.standardized_columns(data.table, data.parts.train)
    if name == BOOSTING:
        places, columns = raw, task.plain_columns(data.table)
    if "row" in spec.settings:
        with torch.random.fork_rng():
            torch.manual_seed(spec.seed)
            row = msgspec.convert(spec.settings["row"], PlaceVariant)
            encoded = row.rows(data.view(row.view)).numpy()
        places = np.concatenate([places, encoded], 1) if row.scheme else encoded
    elif name == "knn" and data.region.geometry == "sphere":
        places = data.view("xyz").numpy()
    learned = data.targets.learned(np.arange(len(data.table))).numpy()
    learned = learned if data.targets.classes else learned[:, 0].astype(float)
    rows = np.concatenate(data.parts[:2])
    made = task.predicted(name, task.BaselineRows(places, columns, learned, rows, data.parts.test), spec.seed)
    outputs, more = torch.from_numpy(made.outputs), {"train_seconds": time.process_time() - started}
    if data.targets.classes:
        outputs = outputs.clamp(min=task.TINY).log()
    if made.deviations is not None:
        true = learned[data.parts.test]
        more |= task.interval_coverage(true, made.outputs[:, 0], made.deviations, data.targets.scale)
    return tested(data, outputs, more)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    if "baseline" in spec.settings:
        encoded = "row" in spec.settings and spec.settings["row"]["scheme"]
        items = spec.settings.get("items", spec.settings["data"])
        share = min(1.0, (items.get("train") or items.get("made", USUAL_ROWS)) / USUAL_ROWS)
        name = spec.settings["baseline"]
        return BASELINE_SECONDS[name] * (ENCODED if encoded else 1) * (1.0 if name == PROCESS else max(share, 0.2))
    with torch.random.fork_rng():
        model = PlacesModel(spec, store.root)
        return training_seconds(model.fit(), model.training, model.device) + SCORING_SECONDS


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run: the columns of all rows, and the activations of those that are read at once."""
    if "baseline" in spec.settings:
        return 2e8
    model, rows = spec.settings["model"], max(spec.settings["training"]["batch"], CHUNK)
    return 8.0 * rows * (model["columns"] + model["width"] * (model["depth"] + 2) + 256)


TRAIN = Procedure("places.train", 1, train)
