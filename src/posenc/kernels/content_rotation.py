"""Rotations by sums over the tokens between a key and a query.

    a_nj = sum of u_l over the keys l of one document after key j, up to query n

Sums up to each token are subtracted, so that only rows per token are stored, and the sums of (Q, K) pairs never are.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from posenc.kernels.householder import documents_of_keys, earlier_keys
from posenc.kernels.pairs import Pairs


def keys_of_documents(pair: Pairs, seen: Tensor) -> Tensor:
    """Return True where key m of the document of key l stands before it, ``(.., l, m)``.

    Two keys are of one document if a chain of queries joins them, each of which may attend to the next two.

    Args:
        pair: Positions of queries and keys.
        seen: ``allowed_pairs``, ``(.., Q, K)``.

    Returns:
        True for earlier keys, both with a position.
    """
    together = documents_of_keys(seen)
    for _ in range((together.shape[-1] - 1).bit_length()):
        together = together | documents_of_keys(together)
    return earlier_keys(pair.k, together)


def sums_at_tokens(u: Tensor, earlier: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Sum rows over the keys of a document up to each key, and up to the last key that each query may attend to.

    Args:
        u: Rows ``(B, h, K, D)``.
        earlier: ``keys_of_documents``, ``(.., K, K)``.
        seen: ``allowed_pairs``, ``(.., Q, K)``.

    Returns:
        Sums at the queries ``(B, h, Q, D)`` and at the keys ``(B, h, K, D)``.
    """
    at_k = earlier.to(u.dtype) @ u + u
    rank = earlier.sum(-1)[..., None, :]
    last = functional.pad(torch.where(seen, rank + 1, 0), (1, 0)).argmax(-1)[..., None]  # 0 where there is no key
    from_none = functional.pad(at_k, (0, 0, 1, 0))
    shape = torch.broadcast_shapes(last.shape[:-2], u.shape[:-2])
    rows = from_none.expand(*shape, *from_none.shape[-2:])
    return rows.gather(-2, last.expand(*shape, last.shape[-2], u.shape[-1])), at_k


def rotate_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel pairs (i, i + D/2) of ``x (.., N, D)`` by ``angles (.., N, D/2)``."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
