"""A linear layer that takes oneDNN's float32 product on CPUs where torch's own goes to a slower library.

    y = x W^T + b;   dx = g W,   dW = g^T x,   db = sum g

torch sends float32 products to MKL, which runs its AVX2 path on processors that are not Intel's; oneDNN, which comes
with the same torch, runs AVX-512 there (``benchmarks/encoder.py`` measures how much faster).
On every other device, dtype and size, and while compiling, this is ``functional.linear`` itself.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

LEAST_WORK = 1 << 20
"""Multiplications below which the call costs more than it saves."""


def linear(x: Float[Tensor, "*B inner"], weight: Float[Tensor, "outer inner"], bias: Tensor | None = None) -> Tensor:
    """``x W^T + b`` for ``x (.., inner)``. The fast path has first derivatives only; a second one raises."""
    plain = (
        torch.compiler.is_compiling()
        or x.numel() * weight.shape[0] < LEAST_WORK
        or not x.device.type == weight.device.type == "cpu"
        or not x.dtype == weight.dtype == torch.float32
        or torch.is_autocast_enabled("cpu")
        or torch._C._functorch.peek_interpreter_stack() is not None
        or not _has_onednn()
    )
    return functional.linear(x, weight, bias) if plain else _Linear.apply(x, weight, bias)


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def _product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """``a b^T + bias`` of matrices; torch.compile's own CPU code calls the same operator."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(flat, weight)
        ctx.shape, ctx.biased = x.shape, bias is not None
        return _product(flat, weight, bias).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        g = g.reshape(len(x), -1)
        dx = _product(g, weight.t()).view(ctx.shape) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            dw = None
        elif x.shape[1] * weight.shape[0] < 1 << 14:
            dw = g.t() @ x  # oneDNN copies the transposed operands first: not worth it for a small result
        else:
            dw = _product(g.t(), x.t())
        return dx, dw, g.sum(0) if ctx.biased and ctx.needs_input_grad[2] else None
