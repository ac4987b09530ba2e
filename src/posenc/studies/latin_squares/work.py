"""One unit of the Latin-square study: build the model of a row and a seed, train it, score it by class.

On a GPU, units that differ in seed, standard deviation, rate or weight decay are trained as one: ``train_jobs``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.encoder import Encoder, EncoderConfig
from posenc.perform import Job, Together
from posenc.specification import Specification, per_layer
from posenc.store import Outcome, Unit
from posenc.studies.latin_squares.rows import Row
from posenc.tasks import latin_squares as task
from posenc.training.loop import Fit, Report, TrainingConfig, train
from posenc.training.population import Member, train_together
from posenc.training.precision import Precision

EVALUATE_AT_MOST = 1000  # training puzzles that a curve's accuracy_train is measured on
CHUNK = 1024
FIRST_VALUES = ("sigma", "distribution")
"""Options of schemes that decide a model's first values and nothing else of it."""
RATES = ("lr", "weight_decay", "warmup_steps", "decay_steps", "clip")
"""Parts of a training that members of a population may each have their own of."""


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
    """A model on its puzzles: the loss of a batch, and scores.

    beside: another on the same puzzles and positions, whose tensors it shares.
    """

    def __init__(self, unit: Unit, dataset: task.Dataset, beside: Trained | None = None) -> None:
        settings, self.device = unit.settings, unit.settings["device"]
        self.row = msgspec.convert(settings["row"], Row)
        self.config = msgspec.convert(settings["model"], EncoderConfig)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        if beside is None:
            size = settings["train_size"] or len(dataset.train)
            channels = self.config.channels
            self.train = Split(dataset.train.take(np.arange(size)), channels, self.device)
            self.held = {name: Split(getattr(dataset, name), channels, self.device) for name in ("iid", "ood")}
            self.pos = task.views()[self.row.view].to(self.device)
        else:
            self.train, self.held, self.pos = beside.train, beside.held, beside.pos
        torch.manual_seed(unit.seed)
        self.model = make_model(self.row, self.config).to(self.device)

    def score(self, model: Callable[..., Tensor], x: Tensor, probe: Tensor, answer: Tensor) -> Tensor:
        return functional.cross_entropy(model(x, self.pos, probe), answer)

    def loss(self, batch: Tensor) -> Tensor:
        return self.fit().loss(batch)

    def fit(self) -> Fit:
        data = (self.train.x, self.train.probe, self.train.answer)
        return Fit.of(self.model, data, self.score, self.evaluate)

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
        curve = train(
            trained.fit(), trained.training, seed=unit.seed, workdir=workdir, report=report, precision=precision(unit)
        )
        return trained.outcome(curve)


def precision(unit: Unit) -> Precision:
    """What a unit's steps are computed in: ``settings["precision"]``, float32 where there is none."""
    return unit.settings.get("precision", "float32")


def alike(unit: Unit) -> str:
    """The same text for units that can be one population: all that they may not differ in."""
    settings = dict(unit.settings)
    row, training = dict(settings.pop("row")), settings.pop("training")
    # what a row changes in the model and the training stands in those already
    row = {"scheme": row["scheme"], "view": row["view"], "options": row["options"]}
    row["options"] = {name: value for name, value in row["options"].items() if name not in FIRST_VALUES}
    training = {name: value for name, value in training.items() if name not in RATES}
    return msgspec.json.encode([settings, row, training], order="sorted").decode()


def memory(unit: Unit) -> float:
    """Bytes that one more member takes of a device, at most: weights, gradients and moments, and what a step keeps."""
    model, training = unit.settings["model"], unit.settings["training"]
    dim, hidden, depth = model["dim"], model["hidden"], model["depth"]
    weights = depth * (4 * dim**2 + 2 * dim * hidden) + 64 * dim * depth
    kept = training["batch"] * 16 * depth * (20 * dim + 6 * hidden)
    return 4.0 * (8 * weights + kept)


def train_jobs(jobs: Sequence[Job]) -> list[Outcome | Exception]:
    """What a GPU's executor calls with units that are ``alike``."""
    first = jobs[0].unit
    dataset = obtain(jobs[0].workdir.parents[1], first.settings["data"])
    with torch.random.fork_rng():
        trained: list[Trained] = []
        for job in jobs:
            trained.append(Trained(job.unit, dataset, trained[0] if trained else None))
        members = [
            Member(one.fit(), one.training, job.unit.seed, job.workdir, job.report)
            for one, job in zip(trained, jobs, strict=True)
        ]
        curves = train_together(members, precision=precision(first))
        return [_ending(one, curve) for one, curve in zip(trained, curves, strict=True)]


def _ending(trained: Trained, curve: list[dict[str, Any]] | Exception) -> Outcome | Exception:
    """A member's outcome, or what ended that member alone."""
    if isinstance(curve, Exception):
        return curve
    try:
        return trained.outcome(curve)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return error


train_unit_together = Together(group=alike, memory=memory, work=train_jobs)
"""The companion of ``train_unit``."""
