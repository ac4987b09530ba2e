"""Causal, sliding-window and packed-document attention masks, built for one block of queries at a time.

    mask_ij = [j <= i] [j > i - window] [document_j = document_i] [key j is not padding]

No (Q, K) mask is stored. The indices ``i`` and ``j`` count tokens in their order, not positions. The queries are the
last of the keys, as in decoding. If only the first factor applies, SDPA's ``is_causal`` is used and no mask is built.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from posenc.positions import Positions, readable

LOWEST_ADDED = -1e4
"""Added values up to this one exclude a key, as -inf does."""


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMask:
    """Rule of an attention mask with its tensors, which need O(Q + K) memory.

    Attributes:
        queries: number of queries Q; query ``i`` is key ``keys - queries + i``.
        keys: number of keys K.
        document: document number of each key, ``(K,)`` or ``(B, K)``, different for different documents; None for one.
        real: False for padding, ``(K,)`` or ``(B, K)``; None for no padding.
        window: number of tokens that a query attends to, itself included; None for all earlier tokens.
    """

    queries: int
    keys: int
    document: Tensor | None = None
    real: Tensor | None = None
    window: int | None = None

    @property
    def triangular(self) -> bool:
        """True for the plain causal mask with as many queries as keys."""
        return self.queries == self.keys and self._plain_causal

    @property
    def _plain_causal(self) -> bool:
        return self.document is None and self.real is None and (self.window is None or self.window >= self.keys)

    def rows(self, device: torch.device, at: slice = slice(None)) -> Tensor | None:
        """Return the mask of some queries, ``(at, K)`` or ``(B, 1, at, K)``; None if they attend to all keys."""
        if self.queries == 1 and self._plain_causal:
            return None
        key, before = torch.arange(self.keys, device=device), self.keys - self.queries
        query = key[before:][at, None]
        mask = key <= query
        if self.window is not None:
            mask = mask & (key > query - self.window)
        if self.document is not None:
            own = self.document[..., before:][..., at]
            mask = mask & (own[..., :, None] == self.document[..., None, :])
        if self.real is not None:
            mask = mask & self.real[..., None, :]
        return mask[:, None] if mask.dim() == 3 else mask


def document_starts(numbers: Tensor, before: Tensor | None = None) -> Tensor:
    """Return True at each token ``(.., N)`` whose document number differs from that of the token before it.

    The first token is compared with ``before (.., 1)``, or counts as equal without it. The running sum of the result
    numbers documents in order, so that a document number that occurs again later gives a new document.
    """
    return numbers.diff(dim=-1, prepend=numbers[..., :1] if before is None else before) != 0


def causal_mask(queries: int, keys: int, mask: Tensor | None, device: torch.device) -> AttentionMask | Tensor:
    """Return the causal mask of queries that are the last of the keys, together with a mask of the caller.

    Args:
        queries: number of queries Q.
        keys: number of keys K.
        mask: boolean or additive mask of the caller; None for none.
        device: device of the queries.

    Raises:
        ValueError: there are more queries than keys.
    """
    if queries > keys:
        raise ValueError(
            f"causal=True takes the queries as the last of the keys; got {queries} queries and {keys} keys. Pass the "
            "keys of all tokens, or a mask of your own."
        )
    causal = AttentionMask(queries, keys)
    if mask is None:
        return causal
    rows = causal.rows(device)
    if rows is None:
        return mask
    return mask & rows if mask.dtype == torch.bool else mask.masked_fill(~rows, -torch.inf)


def split_mask(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Split a mask into the keys that it allows and the values that it adds to logits.

    Args:
        mask: boolean mask, True where a query may attend to a key; or additive mask, whose -inf excludes a key.

    Returns:
        Boolean mask and added values; None for what the mask does not have.
    """
    if mask is None or mask.dtype == torch.bool:
        return mask, None
    allowed = mask != -torch.inf
    return allowed, mask.masked_fill(~allowed, 0)


def counted_keys(allowed: Tensor | None, added: Tensor | None) -> Tensor | None:
    """Return the keys that a bias may count, for schemes whose bias sums over keys (FoX, CoPE).

    Additive masks often hold -10^4 or the lowest number of a dtype in place of -inf. Such a key has no weight, so a
    bias does not count it either.
    """
    if added is None:
        return allowed
    near = added > LOWEST_ADDED
    return near if allowed is None else near & allowed


def rows_of(mask: Tensor | AttentionMask | None, q: Tensor, at: slice = slice(None)) -> Tensor | None:
    """Return the mask of some of the queries ``q``, by default of all; None for no mask."""
    if isinstance(mask, AttentionMask):
        return mask.rows(q.device, at)
    return mask if mask is None or mask.shape[-2] == 1 else mask[..., at, :]  # one row may serve all queries


def covers(mask: Tensor, q: Tensor, k: Tensor) -> bool:
    """True if the axes of a mask are samples, query heads, queries and keys, or have size 1."""
    wanted = (*q.shape[:-1], k.shape[-2])
    return mask.dim() not in (2, 4) or all(a in (1, b) for a, b in zip(mask.shape, wanted[-mask.dim() :], strict=True))


def is_added(mask: Tensor | AttentionMask | None) -> bool:
    return isinstance(mask, Tensor) and mask.is_floating_point()


def refuse_mask(mask: Tensor | AttentionMask | None) -> None:
    """Refuse masks that SDPA would misread: of integers, of the numbers 0 and 1, and those of three axes."""
    if mask is None or isinstance(mask, AttentionMask):
        return
    if not isinstance(mask, Tensor):
        raise ValueError(f"`mask` is a tensor, True where a query may attend to a key; got {type(mask).__name__}.")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"`mask` is True where a query may attend to a key; got {mask.dtype}. Write mask.bool().")
    if mask.dim() not in (2, 4):
        raise ValueError(
            f"`mask` has shape (Q, K) or (B, H, Q, K); got {tuple(mask.shape)}. For one mask per sample write "
            "mask[:, None], for one per head mask[None]."
        )
    # on another device a value is costly to read
    on_cpu = mask.numel() > 0 and mask.device.type == "cpu" and readable(mask)
    if is_added(mask) and on_cpu and not bool(mask.amax() < torch.inf):  # also NaN
        raise ValueError(
            "`mask` holds NaN or +inf, and such a mask is added to the logits. A key is hidden by -inf, or by False in "
            "a boolean mask."
        )
    if is_added(mask) and on_cpu and bool((mask == 1).any()) and bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(
            "`mask` holds the floating-point numbers 0 and 1, and such a mask is added to the logits. Write "
            "mask.bool() if 1 means that a query may attend to a key, (1 - mask).bool() if it means that it may not."
        )


def refuse_causal(mask: Tensor | AttentionMask | None, pos: Positions) -> None:
    """Refuse a mask beside causal=True as ``refuse_mask`` does, and causal=True for the nodes of a graph."""
    refuse_mask(mask)
    if pos.graph is not None:
        raise ValueError(
            "causal=True hides later tokens, and the nodes of a graph have no order. Leave it out, or pass the pairs "
            "of nodes that may attend as `mask`, (Q, K) or (B, 1, Q, K)."
        )


def may_exclude_keys(mask: Tensor) -> bool:
    """Return True if a mask may exclude a key.

    The mask is read only for one query on a CPU. In decoding such a query mostly attends to all keys. In other cases
    reading the mask would cost more than it saves, and the result is True.
    """
    return not (readable(mask) and mask.device.type == "cpu" and mask.shape[-2] == 1 and bool(mask.all()))


def attended_keys(mask: Tensor) -> tuple[Tensor | None, slice | None]:
    """Return the run of keys that one query attends to, and its mask inside that run.

    Keys before the first and after the last that a query may attend to have no weight. The mask is read only for one
    query on a CPU that all samples and heads share.

    Args:
        mask: boolean mask that broadcasts to ``(B, H, Q, K)``.

    Returns:
        The mask of the run, or None if all its keys are allowed; and the run, or None for all keys.
    """
    if not readable(mask) or mask.device.type != "cpu" or mask.shape[-2] != 1:
        return mask, None
    if mask.numel() != mask.shape[-1]:
        return (mask if may_exclude_keys(mask) else None), None
    allowed = mask.flatten().nonzero().flatten()
    if len(allowed) == 0:  # a query without a key gets zeros, which needs the mask
        return mask, None
    first, after = int(allowed[0]), int(allowed[-1]) + 1
    part = mask if len(allowed) < after - first else None
    if after - first == mask.shape[-1]:
        return part, None
    return None if part is None else part[..., first:after], slice(first, after)
