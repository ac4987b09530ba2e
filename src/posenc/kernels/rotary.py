"""Turning pairs of channels: the product of a head's vector, read as complex numbers, with prepared complex numbers.

    (x_a + i x_b) (c + i s) = (x_a c - x_b s) + i (x_b c + x_a s)

Which two channels are a pair is a convention that travels with the angles: a ``Turn`` cannot meet the other one.

    interleaved  (2i, 2i + 1) of the d channels that turn: the papers'
    half         (i, i + d/2) of the d channels that turn: GPT-NeoX, Llama in transformers
    across       (i, i + D/2) of all D channels of the head, i < d/2: the other partial rotation that is in use
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch._C._functorch import maybe_current_level
from torch.utils import _pytree as pytree

from posenc.positions import Positions
from posenc.scheme import per_head

Pairing = Literal["interleaved", "half", "across"]
IN_CACHE = 2**15
"""Elements of one head from which bfloat16 is widened a head at a time."""
PAIRINGS: tuple[Pairing, ...] = get_args(Pairing)


@dataclasses.dataclass(frozen=True, eq=False)
class Turn:
    """Prepared complex numbers for R pairs: cosine and sine stand side by side as the pairing has its channels.

    ``cos_sin``: ``(N, R, 2)`` interleaved, else ``(N, 2, R)``; before it heads ``(h, ..)`` or batch and heads
    ``(B, h, ..)``.
    """

    cos_sin: Tensor
    pairing: Pairing

    @property
    def axis(self) -> int:
        """Where cosine and sine stand."""
        return -1 if self.pairing == "interleaved" else -2

    @property
    def width(self) -> int:
        """The channels that turn."""
        return self.cos_sin.shape[-1] * self.cos_sin.shape[-2]

    def head(self, h: int) -> Turn:
        """That of one head, which may serve all."""
        own = self.cos_sin.dim() > 3 and self.cos_sin.shape[-4] > 1
        return Turn(self.cos_sin.narrow(-4, h, 1), self.pairing) if own else self

    def scaled(self, size: Tensor) -> Turn:
        """Every number times a real one, of shape ``(.., N, R)``."""
        return Turn(self.cos_sin * size.unsqueeze(self.axis), self.pairing)

    def after(self, other: Turn) -> Turn:
        """What turns from ``other`` to here: ``self / other``."""
        c, s = self.cos_sin.unbind(self.axis)
        c0, s0 = other.cos_sin.unbind(self.axis)
        size = c0.square() + s0.square()
        parts = (c * c0 + s * s0) / size, (s * c0 - c * s0) / size
        return Turn(torch.stack(parts, self.axis), self.pairing)


def _turn(leaves: Any, pairing: Any) -> Turn:
    return Turn(leaves[0], pairing)


pytree.register_pytree_node(Turn, lambda t: ([t.cos_sin], t.pairing), _turn)


def turns(angle: Tensor, pos: Positions, pairing: Pairing, *, size: float = 1.0, of: int = 0) -> Turn:
    """``size e^(i angle)`` at every position, 1 at tokens without a place.

    angle: float64 ``(N, R)`` or ``(h, N, R)``; where ``pos.batched``, ``(B, 1, N, R)`` or ``(B, h, N, R)``. of: the
    head's width, which "across" needs: the pairs past R stand still.
    """
    if pairing == "across" and of > 2 * angle.shape[-1]:
        still = angle.new_zeros(*angle.shape[:-1], of // 2 - angle.shape[-1])
        scale = torch.cat([torch.full_like(angle, size), still + 1], -1) if size != 1 else None
        angle = torch.cat([angle, still], -1)
    else:
        scale = torch.full_like(angle, size) if size != 1 else None
    if pos.placed is not None:
        placed = marks(pos.placed)
        angle = angle * placed
        scale = None if scale is None else scale.where(placed, 1)
    by = Turn(torch.stack([angle.cos(), angle.sin()], -1 if pairing == "interleaved" else -2), pairing)
    by = by if scale is None else by.scaled(scale)
    return Turn(by.cos_sin.to(pos.table_dtype), pairing)


def marks(placed: Tensor) -> Tensor:
    """``placed`` shaped to meet angles: ``(N, 1)`` or ``(B, 1, N, 1)``."""
    return placed[..., None] if placed.dim() == 1 else placed[:, None, :, None]


def spread(coords: Tensor, pos: Positions) -> Tensor:
    """``(N, F)`` or ``(B, N, F)`` shaped to meet heads: as it is, or ``(B, 1, N, F)`` where samples differ."""
    return coords.unsqueeze(-3) if pos.batched else coords


def for_heads(by: Turn, x: Tensor, name: str) -> Turn:
    """A turn of each of h heads, ``(.., h, N, R, 2)``, as the heads of ``x`` need it (``posenc.scheme.per_head``)."""
    return Turn(per_head(by.cos_sin, x, name, dim=-4), by.pairing)


def turn(x: Tensor, by: Turn, *, back: bool = False) -> Tensor:
    """``x (B, H, N, D)`` with its first ``by.width`` channels turned (the other way if ``back``) and the rest as it is.

    Computed in float32 or wider and returned in ``x``'s dtype. Eagerly, interleaved pairs are multiplied as complex
    numbers and halves in place of a fresh product: both are much faster on a CPU than the formula, which compilers and
    torch.func get.
    """
    if x.shape[-1] < by.width:
        raise ValueError(
            f"these angles turn {by.width} channels; the vectors have {x.shape[-1]}. Build the scheme for that width."
        )
    if x.shape[-1] > by.width:
        return torch.cat([turn(x[..., : by.width], by, back=back), x[..., by.width :]], -1)
    if torch.compiler.is_compiling() or maybe_current_level() is not None:
        return _plainly(x, by, back)
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    narrow = x.dtype != wide
    if narrow and x.device.type == "cpu" and x.shape[1] > 1 and x[0, 0].numel() >= IN_CACHE:
        heads = [turn(x[:, h : h + 1], by.head(h), back=back) for h in range(x.shape[1])]
        return torch.cat(heads, 1)  # a head at a time: its wide copy stays in the cache
    y, table = x.to(wide), by.cos_sin.to(wide)
    if by.pairing == "interleaved" and _complex_fits(y):
        z, cis = torch.view_as_complex(y.unflatten(-1, (-1, 2))), torch.view_as_complex(table)
        cis = cis.conj() if back else cis
        return torch.view_as_real(z.mul_(cis) if narrow else z * cis).flatten(-2).to(x.dtype)
    if by.pairing == "interleaved":
        return _plainly(x, by, back)
    cos, sin = table.unbind(-2)
    sin, (a, b) = -sin if back else sin, y.chunk(2, -1)
    turned, half = y * torch.cat([cos, cos], -1), a.shape[-1]
    turned[..., :half].addcmul_(b, sin, value=-1)
    turned[..., half:].addcmul_(a, sin)
    return turned.to(x.dtype)


def _plainly(x: Tensor, by: Turn, back: bool) -> Tensor:
    wide = torch.promote_types(x.dtype, by.cos_sin.dtype)
    cos, sin = by.cos_sin.to(wide).unbind(by.axis)
    sin, y = -sin if back else sin, x.to(wide)
    if by.pairing == "interleaved":
        a, b = y.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)
    a, b = y.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def _complex_fits(x: Tensor) -> bool:
    """Whether pairs of channels can be read as complex numbers where they lie."""
    even = all(step % 2 == 0 for step in x.stride()[:-1]) and x.storage_offset() % 2 == 0
    return even and x.stride(-1) == 1


def channels(pairing: Pairing, turning: int, of: int = 0) -> Tensor:
    """The pairs of channels ``(turning / 2, 2)`` that turn together in a head of width ``of``, or of ``turning``."""
    first = torch.arange(turning // 2)
    if pairing == "interleaved":
        return torch.stack([2 * first, 2 * first + 1], -1)
    return torch.stack([first, first + (max(of, turning) if pairing == "across" else turning) // 2], -1)


def repaired(weight: Tensor, was: Pairing, becomes: Pairing, head_dim: int, *, turning: int | None = None) -> Tensor:
    """A projection to queries or keys, or its bias, whose heads turn pairs ``was``, for heads that turn ``becomes``.

    weight: ``(heads * head_dim, ..)``. turning: the channels that turn, all by default. Logits are the same after both
    projections are re-paired. Raises ValueError where the rows are no whole number of heads.
    """
    turning = head_dim if turning is None else turning
    if head_dim < 1 or weight.shape[0] % head_dim:
        raise ValueError(
            f"a projection has head_dim rows for each head; {weight.shape[0]} rows are no multiple of {head_dim}. Pass "
            "the head's width, and the weight as (out, in)."
        )
    if turning % 2 or not 0 <= turning <= head_dim or (head_dim % 2 and "across" in (was, becomes)):
        raise ValueError(f"an even number of at most {head_dim} channels turns; got turning={turning}.")
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
