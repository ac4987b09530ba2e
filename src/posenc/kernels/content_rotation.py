"""Rotations by sums over the tokens between a key and a query.

    a_nj = sum of u_l over the keys l of one document after key j, up to query n

Keys are ordered by document and position. Sums up to each token are subtracted, so that only rows per token are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from posenc.kernels.householder import documents_of_keys
from posenc.kernels.pairs import Pairs
from posenc.positions import readable


class KeyOrder(NamedTuple):
    """Keys by document, position and index.

    Attributes:
        order: Index ``(.., K)`` of the keys, in this order.
        document: Number ``(.., K)`` of the document of each key, in this order.
    """

    order: Tensor
    document: Tensor


def key_order(pair: Pairs, seen: Tensor) -> KeyOrder:
    """Order the keys.

    Args:
        pair: Positions of queries and keys.
        seen: ``allowed_pairs``, ``(.., Q, K)``.

    Returns:
        The order, with axes ``(K,)`` or ``(B, 1, K)``.
    """
    document, at = _documents(seen), pair.k.coords[..., 0].detach()
    at, document = torch.broadcast_tensors(at[:, None] if at.dim() == 2 else at, document)
    by_position = at.sort(dim=-1, stable=True).indices
    by_document = document.gather(-1, by_position).sort(dim=-1, stable=True)
    return KeyOrder(by_position.gather(-1, by_document.indices), by_document.values)


def _documents(seen: Tensor) -> Tensor:
    """Number of the document of each key, ``(.., K)``: the first key that a chain of queries joins to it."""
    index = torch.arange(seen.shape[-1], device=seen.device)
    if seen.shape[-2] == 1:  # a step of decoding
        return torch.where(seen[..., 0, :], 0, index + 1)
    together = documents_of_keys(seen) | (index[:, None] == index)
    for _ in range(max(seen.shape[-1] - 1, 0).bit_length()):
        longer = documents_of_keys(together)
        if readable(longer) and torch.equal(longer, together):
            break
        together = longer
    return (together.cumsum(-1) == 0).sum(-1)


def ordered_convolution(u: Tensor, taps: Tensor, keys: KeyOrder) -> Tensor:
    """Convolve each channel of keys with the keys before them in their document.

    Args:
        u: Rows ``(B, h, K, D)`` in the order of ``keys``.
        taps: Weights ``(h, D, width)``, the last one for the key itself.
        keys: The order.

    Returns:
        Rows ``(B, h, K, D)`` in this order.
    """
    count, document = u.shape[-2], keys.document
    rows = u * taps[..., None, :, -1]
    for back in range(1, taps.shape[-1]):
        behind = functional.pad(u, (0, 0, back, 0))[..., :count, :]
        own = functional.pad(document, (back, 0), value=-1)[..., :count] == document
        rows = rows + torch.where(own[..., None], behind * taps[..., None, :, -1 - back], 0)
    return rows


def sums_at_tokens(u: Tensor, keys: KeyOrder, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Sum rows up to each key, and up to the last key that each query may attend to.

    Args:
        u: Rows ``(B, h, K, D)`` in the order of ``keys``.
        keys: The order.
        seen: ``allowed_pairs``, ``(.., Q, K)``, with keys as they are given.

    Returns:
        Sums at the queries ``(B, h, Q, D)`` and at the keys as they are given, ``(B, h, K, D)``.
    """
    sums = functional.pad(u.cumsum(-2), (0, 0, 1, 0))  # the first row is for a query without a key
    place = 1 + torch.arange(u.shape[-2], device=u.device)
    rank = torch.zeros_like(keys.order).scatter(-1, keys.order, place.expand(keys.order.shape))
    last = functional.pad(torch.where(seen, rank[..., None, :], 0), (1, 0)).amax(-1)
    return take_rows(sums, last), take_rows(sums, rank)


def take_rows(rows: Tensor, index: Tensor) -> Tensor:
    """Rows ``(B, h, N, D)`` at an index ``(M,)`` or ``(B, 1, M)``, ``(B, h, M, D)``."""
    shape = (*rows.shape[:-2], index.shape[-1], rows.shape[-1])
    return rows.gather(-2, index[..., None].expand(shape))


def rotate_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel pairs (i, i + D/2) of ``x (.., N, D)`` by ``angles (.., N, D/2)``."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
