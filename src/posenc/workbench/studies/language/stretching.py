"""Rows that are trained as another and read with other frequencies: linear, NTK-aware and YaRN of the trained RoPE."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
from torch import nn

from posenc.adapt.swap import swap
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.language.rows import LanguageRow, Schedule, stretched
from posenc.workbench.training.loop import Fit, Report, TrainingConfig, train


def trained_before(spec: RunSpec) -> RunSpec | None:
    """The unit whose training this one's is, for rows that differ after it."""
    settings = dict(spec.settings)
    if settings.pop("schedule", None) is None:
        return None
    return msgspec.structs.replace(spec, variant=settings.pop("trained_as"), settings=settings)


def learned(
    spec: RunSpec, model: nn.Module, fit: Fit, root: Path, workdir: Path, report: Report
) -> list[dict[str, Any]]:
    """Trains a unit's model, or takes the weights of the unit that has done so; its curves."""
    base = trained_before(spec)
    store = Store(root, create=False) if base is not None else None
    if base is not None and store is not None and store.finished(base.identity):
        done = store.read(base.identity)
        model.load_state_dict(done.weights)
        return done.curves
    training = msgspec.convert(spec.settings["training"], TrainingConfig)
    return train(fit, training, seed=spec.seed, workdir=workdir, report=report)


def stretch(spec: RunSpec, model: nn.Module, row: LanguageRow, factor: float, trained: int) -> None:
    """Gives a trained model the frequencies of its unit's schedule, for so many times the trained length."""
    schedule: Schedule | None = spec.settings.get("schedule")
    if schedule is not None:
        assert schedule in get_args(Schedule)
        swap(model, stretched(schedule, row.config.head_dim, factor=factor, trained=trained))
