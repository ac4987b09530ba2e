"""Models of transformers that turn queries and keys by cosines and sines of one ``rotary_emb``: Llama and others.

Two things differ among them, and both are measured, not read off a name: which channels turn together (the model's own
``apply_rotary_pos_emb`` is tried), and whether the cosines come as ``(c_0 c_1 .. c_0 c_1 ..)`` or ``(c_0 c_0 c_1 c_1
..)`` (its ``rotary_emb`` is asked). Llama has halves and the first, GLM interleaved pairs and the first, Cohere
interleaved pairs and the second.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from posenc.adapt.configuration import configured
from posenc.adapt.door import refuse_sites
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes.rope import RoPE

Model = TypeVar("Model", bound=nn.Module)
Layout = Literal["half", "interleaved"]
STRANGE = (TypeError, AttributeError, KeyError, IndexError, RuntimeError, ValueError)
"""What the functions of a model of another kind may raise when they are tried."""
NEAR = (0, 1, 5)
"""Positions that a model is asked about."""
ROUNDED = 8
"""Roundings, of an angle of 1 rad, that lie between two ways to compute it."""


class Kind(NamedTuple):
    """turning: how many channels turn. pairs: which of them together. numbers: in which order cosines come."""

    turning: int
    pairs: Layout
    numbers: Layout


class Rotary(nn.Module):
    """Cosines and sines ``(B, N, d)`` as transformers' models take them, from a scheme that turns q and k alike.

    Positions are counted in float64, where theirs lose a thousandth of a turn after a hundred thousand tokens.
    """

    def __init__(self, scheme: Scheme, kind: Kind) -> None:
        super().__init__()
        self.scheme, self.kind, self.turning = scheme, kind, kind.turning
        _refuse_other_turns(self)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        where, d = self.scheme.prepare(sequence(position_ids)), self.turning
        # what becomes of a head that is 1 in the first of each two channels that turn together, and 0 elsewhere
        ones = torch.ones(d // 2, device=position_ids.device)
        probe = nn.functional.pad(_joined(ones, torch.zeros_like(ones), self.kind.pairs), (0, self._width - d))
        turned = self.scheme.transform(probe.expand(len(position_ids), 1, position_ids.shape[-1], -1), where, "q")
        cos, sin = _pairs(turned[:, 0, :, :d].to(x.dtype), self.kind.pairs)
        return _joined(cos, cos, self.kind.numbers), _joined(sin, sin, self.kind.numbers)

    @property
    def _width(self) -> int:
        return self.scheme.head_width or self.turning


def llama(model: Model, scheme: Scheme | None = None, *, length: int | None = None) -> Model:
    """A transformers model whose blocks take cosines and sines from ``rotary_emb`` (Llama and its like) gets a scheme.

    scheme: one that turns the channels that turn together there, of q and k alike, as ``RoPE(d, pairing="half")`` for
    Llama and ``RoPE(d)`` for Cohere; by default that of the model's own configuration, ``configured(model.config,
    length=length)``, which leaves its logits as they are.

    Raises ValueError for a model that is not of Llama's kind, for one with more rotations than one, and, without a
    scheme, for one that turns by other angles than its configuration describes.
    """
    places = [module for module in model.modules() if isinstance(getattr(module, "rotary_emb", None), nn.Module)]
    if not places:
        raise ValueError(
            f"{type(model).__name__} has no part called `rotary_emb`, so this is no model of Llama's kind."
        )
    config = getattr(model, "config", None)
    rope = configured(config, length=length) if scheme is None else scheme  # what it does not know, it says first
    kinds = [_kind(module) for module in places]
    _refuse_other_rotations(model, places)
    if scheme is None:
        rope = configured(config, length=length, pairing=kinds[0].pairs)
        for module, kind in zip(places, kinds, strict=True):
            _refuse_other_angles(module, kind, rope, length or NEAR[-1] + 1)
    rope = rope.to(next(model.parameters()).device)
    made = [Rotary(rope, kind) for kind in kinds]
    for module, rotary in zip(places, made, strict=True):
        module.rotary_emb = rotary.train(module.training)
    return model


def _refuse_other_rotations(model: nn.Module, places: list[Any]) -> None:
    found = [module.rotary_emb for module in places]
    kinds = {type(rotary) for rotary in found}
    more = [name for name, part in model.named_modules() if type(part) in kinds and not any(part is f for f in found)]
    if more:
        raise ValueError(
            f"{type(model).__name__} turns by {more[0]} too, beside its `rotary_emb`, and would go on to turn by it. "
            "Models with one rotation for all layers are adapted here."
        )


def _kind(module: Any) -> Kind:
    try:
        cos, sin = _told(module, NEAR)
        d = cos.shape[-1]
        halves = torch.equal(*cos.chunk(2, -1)) and torch.equal(*sin.chunk(2, -1))
        twos = torch.equal(cos[..., 0::2], cos[..., 1::2]) and torch.equal(sin[..., 0::2], sin[..., 1::2])
    except STRANGE as error:
        raise ValueError(
            f"the `rotary_emb` of {type(module).__name__} makes no cosines and sines of tokens and position ids alone "
            f"({error}), so it is not of Llama's kind."
        ) from error
    if not halves and not twos:
        raise ValueError(
            f"the `rotary_emb` of {type(module).__name__} gives the two channels of a pair different numbers, so it is "
            "not of Llama's kind."
        )
    numbers: Layout = "half" if halves else "interleaved"
    return Kind(d, _pairs_of(module, d, numbers), numbers)


def _told(module: Any, *texts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Its cosines and sines of the last text's positions. A copy is asked, as some remember how long a text was."""
    rotary, device = copy.deepcopy(module.rotary_emb), next(module.parameters()).device
    with torch.no_grad():
        said = [rotary(torch.zeros(1, len(ids), 1, device=device), torch.tensor([ids], device=device)) for ids in texts]
    cos, sin = said[-1]
    return cos.cpu(), sin.cpu()


def _refuse_other_angles(module: Any, kind: Kind, rope: RoPE, length: int) -> None:
    """Compares a model's own cosines and sines, of a text of that length, with those of its configuration."""
    if isinstance(module.rotary_emb, Rotary):  # a second scheme in its place may well be another
        return
    ids = [*(place for place in NEAR if place < length), length - 1]
    theirs = torch.stack(_told(module, NEAR, ids))  # after a short text nothing is left of a longer one
    if kind.turning == rope.head_dim:
        at = torch.tensor([ids])
        ours = torch.stack(Rotary(rope, kind)(torch.zeros(1), at))
        kept = [torch.float32, *(t.dtype for t in (theirs, *module.rotary_emb.buffers()) if t.is_floating_point())]
        allowed = ROUNDED * max(torch.finfo(dtype).eps for dtype in kept) * (1 + at[..., None])
        if bool(((ours - theirs).abs() <= allowed).all()):
            return
    raise ValueError(
        f"the `rotary_emb` of {type(module).__name__} turns {kind.turning} channels by other angles than its "
        "configuration describes, so something there is not known here. Build the scheme that turns as the model does "
        f'and pass it: llama(model, RoPE({kind.turning}, .., pairing="{kind.pairs}")).'
    )


def _pairs_of(module: Any, d: int, numbers: Layout) -> Layout:
    """The channels that the model turns together, by trying its ``apply_rotary_pos_emb``; Llama's where it has none."""
    homes = (vars(sys.modules.get(kind.__module__, object)) for kind in type(module).__mro__)
    tried = next((home["apply_rotary_pos_emb"] for home in homes if "apply_rotary_pos_emb" in home), None)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 3, d, generator=generator)
    angle = torch.rand(1, 3, d // 2, generator=generator)
    cos, sin = (_joined(t, t, numbers) for t in (angle.cos(), angle.sin()))
    layouts: tuple[Layout, ...] = ("half", "interleaved")
    try:
        found = None if tried is None else tried(q, k, cos, sin)
        logits = None if found is None else found[0] @ found[1].mT  # it may return channels in another order
    except STRANGE:
        logits = None
    for pairs in layouts:
        own = _turned(q, angle[:, None], pairs) @ _turned(k, angle[:, None], pairs).mT
        if logits is not None and logits.shape == own.shape and torch.allclose(logits, own, atol=1e-4):
            return pairs
    return "half"


def _turned(x: Tensor, angle: Tensor, pairs: Layout) -> Tensor:
    a, b = _pairs(x, pairs)
    return _joined(a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), pairs)


def _pairs(x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """The first and second channels of each pair."""
    if layout == "half":
        a, b = x.chunk(2, -1)
        return a, b
    return x[..., 0::2], x[..., 1::2]


def _joined(a: Tensor, b: Tensor, layout: Layout) -> Tensor:
    return torch.cat([a, b], -1) if layout == "half" else torch.stack([a, b], -1).flatten(-2)


def _refuse_other_turns(rotary: Rotary) -> None:
    """Compares the scheme's map with the one that such a model makes of its cosines and sines."""
    scheme, (d, pairs, numbers) = rotary.scheme, rotary.kind
    refuse_sites(scheme, {"q", "k"}, "a model of Llama's kind turns q and k")
    width = scheme.head_width or d
    generator = torch.Generator().manual_seed(0)
    x, ids = torch.randn(1, 4, 3, max(width, d), generator=generator), torch.tensor([[0, 1, 7]])
    device = next((t.device for t in (*scheme.parameters(), *scheme.buffers())), torch.device("cpu"))
    x, ids = x.to(device), ids.to(device)
    same = [False]
    if width >= d:
        with torch.no_grad():
            where, told = scheme.prepare(sequence(ids)), rotary(x, ids)
            (cos, _), (sin, _) = (_pairs(t[:, None], numbers) for t in told)
            a, b = _pairs(x[..., :d], pairs)
            turned = torch.cat([_joined(a * cos - b * sin, b * cos + a * sin, pairs), x[..., d:]], -1)
            same = [torch.allclose(scheme.transform(x, where, site), turned, atol=1e-5) for site in ("q", "k")]
    if not all(same):
        together = f"i and i + {d // 2}" if pairs == "half" else "2i and 2i + 1"
        raise ValueError(
            f"this model turns channels {together} of {d} by one angle for q and k and all heads, and this "
            f"{type(scheme).__name__} maps them otherwise. For RoPE write RoPE({d}, of={max(width, d)}, "
            f'pairing="{pairs}").'
        )
