"""Products of query heads with the key heads that they share, without a copy of any key."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def of_groups(a: Float[Tensor, "B H Q n"], b: Float[Tensor, "B G n m"]) -> Float[Tensor, "B H Q m"]:
    """``a @ b`` where G heads of ``b`` serve H of ``a``, neighbours sharing one: their rows are as several of its."""
    if a.shape[1] == b.shape[1]:
        return a @ b
    rows = a.unflatten(1, (b.shape[1], -1)).flatten(2, 3)
    return (rows @ b).unflatten(2, (-1, a.shape[2])).flatten(1, 2)


def logits_of_groups(q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B G K D"]) -> Float[Tensor, "B H Q K"]:
    """``q k^T``. Of one query keys come first in the product, which on a CPU reads wide ones twice as fast."""
    if q.shape[2] != 1 or q.device.type != "cpu":
        return of_groups(q, k.transpose(-1, -2))
    rows = q.reshape(len(q), k.shape[1], -1, q.shape[-1])
    return (k @ rows.transpose(-1, -2)).transpose(-1, -2).reshape(len(q), q.shape[1], 1, k.shape[2])
