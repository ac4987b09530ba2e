"""Neighbor recall and Procrustes disparity between a learned table and the true layout of its tokens.

Both measures are invariant to rotation and scaling of the table, and both come with the value expected by chance.
Neighbor recall compares the layouts locally. The Procrustes disparity of the table's multidimensional scaling compares
them globally. A layout that is folded or torn therefore scores well on neighbor recall only.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from posenc.measure.distances import multidimensional_scaling, token_distances
from posenc.measure.encoding_tables import table_of
from posenc.measure.permutation_test import PermutationTest, permutation_test

ONE_DISTANCE = 1e-6
"""Relative tolerance within which two neighbors count as equally near."""


class NeighborRecall(NamedTuple):
    """Neighbor recall.

    Attributes:
        found: share of true neighbors among the nearest rows of the table, 0 to 1.
        chance: expected share for a random table.
    """

    found: float
    chance: float


def neighbor_recall(table: Tensor, truth: Tensor) -> NeighborRecall:
    """Compute the neighbor recall of a table: the share of true neighbors among the nearest rows.

        recall = sum_i |true_i and nearest_i| / sum_i |true_i|

    For token i, ``nearest_i`` are its d_i nearest rows, where d_i is its number of true neighbors. Rows at equal
    distance (to 1e-6 of it) share the last ranks evenly. A table of equal rows therefore gets the chance level,
    ``sum_i d_i^2 / (N - 1) / sum_i d_i``.

    Args:
        table: encodings ``(N, d)``, one row per token.
        truth: true positions ``(N, P)``, whose neighbors are those at the least distance (up to 4 on a grid); or a
            boolean matrix ``(N, N)`` that is True for neighbors.

    Returns:
        The recall and its chance level.

    Raises:
        ValueError: a truth of another length, or without neighbors.
    """
    rows = table_of(table)
    true = true_neighbors(truth)
    if len(true) != len(rows):
        raise ValueError(f"the truth has one row per token: {len(rows)} are needed; got {len(true)}.")
    counts = true.sum(1)
    if not bool(counts.any()):
        raise ValueError("no two tokens are neighbors in this truth, so recall is not defined.")
    d = token_distances(rows)
    d.fill_diagonal_(torch.inf)
    last = d.sort(dim=1).values.gather(1, (counts - 1).clamp(min=0)[:, None])
    before, upto = d < last * (1 - ONE_DISTANCE), d <= last * (1 + ONE_DISTANCE)
    level = upto & ~before
    places = (counts[:, None] - before.sum(1, keepdim=True)).double() / level.sum(1, keepdim=True)
    hits = (true & before).sum(1) + (true * level * places).sum(1)
    hits, total = float(hits[counts > 0].sum()), float(counts.sum())
    return NeighborRecall(hits / total, float((counts.double() ** 2).sum()) / (len(rows) - 1) / total)


def true_neighbors(truth: Tensor) -> Bool[Tensor, "N N"]:
    """Return the neighbors of every token.

    Args:
        truth: positions ``(N, P)``, or a boolean matrix ``(N, N)``.

    Returns:
        Boolean matrix ``(N, N)``, False on the diagonal: the tokens at the least distance from each, or the given
        matrix.

    Raises:
        ValueError: a boolean matrix that is not square.
    """
    if truth.dtype == torch.bool:
        if truth.dim() != 2 or truth.shape[0] != truth.shape[1]:
            raise ValueError(f"the neighbors of all tokens form a boolean matrix (N, N); got {tuple(truth.shape)}.")
        return truth.cpu() & ~torch.eye(len(truth), dtype=torch.bool)
    d = token_distances(truth)
    d.fill_diagonal_(torch.inf)
    return (d <= d.min(1, keepdim=True).values * (1 + ONE_DISTANCE)) & d.isfinite()


def disparity_permutation_test(table: Tensor, truth: Tensor, *, draws: int = 1000, seed: int = 0) -> PermutationTest:
    """Compute the Procrustes disparity of a table's multidimensional scaling and the true positions, with its null.

    The table is reduced to P axes by classical multidimensional scaling
    (``measure.distances.multidimensional_scaling``). The null distribution permutes the true positions.

    Args:
        table: encodings ``(N, d)``.
        truth: true positions ``(N, P)``.
        draws: number of permutations.
        seed: seed of the permutations.

    Returns:
        The disparity: 0 if the layouts are equal up to rotation, reflection, scaling and translation, 1 if they have
        nothing in common; with its permutation null.
    """
    truth = table_of(truth)
    points = multidimensional_scaling(table, axes=truth.shape[1]).points
    return permutation_test(
        lambda places: multidimensional_scaling(points, places, axes=places.shape[1]).residual,
        truth,
        draws=draws,
        seed=seed,
        smaller=True,
    )
