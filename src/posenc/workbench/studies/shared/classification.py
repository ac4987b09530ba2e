"""One run of a study that classifies images: build its model with an encoding, train it, score it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.lookup.scheme_text import Specification
from posenc.lookup.scheme_text import build as build_scheme
from posenc.measure.attention_reach import attention_reach
from posenc.models.lenet import LeNet, LeNetConfig
from posenc.models.sites import at_sites, patch_positions
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.scheme import Scheme
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.shared.activation_memory import activation_bytes
from posenc.workbench.studies.shared.image_data import ImageRecord, read_images
from posenc.workbench.studies.shared.image_parts import divide_images
from posenc.workbench.studies.shared.own_data import Split, training_in_steps
from posenc.workbench.studies.shared.training_run import execute_training, weights_of
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks.images import Augment, Augmentation, ImageSet, score
from posenc.workbench.training.fit import Fit, TrainingPosition, endless_batches
from posenc.workbench.training.loop import Best, Report, TrainingConfig

CHUNK = 128
"""Images classified at once outside training. The activations of 128 images stay in a core's cache, those of 500 do
not: a third less time for a small PVT, a fifth for a small ViT."""
TRAIN_SCORED = 500
"""Training images that the training accuracy is measured on, evenly spaced."""
TRAIN_PER_SCORED, FEWEST_SCORED = 20, 500
"""Training images per held-out image that is scored during training, and least number of images that are scored. After
training, all held-out images are scored."""
ATTENTION_IMAGES = 64
"""Held-out images whose attention is measured."""
WARMUP_DIVISOR, MOST_WARMUP_EPOCHS = 8, 5
"""Steps per step of warm-up, and largest number of epochs of warm-up."""
FORWARD_SHARE = 1 / 3
"""Time of scoring an image as a share of the time of training on it."""
BEST = Best(metric="accuracy", mode="max")
"""Choice of the step on a user's images: by the accuracy on the validation part."""


class LeNetSpec(msgspec.Struct, frozen=True, kw_only=True, tag="lenet", forbid_unknown_fields=True):
    """A LeNet with its encoding. Field names are stored.

    Attributes:
        config: Sizes of the LeNet.
        scheme: The encoding, or None.
        scale: Factor on the initial weights of the last layer of the encoding's network.
    """

    config: LeNetConfig
    scheme: Specification | None = None
    scale: float = 1.0

    def model(self) -> LeNet:
        """The untrained model."""
        return LeNet(self.config, self._scheme())

    def _scheme(self) -> Scheme | None:
        if self.scheme is None:
            return None
        # A scheme without a site in a LeNet is built too, so that LeNet itself refuses it with its own sentence.
        widths = {"n": max(self.config.image), "axes": 2, "dim": 4, "head_dim": 8, "heads": 1}
        scheme = build_scheme(self.scheme, widths)
        readout = getattr(scheme, "readout", None)
        if readout is not None and self.scale != 1:
            with torch.no_grad():
                readout.weights[-1].mul_(self.scale)
                readout.biases[-1].mul_(self.scale)
        return scheme

    def refuse_misfit(self) -> None:
        """Build the model.

        Raises:
            ValueError: The model cannot be built.
        """
        self.model()


class TransformerSpec(msgspec.Struct, frozen=True, kw_only=True, tag="vision", forbid_unknown_fields=True):
    """A vision transformer with its encoding. Field names are stored.

    Attributes:
        config: Sizes of the transformer.
        scheme: The encoding.
        first_only: True if the encoding acts in the first layer of each stage only.
    """

    config: VisionConfig
    scheme: Specification
    first_only: bool = False

    def model(self) -> VisionTransformer:
        """The untrained model."""
        return VisionTransformer(self.config, self._schemes())

    def refuse_misfit(self) -> None:
        """Build the model, with its schemes but without memory and values for its other weights.

        Raises:
            ValueError: The model cannot be built.
        """
        schemes = self._schemes()

        def with_values(layer: int) -> Scheme:
            with torch.device("cpu"):
                return schemes(layer)

        with torch.device("meta"):
            VisionTransformer(self.config, with_values)

    def _schemes(self) -> Callable[[int], Scheme]:
        return at_sites(self.scheme, self.config.sites, first_only=self.first_only)


ModelSpec = LeNetSpec | TransformerSpec
STATES, GRADIENT_FACTOR = 4, 1.1
"""Copies of the parameters (weights, gradients, two of Adam), and peak memory beside that of the activations: measured
1.0 to 1.3 for the models of the presets quick and paper of gridpe."""
NO_PARTS: Mapping[str, Any] = MappingProxyType({})


def classification_settings(
    spec: ModelSpec,
    images: ImageRecord,
    training: TrainingConfig,
    augmentation: Augmentation,
    device: str,
    parts: Mapping[str, Any] = NO_PARTS,
) -> dict[str, Any]:
    """Settings of a run, as plain JSON.

    Args:
        spec: The model with its encoding.
        images: Record of the data set.
        training: The training configuration.
        augmentation: Augmentation of the training images.
        device: Device of the training.
        parts: Entries on the parts of a user's images; empty for a data set with parts of its own.

    Returns:
        The settings.

    Raises:
        ValueError: The model cannot be built, or the augmentation does not fit the images.
    """
    # Both are tried here, so that a misfit is reported before anything is trained.
    spec.refuse_misfit()
    Augment(augmentation, images.classes).evaluate(torch.zeros(1, *images.shape, dtype=torch.uint8))
    settings = {
        "pictures": msgspec.to_builtins(images),
        "row": msgspec.to_builtins(spec),
        "training": training.plain,
        "augmentation": msgspec.to_builtins(augmentation),
        "device": device,
        **parts,
    }
    if device.startswith("cuda") and isinstance(spec, TransformerSpec):
        settings["precision"] = "bfloat16"  # of matrix products; weights, sums and measurements stay in float32
    return settings


def with_cosine_decay(training: TrainingConfig, images: ImageRecord) -> TrainingConfig:
    """Training with a warm-up and a cosine decay that ends at its last step.

    Args:
        training: The training configuration.
        images: Record of the data set, which decides the number of steps.

    Returns:
        The configuration with the steps of warm-up and decay.
    """
    per_epoch = math.ceil(images.train / training.batch)
    steps = training.epochs * per_epoch
    warmup = min(steps // WARMUP_DIVISOR, MOST_WARMUP_EPOCHS * per_epoch)
    return msgspec.structs.replace(training, warmup_steps=warmup, decay_steps=steps)


def own_training(
    training: TrainingConfig, steps: int, explicit: Mapping[str, Any], parts: Mapping[str, Any], *, decay: bool
) -> TrainingConfig:
    """Training on a user's images for a number of steps.

    Args:
        training: The training configuration of the preset.
        steps: Number of steps.
        explicit: Fields that the request changes; they have the last word.
        parts: Entries on the parts of the images.
        decay: True for a warm-up and a cosine decay that ends at the last step.

    Returns:
        The configuration.
    """
    training = training_in_steps(training, steps, BEST, explicit, parts["items"]["train"])
    if decay:
        schedule = {"warmup_steps": training.epochs // WARMUP_DIVISOR, "decay_steps": training.epochs}
        training = msgspec.structs.replace(training, **schedule)
    return msgspec.structs.replace(training, **{name: value for name, value in explicit.items() if name != "epochs"})


class Classifier:
    """A model on its images: the loss of a batch, and scores."""

    def __init__(self, spec: RunSpec, root: Path) -> None:
        settings = spec.settings
        self.device = settings["device"]
        self.images = msgspec.convert(settings["pictures"], ImageRecord)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        self.split: Split | None = settings.get("split")
        self.seed, self.splits = spec.seed, read_images(root, self.images)
        if self.split is not None:
            self.splits = divide_images(self.splits, self.split, spec.seed)
        self.augment = Augment(msgspec.convert(settings["augmentation"], Augmentation), self.images.classes)
        torch.manual_seed(spec.seed)
        self.model: nn.Module = msgspec.convert(settings["row"], ModelSpec).model().to(self.device)

    def to(self, device: str) -> Classifier:
        """Move the model to a device."""
        self.device, self.model = device, self.model.to(device)
        return self

    def fit(self) -> Fit:
        """The training problem."""
        count = len(self.splits.train)
        draw = None if self.split is None else endless_batches(count, self.training.batch, self.seed)
        return Fit(self.model, count, self.loss, self.evaluate_some, draw=draw, loss_at=self.loss_at)

    def loss_at(self, at: TrainingPosition, batch: Tensor) -> Tensor:
        """Cross-entropy of a batch, with the augmentation of this step."""
        train = self.splits.train
        images, labels = train.read(batch).to(self.device), train.labels[batch].to(self.device)
        x, targets = self.augment(images, labels, seed=at.seed, step=at.step, part=at.part)
        return functional.cross_entropy(self.model(x), targets)

    def loss(self, batch: Tensor) -> Tensor:
        """Cross-entropy of a batch with the augmentation of the first step."""
        return self.loss_at(TrainingPosition(0, 0, 0), batch)

    def logits_of(self, model: nn.Module, images: ImageSet, index: Tensor) -> Tensor:
        """Logits ``(N, classes)`` of any images by any model of this kind, on the CPU."""
        chunks = index.split(CHUNK)
        return torch.cat([model(self.augment.evaluate(images.read(each).to(self.device))).cpu() for each in chunks])

    def evaluate_some(self) -> dict[str, float]:
        """Scores during training: on the validation part, or without one on a part of the held-out images."""
        held_out = self.splits.test if self.split is None else self.splits.validation
        return self.evaluate(held_out, scored_while_learning(len(self.splits.train), len(held_out)))

    def evaluate(self, held_out: ImageSet, count: int) -> dict[str, float]:
        """Scores of ``count`` evenly spaced held-out images, and the accuracy of some training images."""
        train = self.splits.train
        held, learned = _evenly_spaced(len(held_out), count), _evenly_spaced(len(train), TRAIN_SCORED)
        scores = score(self.logits_of(self.model, held_out, held), held_out.labels[held])
        train_scores = score(self.logits_of(self.model, train, learned), train.labels[learned])
        named = {name.replace("-", "_"): value for name, value in scores.items()}
        return {**named, "accuracy_train": train_scores["accuracy"]}

    @torch.no_grad()
    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Scores of all held-out images, parameter count, and the multiplied encoding or the attention distances."""
        metrics = self.evaluate(self.splits.test, len(self.splits.test))
        metrics["roughness"] = roughness(curve)
        metrics["parameters"] = float(sum(p.numel() for p in self.model.parameters() if p.requires_grad))
        arrays: dict[str, np.ndarray] = {}
        if isinstance(self.model, LeNet) and (over := self.model.over()) is not None:
            arrays["over"] = over.cpu().numpy()
        if isinstance(self.model, VisionTransformer) and len(self.model.stages) == 1:
            arrays = self._attention_reach(self.model)
            metrics |= {f"attention_{name}": float(values.mean()) for name, values in arrays.items()}
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the patches, on held-out images; None for a LeNet."""
        images = self.held_out(ATTENTION_IMAGES)
        x = self.augment.evaluate(images.read(range(len(images))).to(self.device))
        return self.model.embedding_scale(x) if isinstance(self.model, VisionTransformer) else None

    def held_out(self, count: int | None) -> ImageSet:
        """Evenly spaced held-out images. count: their number, None for all."""
        test = self.splits.test
        return test if count is None else test.take(_evenly_spaced(len(test), count))

    def _attention_reach(self, model: VisionTransformer) -> dict[str, np.ndarray]:
        """Mean attention distance in patches and attention entropy in bits, ``(layers, heads)`` each."""
        (stage,) = model.config.stages
        images = self.held_out(ATTENTION_IMAGES)
        x = self.augment.evaluate(images.read(range(len(images))).to(self.device))
        maps = model.attention_maps(x)
        shape = x.shape[2] // stage.patch, x.shape[3] // stage.patch
        before = maps.shape[-1] - shape[0] * shape[1]
        rows = attention_reach(maps, patch_positions(shape, 2, before=before))
        by_head = [row for row in rows if row["head"] != "all"]
        return {
            name: np.array([row[name] for row in by_head]).reshape(len(maps), -1) for name in ("distance", "entropy")
        }


def scored_while_learning(train: int, held_out: int) -> int:
    """Number of held-out images that a model is scored on during training.

    Args:
        train: Number of training images.
        held_out: Number of held-out images.

    Returns:
        The number.
    """
    return min(held_out, max(FEWEST_SCORED, train // TRAIN_PER_SCORED))


def _evenly_spaced(total: int, count: int) -> Tensor:
    """Evenly spaced indices below ``total``, because data sets are often sorted by class."""
    return torch.linspace(0, total - 1, min(count, total)).round().long()


def roughness(curve: list[dict[str, Any]]) -> float:
    """Mean absolute second difference of the training loss from evaluation to evaluation.

    Args:
        curve: Rows of the learning curves of a run.

    Returns:
        0 for a straight line, nan for fewer than three evaluations.
    """
    losses = [row["value"] for row in curve if row["metric"] == "loss_train"]
    bends = np.abs(np.diff(losses, 2))
    return float(bends.mean()) if len(bends) else math.nan


def build(spec: RunSpec, root: Path, workdir: Path | None) -> Classifier:
    """The model of a run on its images, untrained."""
    return Classifier(spec, root)


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it."""
    return execute_training(spec, workdir, report, build)


def cost_key(spec: RunSpec) -> Any:
    """The settings that decide the time of a run."""
    return spec.settings["row"], spec.settings["training"], spec.settings["pictures"]


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps and the number of images that are scored."""
    with torch.random.fork_rng():
        classifier = Classifier(spec, store.root)
        fit, training, splits = classifier.fit(), classifier.training, classifier.splits
        seconds = training_seconds(fit, training, classifier.device)
    steps = training.epochs * fit.per_epoch(training.batch)
    per_image = seconds / (steps * training.batch) * FORWARD_SHARE
    evaluations = 1 + math.ceil(training.epochs / training.evaluate_every)
    held_out = splits.test if classifier.split is None else splits.validation
    learned = min(TRAIN_SCORED, len(splits.train))
    each = scored_while_learning(len(splits.train), len(held_out)) + learned
    return seconds + (evaluations * each + len(splits.test) + learned) * per_image


def memory_bytes(spec: RunSpec) -> float:
    """Memory of a run: its images, twice while they are resized, and on a CPU the parameters and activations.

    Intermediate results that no backward pass needs are not counted; schemes as released may need more for them.
    """
    settings = spec.settings
    images = msgspec.convert(settings["pictures"], ImageRecord)
    training = msgspec.convert(settings["training"], TrainingConfig)
    held = 2.0 * images.bytes
    if settings["device"] != "cpu":
        return held
    channels, height, width = images.shape
    size = settings["augmentation"]["size"] or 0
    shape = (channels, size or height, size or width)
    with torch.random.fork_rng():
        model = msgspec.convert(settings["row"], ModelSpec).model()
    own = sum(p.nbytes for p in model.parameters())
    samples = math.ceil(training.batch / (training.accumulate or 1))
    kept = activation_bytes(model, lambda count: torch.zeros(count, *shape), samples)
    return held + STATES * own + GRADIENT_FACTOR * kept


TRAIN = Procedure("classification.train", 1, train)
