"""Query-key pairs: distances between positions, masks of pairs with a position, and sums over keys.

``Pairs`` stores the positions, O(Q + K) memory, and computes values of pairs on demand. Attention divides it into runs
of queries, so that the (Q, K) bias of a long sequence is never stored. FlexAttention reads single pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.attention_mask import may_exclude_keys
from posenc.positions import Positions, readable
from posenc.scheme import Scheme

Index = Tensor
"""Index of a sample, query or key, as FlexAttention passes it."""


@runtime_checkable
class Divisible(Protocol):
    """Protocol of prepared pairs that can be restricted to some of the queries."""

    def queries(self, part: slice) -> Divisible: ...


class Pairs(NamedTuple):
    """Positions of queries and keys.

    Attributes:
        q: positions of the queries.
        k: positions of the keys.
    """

    q: Positions
    k: Positions

    def queries(self, part: slice) -> Pairs:
        """Return the pairs of some of the queries with all keys."""
        return Pairs(self.q[part], self.k)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of values that depend on real distances."""
        return torch.promote_types(self.q.table_dtype, self.k.table_dtype)

    def distance(self, axis: int = 0) -> Tensor:
        """Return ``k_pos - q_pos`` on one axis, ``(Q, K)``, or ``(B, 1, Q, K)`` if samples have different positions."""
        return distances(self.q, self.k, axis)

    def far(self) -> Tensor:
        """Return the Euclidean distance ``|k_pos - q_pos|`` as real numbers, shaped like ``distance``."""
        if self.q.axes == 1:
            return self.distance().abs().to(self.dtype)
        differences = torch.stack([self.distance(axis).to(self.dtype) for axis in range(self.q.axes)])
        return torch.linalg.vector_norm(differences, dim=0)  # its gradient at 0 is 0

    def placed(self) -> Tensor | None:
        """Return True for pairs in which both tokens have a position; None if all do."""
        return both_placed(self.q, self.k)

    def neutral(self, bias: Tensor) -> Tensor:
        """Return ``bias (.., Q, K)`` with 0 for pairs in which the query or the key has no position."""
        placed = self.placed()
        return bias if placed is None else bias.where(placed, 0)

    def before(self) -> Tensor:
        """Return True where the key stands at or before the query, or one of them has no position."""
        before, placed = self.distance() <= 0, self.placed()
        return before if placed is None else before | ~placed

    def at_allowed_keys(self, values: Tensor, attn_mask: Tensor | None, *, placed: bool = False) -> Tensor:
        """Return ``values (.., Q, K)`` with 0 for keys after the query and for masked keys.

        With ``placed=True`` pairs in which a token has no position are 0 too.
        """
        counted = self.before() if attn_mask is None else attn_mask & self.before()
        both = self.placed() if placed else None
        counted = counted if both is None else counted & both
        return values.where(counted, 0) if may_exclude_keys(counted) else values

    def reader(self, axis: int = 0) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
        """Return a function of ``(b, i, j)`` for FlexAttention: a pair's distance, and whether both have a position."""
        at_q, at_k = (_of_sample(p.coords[..., axis]) for p in (self.q, self.k))
        has_q, has_k = (None if p.placed is None else _of_sample(p.placed) for p in (self.q, self.k))

        def read(b: Index, i: Index, j: Index) -> tuple[Tensor, Tensor | None]:
            placed = None if has_q is None else has_q(b, i)
            if has_k is not None:
                placed = has_k(b, j) if placed is None else placed & has_k(b, j)
            return at_k(b, j) - at_q(b, i), placed

        return read

    def far_reader(self) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
        """Return ``reader`` for the Euclidean distance of ``far``."""
        readers = [self.reader(axis) for axis in range(self.q.axes)]

        def read(b: Index, i: Index, j: Index) -> tuple[Tensor, Tensor | None]:
            distance, placed = readers[0](b, i, j)
            if len(readers) == 1:
                return distance.abs(), placed
            square = distance.to(self.dtype).square()
            for of_axis in readers[1:]:
                square = square + of_axis(b, i, j)[0].to(self.dtype).square()
            return square.sqrt(), placed

        return read


class PairScheme(Scheme):
    """Abstract scheme whose hooks read pairs of positions: ``prepare`` checks the positions, ``relate`` pairs them."""

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    @override
    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)


def distances(q: Positions, k: Positions, axis: int = 0) -> Tensor:
    """Return ``k_pos - q_pos`` on one axis, ``(Q, K)``, or ``(B, 1, Q, K)`` if samples have different positions."""
    difference = k.coords[..., None, :, axis] - q.coords[..., :, None, axis]
    return difference.unsqueeze(-3) if difference.dim() == 3 else difference


def window_rows(pair: Pairs, window: Sequence[int]) -> Tensor:
    """Return each pair's row in a table of relative offsets inside a window.

    Offsets count from ``1 - w`` on each axis of length w, row-major. Pairs without a position have row 0.
    """
    row, placed = torch.zeros_like(pair.distance()), pair.placed()
    for axis, size in enumerate(window):
        row = row * (2 * size - 1) + pair.distance(axis) + size - 1
    return (row if placed is None else row.where(placed, 0)).long()


def window_reader(pair: Pairs, window: Sequence[int]) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
    """Return ``window_rows`` as a function of ``(b, i, j)`` for FlexAttention, and whether both have a position."""
    readers = [pair.reader(axis) for axis in range(len(window))]

    def read(b: Index, i: Index, j: Index) -> tuple[Tensor, Tensor | None]:
        row, placed = torch.zeros_like(i), None
        for of_axis, size in zip(readers, window, strict=True):
            distance, placed = of_axis(b, i, j)
            row = row * (2 * size - 1) + distance.to(i.dtype) + size - 1
        return row if placed is None else torch.where(placed, row, 0), placed

    return read


def both_placed(q: Positions, k: Positions) -> Tensor | None:
    """Return True where query and key both have a position, shaped to broadcast with ``distances``; None if all do."""
    both = None
    for pos, side in ((q, -1), (k, -2)):
        if pos.placed is not None:
            placed = pos.placed.unsqueeze(side)
            placed = placed.unsqueeze(-3) if placed.dim() == 3 else placed
            both = placed if both is None else both & placed
    return both


def sums_from(values: Tensor, pair: Pairs, *, inclusive: bool) -> Tensor:
    """Compute ``s[.., j]``, the sum of ``values[.., l]`` over keys l after key j; with ``inclusive``, at j or after.

    ``values (B, H, Q, K)`` must be 0 for pairs that do not count. Keys at equal positions are summed together.
    """
    at = pair.k.coords[..., 0].detach()
    if _in_a_row(at):
        from_here = values.flip(-1).cumsum(-1).flip(-1)
        return from_here if inclusive else functional.pad(from_here[..., 1:], (0, 1))
    at = at[:, None, None] if at.dim() == 2 else at  # (K,) or (B, 1, 1, K)
    order = at.argsort(-1)
    ordered = values.gather(-1, order.expand(values.shape))
    zero = torch.zeros_like(values[..., :1])
    from_here = torch.cat([ordered.flip(-1).cumsum(-1).flip(-1), zero], -1)
    first = _keys_before(at, order, inclusive=not inclusive)
    return from_here.gather(-1, first.expand(values.shape))


def running_sums(values: Tensor, pair: Pairs) -> tuple[Tensor, Tensor]:
    """Sum ``values (B, H, K)`` over keys at or before each query, ``(B, H, Q)``, and each key, ``(B, H, K)``."""
    at_q, at_k = (p.coords[..., 0].detach().to(pair.dtype) for p in (pair.q, pair.k))
    if at_q.dim() != at_k.dim():
        at_q, at_k = (at if at.dim() == 2 else at.expand(len(values), -1) for at in (at_q, at_k))
    order = at_k.argsort(-1)
    ordered, key = at_k.gather(-1, order).contiguous(), order if order.dim() == 1 else order[:, None]
    total = torch.cat([torch.zeros_like(values[..., :1]), values.gather(-1, key.expand(values.shape)).cumsum(-1)], -1)
    last = (torch.searchsorted(ordered, at.contiguous(), right=True) for at in (at_q, at_k))
    wide = (index if index.dim() == 1 else index[:, None] for index in last)
    sums = [total.gather(-1, index.expand(*values.shape[:2], -1)) for index in wide]
    return sums[0], sums[1]


def _in_a_row(at: Tensor) -> bool:
    """Return True if positions increase from key to key, as in a text.

    On other devices than the CPU this is always False, because the check costs more than it saves.
    """
    return at.device.type == "cpu" and readable(at) and bool((at[..., 1:] > at[..., :-1]).all())


def _keys_before(at: Tensor, order: Tensor, *, inclusive: bool) -> Tensor:
    """Count the keys before each key; with ``inclusive``, also those at its position.

    ``order`` is ``at.argsort(-1)``. The result equals ``searchsorted`` of a row in itself, with operations that ONNX
    supports.
    """
    ordered = at.gather(-1, order)
    new = (ordered != ordered.roll(1, -1)).long()  # the comparison of the last with the first has no effect
    place = torch.zeros_like(order).scatter(-1, order, new.cumsum(-1) - new[..., :1])
    count = torch.zeros_like(order).scatter_add(-1, place, torch.ones_like(order))
    upto = count.cumsum(-1)
    return (upto if inclusive else upto - count).gather(-1, place)


def _of_sample(values: Tensor) -> Callable[[Index, Index], Tensor]:
    """Return a function of ``(b, n)`` that reads ``(N,)`` or ``(B, N)``, for FlexAttention."""
    rows = values if values.dim() == 2 else values[None]
    return lambda b, n: rows[b, n] if rows.shape[0] > 1 else rows[0, n]
