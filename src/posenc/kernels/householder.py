"""Products of Householder-like matrices between a key and a query, without the matrices.

    H_l = I - beta_l w_l w_l^T,       s_nj = q_n^T H_n .. H_{j+1} k_j

With the keys in the order of their positions, N strictly lower triangular and a mask B of the keys up to each query:

    s_nj - q_n . k_j = -(X diag(beta) M)_nj,   X (I + N) = B * (Q W^T),   N_lm = beta_l w_l . w_m,   M_lj = w_l . k_j

for m < l and j < l in one document. X is found by one triangular solve, as in arXiv 2505.16381, section 3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc.kernels.pairs import Pairs, distances
from posenc.positions import Positions, readable


class UndividedPairs(NamedTuple):
    """Positions of queries and keys, of which attention makes no blocks of queries: each would solve for all keys."""

    of: Pairs


def has_undivided(pair: object) -> bool:
    """Return True for such pairs, alone or within the pair of a ``Sum``: they read tokens that a mask may hide."""
    found = pytree.tree_leaves(pair, is_leaf=lambda part: isinstance(part, UndividedPairs))
    return any(isinstance(part, UndividedPairs) for part in found)


def documents_of_keys(attn_mask: Tensor) -> Tensor:
    """Return True for keys of one document, ``(.., K, K)``: keys that some query may attend to together."""
    seen = attn_mask.to(torch.float32)
    return (seen.mT @ seen) > 0


def _hidden_queries(seen: Tensor, earlier: Tensor) -> Tensor:
    """Return True for queries, ``(.., Q)``, that may attend to a key and not to every earlier one of its document."""
    needed = (seen.to(torch.float32) @ earlier.to(torch.float32)) > 0
    return (needed & ~seen).any(-1)


def refuse_hidden(hidden: Tensor, scheme: str) -> None:
    """Raise ValueError for queries that may attend to a key and not to every earlier one of its document.

    Args:
        hidden: True for such queries, ``(.., Q)``. Where values may not be read, as while ``torch.compile`` traces,
            nothing is raised.
        scheme: Name of the scheme, for the message.

    Raises:
        ValueError: There is such a query.
    """
    if readable(hidden) and bool(hidden.any()):
        raise ValueError(
            f"{scheme} reads every token between a key and a query, and this mask hides an earlier token of a document "
            "that it shows in part, as a window does. Mask whole documents and padding, take ChunkedAttention(size), "
            "or give a layer with a window another scheme."
        )


def earlier_keys(k_pos: Positions, together: Tensor) -> Tensor:
    """Return True where key m of the same document stands before key l, ``(.., l, m)``, both with a position.

    Keys at one position stand in the order in which they are given.
    """
    before = together & _before(k_pos)
    if k_pos.placed is None:
        return before
    placed = k_pos.placed if k_pos.placed.dim() == 1 else k_pos.placed[:, None]
    return before & placed[..., :, None] & placed[..., None, :]


def _before(k_pos: Positions) -> Tensor:
    """Return True where key m stands before key l, ``(.., l, m)``; at one position in the order of their indices."""
    apart = distances(k_pos, k_pos)
    index = torch.arange(apart.shape[-1], device=apart.device)
    return (apart < 0) | ((apart == 0) & (index < index[:, None]))


def causal_convolution(u: Tensor, taps: Tensor, earlier: Tensor) -> Tensor:
    """Convolve each channel of tokens with the tokens before them in their document.

    Args:
        u: Rows ``(.., K, D)``.
        taps: Weights ``(.., D, width)``, the last one for the token itself.
        earlier: ``earlier_keys``, ``(.., K, K)``.

    Returns:
        Rows ``(.., K, D)``.
    """
    rank = earlier.sum(-1)
    behind = rank[..., :, None] - rank[..., None, :]
    rows = u * taps[..., None, :, -1]
    for back in range(1, taps.shape[-1]):
        chosen = (earlier & (behind == back)).to(u.dtype)
        rows = rows + (chosen @ u) * taps[..., None, :, -1 - back]
    return rows


def householder_bias(
    q: Tensor, k: Tensor, w: Tensor, beta: Tensor, pair: Pairs, earlier: Tensor, seen: Tensor
) -> Tensor:
    """Compute ``s_nj - q_n . k_j`` of all pairs, with keys in any order.

    Args:
        q: Queries ``(B, H, Q, D)``.
        k: Keys ``(B, H, K, D)``.
        w: Directions ``(B, H, K, D)``.
        beta: Factors ``(B, H, K)``.
        pair: Positions of queries and keys.
        earlier: ``earlier_keys``, ``(.., K, K)``.
        seen: ``allowed_pairs``, ``(.., Q, K)``.

    Returns:
        The difference ``(B, H, Q, K)``; 0 where no matrix lies between the key and the query.

    Raises:
        ValueError: A query may attend to a key and not to every earlier one of its document. While ``torch.compile``
            traces, its row is NaN instead.
    """
    hidden = _hidden_queries(seen, earlier)
    refuse_hidden(hidden, "PaTH")
    order = _before(pair.k).sum(-1).argsort(-1)  # (K,) or (B, 1, K)
    w, beta, rows = _take(w, order, -2), _take(beta[..., None], order, -2).mT, _take(earlier, order, -2)
    own = torch.eye(w.shape[-2], dtype=w.dtype, device=w.device)
    lower = own + beta.mT * (w @ w.mT) * _take(rows, order, -1)
    products = (q @ w.mT) * _take(seen, order, -1)
    x = torch.linalg.solve_triangular(lower, products, upper=False, left=False, unitriangular=True)
    return (-(x * beta) @ ((w @ k.mT) * rows)).masked_fill(hidden[..., None], torch.nan)


def _take(values: Tensor, order: Tensor, dim: int) -> Tensor:
    """Return ``values`` in the order ``(.., K)`` along one of the last two axes."""
    index = order[..., :, None] if dim == -2 else order[..., None, :]
    shape = torch.broadcast_shapes(values.shape[:-2], index.shape[:-2])
    values = values.expand(*shape, *values.shape[-2:])
    return values.gather(dim, index.expand(values.shape))


def allowed_pairs(pair: Pairs, attn_mask: Tensor | None) -> Tensor:
    """Return True for keys at or before each query that it may attend to, both with a position."""
    seen, placed = pair.distance() <= 0, pair.placed()
    seen = seen if attn_mask is None else seen & attn_mask
    return seen if placed is None else seen & placed
