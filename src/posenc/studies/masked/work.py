"""One unit of the study of recordings: the store holds what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posenc.store import Outcome, Store, Unit
from posenc.studies.masked.keeping import kept
from posenc.studies.masking import work as masking
from posenc.studies.masking.tokens import Tokens
from posenc.training.loop import Report


def obtain(root: Path, data: dict[str, Any], seed: int) -> Tokens:
    """The recordings of a store: the same for every seed."""
    return kept(root, data["recordings"])


def train_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls."""
    return masking.do(unit, workdir, report, obtain)


def seconds(unit: Unit, store: Store) -> float:
    return masking.seconds(unit, store, obtain)
