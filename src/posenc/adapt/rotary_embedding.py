"""A ``rotary_emb`` for transformers models that computes the cosines and sines of a scheme.

The conventions of a model are its ``Kind``: which channels rotate together, and the order of cosines and sines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.adapt.compatibility import device_of, refuse_sites
from posenc.positions import sequence
from posenc.scheme import Scheme

Layout = Literal["half", "interleaved"]
Order = Literal["half", "interleaved", "once"]
PROBED = (0, 1, 7, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 30)
"""Positions at which a scheme is compared with a rotation; a temperature begins far out."""


class Kind(NamedTuple):
    """The measured conventions of a model's rotation.

    Attributes:
        turning: Number of channels that rotate.
        pairs: Channels that rotate together.
        numbers: Order of the cosines and sines; "once" if each pair of channels has one, as in gpt-oss.
    """

    turning: int
    pairs: Layout
    numbers: Order

    @property
    def width(self) -> int:
        """Number of cosines for each token."""
        return self.turning // 2 if self.numbers == "once" else self.turning


class Rotary(nn.Module):
    """A ``rotary_emb`` for transformers models: cosines and sines of a scheme that rotates q and k alike.

    They have the shape ``(B, N, d)``, or ``(B, N, d / 2)`` in a model that has one for each pair of channels.

    It computes angles in float64. In float32 an angle is wrong by a thousandth of a turn after 100,000 tokens.

    Args:
        scheme: The scheme.
        kind: The conventions of the model.
    """

    def __init__(self, scheme: Scheme, kind: Kind) -> None:
        super().__init__()
        self.scheme, self.kind, self.turning = scheme, kind, kind.turning
        _refuse_other_turns(self)

    @override
    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        where, d = self.scheme.prepare(sequence(position_ids)), self.turning
        # a head with 1 in the first channel of each pair and 0 in the second becomes (cos, sin)
        ones = torch.ones(d // 2, device=position_ids.device)
        probe = nn.functional.pad(join_channels(ones, torch.zeros_like(ones), self.kind.pairs), (0, self._width - d))
        turned = self.scheme.transform(probe.expand(len(position_ids), 1, position_ids.shape[-1], -1), where, "q")
        cos, sin = pair_channels(turned[:, 0, :, :d].to(x.dtype), self.kind.pairs)
        return repeat_numbers(cos, self.kind.numbers), repeat_numbers(sin, self.kind.numbers)

    @property
    def _width(self) -> int:
        return self.scheme.head_width or self.turning


def own_rotation(scheme: nn.Module, kind: Kind) -> Rotary | None:
    """A ``rotary_emb`` of a scheme that does no more than the model's rotation; None for any other scheme."""
    if not isinstance(scheme, Scheme) or scheme.exact:
        return None
    try:
        return Rotary(scheme, kind)
    except ValueError:
        return None


def pair_channels(x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """The first and second channels of each pair."""
    if layout == "half":
        a, b = x.chunk(2, -1)
        return a, b
    return x[..., 0::2], x[..., 1::2]


def join_channels(a: Tensor, b: Tensor, layout: Layout) -> Tensor:
    """Heads of their first and second channels of each pair."""
    return torch.cat([a, b], -1) if layout == "half" else torch.stack([a, b], -1).flatten(-2)


def repeat_numbers(numbers: Tensor, order: Order) -> Tensor:
    """Cosines or sines of pairs as a model orders them."""
    return numbers if order == "once" else join_channels(numbers, numbers, order)


def _refuse_other_turns(rotary: Rotary) -> None:
    """Refuses a scheme whose map at q or k is not the rotation that the model computes from cosines and sines."""
    scheme, (d, pairs, numbers) = rotary.scheme, rotary.kind
    refuse_sites(scheme, {"q", "k"}, "a model of Llama's kind rotates q and k")
    width = scheme.head_width or d
    generator = torch.Generator().manual_seed(0)
    ends = scheme.claims.limits(1)[0]
    ids = torch.tensor([[each for each in PROBED if ends is None or each <= ends[1]]])
    x = torch.randn(1, 4, ids.shape[-1], max(width, d), generator=generator)
    device = device_of(scheme)
    x, ids = x.to(device), ids.to(device)
    same = [False]
    if width >= d:
        with torch.no_grad():
            where, cos_sin = scheme.prepare(sequence(ids)), rotary(x, ids)
            cos, sin = (t[:, None] if numbers == "once" else pair_channels(t[:, None], numbers)[0] for t in cos_sin)
            a, b = pair_channels(x[..., :d], pairs)
            turned = torch.cat([join_channels(a * cos - b * sin, b * cos + a * sin, pairs), x[..., d:]], -1)
            maps = (scheme.transform(x, where, site) for site in ("q", "k"))
            same = [y.shape == turned.shape and torch.allclose(y, turned, atol=1e-5) for y in maps]
    if not all(same):
        part = f"of={width}, " if width > d and not isinstance(scheme, Scheme) else ""
        together = f"i and i + {d // 2}" if pairs == "half" else "2i and 2i + 1"
        raise ValueError(
            f"this model rotates channels {together} of {d} by one angle for q and k and all heads, and this "
            f'{type(scheme).__name__} maps them otherwise. For RoPE write RoPE({d}, {part}pairing="{pairs}").'
        )


def own_application(module: nn.Module) -> Callable[..., Any] | None:
    """The function ``apply_rotary_pos_emb`` beside the class of a module, or beside a class that it extends.

    Args:
        module: A module of transformers.

    Returns:
        The function; None without one.
    """
    homes = (vars(sys.modules.get(kind.__module__, object)) for kind in type(module).__mro__)
    return next((home["apply_rotary_pos_emb"] for home in homes if "apply_rotary_pos_emb" in home), None)
