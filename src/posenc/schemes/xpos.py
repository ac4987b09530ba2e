"""xPos: extrapolatable RoPE; the logit of each rotated channel pair also decays with distance, fastest for fast pairs.

    q_m -> zeta_i^{(m - c) / B} R_m q_m,    k_n -> zeta_i^{-(n - c) / B} R_n k_n
    zeta_i = (i / (d/2) + gamma) / (1 + gamma),  i = 0 .. d/2 - 1;    s_mn = sum_i zeta_i^{(m - n) / B} Re(..)

Source: Sun et al. 2022, arXiv 2212.10554, section 3.2 and algorithm 1; gamma 0.4, B 512 (``scale_base`` of github
microsoft/torchscale).

Conventions:
- The center c cancels in the logits. The released code places it at the middle of the current text, so cached keys
  become wrong as the text grows. Here it is fixed: the middle of the range.
- Queries grow by at most ``zeta_0^-(|m - c| / B)`` and would overflow far from c, so the range of positions is closed.
  At its ends the growth is at most 150, which float16 still holds.
- The scheme is made for causal attention: a key after its query is amplified.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels import rotary
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, prepare_rotation, rotate
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

GROWTH = 3.5**4
"""Largest growth of queries and keys, at the ends of the range: with the paper's gamma, four B from the center."""


class Sides(NamedTuple):
    """Scaled rotations of queries and of keys, whose scales are inverse to one another."""

    q: Rotation
    k: Rotation


class XPos(Scheme):
    """Rotary embedding with exponential decay (xPos), for positions from 0 to ``extent``.

        s_mn = sum_i zeta_i^{(m - n) / B} Re(q_i conj(k_i) e^{i (m - n) theta_i})

    Args:
        head_dim: Width d of a head in channels, even.
        extent: Last position; with the paper's gamma at most ``8 * scale_base``.
        scale_base: Decay length B in units of position.
        gamma: Offset of the decay rates; a smaller gamma decays faster.
        base: Base of the geometric schedule of frequencies, in radians per unit of position.
        pairing: Channels that rotate together: "interleaved", (2i, 2i+1); "half" or "across", (i, i + d/2).

    Raises:
        ValueError: If ``head_dim`` is odd, a number is not positive, ``extent`` is too large for ``scale_base``, or
            ``pairing`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import XPos, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=XPos(12, extent=60), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Sun, Dong, Patra, Ma, Huang, Benhaim, Chaudhary, Song and Wei, 2022, "A Length-Extrapolatable Transformer",
        arXiv 2212.10554, section 3.2 and algorithm 1.
    """

    cite = """@article{sun2022xpos,
  title={A Length-Extrapolatable Transformer},
  author={Sun, Yutao and Dong, Li and Patra, Barun and Ma, Shuming and Huang, Shaohan and Benhaim, Alon and
          Chaudhary, Vishrav and Song, Xia and Wei, Furu},
  journal={arXiv:2212.10554}, year={2022}}"""
    examples = (
        {"head_dim": 12, "extent": 60},
        {"head_dim": 12, "extent": 60, "scale_base": 64.0},
        {"head_dim": 12, "extent": 60, "gamma": 0.8},
        {"head_dim": 12, "extent": 60, "base": 100.0},
        {"head_dim": 12, "extent": 60, "pairing": "half"},
    )
    conventions = ("pairing",)

    def __init__(
        self,
        head_dim: int,
        extent: float,
        *,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        base: float = 10000.0,
        pairing: Pairing = "interleaved",
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(
                f"XPos rotates pairs of channels, so `head_dim` must be even; got {head_dim}. "
                f"Use {max(head_dim + 1, 2)}."
            )
        if not all(0 < number < math.inf for number in (extent, scale_base, gamma)):
            raise ValueError(
                f"XPos needs extent, scale_base and gamma above 0; got {extent:g}, {scale_base:g} and {gamma:g}. The "
                "paper's are a scale_base of 512 and a gamma of 0.4."
            )
        needed = extent / 2 * math.log1p(1 / gamma) / math.log(GROWTH)  # (1 / zeta_0)^(extent / 2B) = GROWTH
        if scale_base < needed * (1 - 1e-9):
            raise ValueError(
                f"over {extent:g} positions a scale_base of {scale_base:g} with gamma={gamma:g} lets queries grow past "
                f"what float16 holds. Use scale_base={math.ceil(needed * 100) / 100:g} or more."
            )
        if pairing not in PAIRINGS:
            raise ValueError(f"XPos pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim, self.center, self.scale_base, self.gamma = head_dim, extent / 2, scale_base, gamma
        self.pairing: Pairing = pairing
        self.theta = tuple(geometric(head_dim // 2, base=base, device=torch.device("cpu")).tolist())
        self.claims = Claims(
            translation="exact",
            isometric=False,
            learned=False,
            range=(0, extent),
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def prepare(self, pos: Positions) -> Sides:
        self._take(pos)
        p, half = rotary.with_head_axis(pos.precise(), pos), self.head_dim // 2
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        by = prepare_rotation(p * theta, pos, self.pairing)
        zeta = (torch.arange(half, dtype=p.dtype, device=p.device) / half + self.gamma) / (1 + self.gamma)
        exponent = (p - self.center) / self.scale_base
        exponent = exponent if pos.placed is None else exponent * rotary.placed_mask(pos.placed)
        growth, kind = zeta**exponent, by.cos_sin.dtype
        return Sides(by.scaled(growth.to(kind)), by.scaled((1 / growth).to(kind)))

    @override
    def transform(self, x: Tensor, where: Sides, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotate(require_width(x, self.head_dim, "XPos"), where.q if site == "q" else where.k)

    @override
    def rerotate(self, x: Tensor, where_from: Sides, where_to: Sides, site: Literal["k", "v"] = "k") -> Tensor:
        """Multiply a cached key by ``zeta^{-(n' - n) / B} R_{n' - n}``."""
        return rotate(x, where_to.k.after(where_from.k)) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, half = list(x), self.head_dim // 2
        for i, (a, b) in enumerate(rotary.channels(self.pairing, self.head_dim).tolist()):
            zeta = (i / half + self.gamma) / (1 + self.gamma)
            size = zeta ** ((1 if site == "q" else -1) * (p[0] - self.center) / self.scale_base)
            cos, sin = torch.cos(p[0] * self.theta[i]), torch.sin(p[0] * self.theta[i])
            y[a], y[b] = size * (x[a] * cos - x[b] * sin), size * (x[b] * cos + x[a] * sin)
        return torch.stack(y) if site in ("q", "k") else x
