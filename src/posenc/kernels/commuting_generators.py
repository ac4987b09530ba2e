"""Generators of rotations that commute: multiples of one skew matrix per block, or one axis per block (ComRoPE).

    G_a,j = m_a,j A_j                              "linearly dependent" (ComRoPE-LD)
    G_a,j = A_j if j = a mod P, 0 otherwise        "axial partition" (ComRoPE-AP)

Either way the sum over axes a of ``p_a G_a,j`` is a factor times A_j, for block j.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

Commuting = Literal["linearly dependent", "axial partition"]
"""Forms of generators that commute."""


def refuse_misfit(commuting: Commuting | None, blocks: int, axes: int) -> None:
    """Raise ValueError for an unknown form, or for blocks that axes cannot share evenly."""
    if commuting not in (None, *get_args(Commuting)):
        raise ValueError(f"commuting is {', '.join(map(repr, get_args(Commuting)))} or None; got {commuting!r}.")
    if commuting == "axial partition" and blocks % axes:
        raise ValueError(
            f"an axial partition has as many blocks for each axis; got {blocks} blocks for {axes} axes. Choose a "
            "block width for which head_dim / block is a multiple of axes."
        )


def weighted_sum(coords: Tensor, generators: Tensor, multipliers: Tensor | None, commuting: Commuting | None) -> Tensor:
    """Compute ``sum_a p_a G_a`` of each head, as a sum because autocast would round a matrix product.

    Args:
        coords: positions ``(.., N, P)``.
        generators: entries above the diagonals of G ``(h, P, blocks, entries)``, or of A ``(h, 1, blocks, entries)``.
        multipliers: ``m (P, blocks)``, only for "linearly dependent".
        commuting: form of the generators; None for P generators that do not commute.

    Returns:
        Entries above the diagonals ``(.., h, N, blocks, entries)``.
    """
    coords, generators = coords.unsqueeze(-3), generators[:, None]  # (.., 1, N, P), (h, 1, P, blocks, entries)
    if commuting is None:
        return (coords[..., None, None] * generators).sum(-3)
    if multipliers is not None:
        factors = (coords[..., None] * multipliers).sum(-2)
    else:
        factors = coords[..., torch.arange(generators.shape[-2], device=coords.device) % coords.shape[-1]]
    return factors[..., None] * generators[:, :, 0]
