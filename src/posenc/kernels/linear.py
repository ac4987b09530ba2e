"""Linear layers and feed-forward networks that use oneDNN's float32 matrix product on a CPU, where it is faster.

    y = x W^T + b;   dx = g W,   dW = g^T x,   db = sum g
    f = act(x W_1^T + b_1) W_2^T + b_2

torch uses MKL for float32 products. On processors that are not from Intel, MKL runs its AVX2 code. oneDNN, which is
part of torch, runs AVX-512 code there (``benchmarks/encoder.py`` measures the speedup). On other devices, for other
dtypes and small sizes, and while compiling, these functions call ``functional.linear``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.autograd import forward_ad
from torch.nn import functional

LEAST_WORK = 1 << 21
"""Number of multiplications below which the call costs more than it saves."""

Activation = Literal["relu", "gelu"]


def linear(
    x: Float[Tensor, "*B inner"], weight: Float[Tensor, "outer inner"], bias: Tensor | None = None
) -> Float[Tensor, "*B outer"]:
    """Compute ``x W^T + b``. Second derivatives use torch's own formula."""
    return _Linear.apply(x, weight, bias) if _pays(x, weight) else functional.linear(x, weight, bias)


def feed_forward(
    x: Float[Tensor, "*B dim"],
    up: tuple[Float[Tensor, "hidden dim"], Tensor],
    down: tuple[Float[Tensor, "dim hidden"], Tensor],
    activation: Activation,
) -> Float[Tensor, "*B dim"]:
    """Compute ``act(x W_1^T + b_1) W_2^T + b_2`` from two pairs of weight and bias."""
    if _pays(x, up[0]):
        return _FeedForward.apply(x, *up, *down, activation)
    return _plain_feed_forward(x, *up, *down, activation=activation)


def eager_float32(*tensors: Tensor) -> bool:
    """Return True for float32 tensors on a CPU in eager mode, without autocast, tracing or ``torch.func``."""
    return (
        eager()
        and all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
        and not torch.is_autocast_enabled("cpu")
    )


def eager() -> bool:
    """Return True in eager mode: no compilation, no ``torch.func`` transform, no forward-mode differentiation."""
    return not torch.compiler.is_compiling() and maybe_current_level() is None and forward_ad._current_level < 0


def differentiable_gradients(
    plain: Callable[..., Tensor], inputs: Sequence[Tensor | None], g: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``plain(*inputs)`` weighted by ``g``, with a graph for second derivatives."""
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    gradients = iter(torch.autograd.grad(plain(*inputs), wanted, g, create_graph=True))
    return tuple(next(gradients) if t is not None and t.requires_grad else None for t in inputs)


def _pays(x: Tensor, weight: Tensor) -> bool:
    return (
        eager_float32(x, weight)  # first: under export, reading a size would fix that size
        and x.numel() * weight.shape[0] >= LEAST_WORK
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _product(a: Tensor, b: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """Compute ``act(a b^T + bias)`` of matrices, by the operator that torch.compile's CPU code calls too."""
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, activation, [], "")


def _weight_gradient(g: Tensor, x: Tensor) -> Tensor:
    """Compute ``g^T x`` with the smaller side first, because oneDNN is faster if the result has fewer rows."""
    return _product(g.t(), x.t()) if g.shape[1] <= x.shape[1] else _product(x.t(), g.t()).t()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        return _product(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        inputs, (g,) = ctx.saved_tensors, grad_outputs
        if torch.is_grad_enabled():
            return differentiable_gradients(functional.linear, inputs, g)
        x, weight, bias = inputs
        need_x, need_weight, need_bias = ctx.needs_input_grad
        flat, g = x.reshape(-1, x.shape[-1]), g.reshape(-1, len(weight))
        return (
            _product(g, weight.t()).view(x.shape) if need_x else None,
            _weight_gradient(g, flat) if need_weight else None,
            g.sum(0) if bias is not None and need_bias else None,
        )


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, activation: Activation) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        ctx.activation = activation
        if activation == "relu":  # fused into the product; the backward needs only its sign
            hidden = before = _product(flat, w1, b1, "relu")
        else:
            before = _product(flat, w1, b1)
            hidden = functional.gelu(before)
        ctx.save_for_backward(x, w1, b1, w2, b2, hidden, before)
        return _product(hidden, w2, b2).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        *inputs, hidden, before = ctx.saved_tensors
        x, w1, _, w2, _ = inputs
        (g,) = grad_outputs
        if torch.is_grad_enabled():
            plain = functools.partial(_plain_feed_forward, activation=ctx.activation)
            return (*differentiable_gradients(plain, inputs, g), None)
        flat, g = x.reshape(-1, x.shape[-1]), g.reshape(-1, len(w2))
        inner = _product(g, w2.t())
        if ctx.activation == "relu":
            inner = torch.ops.aten.threshold_backward(inner, before, 0)
        else:
            inner = torch.ops.aten.gelu_backward(inner, before)
        dx = _product(inner, w1.t()).view(x.shape) if ctx.needs_input_grad[0] else None
        return dx, _weight_gradient(inner, flat), inner.sum(0), _weight_gradient(g, hidden), g.sum(0), None


def _plain_feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, *, activation: Activation) -> Tensor:
    hidden = functional.linear(x, w1, b1)
    return functional.linear(hidden.relu() if activation == "relu" else functional.gelu(hidden), w2, b2)
