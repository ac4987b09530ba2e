"""What depends on a query and a key: how far apart they stand, and whether both have a place.

``Pairs`` holds positions, O(Q + K), and computes what a bias asks for when it asks; attention cuts it into runs of
queries, so that no bias of a long sequence is ever whole, and a FlexAttention form reads one pair of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from posenc.kernels.seen import hides
from posenc.positions import Positions, readable

Index = Tensor
"""Number of a sample, query or key, as FlexAttention counts them."""


@runtime_checkable
class Divisible(Protocol):
    """A pair that can be asked for some of the queries."""

    def queries(self, part: slice) -> Divisible: ...


class Pairs(NamedTuple):
    """Queries and keys by where they stand."""

    q: Positions
    k: Positions

    def queries(self, part: slice) -> Pairs:
        return Pairs(self.q[part], self.k)

    @property
    def dtype(self) -> torch.dtype:
        return torch.promote_types(self.q.table_dtype, self.k.table_dtype)

    def distance(self, axis: int = 0) -> Tensor:
        """``k_pos - q_pos`` on one axis, exact for whole ones: ``(Q, K)``, or ``(B, 1, Q, K)`` where samples differ."""
        return distances(self.q, self.k, axis)

    def far(self) -> Tensor:
        """``|k_pos - q_pos|`` as real numbers, Euclidean on several axes, shaped like ``distance``."""
        if self.q.axes == 1:
            return self.distance().abs().to(self.dtype)
        apart = torch.stack([self.distance(axis).to(self.dtype) for axis in range(self.q.axes)])
        return torch.linalg.vector_norm(apart, dim=0)  # whose slope at 0 is 0

    def placed(self) -> Tensor | None:
        return both_placed(self.q, self.k)

    def neutral(self, bias: Tensor) -> Tensor:
        """``bias (.., Q, K)``, 0 where the query or the key has no place."""
        placed = self.placed()
        return bias if placed is None else bias.where(placed, 0)

    def before(self) -> Tensor:
        """True where the key stands at or before the query, or one of them has no place."""
        seen, placed = self.distance() <= 0, self.placed()
        return seen if placed is None else seen | ~placed

    def of_seen_before(self, values: Tensor, seen: Tensor | None, *, placed: bool = False) -> Tensor:
        """``values (.., Q, K)``, 0 for keys that stand after the query or that it may not see (nor, ``placed``, one
        of them without a place)."""
        counted = self.before() if seen is None else seen & self.before()
        has = self.placed() if placed else None
        counted = counted if has is None else counted & has
        return values.where(counted, 0) if hides(counted) else values

    def reader(self, axis: int = 0) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
        """A function of ``(b, i, j)`` for FlexAttention: one pair's distance, and whether both have a place."""
        at_q, at_k = (_of_sample(p.coords[..., axis]) for p in (self.q, self.k))
        has_q, has_k = (None if p.placed is None else _of_sample(p.placed) for p in (self.q, self.k))

        def read(b: Index, i: Index, j: Index) -> tuple[Tensor, Tensor | None]:
            placed = None if has_q is None else has_q(b, i)
            if has_k is not None:
                placed = has_k(b, j) if placed is None else placed & has_k(b, j)
            return at_k(b, j) - at_q(b, i), placed

        return read

    def far_reader(self) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
        """``reader`` of ``far``."""
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


def distances(q: Positions, k: Positions, axis: int = 0) -> Tensor:
    """``k_pos - q_pos`` on one axis: ``(Q, K)``, or ``(B, 1, Q, K)`` where samples differ."""
    apart = k.coords[..., None, :, axis] - q.coords[..., :, None, axis]
    return apart.unsqueeze(-3) if apart.dim() == 3 else apart


def window_rows(pair: Pairs, window: Sequence[int]) -> Tensor:
    """Each pair's row in a table of the offsets inside a window, row-major from ``1 - w`` on each axis; unplaced 0."""
    row, placed = torch.zeros_like(pair.distance()), pair.placed()
    for axis, size in enumerate(window):
        row = row * (2 * size - 1) + pair.distance(axis) + size - 1
    return (row if placed is None else row.where(placed, 0)).long()


def window_reader(pair: Pairs, window: Sequence[int]) -> Callable[[Index, Index, Index], tuple[Tensor, Tensor | None]]:
    """``window_rows`` of one pair, for FlexAttention, and whether both have a place."""
    readers = [pair.reader(axis) for axis in range(len(window))]

    def read(b: Index, i: Index, j: Index) -> tuple[Tensor, Tensor | None]:
        row, placed = torch.zeros_like(i), None
        for of_axis, size in zip(readers, window, strict=True):
            distance, placed = of_axis(b, i, j)
            row = row * (2 * size - 1) + distance.to(i.dtype) + size - 1
        return row if placed is None else torch.where(placed, row, 0), placed

    return read


def both_placed(q: Positions, k: Positions) -> Tensor | None:
    """True where query and key both have a place, shaped to broadcast with ``distances``; None where all have."""
    found = None
    for pos, side in ((q, -1), (k, -2)):
        if pos.placed is not None:
            placed = pos.placed.unsqueeze(side)
            placed = placed.unsqueeze(-3) if placed.dim() == 3 else placed
            found = placed if found is None else found & placed
    return found


def sums_from(values: Tensor, pair: Pairs, *, inclusive: bool) -> Tensor:
    """``s[.., j]``, the sum of ``values[.., l]`` over keys l that stand after key j, or, ``inclusive``, at j or after.

    values ``(B, H, Q, K)``; 0 already where key l must not count for a query. Keys at one place count together.
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
    """The sum of ``values (B, H, K)`` over keys at or before each query, ``(B, H, Q)``, and each key, ``(B, H, K)``."""
    at_q, at_k = (p.coords[..., 0].detach().to(pair.dtype) for p in (pair.q, pair.k))
    if at_q.dim() != at_k.dim():
        at_q, at_k = (at if at.dim() == 2 else at.expand(len(values), -1) for at in (at_q, at_k))
    order = at_k.argsort(-1)
    ordered, key = at_k.gather(-1, order).contiguous(), order if order.dim() == 1 else order[:, None]
    total = torch.cat([torch.zeros_like(values[..., :1]), values.gather(-1, key.expand(values.shape)).cumsum(-1)], -1)
    last = (torch.searchsorted(ordered, at.contiguous(), right=True) for at in (at_q, at_k))
    wide = (index if index.dim() == 1 else index[:, None] for index in last)
    found = [total.gather(-1, index.expand(*values.shape[:2], -1)) for index in wide]
    return found[0], found[1]


def _in_a_row(at: Tensor) -> bool:
    """Whether every key stands after the one before it, as in a text; not asked where the answer costs more."""
    return at.device.type == "cpu" and readable(at) and bool((at[..., 1:] > at[..., :-1]).all())


def _keys_before(at: Tensor, order: Tensor, *, inclusive: bool) -> Tensor:
    """How many keys stand before each key, or, ``inclusive``, before it or where it stands. order: ``at.argsort(-1)``.

    What ``searchsorted`` finds of a row in itself, by operations that ONNX has.
    """
    ordered = at.gather(-1, order)
    new = (ordered != ordered.roll(1, -1)).long()  # the first against the last: of no consequence
    place = torch.zeros_like(order).scatter(-1, order, new.cumsum(-1) - new[..., :1])
    count = torch.zeros_like(order).scatter_add(-1, place, torch.ones_like(order))
    upto = count.cumsum(-1)
    return (upto if inclusive else upto - count).gather(-1, place)


def _of_sample(values: Tensor) -> Callable[[Index, Index], Tensor]:
    """How FlexAttention reads ``(N,)`` or ``(B, N)``."""
    rows = values if values.dim() == 2 else values[None]
    return lambda b, n: rows[b, n] if rows.shape[0] > 1 else rows[0, n]
