"""Execute one run of the points study: sample its clouds, train a classifier with an encoding, score it."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from posenc.models.point_cloud import PointClassifier, PointsConfig
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.points.stored_clouds import read_clouds
from posenc.workbench.studies.points.variants import PointsVariant
from posenc.workbench.studies.shared.training_run import execute_training, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import points as task
from posenc.workbench.training.fit import endless_batches, seeded_generator
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, TrainingPosition

POINT_RATIOS = (0.5, 1, 2, 4)
"""Numbers of points of a cloud in testing, as multiples of the number in training."""
SHIFTS = (0.25, 1.0, 4.0)
"""Lengths of a translation in testing, in radii of a cloud."""
PAIRS_AT_ONCE, CLOUDS_AT_ONCE = 2**23, 64
"""Largest number of pairs of points, and of clouds, that are classified at once outside training."""
TEST_STEP, ROTATION_STEP = 2**20, 2**20 + 1
"""Steps of the random generator for testing: no training has as many."""
FORWARD_SHARE = 1 / 3
"""Time of classifying a cloud as a share of the time of training on it."""


class PointsModel:
    """A classifier on its clouds: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings, self.spec, self.root = spec.settings, spec, root
        self.device: str = settings["device"]
        self.variant = msgspec.convert(settings["row"], PointsVariant)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.sampling = task.CloudSampling(settings["points"], settings["turned"], settings["noise"])
        torch.manual_seed(spec.seed)
        config = msgspec.convert(settings["model"], PointsConfig)
        self.model: PointClassifier = self.variant.model(config).to(self.device)

    @cached_property
    def splits(self) -> task.Splits:
        settings = self.spec.settings
        return read_clouds(self.root, settings["data"], self.spec.seed, settings.get("split"))

    def fit(self) -> Fit:
        """The training problem."""
        count = len(self.splits.train)
        own = "split" in self.spec.settings
        draw = endless_batches(count, self.training.batch, self.spec.seed) if own else None
        return Fit(self.model, count, self.loss, self.evaluate, draw=draw, loss_at=self.loss_at)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross-entropy of a batch with the points of the first step."""
        return self.loss_at(TrainingPosition(0, 0, 0), batch)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Cross-entropy of a batch; each step samples other points of its clouds."""
        train = self.splits.train
        logits = self._logits(task.sample_clouds(train, batch, self.sampling, at.generator()))
        return functional.cross_entropy(logits, train.labels[batch].to(self.device))

    def _logits(self, sample: task.CloudSample) -> Tensor:
        return self.model(*self.variant.tokens(sample.to(self.device)))

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the points of some held-out clouds."""
        sample = self.held_out(self.sampling).split(CLOUDS_AT_ONCE)[0].to(self.device)
        return self.model.embedding_scale(*self.variant.tokens(sample))

    def logits(self, sample: task.CloudSample) -> Tensor:
        """Logits ``(M, C)`` of any number of clouds, on the CPU."""
        count = max(1, min(CLOUDS_AT_ONCE, PAIRS_AT_ONCE // sample.points.shape[1] ** 2))
        return torch.cat([self._logits(part).cpu() for part in sample.split(count)])

    def held_out(self, sampling: task.CloudSampling, clouds: task.Clouds | None = None) -> task.CloudSample:
        """Points of the test clouds or of others, equal for all variants of a seed. A shift changes nothing else."""
        test = self.splits.test if clouds is None else clouds
        generator = seeded_generator(self.spec.seed, TEST_STEP, 0)
        return task.sample_clouds(test, torch.arange(len(test)), sampling, generator)

    def evaluate(self) -> dict[str, float]:
        """Accuracy and loss during training: of the validation clouds, or without any of the test clouds."""
        clouds = self.splits.validation or self.splits.test
        return _scores(self.logits(self.held_out(self.sampling, clouds)), clouds.labels)

    @torch.no_grad()
    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores with the trained number of points and with others, of translated clouds and of rotated ones."""
        sample = self.held_out(self.sampling)
        logits = self.logits(sample)
        metrics = _scores(logits, self.splits.test.labels)
        metrics |= self._pairwise_accuracies(logits)
        metrics |= self._scores_by_point_count(metrics["accuracy"])
        metrics |= self._scores_after_motions(sample, logits)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        return RunResult(metrics=metrics, curves=curve, arrays={}, weights=weights_of(self.model))

    def _pairwise_accuracies(self, logits: Tensor) -> dict[str, float]:
        """Accuracy within pairs of classes that have the same pieces, and within pairs of mirror images."""
        test = self.splits.test
        return {
            f"accuracy_{name}": task.pairwise_accuracy(logits, test.labels, test.classes, pairs)
            for name, pairs in (("arranged", task.ARRANGEMENT_PAIRS), ("mirrored", task.MIRROR_PAIRS))
            if {label for pair in pairs for label in pair} <= set(test.classes)
        }

    def _scores_by_point_count(self, accuracy: float) -> dict[str, float]:
        """Accuracy with other numbers of points, and the same divided by the accuracy with the trained number.

        A number that a cloud of the data does not have is left out.
        """
        test, scores = self.splits.test, {}
        least = min(part.least_points for part in self.splits if part is not None and len(part))
        for ratio in POINT_RATIOS:
            count = round(ratio * self.sampling.points)
            if ratio != 1 and count <= least:
                logits = self.logits(self.held_out(self.sampling._replace(points=count)))
                scores[f"accuracy_x{ratio:g}"] = other = task.accuracy(logits, test.labels)
                scores[f"kept_x{ratio:g}"] = other / accuracy if accuracy else math.nan
        return scores

    def _scores_after_motions(self, sample: task.CloudSample, logits: Tensor) -> dict[str, float]:
        """Accuracy of translated and of rotated clouds, and the relative change of their logits."""
        test = self.splits.test
        moved = {
            f"moved_{length:g}": self.logits(self.held_out(self.sampling._replace(shift=length))) for length in SHIFTS
        }
        rotation = task.random_rotations(len(test), "any", seeded_generator(self.spec.seed, ROTATION_STEP, 0))
        moved["turned"] = self.logits(sample.rotated(rotation, test.attribute_names))
        scores: dict[str, float] = {}
        for name, each in moved.items():
            scores[f"accuracy_{name}"] = task.accuracy(each, test.labels)
            scores[f"change_{name}"] = task.relative_logit_change(logits, each)
        return scores


def _scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    return {"accuracy": task.accuracy(logits, labels), "loss": float(functional.cross_entropy(logits, labels))}


def build(spec: RunSpec, root: Path, workdir: Path | None) -> PointsModel:
    """The model of a run on its clouds, untrained."""
    return PointsModel(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it."""
    return execute_training(spec, workdir, report, build)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps and the number of clouds that are scored.

    The time of scoring a cloud grows with the square of its number of points.
    """
    data, classes = spec.settings["data"], spec.settings["model"]["classes"]
    with torch.random.fork_rng():
        model = PointsModel(_with_few_clouds(spec), store.root)
        generated = "folder" not in data
        count = classes * data["train"] if generated else len(model.splits.train)
        held_out = classes * data["test"] if generated else len(model.splits.test)
        fit, training = dataclasses.replace(model.fit(), samples=count), model.training
        seconds = training_seconds(fit, training, model.device)
    per_cloud = seconds / (training.epochs * fit.per_epoch(training.batch) * training.batch) * FORWARD_SHARE
    scorings = 3 + len(SHIFTS) + training.epochs / training.evaluate_every
    scorings += sum(ratio**2 for ratio in POINT_RATIOS)
    return seconds + per_cloud * scorings * held_out


def _with_few_clouds(spec: RunSpec) -> RunSpec:
    """The run with no more generated clouds than a timed step needs."""
    data, classes = spec.settings["data"], spec.settings["model"]["classes"]
    if "folder" in data:
        return spec
    batch = math.ceil(spec.settings["training"]["batch"] / classes)
    few = {**data, "train": min(data["train"], batch), "test": 1}
    return msgspec.structs.replace(spec, settings={**spec.settings, "data": few})


def memory_bytes(spec: RunSpec) -> float:
    """Approximate memory of a run: its clouds, and the activations of a step for each point and each pair of points."""
    settings = spec.settings
    model, batch, points = settings["model"], settings["training"]["batch"], settings["points"]
    clouds = 12.0 * settings["data"]["points"] * settings["clouds"]
    pairs = batch * points**2 * (8 * model["heads"] * model["depth"] + 12)
    tokens = batch * points * model["depth"] * (12 * model["dim"] + 4 * model["hidden"])
    return clouds + 4.0 * max(pairs + tokens, PAIRS_AT_ONCE * (model["heads"] + 8))


TRAIN = Procedure("points.train", 1, train)
