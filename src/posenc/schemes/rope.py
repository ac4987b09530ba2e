"""RoPE: queries and keys are turned by their position, pair of channels by pair of channels.

    (x_a, x_b) -> (x_a cos m theta_i - x_b sin m theta_i,  x_b cos m theta_i + x_a sin m theta_i)
    theta_i = base^(-2i/d),  i = 0 .. d/2 - 1;   (R_m q) . (R_n k) = q . R_{n-m} k

Source: Su et al. 2021, arXiv 2104.09864, eqs. 14, 15, 34. Conventions: turns are counter-clockwise, positions from 0.
``pairing``: "interleaved" takes channels (2i, 2i+1), the paper's; "half" takes (i, i + d/2), as GPT-NeoX and Llama in
transformers. The two are the same up to a permutation of channels, and the pairing travels with the angles.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc import frequencies as schedules
from posenc.positions import Positions, readable
from posenc.scheme import Claims, Scheme

Pairing = Literal["interleaved", "half"]


@dataclasses.dataclass(frozen=True, eq=False)
class Turn:
    """Prepared turns: ``cos_sin`` of shape ``(N, R, 2)`` or ``(B, 1, N, R, 2)`` for R pairs, and their pairing."""

    cos_sin: Tensor
    pairing: Pairing


def _turn(leaves: Any, pairing: Any) -> Turn:
    return Turn(leaves[0], pairing)


pytree.register_pytree_node(Turn, lambda t: ([t.cos_sin], t.pairing), _turn)


class RoPE(Scheme):
    """``q_m -> R_m q_m``, ``k_n -> R_n k_n``: logits depend on positions through ``n - m`` alone.

    head_dim: channels that turn, even. of: the head's width if only its first ``head_dim`` channels turn.
    frequencies: ``theta`` in radians a unit of position, ``(head_dim / 2,)``; ``geometric(head_dim / 2)`` otherwise.
    pairing: which channels turn together.
    """

    cite = """@article{su2021roformer,
  title={RoFormer: Enhanced Transformer with Rotary Position Embedding},
  author={Su, Jianlin and Lu, Yu and Pan, Shengfeng and Murtadha, Ahmed and Wen, Bo and Liu, Yunfeng},
  journal={arXiv:2104.09864}, year={2021}}"""
    examples = (
        {"head_dim": 12},
        {"head_dim": 12, "pairing": "half"},
        {"head_dim": 8, "of": 12},
        {"head_dim": 8, "frequencies": schedules.geometric(4, base=100.0)},
    )

    def __init__(
        self,
        head_dim: int,
        *,
        of: int | None = None,
        frequencies: Tensor | None = None,
        pairing: Pairing = "interleaved",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            part = f", or rotate a part: RoPE({head_dim - 1}, of={head_dim})" if head_dim > 2 else ""
            raise ValueError(
                f"RoPE rotates pairs of channels, so `head_dim` must be even; got {head_dim}. "
                f"Use {max(head_dim + 1, 2)}{part}."
            )
        if of is not None and of < head_dim:
            raise ValueError(f"RoPE turns {head_dim} channels of {of}; `of` is the larger: RoPE({of}, of={head_dim}).")
        if pairing not in ("interleaved", "half"):
            raise ValueError(f"RoPE pairs channels 'interleaved' (2i, 2i+1) or 'half' (i, i+d/2); got {pairing!r}.")
        if frequencies is not None and tuple(frequencies.shape) != (head_dim // 2,):
            raise ValueError(
                f"RoPE({head_dim}) turns {head_dim // 2} pairs and needs as many frequencies; "
                f"got shape {tuple(frequencies.shape)}. Pass a tensor of {head_dim // 2} numbers in rad a position."
            )
        if frequencies is not None and readable(frequencies) and not bool(frequencies.isfinite().all()):
            raise ValueError(
                f"RoPE's frequencies must be finite; got {frequencies.tolist()}. Use frequencies.geometric."
            )
        self.head_dim, self.of = head_dim, of or head_dim
        self.pairing: Pairing = pairing
        # numbers and not a buffer: .to(bfloat16) must not round them
        self.theta = None if frequencies is None else tuple(frequencies.detach().double().tolist())
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def head_width(self) -> int:
        return self.of

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        device = pos.coords.device
        if self.theta is None:
            theta = schedules.geometric(self.head_dim // 2, device=device)
        else:
            theta = torch.tensor(self.theta, dtype=torch.float64, device=device)
        angle = pos.precise() * theta
        if pos.placed is not None:
            angle = angle * pos.placed[..., None]
        cos_sin = torch.stack([angle.cos(), angle.sin()], -1).to(pos.table_dtype)
        return Turn(cos_sin.unsqueeze(-4) if pos.batched else cos_sin, self.pairing)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        if x.shape[-1] != self.of:
            raise ValueError(f"RoPE(.., of={self.of}) turns heads of that width, not {x.shape[-1]}: change `of`.")
        if self.of == self.head_dim:
            return turn(x, where)
        return torch.cat([turn(x[..., : self.head_dim], where), x[..., self.head_dim :]], -1)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        if site not in ("q", "k"):
            return x
        d, y = self.head_dim, list(x)
        for i in range(d // 2):
            theta_i = self.theta[i] if self.theta else 10000.0 ** (-2 * i / d)
            cos, sin = torch.cos(p[0] * theta_i), torch.sin(p[0] * theta_i)
            a, b = (2 * i, 2 * i + 1) if self.pairing == "interleaved" else (i, i + d // 2)
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y)


def turn(x: Tensor, by: Turn) -> Tensor:
    """``x`` with every pair of channels turned, computed in float32 or wider and returned in ``x``'s dtype."""
    cos, sin = by.cos_sin.unbind(-1)
    wide = torch.promote_types(x.dtype, cos.dtype)
    if by.pairing == "interleaved":
        a, b = x.to(wide).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)
    a, b = x.to(wide).chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
