"""How far attention looks, and how widely: its mean distance and its entropy.

    distance_i = sum_j a_ij |x_i - x_j| / sum_j a_ij        over keys that have a place, in the positions' unit
    entropy_i = - sum_j a_ij log2 a_ij                       over all keys, in bits

Source: the measures of Li et al., arXiv 2406.07049, version 3; the distance is that of Dosovitskiy et al. 2021, arXiv
2010.11929, Fig. 7. Conventions: a query without a place has no distance and is left out, of both; of a class token's
weight the distance knows nothing, so the weights of the other keys are scaled to sum 1.
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
    """Rows ``{layer, head, distance, entropy}``, means over samples and queries, and for each layer one of its heads
    together, ``head = "all"``.

    maps: weights after the softmax. q_pos, k_pos: where the tokens stand; k_pos is q_pos where it is not given. Raises
    ValueError for another number of tokens than of positions.
    """
    far, wide = attention_distance(maps, q_pos, k_pos), attention_entropy(maps)
    nowhere = _absent(as_positions(q_pos), wide)
    wide = wide if nowhere is None else wide.masked_fill(nowhere, math.nan)
    rows: list[dict[str, Any]] = []
    for layer in range(len(maps)):
        each = {"distance": far[layer].nanmean((0, 2)), "entropy": wide[layer].nanmean((0, 2))}
        for head in range(maps.shape[2]):
            rows.append({"layer": layer, "head": head} | {name: float(values[head]) for name, values in each.items()})
        rows.append({"layer": layer, "head": "all"} | {name: float(values.nanmean()) for name, values in each.items()})
    return rows


def attention_distance(
    maps: Float[Tensor, "*any H Q K"], q_pos: Positions | Tensor, k_pos: Positions | Tensor | None = None
) -> Float[Tensor, "*any H Q"]:
    """``sum_j a_ij |x_i - x_j|`` of every query, the weights of keys with a place scaled to sum 1; nan for a query
    without a place, and for one that looks at no key with one."""
    q_pos = as_positions(q_pos)
    k_pos = q_pos if k_pos is None else as_positions(k_pos)
    _refuse_unfit(maps, q_pos, k_pos)
    x, y = (pos.coords.to(maps.device, torch.float64) for pos in (q_pos, k_pos))
    apart = torch.cdist(x, y)
    apart = apart[:, None] if apart.dim() == 3 else apart  # where samples differ, heads do not
    weights = maps.detach().double()
    no_key, nowhere = _absent(k_pos, weights[..., 0, :]), _absent(q_pos, weights[..., 0])
    weights = weights if no_key is None else weights.masked_fill(no_key[..., None, :], 0)
    found = (weights * apart).sum(-1) / weights.sum(-1)
    return found if nowhere is None else found.masked_fill(nowhere, math.nan)


def attention_entropy(maps: Float[Tensor, "*any Q K"]) -> Float[Tensor, "*any Q"]:
    """``- sum_j a_ij log2 a_ij`` of every query, in bits: 0 for one key alone, ``log2 K`` for all alike."""
    return torch.special.entr(maps.detach().double()).sum(-1) / math.log(2)


def _absent(pos: Positions, like: Tensor) -> Tensor | None:
    """True for tokens without a place, shaped to meet ``(.., B, H, N)``; None where all have one."""
    if pos.placed is None:
        return None
    absent = ~pos.placed.to(like.device)
    return absent if absent.dim() == 1 else absent[:, None]


def _refuse_unfit(maps: Tensor, q_pos: Positions, k_pos: Positions) -> None:
    if maps.dim() < 2 or maps.shape[-2:] != (q_pos.count, k_pos.count):
        raise ValueError(
            f"attention maps (.., Q, K) need one position a query and a key; got maps {tuple(maps.shape)} with "
            f"{q_pos.count} and {k_pos.count} positions. Pass q_pos and k_pos of the tokens that the maps are of."
        )
    if q_pos.axes != k_pos.axes:
        raise ValueError(
            f"distances are between places of as many axes; queries have {q_pos.axes} and keys {k_pos.axes}. Pass both "
            "on one grid."
        )
