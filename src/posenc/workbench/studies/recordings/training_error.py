"""Error of trained models on training samples with 90% of the channels hidden: the training bars of Fig. 4D.

It is a measurement of its own, so that stored results keep their identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch

from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.recordings.conditions import TEST_RATE
from posenc.workbench.studies.recordings.execute import read_tokens
from posenc.workbench.studies.recordings.presets import RecordingsPreset
from posenc.workbench.studies.shared.hidden_tokens.execute import MaskedModel
from posenc.workbench.studies.shared.hidden_tokens.settings import error_metric
from posenc.workbench.studies.shared.training_run import restored, store_root
from posenc.workbench.training.loop import Report

SAMPLES = 2048
"""Largest number of training samples, equally spaced, on which the error is measured."""
TRAINING_ERROR = f"{error_metric(TEST_RATE)}_train"
"""Metric: mean squared error of training samples with 90% of the channels hidden."""


def training_errors(
    request: Request, preset: RecordingsPreset, store: Store, specs: Sequence[RunSpec]
) -> list[RunSpec]:
    """Plan the measurements of all finished runs with a model."""
    trained = [spec for spec in specs if "baseline" not in spec.settings and store.finished(spec.identity)]
    return [MEASURE.measuring(spec, {"samples": SAMPLES, "rate": TEST_RATE}) for spec in trained]


def measure(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Execute a measuring run. Metric: ``TRAINING_ERROR``."""

    def build(trained: RunSpec, root: Path, folder: Path | None) -> MaskedModel:
        return MaskedModel(trained, read_tokens(root, trained))

    model = restored(Store(store_root(workdir)), spec.parents["trained"], build)
    tokens = model.tokens
    rows = torch.arange(len(tokens.train)) if tokens.rows is None else tokens.rows
    chosen = rows[torch.linspace(0, len(rows) - 1, min(spec.settings["samples"], len(rows))).round().long()]
    model.tokens = dataclasses.replace(tokens, validation=tokens.train[chosen])
    with torch.no_grad():
        errors = model.errors(spec.settings["rate"], torch.arange(len(chosen)), validation=True)
    return RunResult(metrics={TRAINING_ERROR: float(errors.double().mean())})


MEASURE = Procedure("masked.training-error", 1, measure)
