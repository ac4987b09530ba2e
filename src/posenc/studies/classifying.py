"""One unit of a study that classifies pictures: build a row's model, train it on a data set, score the held-out ones.

a row = a model and its encoding; with it go how fast it learns and how its pictures are changed on the way in
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.measure.attention_reach import attention_reach
from posenc.models.lenet import LeNet, LeNetConfig
from posenc.models.sites import at_sites, places
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.scheme import Scheme
from posenc.specification import Specification, build
from posenc.store import Outcome, Store, Unit
from posenc.studies.picture_sets import Pictures, kept
from posenc.studies.timing import training_seconds
from posenc.tasks.images import Augment, Augmentation, ImageSet, score
from posenc.training.loop import At, Fit, Report, TrainingConfig, train

CHUNK = 128
"""Pictures classified at once where nothing is trained: what they become in a small model stays in a core's cache, in
which 500 do not; a third less time for a small PVT, a fifth for a small ViT."""
LEARNED_FROM = 500
"""Training pictures that the accuracy in training is measured on, evenly spread."""
ASKED = 20
"""As it learns, a model is asked about one held-out picture for so many that it learns from; in the end about all."""
FEWEST = 500
MAPPED = 64
"""Held-out pictures whose attention is measured."""
WARM_UP, LONGEST_WARM_UP = 8, 5
"""Of a training, one step in so many warms up; epochs that this takes at most."""


class ConvolutionRow(msgspec.Struct, frozen=True, kw_only=True, tag="lenet", forbid_unknown_fields=True):
    """A LeNet. scale: times the first weights of its encoding's last layer."""

    config: LeNetConfig
    scheme: Specification | None = None
    scale: float = 1.0

    def model(self) -> LeNet:
        return LeNet(self.config, self._scheme())

    def _scheme(self) -> Scheme | None:
        if self.scheme is None:
            return None
        # of a scheme that a LeNet has no site for, LeNet says so; widths are there for it to be built at all
        made = build(self.scheme, {"n": max(self.config.image), "axes": 2, "dim": 4, "head_dim": 8, "heads": 1})
        readout = getattr(made, "readout", None)
        if readout is not None and self.scale != 1:
            with torch.no_grad():
                readout.weights[-1].mul_(self.scale)
                readout.biases[-1].mul_(self.scale)
        return made


class TransformerRow(msgspec.Struct, frozen=True, kw_only=True, tag="vision", forbid_unknown_fields=True):
    """A vision transformer. first_only: its encoding acts in the first layer of each stage alone."""

    config: VisionConfig
    scheme: Specification
    first_only: bool = False

    def model(self) -> VisionTransformer:
        return VisionTransformer(self.config, at_sites(self.scheme, self.config.sites, first_only=self.first_only))


Row = ConvolutionRow | TransformerRow


def settled(
    row: Row,
    pictures: Pictures,
    training: TrainingConfig,
    augmentation: Augmentation,
    device: str,
) -> dict[str, Any]:
    """A unit's settings.

    Raises ValueError for a row whose model cannot be built, and pictures that the augmentation is not for.
    """
    # what does not fit is said now, and not after the training
    row.model()
    Augment(augmentation, pictures.classes).evaluate(torch.zeros(1, *pictures.shape, dtype=torch.uint8))
    settings = {
        "pictures": msgspec.to_builtins(pictures),
        "row": msgspec.to_builtins(row),
        "training": training.plain,
        "augmentation": msgspec.to_builtins(augmentation),
        "device": device,
    }
    if device.startswith("cuda") and isinstance(row, TransformerRow):
        settings["precision"] = "bfloat16"  # of products; weights, sums and measurements stay in float32
    return settings


def to_zero(training: TrainingConfig, pictures: Pictures) -> TrainingConfig:
    """The same with a warm-up, and a cosine that ends where the training does, however many pictures there are."""
    per_epoch = math.ceil(pictures.train / training.batch)
    steps = training.epochs * per_epoch
    warm = min(steps // WARM_UP, LONGEST_WARM_UP * per_epoch)
    return msgspec.structs.replace(training, warmup_steps=warm, decay_steps=steps)


class Classifier:
    """A model on its pictures: the loss of a batch, and scores."""

    def __init__(self, unit: Unit, root: Path) -> None:
        settings = unit.settings
        self.device, self.settings = settings["device"], settings
        self.pictures = msgspec.convert(settings["pictures"], Pictures)
        self.row: Row = msgspec.convert(settings["row"], Row)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.parts = kept(root, self.pictures)
        augmentation = msgspec.convert(settings["augmentation"], Augmentation)
        self.augment = Augment(augmentation, self.pictures.classes)
        torch.manual_seed(unit.seed)
        self.model: nn.Module = self.row.model().to(self.device)

    @property
    def fit(self) -> Fit:
        return Fit(self.model, len(self.parts.train), self.loss, self.looked, loss_at=self.loss_at)

    def loss_at(self, at: At, batch: Tensor) -> Tensor:
        train_ = self.parts.train
        images, labels = train_.read(batch).to(self.device), train_.labels[batch].to(self.device)
        x, targets = self.augment(images, labels, seed=at.seed, step=at.step, part=at.part)
        return functional.cross_entropy(self.model(x), targets)

    def loss(self, batch: Tensor) -> Tensor:
        return self.loss_at(At(0, 0, 0), batch)

    def logits(self, part: Literal["train", "test"], index: Tensor) -> Tensor:
        """``(N, classes)`` of pictures as a trained model is asked about them, on the CPU."""
        return self.said(self.model, getattr(self.parts, part), index)

    def said(self, model: nn.Module, pictures: ImageSet, index: Tensor) -> Tensor:
        """``(N, classes)`` of any pictures by a model of this row, on the CPU."""
        parts = index.split(CHUNK)
        return torch.cat([model(self.augment.evaluate(pictures.read(some).to(self.device))).cpu() for some in parts])

    def looked(self) -> dict[str, float]:
        """What is measured while it learns: of some of the held-out pictures."""
        return self.evaluate(asked_about(self.pictures))

    def evaluate(self, held_out: int) -> dict[str, float]:
        """Of so many held-out pictures, and of some that it learned from."""
        held, learned = (
            _spread(len(part), many) for part, many in ((self.parts.test, held_out), (self.parts.train, LEARNED_FROM))
        )
        found = score(self.logits("test", held), self.parts.test.labels[held])
        of_learned = score(self.logits("train", learned), self.parts.train.labels[learned])
        named = {name.replace("-", "_"): value for name, value in found.items()}
        return {**named, "accuracy_train": of_learned["accuracy"]}

    @torch.no_grad()
    def outcome(self, curve: list[dict[str, Any]]) -> Outcome:
        self.model.eval()
        metrics = self.evaluate(len(self.parts.test))
        metrics["roughness"] = roughness(curve)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        arrays: dict[str, np.ndarray] = {}
        if isinstance(self.model, LeNet) and (over := self.model.over()) is not None:
            arrays["over"] = over.cpu().numpy()
        if isinstance(self.model, VisionTransformer) and len(self.model.stages) == 1:
            arrays = self._reach()
            metrics |= {f"attention_{name}": float(values.mean()) for name, values in arrays.items()}
        weights = {name: value.detach().cpu().contiguous() for name, value in self.model.state_dict().items()}
        return Outcome(metrics=metrics, curves=curve, arrays=arrays, weights=weights)

    def some(self, many: int | None) -> ImageSet:
        """So many of the held-out pictures, evenly spread; None for all."""
        test = self.parts.test
        return test if many is None else test.take(_spread(len(test), many))

    def _reach(self) -> dict[str, np.ndarray]:
        """How far attention looks, in patches, and how widely, in bits: ``(layers, heads)`` each."""
        assert isinstance(self.model, VisionTransformer)
        (stage,) = self.model.config.stages
        pictures = self.some(MAPPED)
        x = self.augment.evaluate(pictures.read(range(len(pictures))).to(self.device))
        maps = self.model.attention_maps(x)
        shape = x.shape[2] // stage.patch, x.shape[3] // stage.patch
        before = maps.shape[-1] - shape[0] * shape[1]
        told = attention_reach(maps, places(shape, 2, before=before))
        of_heads = [row for row in told if row["head"] != "all"]
        return {
            name: np.array([row[name] for row in of_heads]).reshape(len(maps), -1) for name in ("distance", "entropy")
        }


def asked_about(pictures: Pictures) -> int:
    """How many held-out pictures a model is asked about while it learns."""
    return min(pictures.test, max(FEWEST, pictures.train // ASKED))


def _spread(there: int, many: int) -> Tensor:
    """So many of ``there`` numbers, evenly spread: sets are often sorted by class."""
    return torch.linspace(0, there - 1, min(many, there)).round().long()


def roughness(curve: list[dict[str, Any]]) -> float:
    """The mean size of the second differences of the training loss: 0 for a curve that is straight between looks; not
    a number for fewer than three."""
    losses = [row["value"] for row in curve if row["metric"] == "loss_train"]
    bends = np.abs(np.diff(losses, 2))
    return float(bends.mean()) if len(bends) else math.nan


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. The store is two folders above a unit's own."""
    with torch.random.fork_rng():
        made = Classifier(unit, workdir.parents[1])
        precision = unit.settings.get("precision", "float32")
        curve = train(made.fit, made.training, seed=unit.seed, workdir=workdir, report=report, precision=precision)
        return made.outcome(curve)


def alike(unit: Unit) -> Any:
    """What decides how long a unit takes."""
    return unit.settings["row"], unit.settings["training"], unit.settings["pictures"]


def seconds(unit: Unit, store: Store) -> float:
    """How long a unit takes on one core: a few steps timed and counted up, and as much again for what is measured."""
    with torch.random.fork_rng():
        made = Classifier(unit, store.root)
        training = training_seconds(made.fit, made.training, made.device)
    steps = made.training.epochs * made.fit.per_epoch(made.training.batch)
    asked = training / (steps * made.training.batch) / 3  # a picture that nothing is learned from
    looks = 1 + math.ceil(made.training.epochs / made.training.evaluate_every)
    pictures = made.pictures
    there = looks * (asked_about(pictures) + LEARNED_FROM) + pictures.test + LEARNED_FROM
    return training + there * asked


def memory(unit: Unit) -> float:
    """Bytes of a unit's pictures, which arrays hold once more while they are brought to another size."""
    return 2.0 * msgspec.convert(unit.settings["pictures"], Pictures).bytes
