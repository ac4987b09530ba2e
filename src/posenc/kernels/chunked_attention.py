"""Memory-efficient attention: queries in chunks, recomputed for the backward pass, so that no (Q, K) tensor is stored.

    out[i] = run(q[i], ..) for chunks of queries i;   the gradients of all chunks are summed

The output and all gradients are written into memory that is allocated once. A chunk leaves no other tensor behind, so
memory does not fragment in allocators that cannot merge free blocks (glibc before 2.38). Source: Rabe and Staats 2021,
arXiv 2112.05682.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

Run = Callable[[Tensor, Tensor, Tensor, Any, slice], Tensor]
"""Function from ``(q, k, v, more, at)`` to outputs ``(B, H, at, E)``; ``q`` holds the queries of the slice ``at``."""


def attend_in_chunks(
    run: Run, step: int, q: Tensor, k: Tensor, v: Tensor, more: Any, parameters: Sequence[Tensor]
) -> Tensor:
    """Apply ``run`` to ``step`` queries at a time and return the outputs ``(B, H, Q, E)``.

    Args:
        run: attention for a chunk of queries.
        step: number of queries per chunk.
        q: queries ``(B, H, Q, D)``.
        k: keys.
        v: values.
        more: pytree of all other inputs of ``run``.
        parameters: parameters of a module that ``run`` uses.

    Returns:
        Outputs, differentiable by all inputs once. A second derivative raises RuntimeError.
    """
    leaves, spec = pytree.tree_flatten(more)
    tensors = [leaf if isinstance(leaf, Tensor) else None for leaf in leaves]
    rest = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]

    def restored(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor | None], at: slice) -> Tensor:
        filled = [b if a is None else a for a, b in zip(tensors, rest, strict=True)]
        return run(q, k, v, pytree.tree_unflatten(filled, spec), at)

    return _Parts.apply(restored, step, len(tensors), q, k, v, *tensors, *parameters)


class _Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Any, step: int, count: int, *given: Tensor | None) -> Tensor:
        ctx.run, ctx.step, ctx.count = run, step, count
        ctx.save_for_backward(*given)
        q, k, v, *more = given
        assert q is not None
        assert v is not None
        kind = q.device.type
        ctx.cast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        out = q.new_empty(*q.shape[:3], v.shape[-1])
        for at in _runs(q.shape[2], step):
            out[:, :, at] = run(q[:, :, at], k, v, more[:count], at)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        given, needed, inputs = ctx.saved_tensors, ctx.needs_input_grad[3:], 3 + ctx.count
        wanted = [n for n, need in enumerate(needed) if need]
        total = {n: torch.zeros_like(given[n]) for n in wanted}
        enabled, dtype = ctx.cast
        for at in _runs(given[0].shape[2], ctx.step):
            chunk = [None if t is None else (t if n else t[:, :, at]).detach() for n, t in enumerate(given[:inputs])]
            chunk = [t if t is None else t.requires_grad_(n in total) for n, t in enumerate(chunk)]
            with torch.enable_grad(), torch.autocast(given[0].device.type, dtype, enabled=enabled):
                out = ctx.run(*chunk[:3], chunk[3:], at)
            leaves = [*chunk, *given[inputs:]]
            gradients = torch.autograd.grad(out, [leaves[n] for n in wanted], grads[0][:, :, at], allow_unused=True)
            for n, part in zip(wanted, gradients, strict=True):
                if part is not None:
                    (total[n] if n else total[n][:, :, at]).add_(part)
            del chunk, out, leaves, gradients  # before the next chunk allocates as much
        return (None, None, None, *(total.get(n) for n in range(len(given))))


def _runs(count: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, count, step))
