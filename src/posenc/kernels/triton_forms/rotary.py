"""Triton form of the rotation of pairs of channels (``posenc.kernels.rotary``).

    (x_a + i x_b) (c + i s) = (x_a c - x_b s) + i (x_b c + x_a s)

One pass reads the vectors and the rotations and writes the result: in any layout of memory, with the channels that are
not rotated, and into the vectors themselves if asked. The rotations of a token are those of its own row, or are
gathered from a table by the token's integer positions on several axes (``posenc.kernels.rotary_table``). The arithmetic
is that of the torch form, in float32 or wider, with one rounding at the end; products are not fused with sums.

The gradient of the vectors is the backward rotation, by the same kernel. The gradient of the rotations is a sum over
batch and heads, which torch computes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from posenc.kernels.rotary import Pairing, Rotation
from posenc.kernels.triton_forms.launch import launch

TILE = 4096
"""Number of channels that one program rotates."""


class Gathered(NamedTuple):
    """Integer positions of the tokens, ``(B, N, P)``, and the axis of each pair of channels, ``(R,)``."""

    positions: Tensor
    axis_of: Tensor


def rotate(x: Tensor, by: Rotation, *, back: bool = False) -> Tensor:
    """Rotate ``x (B, H, N, D)`` as ``posenc.kernels.rotary.rotate`` does; the rest of a wider head is copied."""
    return _Rotate.apply(x, by.cos_sin, by.pairing, back)


def rotate_in_place(x: Tensor, by: Rotation, *, back: bool = False) -> Tensor:
    """Rotate ``x`` in its own memory, without a graph."""
    _launch(x.detach(), by, None, back)
    return x


def rotate_by_table(x: Tensor, table: Rotation, at: Gathered, *, back: bool = False) -> Tensor:
    """Rotate pair r of token n by row ``index[n, axis_of[r]]`` of a table; no gradient of the table."""
    return _RotateByTable.apply(x, table.cos_sin, table.pairing, at, back)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos_sin: Tensor, pairing: Pairing, back: bool) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, cos_sin)
        ctx.pairing, ctx.back = pairing, back
        return _launch(x, Rotation(cos_sin, pairing), _result(x), back)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (x, cos_sin), (g,) = ctx.saved_tensors, grad_outputs
        by_x = _Rotate.apply(g, cos_sin, ctx.pairing, not ctx.back) if ctx.needs_input_grad[0] else None
        return by_x, None if x is None else _by_rotation(x, g, Rotation(cos_sin, ctx.pairing), ctx.back), None, None


class _RotateByTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos_sin: Tensor, pairing: Pairing, at: Gathered, back: bool) -> Tensor:
        ctx.save_for_backward(cos_sin, *at)
        ctx.pairing, ctx.back = pairing, back
        return _launch(x, Rotation(cos_sin, pairing), _result(x), back, at)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        cos_sin, *at = ctx.saved_tensors
        by_x = _RotateByTable.apply(grad_outputs[0], cos_sin, ctx.pairing, Gathered(*at), not ctx.back)
        return by_x, None, None, None, None


def _result(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _by_rotation(x: Tensor, g: Tensor, by: Rotation, back: bool) -> Tensor:
    """Return the gradient of the rotations, by torch operations that have gradients themselves."""
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    x, g = x[..., : by.width].to(wide), g[..., : by.width].to(wide)
    if by.pairing == "interleaved":
        (a, b), (of_a, of_b) = x.unflatten(-1, (-1, 2)).unbind(-1), g.unflatten(-1, (-1, 2)).unbind(-1)
    else:
        (a, b), (of_a, of_b) = x.chunk(2, -1), g.chunk(2, -1)
    sine = of_b * a - of_a * b
    parts = torch.stack([of_a * a + of_b * b, -sine if back else sine], by.axis)
    return parts.sum_to_size(by.cos_sin.shape).to(by.cos_sin.dtype)


def _launch(x: Tensor, by: Rotation, result: Tensor | None, back: bool, at: Gathered | None = None) -> Tensor:
    """Write the rotated vectors into ``result``, or into ``x`` without one."""
    out = x if result is None else result
    batch, heads, tokens, width = x.shape
    pairs, interleaved = by.width // 2, by.pairing == "interleaved"
    table = by.cos_sin if interleaved else by.cos_sin.mT
    if at is None:
        table = table.expand(batch, heads, tokens, pairs, 2)
        steps, index, axis_of = table.stride(), table, table
        index_steps = (0, 0, 0)
    else:
        steps, (index, axis_of) = (0, 0, *table.stride()), at
        index_steps = index.expand(batch, tokens, index.shape[-1]).stride()
    block = triton.next_power_of_2(pairs)
    together = max(1, min(TILE // (2 * block), triton.next_power_of_2(tokens)))
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    given = (
        x, out, table, index, axis_of, heads, tokens, pairs, width, len(by.cos_sin),
        *x.stride(), *out.stride(), *steps, *index_steps,
    )  # fmt: skip
    sizes = {
        "INTERLEAVED": interleaved, "GATHERED": at is not None, "BACK": back, "IN_PLACE": result is None,
        "WIDE": tl.float64 if wide == torch.float64 else tl.float32, "ROWS": together, "PAIRS": block,
        "REST": triton.next_power_of_2(width - 2 * pairs) if width > 2 * pairs else 0,
    }  # fmt: skip
    launch(_rotate_pairs, (triton.cdiv(tokens, together) * heads * batch,), given, sizes, x)
    return out


@triton.jit
def _narrow(value, kind: tl.constexpr):
    """Round to a data type; from float64 to 16 bits by way of float32, as torch does."""
    if kind.primitive_bitwidth < 32:
        value = value.to(tl.float32)
    return value.to(kind)


@triton.jit
def _rotate_pairs(
    x, out, table, index, axis_of, heads, tokens, pairs, width, rows,
    x_batch, x_head, x_token, x_channel, out_batch, out_head, out_token, out_channel,
    by_batch, by_head, by_row, by_pair, by_part, index_batch, index_token, index_axis,
    INTERLEAVED: tl.constexpr, GATHERED: tl.constexpr, BACK: tl.constexpr, IN_PLACE: tl.constexpr,
    WIDE: tl.constexpr, ROWS: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(tokens, ROWS)
    program = tl.program_id(0).to(tl.int64)
    batch, head = program // (blocks * heads), program // blocks % heads
    token = (program % blocks * ROWS + tl.arange(0, ROWS))[:, None]
    pair, valid = tl.arange(0, PAIRS)[None, :], token < tokens
    both = valid & (pair < pairs)
    if GATHERED:
        axis = tl.load(axis_of + pair, mask=pair < pairs, other=0)
        row = tl.load(index + batch * index_batch + token * index_token + axis * index_axis, mask=both, other=0)
        row = row.to(tl.int64)
        known = both & (row >= 0) & (row < rows)  # a position outside the table gives NaN and reads nothing
        by = table + row * by_row + pair * by_pair
    else:
        known = both
        by = table + batch * by_batch + head * by_head + token * by_row + pair * by_pair
    cos = tl.load(by, mask=known, other=float("nan")).to(WIDE)
    sin = tl.load(by + by_part, mask=known, other=float("nan")).to(WIDE)
    if BACK:
        sin = -sin
    x += batch * x_batch + head * x_head + token * x_token
    out += batch * out_batch + head * out_head + token * out_token
    kind: tl.constexpr = out.dtype.element_ty
    if INTERLEAVED:  # neighboring channels are read and written together
        channel = tl.arange(0, 2 * PAIRS)[None, :]
        inside = valid & (channel < 2 * pairs)
        given = tl.load(x + channel * x_channel, mask=inside, other=0.0).to(WIDE)
        a, b = tl.split(tl.reshape(given, (ROWS, PAIRS, 2)))
        turned = tl.reshape(tl.join(a * cos - b * sin, b * cos + a * sin), (ROWS, 2 * PAIRS))
        tl.store(out + channel * out_channel, _narrow(turned, kind), mask=inside)
    else:
        a = tl.load(x + pair * x_channel, mask=both, other=0.0).to(WIDE)
        b = tl.load(x + (pair + pairs) * x_channel, mask=both, other=0.0).to(WIDE)
        tl.store(out + pair * out_channel, _narrow(a * cos - b * sin, kind), mask=both)
        tl.store(out + (pair + pairs) * out_channel, _narrow(b * cos + a * sin, kind), mask=both)
    if REST > 0 and not IN_PLACE:
        channel = 2 * pairs + tl.arange(0, REST)[None, :]
        inside = valid & (channel < width)
        tl.store(out + channel * out_channel, tl.load(x + channel * x_channel, mask=inside), mask=inside)
