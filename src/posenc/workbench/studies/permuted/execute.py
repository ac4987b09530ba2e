"""Execute one run of the study of permuted images: each seed has its own permutation, the same for all variants."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.permuted.settings import images_of
from posenc.workbench.studies.shared.hidden_tokens import execute
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens
from posenc.workbench.studies.shared.image_data import ImageRecord, read_images
from posenc.workbench.tasks.patches import permute_patches
from posenc.workbench.training.loop import Report


def read_tokens(root: Path, spec: RunSpec) -> Tokens:
    """The images as patches in the order of a seed, standardized by mean and SD of all training pixels."""
    data, seed = spec.settings["data"], spec.seed
    splits = read_images(root, msgspec.convert(data["pictures"], ImageRecord))
    sample = torch.linspace(0, len(splits.test) - 1, min(data["test"], len(splits.test))).round().long()
    train = permute_patches(splits.train.read(range(len(splits.train))), seed=seed)
    test = permute_patches(splits.test.read(sample), seed=seed)
    mean, sd = train.values.mean(), train.values.std()
    classes, class_of = splits.test.labels[sample].unique(return_inverse=True)
    return Tokens(
        (train.values - mean) / sd,
        (test.values - mean) / sd,
        class_of,
        tuple(splits.test.classes[number] for number in classes.tolist()),
        patch_names(train.positions),
        train.views(),
        neighbors=train.neighbors,
        coordinates=train.positions,
    )


def patch_names(positions: torch.Tensor) -> tuple[str, ...]:
    """Row and column of each patch, counted from 1: "r1 c1"."""
    return tuple(f"r{int(row) + 1} c{int(column) + 1}" for row, column in positions.tolist())


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it, or compute a baseline."""
    return execute.execute(spec, workdir, report, read_tokens)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    return execute.run_seconds(spec, store, read_tokens)


def memory_bytes(spec: RunSpec) -> float:
    """Memory of a run: its images in float32, twice, and a training step."""
    return 8.0 * images_of(spec).bytes + execute.memory_bytes(spec)


TRAIN = Procedure("permuted.train", 1, train)
