"""Further measurements of a trained model: noise at twenty scales, its tables, and their similarity at the start.

They are runs of their own, so that results of ``measure`` that were stored before keep their identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from posenc.measure.robustness import noise_robustness
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import measure
from posenc.workbench.studies.latin_squares.execute import EncoderOnPuzzles, build
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.training_run import restored, store_root
from posenc.workbench.training.loop import Report

ALL_SCALES = tuple(tenth / 10 for tenth in range(1, 21))
"""Standard deviations of the noise in Fig. A10, twenty as in the paper's other sweeps; its caption is lost."""
FURTHER_SCALES = tuple(scale for scale in ALL_SCALES if scale not in measure.NOISE_SCALES)
START_COSINE = "position_cosine_initial"
"""Metric: mean cosine similarity of the rows of an untrained table with those of 2d-fixed, in the first layer."""


def noise_metric(scale: float) -> str:
    """Stored name of the accuracy at a standard deviation of the noise."""
    return f"accuracy_ood_noise_{scale:g}"


def noise_measurements(specs: Sequence[RunSpec], store: Store) -> list[RunSpec]:
    """Plan the noise at the scales that ``measure`` leaves out, for all finished runs of the main condition."""
    settings = {"scales": list(FURTHER_SCALES), "draws": measure.NOISE_DRAWS}
    return [NOISE.measuring(spec, settings) for spec in _finished(specs, store)]


def table_measurements(specs: Sequence[RunSpec], store: Store) -> list[RunSpec]:
    """Plan the tables of all finished runs of the main condition, before and after training."""
    return [TABLES.measuring(spec, {}) for spec in _finished(specs, store)]


def _finished(specs: Sequence[RunSpec], store: Store) -> list[RunSpec]:
    return [spec for spec in specs if spec.condition == MAIN and store.finished(spec.identity)]


def measure_noise(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Execute a run of noise. Metrics: accuracy_ood_noise_SCALE."""
    with torch.random.fork_rng():
        trained = restored(Store(store_root(workdir)), spec.parents["trained"], build)
        puzzles = trained.held_out["ood"]

        def evaluate() -> dict[str, float]:
            return {"accuracy": (trained.logits(puzzles).argmax(-1) == puzzles.answer).double().mean().item()}

        rows = noise_robustness(
            trained.model, trained.model.tokens, evaluate, scales=spec.settings["scales"], draws=spec.settings["draws"],
            seed=spec.seed,
        )  # fmt: skip
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(noise_metric(row["scale"]), []).append(row["value"])
    return RunResult(metrics={name: float(np.mean(each)) for name, each in values.items()})


def measure_tables(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Execute a run of tables. Arrays of the first layer, if it has one: table_before, table_after, ``(16, dim)``."""
    store = Store(store_root(workdir))
    with torch.random.fork_rng():
        both = [restored(store, spec.parents["trained"], build, weights=weights) for weights in (False, True)]
        before, after = map(_first_table, both)
    if before is None or after is None:
        return RunResult(metrics={})
    truth = measure.true_positions(before.shape[-1])
    cosine = float(functional.cosine_similarity(before, truth, dim=1).mean())
    arrays = {"table_before": before, "table_after": after}
    return RunResult(
        metrics={START_COSINE: cosine},
        arrays={name: each.numpy().astype(np.float32) for name, each in arrays.items()},
    )


def _first_table(trained: EncoderOnPuzzles) -> Tensor | None:
    """The encodings that the first layer adds, ``(16, dim)`` in float64; None if its scheme adds none."""
    scheme: Any = trained.model.schemes[0]
    if "embed" not in scheme.claims.sites:
        return None
    with torch.no_grad():
        return scheme.embed(scheme.prepare(trained.pos)).cpu().double()


NOISE = Procedure("latin-squares.noise", 1, measure_noise)
TABLES = Procedure("latin-squares.tables", 1, measure_tables)
