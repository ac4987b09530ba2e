"""One unit of the study of permuted pictures: every seed scrambles the patches in its own way, and all rows of a seed
see the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch

from posenc.store import Outcome, Store, Unit
from posenc.studies.masking import work as masking
from posenc.studies.masking.tokens import Tokens
from posenc.studies.picture_sets import Pictures, kept
from posenc.tasks.patches import permuted
from posenc.training.loop import Report


def obtain(root: Path, data: dict[str, Any], seed: int) -> Tokens:
    """The pictures as patches in the order of a seed; brightness in units of its spread over all training pixels."""
    pictures = msgspec.convert(data["pictures"], Pictures)
    parts = kept(root, pictures)
    some = torch.linspace(0, len(parts.test) - 1, min(data["test"], len(parts.test))).round().long()
    train = permuted(parts.train.read(range(len(parts.train))), seed=seed)
    test = permuted(parts.test.read(some), seed=seed)
    mean, sd = train.values.mean(), train.values.std()
    labels = parts.test.labels[some]
    classes, whose = labels.unique(return_inverse=True)
    return Tokens(
        (train.values - mean) / sd,
        (test.values - mean) / sd,
        whose,
        tuple(parts.test.classes[number] for number in classes.tolist()),
        names(train.positions),
        train.views(),
        neighbours=train.neighbours,
        places=train.positions,
    )


def names(positions: torch.Tensor) -> tuple[str, ...]:
    """Row and column of each token, counted from 1: r1 c1."""
    return tuple(f"r{int(row) + 1} c{int(column) + 1}" for row, column in positions.tolist())


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls."""
    return masking.do(unit, workdir, report, obtain)


def seconds(unit: Unit, store: Store) -> float:
    return masking.seconds(unit, store, obtain)
