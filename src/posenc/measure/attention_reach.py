"""Mean attention distance and attention entropy.

    distance_i = sum_j a_ij |x_i - x_j| / sum_j a_ij        over keys with a position, in the positions' unit
    entropy_i = - sum_j a_ij log2 a_ij                       over all keys, in bits

Source: Li et al. 2024, arXiv 2406.07049, version 3; the distance is that of Dosovitskiy et al. 2021, arXiv 2010.11929,
Fig. 7. Conventions: a query without a position is left out of both means. A key without a position, such as a class
token, is left out of the distance, and the weights of the other keys are scaled to sum 1.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.positions import Positions, as_positions


def attention_reach(
    maps: Float[Tensor, "layers B H Q K"], q_pos: Positions | Tensor, k_pos: Positions | Tensor | None = None
) -> list[dict[str, Any]]:
    """Compute mean attention distance and attention entropy per layer and head.

    Args:
        maps: attention weights after the softmax, ``(layers, B, H, Q, K)``.
        q_pos: positions of the queries.
        k_pos: positions of the keys; by default those of the queries.

    Returns:
        Rows ``{layer, head, distance, entropy}``, means over samples and queries, and for each layer one row with
        ``head = "all"``. Distances are in the unit of the positions, entropies in bits. Both are nan for a head with a
        weight that is not finite, and for all heads of its layer together.

    Raises:
        ValueError: another number of tokens than of positions, or maps of another number of axes.
    """
    if maps.dim() != 5:
        raise ValueError(f"maps have shape (layers, B, H, Q, K); got {tuple(maps.shape)}. Write maps[None]?")
    distance, entropy = attention_distance(maps, q_pos, k_pos), attention_entropy(maps)
    no_query = _absent(as_positions(q_pos), entropy)
    entropy = entropy if no_query is None else entropy.masked_fill(no_query, math.nan)
    rows: list[dict[str, Any]] = []
    for layer in range(len(maps)):
        finite = maps[layer].isfinite().all(-1).all(-1).all(0)
        means = {"distance": distance[layer].nanmean((0, 2)), "entropy": entropy[layer].nanmean((0, 2))}
        each = {name: values.masked_fill(~finite, math.nan) for name, values in means.items()}
        for head in range(maps.shape[2]):
            rows.append({"layer": layer, "head": head} | {name: float(values[head]) for name, values in each.items()})
        whole = {name: float(values.nanmean()) if finite.all() else math.nan for name, values in each.items()}
        rows.append({"layer": layer, "head": "all"} | whole)
    return rows


def attention_distance(
    maps: Float[Tensor, "*any H Q K"], q_pos: Positions | Tensor, k_pos: Positions | Tensor | None = None
) -> Float[Tensor, "*any H Q"]:
    """Compute the attention distance ``sum_j a_ij |x_i - x_j|`` of every query.

    Args:
        maps: attention weights ``(.., H, Q, K)``; those of keys with a position are scaled to sum 1.
        q_pos: positions of the queries.
        k_pos: positions of the keys; by default those of the queries.

    Returns:
        Distances ``(.., H, Q)``; nan for a query without a position, and for one without weight on placed keys.
    """
    q_pos = as_positions(q_pos)
    k_pos = q_pos if k_pos is None else as_positions(k_pos)
    _refuse_unfit(maps, q_pos, k_pos)
    x, y = (pos.coords.to(maps.device, torch.float64) for pos in (q_pos, k_pos))
    distances = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")  # the digits of Unix times cancel
    distances = distances[:, None] if distances.dim() == 3 else distances  # an axis for the heads
    weights = maps.detach().double()
    no_key, no_query = _absent(k_pos, weights[..., 0, :]), _absent(q_pos, weights[..., 0])
    weights = weights if no_key is None else weights.masked_fill(no_key[..., None, :], 0)
    distance = (weights * distances).sum(-1) / weights.sum(-1)
    return distance if no_query is None else distance.masked_fill(no_query, math.nan)


def attention_entropy(maps: Float[Tensor, "*any Q K"]) -> Float[Tensor, "*any Q"]:
    """Compute the attention entropy ``- sum_j a_ij log2 a_ij`` of every query.

    Args:
        maps: attention weights ``(.., Q, K)``.

    Returns:
        Entropies ``(.., Q)`` in bits: 0 if all weight is on one key, ``log2 K`` for uniform weights.
    """
    return torch.special.entr(maps.detach().double()).sum(-1) / math.log(2)


def _absent(pos: Positions, like: Tensor) -> Tensor | None:
    """Return True for tokens without a position, broadcastable to ``(.., B, H, N)``; None if all have one."""
    if pos.placed is None:
        return None
    absent = ~pos.placed.to(like.device)
    return absent if absent.dim() == 1 else absent[:, None]


def _refuse_unfit(maps: Tensor, q_pos: Positions, k_pos: Positions) -> None:
    if maps.dim() < 2 or maps.shape[-2:] != (q_pos.count, k_pos.count):
        raise ValueError(
            f"attention maps (.., Q, K) need one position per query and per key; got maps {tuple(maps.shape)} with "
            f"{q_pos.count} and {k_pos.count} positions. Pass q_pos and k_pos of the tokens that the maps are of."
        )
    if q_pos.axes != k_pos.axes:
        raise ValueError(
            f"distances are between places of as many axes; queries have {q_pos.axes} and keys {k_pos.axes}. Pass both "
            "on one grid."
        )
