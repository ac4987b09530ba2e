"""Rotations by sums over the tokens between a key and a query.

    a_nj = sum of u_l over the keys l of one document after key j, up to query n

Keys are ordered by document and position. Sums up to each token are subtracted, so that only rows per token are stored.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from posenc.kernels.householder import refuse_hidden
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
    at = pair.k.coords[..., 0].detach()
    at = at if at.dim() == 1 else at[:, None]
    by_position = at.sort(dim=-1, stable=True).indices
    first = _first_of_documents(by_position, _places(by_position), seen)
    by_position = by_position.expand(first.shape)
    by_document = first.sort(dim=-1, stable=True)
    return KeyOrder(by_position.gather(-1, by_document.indices), by_document.values)


def _places(order: Tensor) -> Tensor:
    """Place of each key in an order ``(.., K)``."""
    return torch.zeros_like(order).scatter(
        -1, order, torch.arange(order.shape[-1], device=order.device).expand(order.shape)
    )


def _first_of_documents(by_position: Tensor, place: Tensor, seen: Tensor) -> Tensor:
    """Place of the first key of the document of each key, ``(.., K)`` in the order of positions.

    A key's first neighbor is the first key of all that a query may attend to together with it. The first key of the
    document is the neighbor of the neighbor, and so on: 24 doublings suffice for 16 million keys.
    """
    place, far = place[..., None, :], 2**31
    of_query = functional.pad(torch.where(seen, place, far), (1, 0), value=far).amin(-1, keepdim=True)
    of_key = functional.pad(torch.where(seen, of_query, far), (0, 0, 1, 0), value=far).amin(-2)
    first = torch.minimum(of_key, place[..., 0, :])
    first = first.gather(-1, by_position.expand(first.shape))
    for _ in range(24):
        farther = first.gather(-1, first)
        if readable(farther) and torch.equal(farther, first):
            break
        first = farther
    return first


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
    rank = 1 + _places(keys.order)
    last = functional.pad(torch.where(seen, rank[..., None, :], 0), (1, 0)).amax(-1)
    return take_rows(sums, last), take_rows(sums, rank)


def hidden_queries(keys: KeyOrder, seen: Tensor, scheme: str) -> Tensor:
    """Refuse queries that may attend to a key and not to every earlier one of its document, or return True for them.

    Args:
        keys: The order.
        seen: ``allowed_pairs``, ``(.., Q, K)``, with keys as they are given.
        scheme: Name of the scheme, for the message.

    Returns:
        Booleans ``(.., Q)``.

    Raises:
        ValueError: There is such a query. Where values may not be read, as while ``torch.compile`` traces, none is
            raised.
    """
    if not keys.order.shape[-1]:
        return seen.any(-1)
    at = torch.arange(keys.order.shape[-1], device=keys.order.device)
    begins = functional.pad(keys.document[..., 1:] != keys.document[..., :-1], (1, 0), value=True)
    start = torch.where(begins, at, 0).cummax(-1).values
    last = torch.where(seen, _places(keys.order)[..., None, :], -1).amax(-1)
    first = start.expand(*last.shape[:-1], -1).gather(-1, last.clamp(min=0))
    hidden = (last >= 0) & (seen.sum(-1) != last - first + 1)
    refuse_hidden(hidden, scheme)
    return hidden


def rotated_difference(q: Tensor, k: Tensor, turns: Tensor, keys: KeyOrder, seen: Tensor, hidden: Tensor) -> Tensor:
    """Compute ``q_n^T R(a_nj) k_j - q_n . k_j`` of all pairs, 0 where a query may not attend.

    Args:
        q: Queries ``(B, H, Q, D)``.
        k: Keys ``(B, h, K, D)``; each serves H / h heads of queries.
        turns: Angles of each token ``(B, h, K, D / 2)`` in the order of ``keys``.
        keys: The order.
        seen: ``allowed_pairs``, ``(.., Q, K)``.
        hidden: ``hidden_queries``, ``(.., Q)``, whose rows are NaN.

    Returns:
        The difference ``(B, H, Q, K)``.
    """
    at_q, at_k = sums_at_tokens(turns, keys, seen)
    q, k = q.to(turns.dtype), k.to(turns.dtype).repeat_interleave(q.shape[1] // k.shape[1], 1)
    difference = (rotate_halves(q, at_q) @ rotate_halves(k, at_k).mT - q @ k.mT).where(seen, 0)
    return difference.masked_fill(hidden[..., None], torch.nan)


def take_rows(rows: Tensor, index: Tensor) -> Tensor:
    """Rows ``(B, h, N, D)`` at an index ``(M,)`` or ``(B, 1, M)``, ``(B, h, M, D)``."""
    shape = (*rows.shape[:-2], index.shape[-1], rows.shape[-1])
    return rows.gather(-2, index[..., None].expand(shape))


def rotate_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate channel pairs (i, i + D/2) of ``x (.., N, D)`` by ``angles (.., N, D/2)``."""
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
