"""Memory-efficient two-layer ReLU network of one scalar input: ``f_h(s) = sum_m v_mh max(w_m s + b_m, 0) + c_h``.

FIRE evaluates it for every query-key pair. The hidden layer of N^2 pairs is about thirty times as large as the result.
It is therefore computed in chunks that fit into the CPU cache, and computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor

from posenc.kernels.linear import differentiable_gradients, eager

CHUNK_CPU, CHUNK_OTHER = 2**17, 2**25
"""Hidden values per chunk. On a CPU a chunk must fit into the cache. On a GPU larger chunks need fewer launches."""


def relu_network(
    s: Float[Tensor, "*B Q K"], inner: Float[Tensor, "2 hidden"], outer: Float[Tensor, "hidden_and_1 H"]
) -> Float[Tensor, "*B H Q K"]:
    """Compute ``f_h(s)``, with ``inner`` the rows w and b, and ``outer`` the rows of v followed by c.

    Second derivatives are computed from ``plain``.
    """
    few = s.numel() * inner.shape[1] <= _chunk_size(s)
    if not eager() or few or is_legacy_batchedtensor(s):
        return plain(s, inner, outer)
    return _ReluNetwork.apply(s, inner, outer)


def plain(s: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    """Compute ``f_h(s)`` for all inputs at once."""
    return (torch.relu(s[..., None] * inner[0] + inner[1]) @ outer[:-1] + outer[-1]).movedim(-1, -3)


class _ReluNetwork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
        ctx.save_for_backward(s, inner, outer)
        out = s.new_empty(*s.shape[:-2], outer.shape[1], *s.shape[-2:])
        v, c = outer[:-1].mT.contiguous(), outer[-1, :, None]
        for given, hidden, to in _chunks(s, inner, out):
            torch.addmm(c, v, _hidden(given, inner, hidden), out=to)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (s, inner, outer), (g,) = ctx.saved_tensors, grad_outputs
        if torch.is_grad_enabled() or is_legacy_batchedtensor(g):
            with torch.enable_grad():
                return differentiable_gradients(plain, (s, inner, outer), g)
        by_s, by_inner, by_outer, back = torch.empty_like(s, memory_format=torch.contiguous_format), [], [], None
        for given, hidden, from_out, to in _chunks(s, inner, g, by_s):
            h = _hidden(given, inner, hidden)
            by_outer.append(torch.cat([h @ from_out.mT, from_out.sum(-1)[None]]))
            back = torch.empty_like(h) if back is None or back.shape != h.shape else back
            torch.mm(outer[:-1], from_out, out=back).mul_(h.sign_())
            by_inner.append(torch.stack([back @ given, back.sum(-1)]))
            torch.mv(back.mT, inner[0], out=to)
        return by_s, torch.stack(by_inner).sum(0), torch.stack(by_outer).sum(0)


def _chunk_size(s: Tensor) -> int:
    return CHUNK_CPU if s.device.type == "cpu" else CHUNK_OTHER


def _hidden(s: Tensor, inner: Tensor, out: Tensor) -> Tensor:
    """Compute the hidden layer ``max(w_m s + b_m, 0)``, ``(hidden, n)``."""
    return torch.addcmul(inner[1, :, None], inner[0, :, None], s, out=out).relu_()


def _chunks(s: Tensor, inner: Tensor, *more: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Divide the inputs into chunks; a chunk belongs to one sample.

    Each item is a chunk ``(n,)``, memory for its hidden layer ``(hidden, n)``, and the matching views of ``more``:
    ``(n,)``, or ``(H, n)`` for tensors with heads.
    """
    hidden, step = inner.shape[1], max(1, _chunk_size(s) // inner.shape[1])
    heads = [t.dim() > s.dim() for t in more]
    rows = [t.reshape(-1, t.shape[-3], t.shape[-2] * t.shape[-1]) if many else t.reshape(-1, t.shape[-2] * t.shape[-1])
            for t, many in zip(more, heads, strict=True)]  # fmt: skip
    memory = s.new_empty(hidden, min(step, s.shape[-2] * s.shape[-1]))
    for given, *others in zip(s.reshape(-1, s.shape[-2] * s.shape[-1]), *rows, strict=True):
        for start in range(0, len(given), step):
            at = slice(start, start + step)
            part = given[at]
            buffer = memory if len(part) == memory.shape[1] else s.new_empty(hidden, len(part))
            yield part, buffer, *(t[..., at] for t in others)
