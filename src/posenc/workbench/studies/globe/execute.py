"""Execute one run of the globe study: sample its places, train an encoding with its network, score it by region."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.field import Field
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.studies.globe.variants import GlobeEncoding
from posenc.workbench.studies.shared.field_variants import training_memory
from posenc.workbench.studies.shared.training_run import execute_training, restored, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import globe as task
from posenc.workbench.training.fit import Fit
from posenc.workbench.training.loop import Report, TrainingConfig

CHUNK = 16384
"""Places whose outputs are computed at once."""
SCORING_SECONDS = 2.0
"""Approximate time of a run without its training, in seconds."""
Target = task.Field | task.Labels


def store_raster(root: Path, path: Path) -> str:
    """Copy a raster file into the folder of data of a store; return the digest that names the copy."""
    task.read_raster(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    if not _raster_path(root, digest).exists():
        _raster_path(root, digest).parent.mkdir(parents=True, exist_ok=True)
        write_whole(_raster_path(root, digest), content)
    return digest


def _raster_path(root: Path, digest: str) -> Path:
    return root / "data" / f"globe-{digest}.npz"


def target_of(root: Path, spec: RunSpec) -> Target:
    """Target that a run predicts: a field, generated from its settings and seed, or labels from the store's raster.

    Raises:
        ValueError: The store lacks the raster.
    """
    data = spec.settings["data"]
    if data["target"] == "field":
        return task.random_field(data["degree"], data["power"], seed=data["first"] + spec.seed)
    raster = task.read_raster(_raster_path(root, data["raster"]))
    return task.land_labels(raster) if data["target"] == "land" else task.country_labels(raster, data["most"])


class GlobeModel:
    """A field network on its sampled places: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.device = spec.settings, spec.settings["device"]
        self.encoding = msgspec.convert(settings["row"], GlobeEncoding)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.target, self.spec = target_of(root, spec), spec
        torch.manual_seed(spec.seed)
        self.model: Field = self.encoding.field.field().to(self.device)

    @cached_property
    def samples(self) -> task.Samples:
        return task.sample_places(self.target, **self.spec.settings["places"], seed=self.spec.seed)

    @cached_property
    def train(self) -> Tensor:
        return self.view(self.samples.train.lon, self.samples.train.lat)

    @cached_property
    def targets(self) -> Tensor:
        return self.samples.train.target.to(self.device)

    def view(self, lon: Tensor, lat: Tensor) -> Tensor:
        """The coordinates of places that the encoding reads, float32."""
        return task.views(lon, lat)[self.encoding.view].coords.float().to(self.device)

    def loss(self, batch: Tensor) -> Tensor:
        """Mean squared error of values, or cross-entropy of classes."""
        outputs, targets = self.model(self.train[batch]), self.targets[batch]
        if targets.is_floating_point():
            return functional.mse_loss(outputs[:, 0], targets)
        return functional.cross_entropy(outputs, targets)

    def outputs(self, lon: Tensor, lat: Tensor) -> Tensor:
        """Values ``(N, 1)`` or logits ``(N, C)`` at places."""
        x = self.view(lon, lat)
        return torch.cat([self.model(part) for part in x.split(CHUNK)]).cpu()

    def scores(self, places: task.Places) -> dict[str, float]:
        """RMSE of values, or accuracy and loss of classes; empty where there are no places."""
        if not len(places):
            return {}
        outputs = self.outputs(places.lon, places.lat)
        if isinstance(self.target, task.Labels):
            accuracy = task.accuracy(outputs, places.target, macro=self.target.macro)
            return {"accuracy": accuracy, "loss": task.cross_entropy(outputs, places.target)}
        return {"rmse": task.rmse(outputs[:, 0], places.target)}

    def evaluate(self) -> dict[str, float]:
        """Scores of the held-out places over the globe."""
        return self.scores(self.samples.everywhere)

    def fit(self) -> Fit:
        """The training problem."""
        return Fit(self.model, len(self.train), self.loss, self.evaluate)

    def jump(self, meridian: float) -> float:
        """Mean difference of the outputs across a meridian; of probabilities for classes."""
        outputs = self.outputs(*task.seam_places(meridian))
        return task.seam_jump(outputs.softmax(-1) if isinstance(self.target, task.Labels) else outputs)

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores by region, the jumps across two meridians, and the error by latitude."""
        regions = {
            "": self.samples.everywhere,
            "_poles": self.samples.poles,
            "_date_line": self.samples.date_line,
        }
        with torch.no_grad():
            metrics = {
                f"{name}{region}": value
                for region, places in regions.items()
                for name, value in self.scores(places).items()
            }
            metrics["jump_date_line"], metrics["jump_elsewhere"] = self.jump(task.DATE_LINE), self.jump(task.ELSEWHERE)
            bands = [_error(self.scores(places)) for places in self.samples.bands]
        metrics["parameters"] = float(self.model.parameter_count)
        arrays = {"error_by_latitude": np.array(bands)}
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def _error(scores: dict[str, float]) -> float:
    return scores.get("rmse", 1 - scores.get("accuracy", float("nan")))


def build(spec: RunSpec, root: Path, folder: Path | None) -> GlobeModel:
    """The model of a run on its places, untrained."""
    return GlobeModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it."""
    return execute_training(spec, workdir, report, build)


def trained_models(store: Store, specs: Iterable[RunSpec]) -> dict[str, GlobeModel]:
    """Variant to its trained model on the CPU, for the runs whose weights and data the store holds."""
    models = {}
    for spec in specs:
        with suppress(StoreError):
            if has_data(store.root, spec):
                models[spec.variant] = restored(store, spec.identity, build)
    return models


def has_data(root: Path, spec: RunSpec) -> bool:
    """Return True if a store has the raster that the target of a run needs, or if the run needs none."""
    digest = spec.settings["data"].get("raster")
    return digest is None or _raster_path(root, digest).is_file()


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run."""
    encoding = msgspec.convert(spec.settings["row"], GlobeEncoding)
    return training_memory(encoding.field, max(spec.settings["training"]["batch"], CHUNK))


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps and the time of scoring."""
    counts, training = spec.settings["places"], msgspec.convert(spec.settings["training"], TrainingConfig)
    few = {name: min(count, training.batch) for name, count in counts.items()}  # A timed step needs no more places.
    with torch.random.fork_rng():
        model = GlobeModel(msgspec.structs.replace(spec, settings={**spec.settings, "places": few}), store.root)
        fit = dataclasses.replace(model.fit(), samples=counts["train"])
        return training_seconds(fit, training, model.device) + SCORING_SECONDS


TRAIN = Procedure("globe.train", 1, train)
