"""Logits far away: at large distances, where periodic encodings return (aliasing), and at large positions, where
rounded angles are wrong (phase error)."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.measure.distance_decay import pair_logits
from posenc.positions import Positions
from posenc.scheme import Scheme

NEAR = 16
"""Largest distance of the pairs whose logits are compared."""


def reads_far_positions(scheme: Scheme) -> bool:
    """Return True if logits at large distances follow from the two positions alone.

    Args:
        scheme: the scheme.

    Returns:
        False for a scheme with a range, and for one that reads the tokens between two positions.
    """
    claims = scheme.claims
    between = ({"mask", "mix"} & claims.sites) or ("bias" in claims.sites and scheme.bias_reads)
    return all(limit is None for limit in claims.limits()) and not between and not scheme.graph_reads


def logit_at_far_distances(scheme: Scheme, distances: Tensor, *, heads: int = 1) -> Tensor:
    """Compute the logit of the first head of a query at position 0 and equal keys at given distances.

    Args:
        scheme: a scheme of which ``reads_far_positions`` is True.
        distances: distances ``(K,)`` along the first axis.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.

    Returns:
        Logits ``(K,)``.
    """
    coords = torch.zeros(len(distances) + 1, scheme.claims.axes or 1, dtype=torch.float64)
    coords[1:, 0] = distances
    return pair_logits(scheme, Positions(coords), torch.tensor([0]), heads=heads)[0, 0, 0, 1:]


def rounding_error(scheme: Scheme, starts: Sequence[int], dtype: torch.dtype, *, heads: int = 1) -> list[float]:
    """Compute the largest error of logits in a dtype for pairs of neighbors that start at large positions.

    The pairs are a query and the keys of the next ``NEAR`` positions. The reference has float64 throughout.

    Args:
        scheme: a scheme of which ``reads_far_positions`` is True, in float64.
        starts: positions of the query.
        dtype: dtype of the module and of the vectors; positions are whole numbers.
        heads: number of heads, for schemes whose attribute ``heads`` does not give it.

    Returns:
        The largest absolute difference from float64, for each start.
    """
    rounded, errors = copy.deepcopy(scheme).to(dtype), []
    for start in starts:
        coords = torch.zeros(NEAR + 1, scheme.claims.axes or 1, dtype=torch.int64)
        coords[:, 0] = start + torch.arange(NEAR + 1)
        query = torch.tensor([0])
        exact = pair_logits(scheme, Positions(coords.double()), query, heads=heads)
        found = pair_logits(rounded, Positions(coords), query, heads=heads, dtype=dtype)
        errors.append(float((found - exact)[0, 0].abs().max()))
    return errors
