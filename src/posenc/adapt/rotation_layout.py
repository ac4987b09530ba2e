"""Cosines and sines of a scheme for the patches of an image, as vision models that rotate on a grid use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.adapt.compatibility import device_of
from posenc.kernels.rotary import Pairing, channels
from posenc.positions import Positions
from posenc.scheme import Scheme

NEAR = 1e-4
"""Allowed difference between cosines and sines of a model, in float32, and those of a scheme."""
SPAN_BYTES = 24
"""Length of the text of a span in a state."""
SHAPES = ((3, 5), (4, 4))
"""Grids of patches on which a model's rotation is measured."""


class RotationLayout(NamedTuple):
    """Layout of a rotary embedding in the heads of a model.

    Attributes:
        head_dim: Width d of a head.
        heads: Number H of heads.
        pairing: Pairs of channels that rotate together, as in ``AxialRoPE``.
    """

    head_dim: int
    heads: int
    pairing: Pairing

    def cos_sin(self, scheme: Scheme, pos: Positions) -> tuple[Tensor, Tensor]:
        """Cosines and sines of a scheme for each channel.

        Args:
            scheme: A scheme that rotates pairs of channels of queries and keys.
            pos: Positions of N patches.

        Returns:
            Cosines and sines ``(N, d)``, or ``(H, N, d)`` if they differ by head.
        """
        first, second = self._pairs(pos.coords.device)
        heads = self.heads if scheme.claims.per_head else 1
        # a head with 1 in the first channel of each pair and 0 in the second becomes (cos, sin)
        probe = torch.zeros(self.head_dim, device=pos.coords.device)
        probe[first] = 1
        turned = scheme.transform(probe.expand(1, heads, pos.count, -1), scheme.prepare(pos), "q")[0]
        turned = turned[0] if heads == 1 else turned
        place = torch.cat([first, second]).argsort()
        cos, sin = turned[..., first], turned[..., second]
        return torch.cat([cos, cos], -1)[..., place], torch.cat([sin, sin], -1)[..., place]

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Heads whose last tokens are rotated by cosines and sines of each channel."""
        first, rest = x.split([x.shape[-2] - cos.shape[-2], cos.shape[-2]], -2)
        a, b = self._pairs(x.device)
        crossed = torch.cat([-rest[..., b], rest[..., a]], -1)[..., torch.cat([a, b]).argsort()]
        return torch.cat([first, rest * cos + crossed * sin], -2)

    def _pairs(self, device: torch.device) -> tuple[Tensor, Tensor]:
        first, second = channels(self.pairing, self.head_dim).to(device).unbind(-1)
        return first, second


def keep_span(module: nn.Module, span: float | None) -> None:
    """Make positions that differ from the model's own a part of the state, so that other ones do not load it.

    Args:
        module: The module that rotates.
        span: Half the extent of the positions, or None for rows and columns.
    """
    module.register_buffer("span_text", _text_of(span))
    module.register_load_state_dict_post_hook(partial(_refuse_other_span, span))


def _text_of(span: float | None) -> Tensor:
    """A span as the bytes of a text, which no cast of a model to another dtype changes."""
    return torch.tensor([*f"{None if span is None else float(span)}".encode().ljust(SPAN_BYTES)], dtype=torch.uint8)


def _refuse_other_span(span: float | None, module: nn.Module, _: object) -> None:
    kept = module.get_buffer("span_text")
    wanted = _text_of(span).to(kept.device)
    if not torch.equal(kept, wanted):
        loaded = bytes(kept.tolist()).decode().strip()
        kept.copy_(wanted)
        raise ValueError(
            f"these weights were saved with span={loaded}, and this model rotates with span={span}. Call "
            f"replace_grid_rotation(model, scheme, span={loaded}) before load_state_dict."
        )


def refuse_other_rotation(
    scheme: Scheme, layout: RotationLayout, positions: Callable[[tuple[int, int]], Positions]
) -> None:
    """Refuse a scheme whose map of queries or keys is not the rotation that a model makes of cosines and sines.

    Args:
        scheme: The scheme to put into a model.
        layout: How the model rotates.
        positions: Positions of the patches of a grid, on the CPU.

    Raises:
        ValueError: If the scheme maps queries or keys otherwise, or has another width or number of heads.
    """
    name, width = type(scheme).__name__, layout.head_dim
    own = device_of(scheme)
    same = scheme.head_width in (None, width) and scheme.head_count in (None, 1, layout.heads)
    if same:
        pos = positions(SHAPES[0]).to(own)
        x = torch.randn(1, layout.heads, pos.count, width, generator=torch.Generator().manual_seed(0)).to(own)
        with torch.no_grad():
            where = scheme.prepare(pos)
            turned = layout.rotate(x, *layout.cos_sin(scheme, pos))
            maps = [scheme.transform(x, where, "q"), scheme.transform(x, where, "k")]
        same = all(y.shape == turned.shape and torch.allclose(y, turned, atol=NEAR) for y in maps)
    if not same:
        pair = f"i and i + {width // 2}" if layout.pairing == "half" else "2 i and 2 i + 1"
        raise ValueError(
            f"this model rotates channels {pair} of {width} in each head, and this {name} maps them otherwise. Write "
            f'AxialRoPE({width}, pairing="{layout.pairing}") or MixedRoPE({width}, {layout.heads}, '
            f'pairing="{layout.pairing}").'
        )
