"""Rows that are trained as another and read with other frequencies: linear, NTK-aware and YaRN of the trained RoPE."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
from torch import nn

from posenc.adapt.swapping import swap
from posenc.store import Store, Unit
from posenc.studies.language.rows import LanguageRow, Schedule, stretched
from posenc.training.loop import Fit, Report, TrainingConfig, train


def trained_before(unit: Unit) -> Unit | None:
    """The unit whose training this one's is, for rows that differ after it."""
    settings = dict(unit.settings)
    if settings.pop("schedule", None) is None:
        return None
    return msgspec.structs.replace(unit, scheme=settings.pop("trained_as"), settings=settings)


def learned(unit: Unit, model: nn.Module, fit: Fit, root: Path, workdir: Path, report: Report) -> list[dict[str, Any]]:
    """Trains a unit's model, or takes the weights of the unit that has done so; its curves."""
    base = trained_before(unit)
    store = Store(root, create=False) if base is not None else None
    if base is not None and store is not None and store.finished(base.key):
        done = store.read(base.key)
        model.load_state_dict(done.weights)
        return done.curves
    training = msgspec.convert(unit.settings["training"], TrainingConfig)
    return train(fit, training, seed=unit.seed, workdir=workdir, report=report)


def stretch(unit: Unit, model: nn.Module, row: LanguageRow, factor: float, trained: int) -> None:
    """Gives a trained model the frequencies of its unit's schedule, for so many times the trained length."""
    schedule: Schedule | None = unit.settings.get("schedule")
    if schedule is not None:
        assert schedule in get_args(Schedule)
        swap(model, stretched(schedule, row.config.head_dim, factor=factor, trained=trained))
