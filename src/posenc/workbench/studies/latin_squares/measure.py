"""Measurements of a trained model: attention compared with a reference, positions with the true grid, and noise.

Each measurement is a separate run. Its parents are the trained run and the reference. Measurements are therefore stored
and executed in parallel like training, and ``posenc results`` lists their metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.measure.attention_maps import attention_map_similarity
from posenc.measure.distances import multidimensional_scaling, token_distances
from posenc.measure.procrustes import additive_r2, alignment, same_line_auc
from posenc.measure.robustness import noise_robustness
from posenc.schemes.sinusoid import Sinusoid
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares.execute import EncoderOnPuzzles, build
from posenc.workbench.studies.latin_squares.variants import REFERENCES
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.training_run import restored, store_root
from posenc.workbench.tasks import latin_squares as task
from posenc.workbench.training.loop import Report

NOISE_SCALES = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
NOISE_DRAWS = 20
SHAPE = (4, 4)


def measurements(specs: Sequence[RunSpec], store: Store) -> list[RunSpec]:
    """Plan the measurements of all finished runs of the main condition in ``specs``.

    A model is compared with 2d-fixed of the same seed. 2d-fixed is compared with 2d-fixed of the next seed.
    """
    trained = {(s.variant, s.seed): s for s in specs if s.condition == MAIN and store.finished(s.identity)}
    runs = []
    for (variant, seed), spec in trained.items():
        reference = _reference(variant, seed, trained)
        settings = {"scales": list(NOISE_SCALES), "draws": NOISE_DRAWS}
        runs.append(MEASURE.measuring(spec, settings, {"reference": reference} if reference else None))
    return runs


def _reference(variant: str, seed: int, trained: Mapping[tuple[str, int], RunSpec]) -> str:
    """Identity of the reference; "" if none was trained."""
    for label in REFERENCES:
        seeds = sorted(other for name, other in trained if name == label)
        if variant == label:
            others = [other for other in seeds if other > seed] + [other for other in seeds if other < seed]
            return trained[label, others[0]].identity if others else ""
        if seed in seeds:
            return trained[label, seed].identity
    return ""


def measure(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Execute a measuring run. Metrics: attention_*, position_*, procrustes_*, accuracy_ood_noise_SCALE."""
    store = Store(store_root(workdir))
    metrics: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    with torch.random.fork_rng():
        before, after = (restored(store, spec.parents["trained"], build, weights=weights) for weights in (False, True))
        maps = _attention(after)
        arrays["attention"] = maps.mean((1, 2)).numpy().astype(np.float32)
        if "reference" in spec.parents:
            reference = restored(store, spec.parents["reference"], build)
            metrics |= _agreement(maps, _attention(before), _attention(reference))
        tables = [_tables(trained) for trained in (before, after)]
        if tables[1]:
            metrics |= _positions(*tables)
            arrays |= _layouts(*tables)
        metrics |= _noise(after, spec.settings["scales"], spec.settings["draws"], spec.seed)
    return RunResult(metrics=metrics, arrays=arrays)


def _attention(trained: EncoderOnPuzzles) -> Tensor:
    """Attention maps of the out-of-distribution puzzles, ``(layers, B, H, N, N)``."""
    with torch.no_grad():
        return trained.model.attention_maps(trained.held_out["ood"].x, trained.pos)


def _agreement(after: Tensor, before: Tensor, reference: Tensor) -> dict[str, float]:
    metrics = {}
    for row in attention_map_similarity(after, reference):
        end = "" if row["layer"] == "all" else f"_layer_{row['layer']}"
        metrics |= {f"attention_{name}{end}": value for name, value in row.items() if name != "layer"}
    untrained = next(row for row in attention_map_similarity(before, reference) if row["layer"] == "all")
    metrics |= {f"attention_{name}_untrained": value for name, value in untrained.items() if name != "layer"}
    return metrics | {"attention_cosine_gained": metrics["attention_cosine"] - metrics["attention_cosine_untrained"]}


def _tables(trained: EncoderOnPuzzles) -> list[Tensor]:
    """The encodings that each layer's scheme adds, ``(N, dim)`` per layer; empty if the schemes add none."""
    schemes: list[Any] = list(trained.model.schemes)
    with torch.no_grad():
        return [s.embed(s.prepare(trained.pos)).double() for s in schemes if "embed" in s.claims.sites]


def true_positions(dim: int) -> Tensor:
    """The encodings of 2d-fixed, ``(16, dim)``."""
    scheme = Sinusoid(dim, axes=2)
    return scheme.embed(scheme.prepare(task.views()["grid"])).double()


def _positions(before: list[Tensor], after: list[Tensor]) -> dict[str, float]:
    """Procrustes distance from 2d-fixed and its controls: mean over layers, and for the first layer (_layer_0)."""
    truth = true_positions(after[0].shape[-1])
    layers = []
    for start, end in zip(before, after, strict=True):
        layer = {f"procrustes_{name}": float(value) for name, value in alignment(end, truth, initial=start).items()}
        layer["position_norm"] = float(end.norm())
        layer["position_additive_r2"] = float(additive_r2(end, SHAPE))
        layer["position_same_line_auc"] = float(same_line_auc(end, SHAPE))
        for when, table in (("", end), ("_initial", start)):
            layer[f"position_residual{when}"] = float(multidimensional_scaling(table, _grid()).residual)
        layers.append(layer)
    means = {name: float(np.mean([layer[name] for layer in layers])) for name in layers[0]}
    return means | {f"{name}_layer_0": value for name, value in layers[0].items()}


def _layouts(before: list[Tensor], after: list[Tensor]) -> dict[str, np.ndarray]:
    """Distances between tokens in the first layer and their map on a plane, before and after training."""
    arrays = {}
    for when, tables in (("before", before), ("after", after)):
        arrays[f"distances_{when}"] = token_distances(tables[0]).numpy().astype(np.float32)
        arrays[f"plane_{when}"] = multidimensional_scaling(tables[0], _grid()).points.numpy().astype(np.float32)
    return arrays


def _grid() -> Tensor:
    return task.views()["grid"].coords.double()


def _noise(trained: EncoderOnPuzzles, scales: Sequence[float], draws: int, seed: int) -> dict[str, float]:
    split = trained.held_out["ood"]

    def evaluate() -> dict[str, float]:
        return {"accuracy": (trained.logits(split).argmax(-1) == split.answer).double().mean().item()}

    rows = noise_robustness(trained.model, trained.model.tokens, evaluate, scales=scales, draws=draws, seed=seed)
    left = {scale: float(np.mean([row["value"] for row in rows if row["scale"] == scale])) for scale in scales}
    metrics = {noise_metrics()[scale]: accuracy for scale, accuracy in left.items()}
    return metrics | {name: left[0.0] - left[scale] for scale, name in lost_metrics().items()}


def noise_metrics() -> dict[float, str]:
    """Scale of the noise -> the metric that holds its accuracy."""
    return {scale: f"accuracy_ood_noise_{scale:g}" for scale in NOISE_SCALES}


def lost_metrics() -> dict[float, str]:
    """Scale of the noise -> the metric that holds the accuracy lost to it."""
    return {scale: f"accuracy_ood_lost_to_noise_{scale:g}" for scale in NOISE_SCALES if scale}


MEASURE = Procedure("latin-squares.measure", 1, measure)
