"""Rotary embedding kernel: rotation of pairs of channels, as products of complex numbers.

    (x_a + i x_b) (c + i s) = (x_a c - x_b s) + i (x_b c + x_a s)

A pairing is the convention of which two channels form a pair. A ``Rotation`` stores its pairing with the angles, so
that angles of one pairing are never applied to another.

    interleaved  (2i, 2i + 1) of the d rotated channels: as in the papers
    half         (i, i + d/2) of the d rotated channels: GPT-NeoX, Llama in transformers
    across       (i, i + D/2) of all D channels of the head, i < d/2: the other common partial rotation

On a CPU the cost of a rotation is the number of passes over memory (``benchmarks/rotary.py``). Interleaved pairs in
float32 need one complex product, and compiled code needs one pass. The other cases need several torch operations
(widen, multiply, add, narrow). They are computed part by part, so that the intermediate results stay in the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor, maybe_current_level
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from posenc.kernels.kernel_form import takes_triton
from posenc.positions import Positions, readable
from posenc.scheme import per_head

Pairing = Literal["interleaved", "half", "across"]
SEVERAL = 2**15
"""Number of elements from which a rotation with several passes is computed part by part."""
PART = 2**18
"""Number of elements of a part: large enough that a pass costs more than its call, small enough for the cache."""
PAIRINGS: tuple[Pairing, ...] = get_args(Pairing)


@dataclasses.dataclass(frozen=True, eq=False)
class Rotation:
    """Prepared rotations of R pairs of channels, as complex numbers.

    Attributes:
        cos_sin: cosine and sine, ``(N, R, 2)`` for interleaved pairs, else ``(N, 2, R)``; optionally with leading axes
            for heads ``(h, ..)`` or batch and heads ``(B, h, ..)``.
        pairing: convention of which channels form a pair.
    """

    cos_sin: Tensor
    pairing: Pairing

    @property
    def axis(self) -> int:
        """Axis of ``cos_sin`` that holds cosine and sine."""
        return -1 if self.pairing == "interleaved" else -2

    @property
    def width(self) -> int:
        """Number of rotated channels."""
        return self.cos_sin.shape[-1] * self.cos_sin.shape[-2]

    def scaled(self, size: Tensor) -> Rotation:
        """Return the complex numbers multiplied by real factors ``size (.., N, R)``."""
        return Rotation(self.cos_sin * size.unsqueeze(self.axis), self.pairing)

    def after(self, other: Rotation) -> Rotation:
        """Return the rotation from ``other`` to this one: ``self / other``."""
        c, s = self.cos_sin.unbind(self.axis)
        c0, s0 = other.cos_sin.unbind(self.axis)
        size = c0.square() + s0.square()
        parts = (c * c0 + s * s0) / size, (s * c0 - c * s0) / size
        return Rotation(torch.stack(parts, self.axis), self.pairing)


def _turn(leaves: Any, pairing: Any) -> Rotation:
    return Rotation(leaves[0], pairing)


pytree.register_pytree_node(Rotation, lambda t: ([t.cos_sin], t.pairing), _turn)


def prepare_rotation(
    angle: Tensor, pos: Positions, pairing: Pairing, *, size: float | Tensor = 1.0, of: int = 0
) -> Rotation:
    """Prepare the rotations ``size e^(i angle)`` at positions; 1 for tokens without a position.

    Args:
        angle: angles in radians, float64 ``(N, R)`` or ``(h, N, R)``; with batched positions ``(B, 1, N, R)`` or ``(B,
            h, N, R)``.
        pos: positions of the N tokens.
        pairing: convention of which channels form a pair.
        size: factor of all rotations, or one that broadcasts to ``angle``.
        of: width of the head, which "across" needs; its pairs after the first R are not rotated.

    Returns:
        The prepared rotations.
    """
    plain = not isinstance(size, Tensor) and size == 1
    if pairing == "across" and of > 2 * angle.shape[-1]:
        still = angle.new_zeros(*angle.shape[:-1], of // 2 - angle.shape[-1])
        scale = None if plain else torch.cat([torch.ones_like(angle) * size, still + 1], -1)
        angle = torch.cat([angle, still], -1)
    else:
        scale = None if plain else torch.ones_like(angle) * size
    if pos.placed is not None:
        placed = placed_mask(pos.placed)
        angle = angle * placed
        scale = None if scale is None else scale.where(placed, 1)
    by = Rotation(torch.stack([angle.cos(), angle.sin()], -1 if pairing == "interleaved" else -2), pairing)
    by = by if scale is None else by.scaled(scale)
    return Rotation(by.cos_sin.to(pos.table_dtype), pairing)


def placed_mask(placed: Tensor) -> Tensor:
    """Return ``placed`` shaped to broadcast to angles: ``(N, 1)`` or ``(B, 1, N, 1)``."""
    return placed[..., None] if placed.dim() == 1 else placed[:, None, :, None]


def with_head_axis(coords: Tensor, pos: Positions) -> Tensor:
    """Return ``(N, F)`` unchanged, or batched ``(B, N, F)`` with an axis for heads, ``(B, 1, N, F)``."""
    return coords.unsqueeze(-3) if pos.batched else coords


def for_heads(by: Rotation, x: Tensor, name: str) -> Rotation:
    """Expand the rotations of h heads to the heads of ``x`` (``posenc.scheme.per_head``)."""
    return Rotation(per_head(by.cos_sin, x, name, dim=-4), by.pairing)


def rotate(x: Tensor, by: Rotation, *, back: bool = False) -> Tensor:
    """Rotate the first ``by.width`` channels of ``x (B, H, N, D)``, backwards if ``back``; the rest is unchanged.

    The computation is in float32 or wider, and the result has the dtype of ``x``. In eager mode interleaved pairs are
    multiplied as complex numbers, and halves are computed in place. Both are much faster on a CPU than the plain
    formula, which compilers and ``torch.func`` get.
    """
    if not isinstance(by, Rotation):
        raise ValueError(f"vectors are rotated by what scheme.prepare(pos) returns; got {type(by).__name__}.")
    if x.shape[-1] < by.width:
        raise ValueError(
            f"these angles rotate {by.width} channels; the vectors have {x.shape[-1]}. Build the scheme for that width."
        )
    if readable(x) and by.cos_sin.shape[-3] != x.shape[-2]:
        raise ValueError(
            f"these angles are of {by.cos_sin.shape[-3]} positions, and there are {x.shape[-2]} tokens. Prepare one "
            "position per token."
        )
    if takes_triton(x, by.cos_sin) and _broadcasts(x, by):
        from posenc.kernels.triton_forms import rotary as triton_form

        return triton_form.rotate(x, by, back=back)
    if x.shape[-1] > by.width:
        return torch.cat([rotate(x[..., : by.width], by, back=back), x[..., by.width :]], -1)
    if torch.compiler.is_compiling() or maybe_current_level() is not None or is_legacy_batchedtensor(x):
        return _plain_formula(x, by, back)
    if _needs_parts(x, by):
        return _InParts.apply(x, by.cos_sin, by.pairing, back)
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    y, table = x.to(wide), by.cos_sin.to(wide)
    if by.pairing == "interleaved" and _complex_fits(y):
        z, cis = torch.view_as_complex(y.unflatten(-1, (-1, 2))), torch.view_as_complex(table)
        cis = cis.conj() if back else cis
        return torch.view_as_real(z * cis).flatten(-2).to(x.dtype)
    if by.pairing == "interleaved":
        return _plain_formula(x, by, back)
    cos, sin = table.unbind(-2)
    sin, (a, b) = -sin if back else sin, y.chunk(2, -1)
    turned = torch.cat([b * -sin, a * sin], -1)  # the order of `_half_parts`, which gives equal bits
    return turned.addcmul_(y, torch.cat([cos, cos], -1)).to(x.dtype)


def rotate_head(x: Tensor, by: Rotation, turned: int, of: int) -> Tensor:
    """Rotate ``x (B, H, N, of)`` as RoPE does that rotates ``turned`` channels of a head of width ``of``."""
    if x.shape[-1] != of:
        raise ValueError(f"RoPE(.., of={of}) rotates heads of that width, not of {x.shape[-1]}: change `of`.")
    if isinstance(by, Rotation) and by.width not in (turned, of):
        raise ValueError(f"these angles are of {by.width} channels, and RoPE rotates {turned}. Prepare them by it.")
    return rotate(x, by)


def rotate_in_place(x: Tensor, by: Rotation, *, back: bool = False) -> Tensor:
    """Rotate ``x`` as ``rotate`` does and write the result into the memory of ``x``, which is returned.

    Raises ValueError if a gradient is asked for, because a backward pass would read overwritten vectors, and if
    several elements of ``x`` share their memory.
    """
    if not isinstance(by, Rotation):
        raise ValueError(f"vectors are rotated in place by what RoPE.prepare(pos) returns; got {type(by).__name__}.")
    if torch.is_grad_enabled() and (x.requires_grad or by.cos_sin.requires_grad):
        raise ValueError(
            "rotate_in_place has no gradient, and these vectors or angles require one. Use rotate(x, by), or call it "
            "under torch.no_grad()."
        )
    if any(size > 1 and step == 0 for size, step in zip(x.shape, x.stride(), strict=True)):
        raise ValueError("rotate_in_place needs vectors with their own memory; these were expanded. Use x.clone().")
    if takes_triton(x, by.cos_sin) and _broadcasts(x, by) and x.shape[-1] >= by.width:
        from posenc.kernels.triton_forms import rotary as triton_form

        return triton_form.rotate_in_place(x, by, back=back)
    return x.copy_(rotate(x, by, back=back))


def _broadcasts(x: Tensor, by: Rotation) -> bool:
    """Return True if vectors ``(B, H, N, D)`` keep their shape when the rotations are applied."""
    of_turns, of_x = by.cos_sin.shape[-3::-1], x.shape[-2::-1]
    fits = len(of_turns) <= 3 and all(own in (1, whole) for own, whole in zip(of_turns, of_x, strict=False))
    return x.dim() == 4 and fits


def _plain_formula(x: Tensor, by: Rotation, back: bool) -> Tensor:
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    cos, sin = by.cos_sin.to(wide).unbind(by.axis)
    sin, y = -sin if back else sin, x.to(wide)
    if by.pairing == "interleaved":
        a, b = y.reshape(*y.shape[:-1], y.shape[-1] // 2, 2).unbind(-1)
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape).to(x.dtype)
    a, b = y.chunk(2, -1)  # narrowed before they are joined, because inductor would copy wide halves element by element
    return torch.cat([(a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype)], -1)


def _needs_parts(x: Tensor, by: Rotation) -> bool:
    """Return True if the rotation should be computed part by part.

    This holds for a large tensor on a CPU that needs more than one complex product, whose rotations broadcast to it,
    and if only ``x`` needs a gradient.
    """
    if x.device.type != "cpu" or x.numel() < SEVERAL or forward_ad._current_level >= 0 or not _broadcasts(x, by):
        return False
    if torch.is_grad_enabled() and by.cos_sin.requires_grad:
        return False
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    return by.pairing != "interleaved" or x.dtype != wide or not _complex_fits(x)


class _InParts(torch.autograd.Function):
    """Rotation part by part, so that the result of each pass is still in the cache for the next one.

    The rotation is linear in x. Its gradient is the backward rotation, which is differentiable in the same way.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos_sin: Tensor, pairing: Pairing, back: bool) -> Tensor:
        ctx.save_for_backward(cos_sin)
        ctx.pairing, ctx.back = pairing, back
        table, out = cos_sin.to(torch.promote_types(x.dtype, cos_sin.dtype)), torch.empty_like(x)
        (_complex_parts if pairing == "interleaved" else _half_parts)(x, table, out, back)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (cos_sin,) = ctx.saved_tensors
        return rotate(grad_outputs[0], Rotation(cos_sin, ctx.pairing), back=not ctx.back), None, None, None


def _complex_parts(x: Tensor, table: Tensor, out: Tensor, back: bool) -> None:
    cis, y = torch.view_as_complex(table.contiguous()), table.new_empty(0)
    cis = cis.conj_physical() if back else cis
    for given, to, by in _parts(x, out, cis[(None,) * (4 - cis.dim())]):
        y = y if y.shape == given.shape else table.new_empty(given.shape)
        y.copy_(given)
        torch.view_as_complex(y.unflatten(-1, (-1, 2))).mul_(by)
        to.copy_(y)


def _half_parts(x: Tensor, table: Tensor, out: Tensor, back: bool) -> None:
    cos, sin = table[(None,) * (5 - table.dim())].unbind(-2)
    cos, of_a, of_b = torch.cat([cos, cos], -1), *((-sin, sin) if back else (sin, -sin))
    narrow, y, t = x.dtype != table.dtype, table.new_empty(0), table.new_empty(0)
    for given, to, c, s, minus in _parts(x, out, cos, of_a, of_b):
        if narrow and y.shape != given.shape:
            y, t = table.new_empty(2, *given.shape).unbind()
        y, t = (y.copy_(given), t) if narrow else (given, to)
        (a, b), (by_b, by_a) = y.chunk(2, -1), t.chunk(2, -1)
        torch.mul(b, minus, out=by_b)  # rows of halves are short and slow, so only two operations use them
        torch.mul(a, s, out=by_a)
        t.addcmul_(y, c)
        if narrow:
            to.copy_(t)


def _parts(x: Tensor, *more: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Divide tensors ``(B, H, N, ..)`` in the same way, into parts of about ``PART`` elements of the first.

    The other tensors may have size 1 on any axis, for broadcasting.
    """
    _, heads, tokens, width = x.shape
    run = min(tokens, max(1, PART // width))
    some = min(heads, max(1, PART // (width * run)))
    for of_run in _cut(2, run, x, *more):
        for of_samples in _cut(0, max(1, PART // (width * run * some)), *of_run):
            yield from _cut(1, some, *of_samples)


def _cut(dim: int, step: int, x: Tensor, *more: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(x.split(step, dim), *(t.split(step, dim) if t.shape[dim] > 1 else repeat(t) for t in more), strict=False)


def _complex_fits(x: Tensor) -> bool:
    """Return True if the memory of ``x`` can be viewed as complex numbers."""
    even = all(step % 2 == 0 for step in x.stride()[:-1]) and x.storage_offset() % 2 == 0
    return even and x.stride(-1) == 1


def channels(pairing: Pairing, turning: int, of: int = 0) -> Tensor:
    """Return the pairs of channels ``(turning / 2, 2)`` in a head of width ``of``, by default ``turning``."""
    first = torch.arange(turning // 2)
    if pairing == "interleaved":
        return torch.stack([2 * first, 2 * first + 1], -1)
    return torch.stack([first, first + (max(of, turning) if pairing == "across" else turning) // 2], -1)


def convert_pairing(
    weight: Tensor, was: Pairing, becomes: Pairing, head_dim: int, *, turning: int | None = None
) -> Tensor:
    """Permute the rows of a query or key projection, or its bias, from one pairing to another.

    Logits are unchanged if both projections are converted.

    Args:
        weight: ``(heads * head_dim, ..)``.
        was: pairing that the weight was trained with.
        becomes: pairing to convert to.
        head_dim: width of a head.
        turning: number of rotated channels of a head; by default all.

    Returns:
        The permuted weight, of the same shape.

    Raises:
        ValueError: rows that are not a whole number of heads, or an unknown pairing.
    """
    turning = head_dim if turning is None else turning
    if head_dim < 1 or weight.shape[0] % head_dim:
        raise ValueError(
            f"a projection has head_dim rows for each head; {weight.shape[0]} rows are not a multiple of {head_dim}. "
            "Pass the head's width, and the weight as (out, in)."
        )
    if turning % 2 or not 0 <= turning <= head_dim or (head_dim % 2 and "across" in (was, becomes)):
        raise ValueError(f"an even number of at most {head_dim} channels is rotated; got turning={turning}.")
    order = []
    for pairing in (was, becomes):
        if pairing not in PAIRINGS:
            raise ValueError(f"channels are paired {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        pairs = channels(pairing, turning, head_dim).flatten()
        still = torch.ones(head_dim, dtype=torch.bool)
        still[pairs] = False
        order.append(torch.cat([pairs, still.nonzero().flatten()]))
    source = torch.empty(head_dim, dtype=torch.long)
    source[order[1]] = order[0]
    return weight.unflatten(0, (-1, head_dim))[:, source.to(weight.device)].flatten(0, 1)
