"""One unit of the globe study: draw its places, train an encoding and its network on them, score by region."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.field import Field
from posenc.store import Outcome, Store, Unit
from posenc.studies.field_rows import memory_of
from posenc.studies.globe.rows import GlobeRow
from posenc.studies.timing import training_seconds
from posenc.tasks import globe as task
from posenc.training.checkpoint import write_whole
from posenc.training.loop import Fit, Report, TrainingConfig, train

CHUNK = 16384
SCORING = 2.0
"""Seconds, about, that a unit takes besides its training."""
Target = task.Field | task.Labels


def keep_raster(root: Path, path: Path) -> str:
    """Puts a raster's file into a store's folder of data; returns the digest that finds it there."""
    task.read(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    if not _kept(root, digest).exists():
        _kept(root, digest).parent.mkdir(parents=True, exist_ok=True)
        write_whole(_kept(root, digest), content)
    return digest


def _kept(root: Path, digest: str) -> Path:
    return root / "data" / f"globe-{digest}.npz"


def target_of(root: Path, unit: Unit) -> Target:
    """What a unit is asked of a place: every seed has a field of its own."""
    data = unit.settings["data"]
    if data["target"] == "field":
        return task.random_field(data["degree"], data["power"], seed=data["first"] + unit.seed)
    raster = task.read(_kept(root, data["raster"]))
    return task.land_or_sea(raster) if data["target"] == "land" else task.largest_countries(raster, data["most"])


class Trained:
    """A field on its places: the loss of a batch, and scores."""

    def __init__(self, unit: Unit, root: Path) -> None:
        settings, self.device = unit.settings, unit.settings["device"]
        self.row = msgspec.convert(settings["row"], GlobeRow)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.target, self.unit = target_of(root, unit), unit
        torch.manual_seed(unit.seed)
        self.model: Field = self.row.field.field().to(self.device)

    @cached_property
    def samples(self) -> task.Samples:
        return task.sample(self.target, **self.unit.settings["places"], seed=self.unit.seed)

    @cached_property
    def train(self) -> Tensor:
        return self.coordinates(self.samples.train.lon, self.samples.train.lat)

    @cached_property
    def answers(self) -> Tensor:
        return self.samples.train.target.to(self.device)

    def coordinates(self, lon: Tensor, lat: Tensor) -> Tensor:
        """The row's view of places, float32."""
        return task.views(lon, lat)[self.row.view].coords.float().to(self.device)

    def loss(self, batch: Tensor) -> Tensor:
        found, answers = self.model(self.train[batch]), self.answers[batch]
        if answers.is_floating_point():
            return functional.mse_loss(found[:, 0], answers)
        return functional.cross_entropy(found, answers)

    def outputs(self, lon: Tensor, lat: Tensor) -> Tensor:
        """Values ``(N, 1)`` or logits ``(N, C)`` at places."""
        x = self.coordinates(lon, lat)
        return torch.cat([self.model(part) for part in x.split(CHUNK)]).cpu()

    def scores(self, places: task.Places) -> dict[str, float]:
        """The error of values, or accuracy and loss of classes; nothing where there are no places."""
        if not len(places):
            return {}
        found = self.outputs(places.lon, places.lat)
        if isinstance(self.target, task.Labels):
            accuracy = task.accuracy(found, places.target, macro=self.target.macro)
            return {"accuracy": accuracy, "loss": task.loss(found, places.target)}
        return {"rmse": task.rmse(found[:, 0], places.target)}

    def evaluate(self) -> dict[str, float]:
        return self.scores(self.samples.everywhere)

    def fit(self) -> Fit:
        return Fit(self.model, len(self.train), self.loss, self.evaluate)

    def jump(self, meridian: float) -> float:
        found = self.outputs(*task.beside(meridian))
        return task.jump(found.softmax(-1) if isinstance(self.target, task.Labels) else found)

    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        """Scores everywhere, at the poles and at the date line, the two jumps, and the error by latitude."""
        self.model.eval()
        regions = {
            "": self.samples.everywhere,
            "_poles": self.samples.poles,
            "_date_line": self.samples.date_line,
        }
        with torch.no_grad():
            metrics = {
                f"{name}{where}": value for where, p in regions.items() for name, value in self.scores(p).items()
            }
            metrics["jump_date_line"], metrics["jump_elsewhere"] = self.jump(task.DATE_LINE), self.jump(task.ELSEWHERE)
            bands = [_error(self.scores(places)) for places in self.samples.bands]
        metrics["parameters"] = float(self.model.parameter_count)
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays={"error_by_latitude": np.array(bands)}, weights=weights)


def _error(scores: dict[str, float]) -> float:
    return scores.get("rmse", 1 - scores.get("accuracy", float("nan")))


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    with torch.random.fork_rng():
        trained = Trained(unit, workdir.parents[1])
        curve = train(trained.fit(), trained.training, seed=unit.seed, workdir=workdir, report=report)
        return trained.outcome(curve)


def restored(unit: Unit, store: Store) -> Trained:
    """A finished unit's field with its trained weights, on the CPU."""
    settings = {**unit.settings, "device": "cpu"}
    with torch.random.fork_rng():
        trained = Trained(msgspec.structs.replace(unit, settings=settings), store.root)
    trained.model.load_state_dict(store.read(unit.key).weights)
    trained.model.eval()
    return trained


def memory(unit: Unit) -> float:
    """Bytes that a unit takes, about."""
    row = msgspec.convert(unit.settings["row"], GlobeRow)
    return memory_of(row.field, max(unit.settings["training"]["batch"], CHUNK))


def seconds(unit: Unit, store: Store) -> float:
    """The time of one unit on one core of this machine, from a few timed steps and what scoring takes besides."""
    places, training = unit.settings["places"], msgspec.convert(unit.settings["training"], TrainingConfig)
    few = {name: min(count, training.batch) for name, count in places.items()}  # a step needs no more of them
    with torch.random.fork_rng():
        trained = Trained(msgspec.structs.replace(unit, settings={**unit.settings, "places": few}), store.root)
        fit = dataclasses.replace(trained.fit(), samples=places["train"])
        return training_seconds(fit, training, trained.device) + SCORING
