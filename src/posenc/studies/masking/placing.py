"""What a learned table knows of where tokens are: their modules, or their true neighbours, each beside chance.

Tables are a layer's own. Numbers are means over layers; ``_layer_0`` is of the first layer alone, and so are pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from posenc.measure.arrangement import neighbours_found, residual_by_chance
from posenc.measure.distances import token_distances, unrolled
from posenc.measure.geodesics import unfolded
from posenc.measure.modularity import (
    adjusted_rand,
    found_modules,
    modularity,
    numbered,
    pair_auc,
    segregation,
    similarity,
)
from posenc.measure.permuting import by_chance
from posenc.studies.masking.tokens import Tokens

DRAWS, DRAWS_OF_MANY, MANY = 200, 100, 64
"""Permutations behind a null, and how many of them where there are so many tokens or more."""


def looked_at(tables: Sequence[Tensor], tokens: Tokens) -> dict[str, float]:
    """What is followed while a model learns: the mean over layers, one number a kind of truth."""
    found: dict[str, float] = {}
    if not tables:
        return found
    if tokens.modules is not None:
        of = numbered(np.array(tokens.modules))
        found["auc"] = _mean([pair_auc(token_distances(table), of) for table in tables])
    if tokens.neighbours is not None:
        found["neighbours"] = _mean([neighbours_found(table, tokens.neighbours).found for table in tables])
    return found


def measured(before: Sequence[Tensor], after: Sequence[Tensor], tokens: Tokens, seed: int) -> dict[str, float]:
    """Every number on tables as they are after training, and on those from before it (``_initial``)."""
    if not after:
        return {}
    found: dict[str, float] = {}
    if tokens.modules is not None and len(set(tokens.modules)) > 1:
        found |= _of_modules(after, tokens.modules, seed)
    if tokens.neighbours is not None and tokens.places is not None:
        found |= _of_places(after, tokens.neighbours, tokens.places, seed)
        if _differs(before[0]):
            found["residual_initial"] = unrolled(unfolded(before[0]), tokens.places).residual
    return found | {f"{name}_initial": value for name, value in looked_at(before, tokens).items()}


def pictured(before: Sequence[Tensor], tables: Sequence[Tensor], tokens: Tokens) -> dict[str, np.ndarray]:
    """Of the first layer: its table, the places that its distances unroll to, modules found without a partition.

    Where the true places are known, distances go from neighbour to neighbour (``measure.geodesics``), places are turned
    onto the true ones, and those from before training are kept beside them.
    """
    if not tables or not _differs(tables[0]):
        return {}
    found = {"table": tables[0], "modules": found_modules(token_distances(tables[0]))}
    if tokens.neighbours is None or tokens.places is None:
        found["positions"] = unrolled(tables[0], axes=3).points
    else:
        found["positions"] = unrolled(unfolded(tables[0]), tokens.places).points
        found["before"] = unrolled(unfolded(before[0]), tokens.places).points
    return {name: (each.float() if each.is_floating_point() else each).numpy() for name, each in found.items()}


def _of_modules(tables: Sequence[Tensor], modules: Sequence[str], seed: int) -> dict[str, float]:
    of, distances = numbered(np.array(modules)), [token_distances(table) for table in tables if _differs(table)]
    if not distances:
        return {}
    weights = [similarity(each) for each in distances]
    literal = [similarity(each, diagonal=True) for each in distances]
    alone = [found_modules(each) for each in distances]
    ways: dict[str, tuple[Sequence[Tensor], Callable[[Tensor, Tensor], float]]] = {
        "auc": (distances, pair_auc),
        "modularity": (weights, modularity),
        "modularity_literal": (literal, modularity),
        "ari": (alone, adjusted_rand),
    }
    found: dict[str, float] = {}
    for name, (each, way) in ways.items():
        found |= _with_null(name, each, way, of, seed)
    kept = [segregation(w, of) for w in weights if _has_inside(w, of)]
    return found | ({"segregation": _mean(kept), "segregation_layer_0": kept[0]} if len(kept) == len(weights) else {})


def _with_null(
    name: str, layers: Sequence[Tensor], way: Callable[[Tensor, Tensor], float], of: Tensor, seed: int
) -> dict[str, float]:
    """The mean over layers and its null: all layers under the same permutation of the modules."""
    draws = DRAWS if len(of) < MANY else DRAWS_OF_MANY
    chance = by_chance(lambda m: _mean([way(each, m) for each in layers]), of, draws=draws, seed=seed)
    return {
        name: chance.found,
        f"{name}_layer_0": way(layers[0], of),
        f"{name}_null": chance.mean,
        f"{name}_null_sd": chance.sd,
        f"{name}_null_high": chance.high,
        f"{name}_p": chance.p,
    }


def _of_places(tables: Sequence[Tensor], neighbours: Tensor, places: Tensor, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    near = [neighbours_found(table, neighbours) for table in tables]
    found["neighbours"], found["neighbours_layer_0"] = _mean([each.found for each in near]), near[0].found
    found["neighbours_chance"] = near[0].chance
    apart = [table for table in tables if _differs(table)]
    for name, sheets in (("residual", [unfolded(table) for table in apart]), ("residual_straight", apart)):
        fits = [residual_by_chance(sheet, places, draws=DRAWS_OF_MANY, seed=seed) for sheet in sheets]
        if fits:
            found[name], found[f"{name}_layer_0"] = _mean([each.found for each in fits]), fits[0].found
            found[f"{name}_null"], found[f"{name}_null_sd"] = _mean([each.mean for each in fits]), fits[0].sd
            found[f"{name}_p"] = max(each.p for each in fits)
    return found


def _differs(table: Tensor) -> bool:
    """Whether tokens have rows of their own: a scheme that adds the same to all says nothing of where they are."""
    return float((table - table.mean(0)).norm()) > 1e-9 * float(table.norm())


def _has_inside(weights: Tensor, of: Tensor) -> bool:
    """Whether every module of two tokens or more has weight inside, which a share of it needs."""
    counts = torch.bincount(of)
    return all(float(weights[of == m][:, of == m].sum()) > 0 for m in range(len(counts)) if counts[m] > 1)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
