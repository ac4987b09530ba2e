"""Whether a learned table puts tokens where they truly stand, though nobody said where that is.

Neither measure knows how the table was turned or scaled, and both have a level that chance reaches. Neighbours say
whether the arrangement is right nearby; the residual of the unrolled points, whether it is right as a whole, so that a
sheet that is folded or torn scores well on the first alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from posenc.measure.distances import token_distances, unrolled
from posenc.measure.permuting import Chance, by_chance
from posenc.measure.tables import table_of

ONE_DISTANCE = 1e-6
"""Neighbours are as near as the nearest, to this part of the distance."""


class Neighbours(NamedTuple):
    """found: the share of true neighbours among the nearest rows of the table. chance: what a random table finds."""

    found: float
    chance: float


def neighbours_found(table: Tensor, truth: Tensor) -> Neighbours:
    """How many true neighbours are among the nearest rows of a table ``(N, d)``, each token looking at as many rows as
    it has neighbours: ``sum_i |true_i and nearest_i| / sum_i |true_i|``.

    truth: where the tokens stand, ``(N, P)``, whose neighbours are those at the least distance from each (up to 4 on a
    grid); or which are neighbours, ``(N, N)`` of bool. Rows equally near share the places that are left, so that
    a table whose rows are all alike finds what chance does: ``sum_i d_i^2 / (N - 1) / sum_i d_i`` with d neighbours.

    Raises ValueError for a truth of another length or without neighbours.
    """
    rows = table_of(table)
    true = true_neighbours(truth)
    if len(true) != len(rows):
        raise ValueError(f"the truth has one row a token: {len(rows)} are needed; got {len(true)}.")
    counts = true.sum(1)
    if not bool(counts.any()):
        raise ValueError("no two tokens are neighbours in this truth, so that there is nothing to find.")
    d = token_distances(rows)
    d.fill_diagonal_(torch.inf)
    last = d.sort(dim=1).values.gather(1, (counts - 1).clamp(min=0)[:, None])
    before, level = d < last, d == last
    places = (counts[:, None] - before.sum(1, keepdim=True)) / level.sum(1, keepdim=True)
    hits = (true & before).sum(1) + (true * level * places).sum(1)
    hits, total = float(hits[counts > 0].sum()), float(counts.sum())
    return Neighbours(hits / total, float((counts.double() ** 2).sum()) / (len(rows) - 1) / total)


def true_neighbours(truth: Tensor) -> Bool[Tensor, "N N"]:
    """Who are neighbours: the tokens at the least distance from each, of places ``(N, P)``; bool as it is, less the
    diagonal. Raises ValueError for bool that is not square."""
    if truth.dtype == torch.bool:
        if truth.dim() != 2 or truth.shape[0] != truth.shape[1]:
            raise ValueError(f"who are neighbours is said of every two tokens, (N, N); got {tuple(truth.shape)}.")
        return truth.cpu() & ~torch.eye(len(truth), dtype=torch.bool)
    d = token_distances(truth)
    d.fill_diagonal_(torch.inf)
    return d <= d.min(1, keepdim=True).values * (1 + ONE_DISTANCE)


def residual_by_chance(table: Tensor, truth: Tensor, *, draws: int = 1000, seed: int = 0) -> Chance:
    """The Procrustes disparity of the unrolled table and the true places ``(N, P)``: 0 where they are the same but for
    turning, mirroring, scaling and shifting, 1 where they have nothing in common; beside its permutation null.

    The table is unrolled by classical scaling to as many axes as the places have (``measure.distances.unrolled``), and
    the places are what is permuted. Smaller is nearer.
    """
    truth = table_of(truth)
    points = unrolled(table, axes=truth.shape[1]).points
    return by_chance(
        lambda places: unrolled(points, places, axes=places.shape[1]).residual,
        truth,
        draws=draws,
        seed=seed,
        smaller=True,
    )
