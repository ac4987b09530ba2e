"""Logits and attention weights over random content: their mean, and how much they differ from content to content."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.attention import attend_with_weights
from posenc.kernels.attention_mask import causal_mask
from posenc.measure.distance_decay import WIDTH, line_positions, on_a_path, pair_logits
from posenc.scheme import Scheme

DRAWS = 32
"""Number of random contents."""


class Spread(NamedTuple):
    """Logits of the first head by distance, over random content.

    Attributes:
        distance: distances ``(K,)``, key position - query position.
        mean: mean logit ``(K,)``; NaN for a masked pair.
        deviation: standard deviation ``(K,)``; 0 where the logit does not depend on content.
    """

    distance: Tensor
    mean: Tensor
    deviation: Tensor


def spread_by_distance(scheme: Scheme, distances: int, *, heads: int = 1, draws: int = DRAWS) -> Spread:
    """Compute mean and standard deviation of the logit by distance over random content.

    In each draw the query and all keys are one random vector of norm 1, so the mean of an encoding without a position
    is 1. Rows of an embedding do not depend on content.

    Args:
        scheme: the scheme.
        distances: largest distance, in steps between keys.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.
        draws: number of random contents.

    Returns:
        The logits of the first head.

    Raises:
        ValueError: the range of the scheme is too short.
    """
    pos, step = line_positions(scheme, distances)
    logits = pair_logits(scheme, pos, torch.tensor([distances]), heads=heads, draws=draws)[:, 0, 0]
    places = step * (torch.arange(pos.count, dtype=torch.float64) - distances)
    return Spread(places, logits.mean(0), logits.std(0, correction=0))


def mean_attention(scheme: Scheme, tokens: int, *, heads: int = 1, draws: int = DRAWS) -> Tensor:
    """Compute the mean attention weights of tokens on a line over random content, with a causal mask for one axis.

    In each draw all tokens have one content: queries and keys are one vector of standard normal entries, to which the
    rows of an embedding are added. Logits are divided by the root of the width, as in attention. The block's input,
    which some biases read, differs from token to token. The random numbers have seed 0.

    Args:
        scheme: the scheme.
        tokens: number N of tokens, odd and at least 3.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.
        draws: number of random contents.

    Returns:
        Weights ``(N, N)`` of queries and keys, of the first head.

    Raises:
        ValueError: the range of the scheme is too short.
    """
    if tokens < 3 or tokens % 2 == 0:
        raise ValueError(f"the line has an odd number of tokens, from 3, with the query in its middle; got {tokens}.")
    pos = on_a_path(scheme, line_positions(scheme, tokens // 2)[0])
    heads = max(heads, getattr(scheme, "heads", 1))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        where = scheme.prepare(pos)
        rows = scheme.embed(where) if "embed" in scheme.claims.sites else None
        width = (scheme.head_width or WIDTH) if rows is None else rows.shape[-1]
        content = torch.randn(draws, 1, 1, width, generator=generator, dtype=torch.float64)
        q = content.expand(draws, heads, pos.count, width) + (0.0 if rows is None else rows)
        x = torch.randn(draws, pos.count, getattr(scheme, "dim", 1), generator=generator, dtype=torch.float64)
        mask = causal_mask(pos.count, pos.count, None, torch.device("cpu")) if pos.axes == 1 else None
        kept = scheme.keep(x, where) if "bias" in scheme.claims.sites else None
        _, weights = attend_with_weights(
            q, q, q, scheme, where, where, scheme.relate(where, where), kept=kept, mask=mask, scale=1 / math.sqrt(width)
        )
    return weights[:, 0].mean(0)
