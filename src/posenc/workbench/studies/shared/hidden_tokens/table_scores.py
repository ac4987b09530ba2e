"""Scores of learned tables against known modules or true neighbors of the tokens, each with its permutation null.

Each layer has its own table. A score is the mean over layers; ``NAME_layer_0`` is the score of the first layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from posenc.measure.distances import multidimensional_scaling, token_distances
from posenc.measure.isomap import isomap
from posenc.measure.modularity import (
    adjusted_rand,
    detect_modules,
    modularity,
    module_numbers,
    pair_auc,
    segregation,
    similarity,
)
from posenc.measure.neighbor_recall import disparity_permutation_test, neighbor_recall
from posenc.measure.permutation_test import permutation_test
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens

DRAWS, DRAWS_OF_MANY, MANY = 200, 100, 64
"""Permutations of a null, permutations of a null of many tokens, and least number of many tokens."""


def curve_scores(tables: Sequence[Tensor], tokens: Tokens) -> dict[str, float]:
    """Scores during training: AUC of the modules, neighbor recall.

    Args:
        tables: Embedding table of each layer.
        tokens: The tokens.

    Returns:
        Metric -> value.
    """
    scores: dict[str, float] = {}
    if not tables:
        return scores
    if tokens.modules is not None:
        numbers = module_numbers(np.array(tokens.modules))
        scores["auc"] = _mean([pair_auc(token_distances(table), numbers) for table in tables])
    if tokens.neighbors is not None:
        scores["neighbours"] = _mean([neighbor_recall(table, tokens.neighbors).found for table in tables])
    return scores


def final_scores(before: Sequence[Tensor], after: Sequence[Tensor], tokens: Tokens, seed: int) -> dict[str, float]:
    """All scores of the trained tables, and the scores of the tables before training (``NAME_initial``).

    Args:
        before: Embedding table of each layer before training.
        after: Embedding table of each layer after training.
        tokens: The tokens.
        seed: Seed of the permutations.

    Returns:
        Metric -> value; empty without tables.
    """
    if not after:
        return {}
    scores: dict[str, float] = {}
    if tokens.modules is not None and len(set(tokens.modules)) > 1:
        scores |= _module_scores(after, tokens.modules, seed)
    if tokens.neighbors is not None and tokens.coordinates is not None:
        scores |= _layout_scores(after, tokens.neighbors, tokens.coordinates, seed)
        if _distinguishes(before[0]):
            scores["residual_initial"] = multidimensional_scaling(isomap(before[0]), tokens.coordinates).residual
    return scores | {f"{name}_initial": value for name, value in curve_scores(before, tokens).items()}


def table_arrays(before: Sequence[Tensor], after: Sequence[Tensor], tokens: Tokens) -> dict[str, np.ndarray]:
    """Arrays of the first layer: its table, its map by multidimensional scaling, and the modules detected in it.

    If the true coordinates are known, the map is that of Isomap, aligned to them, and the map of the table before
    training is stored too.

    Args:
        before: Embedding table of each layer before training.
        after: Embedding table of each layer after training.
        tokens: The tokens.

    Returns:
        Name -> array; empty without tables.
    """
    if not after or not _distinguishes(after[0]):
        return {}
    arrays = {"table": after[0], "modules": detect_modules(token_distances(after[0]))}
    if tokens.neighbors is None or tokens.coordinates is None:
        arrays["positions"] = multidimensional_scaling(after[0], axes=3).points
    else:
        arrays["positions"] = multidimensional_scaling(isomap(after[0]), tokens.coordinates).points
        arrays["before"] = multidimensional_scaling(isomap(before[0]), tokens.coordinates).points
    return {name: (each.float() if each.is_floating_point() else each).numpy() for name, each in arrays.items()}


def _module_scores(tables: Sequence[Tensor], modules: Sequence[str], seed: int) -> dict[str, float]:
    numbers = module_numbers(np.array(modules))
    distances = [token_distances(table) for table in tables if _distinguishes(table)]
    if not distances:
        return {}
    weights = [similarity(each) for each in distances]
    with_diagonal = [similarity(each, diagonal=True) for each in distances]
    detected = [detect_modules(each) for each in distances]
    measures: dict[str, tuple[Sequence[Tensor], Callable[[Tensor, Tensor], float]]] = {
        "auc": (distances, pair_auc),
        "modularity": (weights, modularity),
        "modularity_literal": (with_diagonal, modularity),
        "ari": (detected, adjusted_rand),
    }
    scores: dict[str, float] = {}
    for name, (layers, measure) in measures.items():
        scores |= _with_null(name, layers, measure, numbers, seed)
    segregations = [segregation(each, numbers) for each in weights if _has_weight_within(each, numbers)]
    if len(segregations) == len(weights):
        scores |= {"segregation": _mean(segregations), "segregation_layer_0": segregations[0]}
    return scores


def _with_null(
    name: str, layers: Sequence[Tensor], measure: Callable[[Tensor, Tensor], float], numbers: Tensor, seed: int
) -> dict[str, float]:
    """Mean over layers and its permutation null; a permutation of the modules is the same in all layers."""
    draws = DRAWS if len(numbers) < MANY else DRAWS_OF_MANY
    test = permutation_test(lambda m: _mean([measure(each, m) for each in layers]), numbers, draws=draws, seed=seed)
    return {
        name: test.found,
        f"{name}_layer_0": measure(layers[0], numbers),
        f"{name}_null": test.mean,
        f"{name}_null_sd": test.sd,
        f"{name}_null_high": test.high,
        f"{name}_p": test.p,
    }


def _layout_scores(tables: Sequence[Tensor], neighbors: Tensor, coordinates: Tensor, seed: int) -> dict[str, float]:
    """Neighbor recall, and Procrustes disparity of Isomap and of multidimensional scaling (``residual_straight``)."""
    scores: dict[str, float] = {}
    recalls = [neighbor_recall(table, neighbors) for table in tables]
    scores["neighbours"], scores["neighbours_layer_0"] = _mean([each.found for each in recalls]), recalls[0].found
    scores["neighbours_chance"] = recalls[0].chance
    distinct = [table for table in tables if _distinguishes(table)]
    for name, points in (("residual", [isomap(table) for table in distinct]), ("residual_straight", distinct)):
        tests = [disparity_permutation_test(each, coordinates, draws=DRAWS_OF_MANY, seed=seed) for each in points]
        if tests:
            scores[name], scores[f"{name}_layer_0"] = _mean([each.found for each in tests]), tests[0].found
            scores[f"{name}_null"], scores[f"{name}_null_sd"] = _mean([each.mean for each in tests]), tests[0].sd
            scores[f"{name}_p"] = max(each.p for each in tests)
    return scores


def _distinguishes(table: Tensor) -> bool:
    """True if the rows of a table differ. They are equal if a scheme adds the same vector to all tokens."""
    return float((table - table.mean(0)).norm()) > 1e-9 * float(table.norm())


def _has_weight_within(weights: Tensor, numbers: Tensor) -> bool:
    """True if every module of at least two tokens has weight inside. Segregation divides by this weight."""
    counts = torch.bincount(numbers)
    return all(float(weights[numbers == m][:, numbers == m].sum()) > 0 for m in range(len(counts)) if counts[m] > 1)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
