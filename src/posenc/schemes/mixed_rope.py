"""Mixed RoPE: every pair of channels turns by a learned direction through all axes, in every head its own.

    pair i of head h:  (x, y) -> rotation by theta^(h)_i . p,    theta^(h)_i in R^P learned

Source: Heo et al. 2024, arXiv 2403.13298, eq. 12 ("RoPE-Mixed"). Before training, as in the authors' code (github
naver-ai/rope-vit): each head has a random frame of P perpendicular directions (on two axes turned by one uniform
angle), and along each of them ``d / 2P`` pairs with ``|theta_i| = base^(-i / (d / 2P))``, base 10, those of the first
direction first. Frequencies are kept in float32 whatever the model is cast to. Heads are key heads where query heads
share them.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Turn, channels, for_heads, turn, turns
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class MixedRoPE(Scheme):
    """``q_p -> R(Theta^(h) p) q_p``, keys too: logits depend on ``p_k - p_q`` alone, in any direction.

    head_dim: a head's width, a multiple of 2 axes. heads: h. axes: P. base: of the first magnitudes. pairing: which
    channels turn together. generator: of the first frames.
    """

    cite = """@inproceedings{heo2024rotary,
  title={Rotary Position Embedding for Vision Transformer},
  author={Heo, Byeongho and Park, Song and Han, Dongyoon and Yun, Sangdoo},
  booktitle={ECCV}, year={2024}, note={arXiv:2403.13298}}"""
    examples = (
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "base": 100.0},
        {"head_dim": 12, "heads": 4, "axes": 1},
        {"head_dim": 12, "heads": 4, "axes": 3, "pairing": "half"},
        {"head_dim": 12, "heads": 1},
    )
    wide = frozenset({"directions"})
    conventions = ("pairing",)

    directions: nn.Parameter

    def __init__(
        self,
        head_dim: int,
        heads: int,
        axes: int = 2,
        *,
        base: float = 10.0,
        pairing: Pairing = "interleaved",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if axes < 1 or heads < 1 or head_dim < 1 or head_dim % (2 * axes):
            whole = 2 * max(axes, 1)
            raise ValueError(
                f"MixedRoPE needs axes >= 1, heads >= 1 and a head_dim that is a multiple of 2 * axes; got axes={axes}"
                f", heads={heads}, head_dim={head_dim}. Use head_dim={max(-(-head_dim // whole), 1) * whole}."
            )
        if pairing not in PAIRINGS:
            raise ValueError(f"MixedRoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim, self.base = head_dim, base
        self.pairing: Pairing = pairing
        self.directions = nn.Parameter(torch.empty(heads, axes, head_dim // 2))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw a frame for each head anew (also after building on the meta device)."""
        heads, axes, pairs = self.directions.shape
        with torch.no_grad():
            drawn = self.directions.new_empty(heads, axes, axes).normal_(generator=generator)
            frame, upper = torch.linalg.qr(drawn.double())
            frame = frame * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # uniform among orthogonal matrices
            frame[..., -1] *= torch.linalg.det(frame).sign()[:, None]  # and then among rotations
            size = geometric(pairs // axes, base=self.base, device=self.directions.device)
            self.directions.copy_((frame[..., None] * size).flatten(-2))

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        # a sum and no matrix product, which autocast would round: (.., 1, N, P, 1) by (h, 1, P, R)
        coords = pos.precise().unsqueeze(-3)[..., None]
        angle = (coords * self.directions.double()[:, None]).sum(-2)
        return turns(angle, pos, self.pairing)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return turn(of_width(x, self.head_dim, "MixedRoPE"), for_heads(where, x, "MixedRoPE"))

    def rerotate(self, x: Tensor, where_from: Turn, where_to: Turn, site: Literal["k", "v"] = "k") -> Tensor:
        """``R(Theta (p' - p)) (R(Theta p) k)``."""
        return turn(x, for_heads(where_to.after(where_from), x, "MixedRoPE")) if site == "k" else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        y = list(x)
        for i, (a, b) in enumerate(channels(self.pairing, self.head_dim).tolist()):
            angle = sum(p[axis] * self.directions[head.among(len(self.directions)), axis, i] for axis in range(len(p)))
            cos, sin = torch.cos(torch.as_tensor(angle)), torch.sin(torch.as_tensor(angle))
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x
