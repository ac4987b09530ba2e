"""Matrix products for grouped-query attention, without copies of keys."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def grouped_matmul(a: Float[Tensor, "B H Q n"], b: Float[Tensor, "B G n m"]) -> Float[Tensor, "B H Q m"]:
    """Compute ``a @ b`` if H heads of ``a`` share G heads of ``b``; ``H / G`` neighboring heads share one."""
    if a.shape[1] == b.shape[1]:
        return a @ b
    if torch.compiler.is_exporting():  # with a free length torch.export cannot divide the axes of ``a``
        return a @ b.repeat_interleave(a.shape[1] // b.shape[1], 1)
    rows = a.unflatten(1, (b.shape[1], -1)).flatten(2, 3)
    return (rows @ b).unflatten(2, (-1, a.shape[2])).flatten(1, 2)


def grouped_logits(q: Float[Tensor, "B H Q D"], k: Float[Tensor, "B G K D"]) -> Float[Tensor, "B H Q K"]:
    """Compute ``q k^T``.

    For one query on a CPU the product is ``(k q^T)^T``, which is twice as fast for wide keys.
    """
    if q.shape[2] != 1 or q.device.type != "cpu":
        return grouped_matmul(q, k.transpose(-1, -2))
    rows = q.reshape(len(q), k.shape[1], -1, q.shape[-1])
    return (k @ rows.transpose(-1, -2)).transpose(-1, -2).reshape(len(q), q.shape[1], 1, k.shape[2])
