"""One unit of the points study: draw its clouds, train a row's model on them, score it on clouds that it never saw."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.point_cloud import PointsConfig
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.points.rows import PointsRow
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.shapes import read_shape
from posenc.workbench.training.checkpoint import write_whole
from posenc.workbench.training.fit import seeded_generator
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, TrainingPosition, train

RATIOS = (0.5, 1, 2, 4)
"""Numbers of points that a model is asked about, as parts of the number that it was trained at."""
MOVES = (0.25, 1.0, 4.0)
"""Lengths of a move, in radii of a cloud."""
AT_ONCE = 2**23
"""Pairs of points in memory together where no gradient is taken."""
TOGETHER = 64
"""Clouds at once, at the most."""
TEST, TURN = 2**20, 2**20 + 1
"""Parts of a seed's chance, which no step of a training has."""


def cloud_path(root: Path, data: Mapping[str, Any]) -> Path:
    """Where a store keeps the clouds of a folder of meshes."""
    digest = hashlib.sha256(msgspec.json.encode(dict(data), order="sorted")).hexdigest()[:16]
    return root / "data" / f"points-{digest}.npz"


def keep_folder(root: Path, folder: Path, data: Mapping[str, Any]) -> task.Splits:
    """The clouds of a folder, in the store after the first time. Raises ValueError for a folder that has none."""
    path = cloud_path(root, data)
    if not path.exists():
        print(f"Drawing points of the meshes of {folder}; this is done once for a store.")
        task.save_clouds(task.read_mesh_folder(folder, data["points"], per_class=data["most"]), path)
    return task.load_clouds(path)


def keep_mesh(root: Path, path: Path) -> str:
    """Puts Spot's mesh into a store's folder of data; returns the digest that finds it there."""
    read_shape(path)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    if not (kept := _mesh(root, digest)).exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, content)
    return digest


def _mesh(root: Path, digest: str) -> Path:
    return root / "data" / f"mesh-{digest}.npz"


def clouds(root: Path, data: Mapping[str, Any], seed: int) -> task.Splits:
    """The clouds of a unit: made for its seed, or those of the store's folder.

    Raises ValueError where what they were made from is no longer in the store.
    """
    if "folder" in data:
        if not (path := cloud_path(root, data)).exists():
            raise ValueError(f"the clouds are no longer at {path}. Run the same command again.")
        return task.load_clouds(path)
    sizes = ((data["train"], 2 * seed), (data["test"], 2 * seed + 1))
    if "mesh" not in data:
        return task.Splits(*(task.solid_clouds(many, data["points"], seed=own) for many, own in sizes))
    if not (path := _mesh(root, data["mesh"])).exists():
        raise ValueError(f"the mesh is no longer at {path}. Run the same command again.")
    shape = read_shape(path)
    mesh = type(shape.mesh)(shape.placement.from_cube(shape.mesh.vertices), shape.mesh.faces)
    return task.Splits(*(task.spot_part_clouds(mesh, many, data["points"], seed=own) for many, own in sizes))


class Trained:
    """A model and its clouds: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.spec, self.root = spec.settings, spec, root
        self.device = settings["device"]
        self.row = msgspec.convert(settings["row"], PointsRow)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.seen = task.CloudSampling(settings["points"], settings["turned"], settings["noise"])
        torch.manual_seed(spec.seed)
        self.model = self.row.model(msgspec.convert(settings["model"], PointsConfig)).to(self.device)

    @cached_property
    def parts(self) -> task.Splits:
        return clouds(self.root, self.spec.settings["data"], self.spec.seed)

    def fit(self) -> Fit:
        return Fit(self.model, len(self.parts.train), self.loss, self.evaluate, loss_at=self.loss_at)

    def loss(self, batch: Tensor) -> Tensor:
        return self.loss_at(TrainingPosition(0, 0, 0), batch)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        learned = self.parts.train
        found = self._logits(task.draw_clouds(learned, batch, self.seen, at.generator()))
        return functional.cross_entropy(found, learned.labels[batch].to(self.device))

    def _logits(self, points: Tensor) -> Tensor:
        points = points.to(self.device)
        return self.model(task.token_features(points, self.row.features), task.token_positions(points, self.row.view))

    def logits(self, points: Tensor) -> Tensor:
        """``(M, C)`` of any number of clouds, on the CPU."""
        some = max(1, min(TOGETHER, AT_ONCE // points.shape[1] ** 2))
        return torch.cat([self._logits(part).cpu() for part in points.split(some)])

    def held_out(self, seen: task.CloudSampling) -> Tensor:
        """Points of the clouds that it never saw, the same for every row of a seed; a move changes nothing else."""
        test = self.parts.test
        return task.draw_clouds(test, torch.arange(len(test)), seen, seeded_generator(self.spec.seed, TEST, 0))

    def evaluate(self) -> dict[str, float]:
        found, labels = self.logits(self.held_out(self.seen)), self.parts.test.labels
        return {"accuracy": task.accuracy(found, labels), "loss": float(functional.cross_entropy(found, labels))}

    @torch.no_grad()
    def outcome(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores at the trained number of points and at others, of moved clouds and of turned ones."""
        self.model.eval()
        test, still = self.parts.test, self.held_out(self.seen)
        known = self.logits(still)
        metrics = self.evaluate()
        for name, pairs in (("arranged", task.ARRANGEMENT_PAIRS), ("mirrored", task.MIRROR_PAIRS)):
            if {label for pair in pairs for label in pair} <= set(test.classes):
                metrics[f"accuracy_{name}"] = task.pairwise_accuracy(known, test.labels, test.classes, pairs)
        for ratio in RATIOS:
            count = round(ratio * self.seen.points)
            if ratio != 1 and count <= test.points_per_cloud:
                found = self.logits(self.held_out(self.seen._replace(points=count)))
                told = metrics[f"accuracy_x{ratio:g}"] = task.accuracy(found, test.labels)
                metrics[f"kept_x{ratio:g}"] = told / metrics["accuracy"] if metrics["accuracy"] else math.nan
        for length in MOVES:
            found = self.logits(self.held_out(self.seen._replace(shift=length)))
            metrics[f"accuracy_moved_{length:g}"] = task.accuracy(found, test.labels)
            metrics[f"change_moved_{length:g}"] = task.relative_logit_change(known, found)
        rotation = task.random_rotations(len(test), "any", seeded_generator(self.spec.seed, TURN, 0))
        found = self.logits(still @ rotation.mT)
        metrics |= {
            "accuracy_turned": task.accuracy(found, test.labels),
            "change_turned": task.relative_logit_change(known, found),
        }
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return RunResult(metrics=metrics, curves=curve, arrays={}, weights=weights)


def train_unit(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """What a worker calls. The store is two folders above a unit's own."""
    with torch.random.fork_rng():
        trained = Trained(spec, workdir.parents[1])
        curve = train(trained.fit(), trained.training, seed=spec.seed, workdir=workdir, report=report)
        return trained.outcome(curve)


def seconds(spec: RunSpec, store: Store) -> float:
    """The time of one unit on one core of this machine: a few timed steps, and as much a cloud for what is asked of it
    afterwards, by the pairs of points that it has."""
    with torch.random.fork_rng():
        trained = Trained(spec, store.root)
        learned, held = _few_drawn(trained)
        fit = dataclasses.replace(trained.fit(), samples=learned)
        training = training_seconds(fit, trained.training, trained.device)
    each = training / (trained.training.epochs * fit.per_epoch(trained.training.batch) * trained.training.batch)
    asked = 3 + len(MOVES) + trained.training.epochs / trained.training.evaluate_every
    asked += sum(ratio**2 for ratio in RATIOS)
    return training + each / 3 * asked * held


def _few_drawn(trained: Trained) -> tuple[int, int]:
    """How many clouds are learned from and held out, having drawn no more than one batch of those that are made."""
    settings, root = trained.spec.settings, trained.root
    data, classes = settings["data"], settings["model"]["classes"]
    if "folder" in data:
        return len(trained.parts.train), len(trained.parts.test)
    few = {**data, "train": min(data["train"], -(-trained.training.batch // classes)), "test": 1}
    trained.parts = clouds(root, few, trained.spec.seed)
    return classes * data["train"], classes * data["test"]


def memory(spec: RunSpec) -> float:
    """Bytes that a unit takes, about."""
    return memory_of(spec.settings)


def memory_of(settings: Mapping[str, Any]) -> float:
    """Bytes of the clouds, and of what a step keeps of each point and each pair of points for its gradient."""
    model, batch, points = settings["model"], settings["training"]["batch"], settings["points"]
    clouds_ = 12.0 * settings["data"]["points"] * settings["clouds"]
    of_pairs = batch * points**2 * (8 * model["heads"] * model["depth"] + 12)
    of_points = batch * points * model["depth"] * (12 * model["dim"] + 4 * model["hidden"])
    return clouds_ + 4.0 * max(of_pairs + of_points, AT_ONCE * (model["heads"] + 8))


TRAIN = Procedure("points.train", 1, train_unit)
