"""Models of transformers that turn queries and keys by cosines and sines of one ``rotary_emb``: Llama and others."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from posenc.adapt.configuration import configured
from posenc.adapt.door import refuse_sites
from posenc.positions import sequence
from posenc.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)


class Rotary(nn.Module):
    """Cosines and sines ``(B, N, d)`` as transformers' models take them, from a scheme that turns q and k alike.

    Positions are counted in float64, where theirs lose a thousandth of a turn after a hundred thousand tokens.
    """

    def __init__(self, scheme: Scheme, turning: int) -> None:
        super().__init__()
        self.scheme, self.turning = scheme, turning
        _refuse_other_turns(self)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        where, d = self.scheme.prepare(sequence(position_ids)), self.turning
        # what becomes of a head that is 1 in the first of each two channels that turn together, and 0 elsewhere
        probe = (torch.arange(self.scheme.head_width or d, device=position_ids.device) < d // 2).to(torch.float32)
        turned = self.scheme.transform(probe.expand(len(position_ids), 1, position_ids.shape[-1], -1), where, "q")
        cos, sin = turned[:, 0, :, :d].to(x.dtype).chunk(2, -1)
        return torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)


def llama(model: Model, scheme: Scheme | None = None, *, length: int | None = None) -> Model:
    """A transformers model whose blocks take cosines and sines from ``rotary_emb`` (Llama and its like) gets a scheme.

    scheme: one that turns channels i and i + d/2 of q and k alike, as ``RoPE(d, pairing="half")``; by default that of
    the model's own configuration, ``configured(model.config, length=length)``, which leaves its logits as they are.
    """
    places = [module for module in model.modules() if isinstance(getattr(module, "rotary_emb", None), nn.Module)]
    if not places:
        raise ValueError(
            f"{type(model).__name__} has no part called `rotary_emb`, so this is no model of Llama's kind."
        )
    if scheme is None:
        scheme = configured(getattr(model, "config", None), length=length)
    made = [Rotary(scheme, _turning(module)) for module in places]
    for module, rotary in zip(places, made, strict=True):
        module.rotary_emb = rotary.train(module.training)
    return model


def _turning(module: Any) -> int:
    """The channels that a model turns, from what its rotary embedding returns."""
    first = next(module.parameters())
    try:
        cos, _ = module.rotary_emb(first.new_zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.long, device=first.device))
    except (TypeError, AttributeError, KeyError, IndexError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"the `rotary_emb` of {type(module).__name__} makes no cosines and sines of tokens and position ids alone "
            f"({error}), so it is not of Llama's kind."
        ) from error
    return cos.shape[-1]


def _refuse_other_turns(rotary: Rotary) -> None:
    """Compares the scheme's map with the one that such a model makes of its cosines and sines."""
    scheme, d = rotary.scheme, rotary.turning
    refuse_sites(scheme, {"q", "k"}, "a model of Llama's kind turns q and k")
    width = scheme.head_width or d
    generator = torch.Generator().manual_seed(0)
    x, ids = torch.randn(1, 4, 3, width, generator=generator), torch.tensor([[0, 1, 7]])
    device = next((t.device for t in (*scheme.parameters(), *scheme.buffers())), torch.device("cpu"))
    x, ids = x.to(device), ids.to(device)
    with torch.no_grad():
        where, (cos, sin) = scheme.prepare(sequence(ids)), rotary(x, ids)
        a, b = x[..., :d].chunk(2, -1)
        turned = torch.cat([x[..., :d] * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None], x[..., d:]], -1)
        same = [torch.allclose(scheme.transform(x, where, site), turned, atol=1e-5) for site in ("q", "k")]
    if not all(same):
        raise ValueError(
            f"a model of Llama's kind turns channels i and i + {d // 2} of {d} by one angle for q and k and all heads, "
            f"and this {type(scheme).__name__} maps them otherwise. For RoPE write RoPE({d}, of={width}, "
            'pairing="half").'
        )
