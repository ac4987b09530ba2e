"""Training runs of the Latin-square study: build the model of a variant and a seed, train it, score it by class.

On a GPU, runs that differ in seed, standard deviation, learning rate or weight decay are trained as one batched model:
``train_batched``.
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

from posenc.lookup.scheme_text import Specification, per_layer
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.workbench.runs import Batched, Job, Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares.variants import VIEWS, Variant
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.training_run import (
    execute_training,
    initial_embedding_scale,
    store_root,
    weights_of,
    with_embedding_scale,
)
from posenc.workbench.studies.shared.training_time import training_seconds
from posenc.workbench.tasks import latin_squares as task
from posenc.workbench.training import batched
from posenc.workbench.training.loop import Fit, Report, TrainingConfig

OOD, IID = "accuracy_ood", "accuracy_iid"
"""Metrics: accuracy on the puzzles held out of distribution and in distribution."""
CHANCE = 0.25

EVALUATE_AT_MOST = 1000
"""Training puzzles that the ``accuracy_train`` of a learning curve is measured on."""
CHUNK = 1024
"""Puzzles that are scored at once."""
INITIAL_VALUES = ("sigma", "distribution")
"""Options of schemes that decide the initial values of a model and nothing else."""
RATES = ("lr", "weight_decay", "warmup_steps", "decay_steps", "clip")
"""Parts of a training in which the members of one batched model may differ."""


def dataset_path(root: Path, arguments: dict[str, Any]) -> Path:
    """File of a store for the puzzles that these arguments make."""
    digest = hashlib.sha256(msgspec.json.encode(arguments, order="sorted")).hexdigest()[:16]
    return root / "data" / f"latin-squares-{digest}.npz"


def load_or_generate(root: Path, arguments: dict[str, Any]) -> task.Dataset:
    """The puzzles of a store, generated if it lacks them; one seed gives the same puzzles on every machine."""
    path = dataset_path(root, arguments)
    if path.exists():
        return task.load_dataset(path)
    if "authors" in arguments:
        raise ValueError(
            f"the authors' puzzles are no longer at {path}. posenc run latin-squares --data DIR, with the same preset "
            "and panels, copies them there."
        )
    dataset = task.generate_dataset(**arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    task.save_dataset(dataset, path)
    return dataset


def make_model(variant: Variant, config: EncoderConfig) -> Encoder:
    """The encoder of a variant; config already includes the changes of the variant."""
    sizes = position_views.sizes_at(_known(config), task.views()[variant.view])
    return Encoder(config, per_layer(Specification(variant.scheme, variant.options), sizes))


def _known(config: EncoderConfig) -> dict[str, Any]:
    """Constructor arguments of schemes that follow from the model."""
    sizes = {"dim": config.dim, "head_dim": config.head_dim, "heads": config.heads}
    return {**sizes, "max_len": 16, "max_distance": 15}


def on_view(variant: Variant, config: EncoderConfig, view: str) -> Variant:
    """The variant on a view of the positions.

    Args:
        variant: The variant.
        config: Sizes of the encoder.
        view: Name of the view; "" for the richest that the scheme fits.

    Returns:
        The variant.

    Raises:
        ValueError: The scheme cannot be built, or does not fit.
    """
    scheme, views = Specification(variant.scheme, variant.options), task.views()
    positions = {each.name: views[each.name] for each in VIEWS}
    chosen = position_views.choose(scheme, _known(config), positions, VIEWS, view)
    placed = msgspec.convert({**msgspec.to_builtins(variant), "view": chosen}, Variant)
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # heads or widths that differ are found here
        puzzle = torch.zeros(1, 16, config.channels)
        make_model(placed, config).eval()(puzzle, views[chosen], torch.tensor([0]))
    return placed


def require_buildable(variant: Variant, config: EncoderConfig) -> None:
    """Raise ValueError for a variant that cannot be built or cannot read its positions, before anything runs."""
    with torch.random.fork_rng():
        schemes: list[Any] = list(make_model(variant, config).schemes)
        for scheme in schemes:
            scheme.prepare(task.views()[variant.view])


class Split:
    """Puzzles as tensors on a device."""

    def __init__(self, puzzles: task.Puzzles, channels: int, device: str) -> None:
        self.x = torch.from_numpy(task.one_hot(puzzles, channels)).to(device)
        self.probe = torch.from_numpy(task.probe_cells(puzzles)).to(device)
        self.answer = torch.from_numpy(puzzles.answer.astype(np.int64) - 1).to(device)
        self.kind = torch.from_numpy(puzzles.kind.astype(np.int64)).to(device)

    def head(self, count: int) -> Split:
        """The first puzzles; all where there are no more."""
        part = object.__new__(Split)
        part.x, part.probe = self.x[:count], self.probe[:count]
        part.answer, part.kind = self.answer[:count], self.kind[:count]
        return part


class EncoderOnPuzzles:
    """A model on its puzzles.

    Args:
        spec: The run.
        dataset: The puzzles.
        sharing: Another model with the same puzzles and positions, whose tensors are used.
    """

    def __init__(self, spec: RunSpec, dataset: task.Dataset, sharing: EncoderOnPuzzles | None = None) -> None:
        settings, self.device = spec.settings, spec.settings["device"]
        self.variant = msgspec.convert(settings["row"], Variant)
        self.config = msgspec.convert(settings["model"], EncoderConfig)
        self.training = msgspec.convert(settings["training"], TrainingConfig)
        if sharing is None:
            size = settings["train_size"] or len(dataset.train)
            channels = self.config.channels
            self.train = Split(dataset.train.take(np.arange(size)), channels, self.device)
            self.held_out = {name: Split(getattr(dataset, name), channels, self.device) for name in ("iid", "ood")}
            self.pos = task.views()[self.variant.view].to(self.device)
        else:
            self.train, self.held_out, self.pos = sharing.train, sharing.held_out, sharing.pos
        torch.manual_seed(spec.seed)
        self.model = make_model(self.variant, self.config).to(self.device)

    def fit(self) -> Fit:
        """Loss, puzzles and measurements for the training loop."""
        data = (self.train.x, self.train.probe, self.train.answer)
        return Fit.of(self.model, data, self.loss, self.evaluate)

    def loss(self, model: Callable[..., Tensor], x: Tensor, probe: Tensor, answer: Tensor) -> Tensor:
        """Cross-entropy of the answers."""
        return functional.cross_entropy(model(x, self.pos, probe), answer)

    def logits(self, split: Split) -> Tensor:
        """Logits of the four symbols, ``(puzzles, 4)``."""
        parts = zip(split.x.split(CHUNK), split.probe.split(CHUNK), strict=True)
        return torch.cat([self.model(x, self.pos, probe) for x, probe in parts])

    def embedding_scale(self) -> float | None:
        """Size of the positions beside that of the cells of some puzzles."""
        return self.model.embedding_scale(self.train.x[:CHUNK], self.pos)

    def evaluate(self) -> dict[str, float]:
        """Accuracies, and losses of the held-out puzzles."""
        metrics = {}
        for name, split in (("train", self.train.head(EVALUATE_AT_MOST)), *self.held_out.items()):
            logits = self.logits(split)
            metrics[f"accuracy_{name}"] = (logits.argmax(-1) == split.answer).double().mean().item()
            if name != "train":
                metrics[f"loss_{name}"] = functional.cross_entropy(logits, split.answer).item()
        return metrics

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """The last measurements, accuracies by class, and 1 for each held-out puzzle that was answered correctly."""
        metrics = {row["metric"]: row["value"] for row in curve if row["epoch"] == curve[-1]["epoch"]}
        arrays = {}
        self.model.train(self.training.evaluate_in_train_mode)
        with torch.no_grad():
            for name, split in (("train", self.train), *self.held_out.items()):
                right = self.logits(split).argmax(-1) == split.answer
                metrics[f"accuracy_{name}"] = right.double().mean().item()
                if name != "train":
                    arrays[f"right_{name}"] = right.to(torch.uint8).cpu().numpy()
                    for kind in (1, 2, 3):
                        metrics[f"accuracy_{name}_{kind}"] = right[split.kind == kind].double().mean().item()
        return RunResult(metrics=metrics, curves=curve, arrays=arrays, weights=weights_of(self.model))


def build(spec: RunSpec, root: Path, workdir: Path | None) -> EncoderOnPuzzles:
    """The model of a run on the puzzles of its store."""
    return EncoderOnPuzzles(spec, load_or_generate(root, spec.settings["data"]))


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Execute a training run."""
    return execute_training(spec, workdir, report, build)


def group(spec: RunSpec) -> str:
    """Text that is equal for runs that can be trained as one batched model."""
    settings = dict(spec.settings)
    variant, training = settings.pop("row"), settings.pop("training")
    # The changes of a variant are part of the model and the training already.
    options = {name: value for name, value in variant["options"].items() if name not in INITIAL_VALUES}
    variant = {"scheme": variant["scheme"], "view": variant["view"], "options": options}
    training = {name: value for name, value in training.items() if name not in RATES}
    return msgspec.json.encode([settings, variant, training], order="sorted").decode()


def memory(spec: RunSpec) -> float:
    """Upper bound of the bytes of one run: weights, gradients and moments, and the activations of a step."""
    model, training = spec.settings["model"], spec.settings["training"]
    dim, hidden, depth = model["dim"], model["hidden"], model["depth"]
    weights = depth * (4 * dim**2 + 2 * dim * hidden) + 64 * dim * depth
    activations = training["batch"] * 16 * depth * (20 * dim + 6 * hidden)
    return 4.0 * (8 * weights + activations)


def seconds(spec: RunSpec, store: Store) -> float:
    """Estimated training time of a run on one core, from a few timed steps."""
    with torch.random.fork_rng():
        trained = build(spec, store.root, None)
        return training_seconds(trained.fit(), trained.training, spec.device)


def equal_cost(spec: RunSpec) -> list[Any]:
    """Values that are equal for runs that take the same time; rates and initial values do not change it."""
    settings, training = spec.settings, spec.settings["training"]
    variant = [settings["row"]["scheme"], settings["row"]["view"]]
    return [variant, settings["model"], settings["train_size"], training["batch"], training["epochs"], spec.device]


def train_jobs(jobs: Sequence[Job]) -> list[RunResult | Exception]:
    """Execute training runs of one ``group`` as one batched model."""
    first = jobs[0].spec
    dataset = load_or_generate(store_root(jobs[0].workdir), first.settings["data"])
    with torch.random.fork_rng():
        trained: list[EncoderOnPuzzles] = []
        for job in jobs:
            trained.append(EncoderOnPuzzles(job.spec, dataset, trained[0] if trained else None))
        members = [
            batched.Member(one.fit(), one.training, job.spec.seed, job.workdir, job.report)
            for one, job in zip(trained, jobs, strict=True)
        ]
        scales = [initial_embedding_scale(one) for one in trained]
        curves = batched.train_batched(members, precision=first.settings.get("precision", "float32"))
        return [_result(one, curve, scale) for one, curve, scale in zip(trained, curves, scales, strict=True)]


def _result(
    trained: EncoderOnPuzzles, curve: list[dict[str, Any]] | Exception, scale: float | None
) -> RunResult | Exception:
    """A member's result, or the error that ended that member alone."""
    if isinstance(curve, Exception):
        return curve
    try:
        return with_embedding_scale(trained.result(curve), scale)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return error


train_batched = Batched(group=group, memory=memory, execute=train_jobs)
"""Batched training for ``train``; executors look it up under this name."""

TRAIN = Procedure("latin-squares.train", 1, train)
