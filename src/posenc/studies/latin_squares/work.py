"""One unit of the Latin-square study: build the model of a row and a seed, train it, score it by class."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.encoder import Encoder, EncoderConfig
from posenc.specification import Specification, per_layer
from posenc.store import Outcome, Unit
from posenc.studies.latin_squares.rows import Row
from posenc.tasks import latin_squares as task
from posenc.training.loop import Fit, Report, TrainingConfig, train

EVALUATE_AT_MOST = 1000  # training puzzles that a curve's accuracy_train is measured on
CHUNK = 1024


def dataset_path(root: Path, arguments: dict[str, Any]) -> Path:
    """Where a store keeps the puzzles that these arguments make."""
    digest = hashlib.sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()[:16]
    return root / "data" / f"latin-squares-{digest}.npz"


def obtain(root: Path, arguments: dict[str, Any]) -> task.Dataset:
    """The puzzles of a store, generated if they are not there yet (the same from the same seed everywhere)."""
    path = dataset_path(root, arguments)
    if path.exists():
        return task.load(path)
    if "authors" in arguments:
        raise ValueError(f"the authors' puzzles are no longer at {path}. Run the same command again with --data DIR.")
    dataset = task.generate(**arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    task.save(dataset, path)
    return dataset


def make_model(row: Row, config: EncoderConfig) -> Encoder:
    known = {
        "dim": config.dim,
        "head_dim": config.head_dim,
        "heads": config.heads,
        "max_len": 16,
        "max_distance": 15,
        "axes": 2 if row.view == "grid" else 1,
    }
    return Encoder(config, per_layer(Specification(row.scheme, row.options), known))


def try_row(row: Row, config: EncoderConfig) -> None:
    """Raises ValueError for a row that cannot be built or cannot read its positions, before anything runs."""
    with torch.random.fork_rng():
        schemes: list[Any] = list(make_model(row, config).schemes)
        for scheme in schemes:
            scheme.prepare(task.views()[row.view])


class Split:
    """Puzzles as tensors on a device."""

    def __init__(self, puzzles: task.Puzzles, channels: int, device: str) -> None:
        self.x = torch.from_numpy(task.one_hot(puzzles, channels)).to(device)
        self.probe = torch.from_numpy(task.probe(puzzles)).to(device)
        self.answer = torch.from_numpy(puzzles.answer.astype(np.int64) - 1).to(device)
        self.kind = torch.from_numpy(puzzles.kind.astype(np.int64)).to(device)

    def head(self, count: int) -> Split:
        part = object.__new__(Split)
        part.x, part.probe = self.x[:count], self.probe[:count]
        part.answer, part.kind = self.answer[:count], self.kind[:count]
        return part


class Trained:
    """A model on its puzzles: the loss of a batch, and scores."""

    def __init__(self, unit: Unit, dataset: task.Dataset) -> None:
        settings, self.device = unit.settings, unit.settings["device"]
        self.row = msgspec.convert(settings["row"], Row)
        self.config = msgspec.convert(settings["model"], EncoderConfig)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        size = settings["train_size"] or len(dataset.train)
        channels = self.config.channels
        self.train = Split(dataset.train.take(np.arange(size)), channels, self.device)
        self.held = {name: Split(getattr(dataset, name), channels, self.device) for name in ("iid", "ood")}
        self.pos = task.views()[self.row.view].to(self.device)
        torch.manual_seed(unit.seed)
        self.model = make_model(self.row, self.config).to(self.device)

    def loss(self, batch: Tensor) -> Tensor:
        logits = self.model(self.train.x[batch], self.pos, self.train.probe[batch])
        return functional.cross_entropy(logits, self.train.answer[batch])

    def logits(self, split: Split) -> Tensor:
        parts = zip(split.x.split(CHUNK), split.probe.split(CHUNK), strict=True)
        return torch.cat([self.model(x, self.pos, probe) for x, probe in parts])

    def evaluate(self) -> dict[str, float]:
        found = {}
        for name, split in (("train", self.train.head(EVALUATE_AT_MOST)), *self.held.items()):
            logits = self.logits(split)
            found[f"accuracy_{name}"] = (logits.argmax(-1) == split.answer).double().mean().item()
            if name != "train":
                found[f"loss_{name}"] = functional.cross_entropy(logits, split.answer).item()
        return found

    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        """The last measurements, by class, with the right and wrong of every held-out puzzle."""
        metrics = {row["metric"]: row["value"] for row in curve if row["epoch"] == curve[-1]["epoch"]}
        arrays = {}
        self.model.train(self.training.evaluate_in_train_mode)
        with torch.no_grad():
            for name, split in (("train", self.train), *self.held.items()):
                right = self.logits(split).argmax(-1) == split.answer
                metrics[f"accuracy_{name}"] = right.double().mean().item()
                if name != "train":
                    arrays[f"right_{name}"] = right.to(torch.uint8).cpu().numpy()
                    for kind in (1, 2, 3):
                        metrics[f"accuracy_{name}_{kind}"] = right[split.kind == kind].double().mean().item()
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    dataset = obtain(workdir.parents[1], unit.settings["data"])
    with torch.random.fork_rng():
        trained = Trained(unit, dataset)
        fit = Fit(trained.model, len(trained.train.x), trained.loss, trained.evaluate)
        curve = train(fit, trained.training, seed=unit.seed, workdir=workdir, report=report)
        return trained.outcome(curve)
