"""What is measured of a trained model: attention beside a reference, positions beside the true grid, noise.

A measurement is a unit of work of its own, addressed by the trained unit that it reads (and by its reference), so it is
done once, in parallel, and its numbers stand in the store beside the accuracies: ``posenc results``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.measure.attention_maps import agreement
from posenc.measure.distances import token_distances, unrolled
from posenc.measure.procrustes import additive_r2, alignment, same_line_auc
from posenc.measure.robustness import noise_robustness
from posenc.schemes.sinusoid import Sinusoid
from posenc.store import Outcome, Store, Unit
from posenc.studies.latin_squares import work
from posenc.tasks import latin_squares as task
from posenc.training.loop import Report

REFERENCES = ("2d-fixed", "2d-fixed-literal")
"""Whose attention is the truth, the first that was trained; the paper's own was the literal one."""

NOISE_SCALES = (0.0, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
NOISE_DRAWS = 20
SHAPE = (4, 4)


def measurements(units: Sequence[Unit], store: Store) -> list[Unit]:
    """The units that measure these trained ones (of the main setting, those that are finished).

    The reference of a model is 2d-fixed with the same seed; of 2d-fixed itself, 2d-fixed with the next seed, which
    is as alike as two models that differ in their seed alone can be.
    """
    trained = {(u.scheme, u.seed): u for u in units if u.setting == "main" and store.finished(u.key)}
    found = []
    for (scheme, seed), unit in trained.items():
        reference = _reference(scheme, seed, trained)
        settings = {"trained": unit.key, "reference": reference, "scales": list(NOISE_SCALES), "draws": NOISE_DRAWS}
        found.append(
            Unit(
                study=unit.study,
                preset=unit.preset,
                scheme=scheme,
                seed=seed,
                settings=settings,
                work=f"{__name__}:measure_unit",
            )
        )
    return found


def _reference(scheme: str, seed: int, trained: Mapping[tuple[str, int], Unit]) -> str:
    for label in REFERENCES:
        seeds = sorted(other for name, other in trained if name == label)
        if scheme == label:
            others = [other for other in seeds if other > seed] + [other for other in seeds if other < seed]
            return trained[label, others[0]].key if others else ""
        if seed in seeds:
            return trained[label, seed].key
    return ""


def measure_unit(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """What a worker calls. Metrics: attention_*, position_*, procrustes_*, accuracy_ood_noise_SCALE."""
    store = Store(workdir.parents[1])
    metrics: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    with torch.random.fork_rng():
        before, after = (restore(store, unit.settings["trained"], weights) for weights in (False, True))
        maps = _attention(after)
        arrays["attention"] = maps.mean((1, 2)).numpy().astype(np.float32)
        if unit.settings["reference"]:
            reference = restore(store, unit.settings["reference"])
            metrics |= _agreement(maps, _attention(before), _attention(reference))
        tables = [_tables(trained) for trained in (before, after)]
        if tables[1]:
            metrics |= _positions(*tables)
            arrays |= _pictures(*tables)
        metrics |= _noise(after, unit.settings["scales"], unit.settings["draws"], unit.seed)
    return Outcome(metrics=metrics, arrays=arrays)


def restore(store: Store, key: str, weights: bool = True) -> work.Trained:
    """A stored unit's model on the CPU, as it was when training ended, or (weights=False) before the first step."""
    stored = store.read(key)
    settings = {**stored.unit.settings, "device": "cpu"}
    unit = Unit(**stored.unit.labels, work=stored.unit.work, settings=settings)
    trained = work.Trained(unit, work.obtain(store.root, settings["data"]))
    if weights:
        trained.model.load_state_dict(stored.weights)
    trained.model.eval()
    return trained


def _attention(trained: work.Trained) -> Tensor:
    """Maps of the out-of-distribution puzzles, ``(layers, B, H, N, N)``."""
    with torch.no_grad():
        return trained.model.attention_maps(trained.held["ood"].x, trained.pos)


def _agreement(after: Tensor, before: Tensor, reference: Tensor) -> dict[str, float]:
    found = {}
    for row in agreement(after, reference):
        end = "" if row["layer"] == "all" else f"_layer_{row['layer']}"
        found |= {f"attention_{name}{end}": value for name, value in row.items() if name != "layer"}
    untrained = next(row for row in agreement(before, reference) if row["layer"] == "all")
    found |= {f"attention_{name}_untrained": value for name, value in untrained.items() if name != "layer"}
    return found | {"attention_cosine_gained": found["attention_cosine"] - found["attention_cosine_untrained"]}


def _tables(trained: work.Trained) -> list[Tensor]:
    """The rows that each layer's scheme adds, ``(N, dim)`` a layer; none for schemes that act elsewhere."""
    schemes: list[Any] = list(trained.model.schemes)
    with torch.no_grad():
        return [s.embed(s.prepare(trained.pos)).double() for s in schemes if "embed" in s.claims.sites]


def true_positions(dim: int) -> Tensor:
    """The rows of 2d-fixed, ``(16, dim)``."""
    scheme = Sinusoid(dim, axes=2)
    return scheme.embed(scheme.prepare(task.views()["grid"])).double()


def _positions(before: list[Tensor], after: list[Tensor]) -> dict[str, float]:
    """The paper's distance and its controls, of the first layer's table and (no suffix) meaned over layers."""
    truth = true_positions(after[0].shape[-1])
    layers = []
    for start, end in zip(before, after, strict=True):
        found = {f"procrustes_{name}": float(value) for name, value in alignment(end, truth, initial=start).items()}
        found["position_norm"] = float(end.norm())
        found["position_additive_r2"] = float(additive_r2(end, SHAPE))
        found["position_same_line_auc"] = float(same_line_auc(end, SHAPE))
        for when, table in (("", end), ("_initial", start)):
            found[f"position_residual{when}"] = float(unrolled(table, _grid()).residual)
        layers.append(found)
    means = {name: float(np.mean([found[name] for found in layers])) for name in layers[0]}
    return means | {f"{name}_layer_0": value for name, value in layers[0].items()}


def _pictures(before: list[Tensor], after: list[Tensor]) -> dict[str, np.ndarray]:
    """Of the first layer: distances between tokens, and the plane they unroll to, before and after training."""
    found = {}
    for when, tables in (("before", before), ("after", after)):
        found[f"distances_{when}"] = token_distances(tables[0]).numpy().astype(np.float32)
        found[f"plane_{when}"] = unrolled(tables[0], _grid()).points.numpy().astype(np.float32)
    return found


def _grid() -> Tensor:
    return task.views()["grid"].coords.double()


def _noise(trained: work.Trained, scales: Sequence[float], draws: int, seed: int) -> dict[str, float]:
    split = trained.held["ood"]

    def evaluate() -> dict[str, float]:
        return {"accuracy": (trained.logits(split).argmax(-1) == split.answer).double().mean().item()}

    rows = noise_robustness(trained.model, trained.model.tokens, evaluate, scales=scales, draws=draws, seed=seed)
    left = {scale: float(np.mean([row["value"] for row in rows if row["scale"] == scale])) for scale in scales}
    found = {noise_metrics()[scale]: accuracy for scale, accuracy in left.items()}
    return found | {name: left[0.0] - left[scale] for scale, name in lost_metrics().items()}


def noise_metrics() -> dict[float, str]:
    """Scale of the noise -> the metric that holds its accuracy."""
    return {scale: f"accuracy_ood_noise_{scale:g}" for scale in NOISE_SCALES}


def lost_metrics() -> dict[float, str]:
    """Scale of the noise -> the metric that holds how much accuracy it costs."""
    return {scale: f"accuracy_ood_lost_to_noise_{scale:g}" for scale in NOISE_SCALES if scale}
