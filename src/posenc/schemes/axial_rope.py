"""Axial RoPE: each axis of the positions turns pairs of channels of its own.

    pair i of axis a:  (x, y) -> rotation by p_a theta_i^(a),    theta_i^(a) = base^(-i / n_a),  i = 0 .. n_a - 1

Source: Heo et al. 2024, arXiv 2403.13298, section 3.1 (two axes, base 100); the same in EVA-02, Pixtral and others.
Conventions that differ between libraries, all chosen here: the pairs of an axis stand together, axes in the order of
the positions (on a picture rows first, as timm and rotary-embedding-torch; rope-vit has columns first,
``order=(1, 0)``); the exponent counts the pairs of one axis; positions count patches (DINOv3 takes ``2 pi p`` with p in
[-1, 1], which is a user's own tensor of positions).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Turn, channels, spread, turn, turns
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class AxialRoPE(Scheme):
    """``q_p -> diag(R^(1)_{p_1}, .., R^(P)_{p_P}) q_p``, keys too: logits depend on ``p_k - p_q`` alone.

    head_dim: a head's width, even. axes: P. base: of every axis' schedule. bands: the pairs n_a of each axis, equal
    parts by default. order: which axis' pairs come first, second, ... pairing: which channels turn together.
    """

    cite = """@inproceedings{heo2024rotary,
  title={Rotary Position Embedding for Vision Transformer},
  author={Heo, Byeongho and Park, Song and Han, Dongyoon and Yun, Sangdoo},
  booktitle={ECCV}, year={2024}, note={arXiv:2403.13298}}"""
    examples = (
        {"head_dim": 12},
        {"head_dim": 12, "order": (1, 0)},
        {"head_dim": 12, "base": 10000.0},
        {"head_dim": 12, "axes": 3},
        {"head_dim": 12, "axes": 3, "bands": (1, 3, 2)},
        {"head_dim": 12, "pairing": "half"},
    )
    conventions = (
        "order",
        "pairing",
    )

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        base: float = 100.0,
        bands: tuple[int, ...] | None = None,
        order: tuple[int, ...] | None = None,
        pairing: Pairing = "interleaved",
    ) -> None:
        super().__init__()
        if axes < 1 or head_dim < 2 or head_dim % 2:
            whole = 2 * max(axes, 1)
            raise ValueError(
                f"AxialRoPE needs axes >= 1 and an even head_dim; got axes={axes}, head_dim={head_dim}. Use head_dim="
                f"{max(-(-head_dim // whole), 1) * whole}."
            )
        if bands is None and head_dim % (2 * axes):
            fewest = head_dim // 2 // axes
            own = (head_dim // 2 - (axes - 1) * fewest, *(fewest,) * (axes - 1))
            raise ValueError(
                f"{head_dim // 2} pairs of channels do not divide among {axes} axes. "
                + (f"Say how many each gets, as bands={own}, or use " if fewest else "Use ")
                + f"head_dim={2 * axes * (fewest + 1)}."
            )
        bands = (head_dim // 2 // axes,) * axes if bands is None else bands
        if len(bands) != axes or sum(bands) != head_dim // 2 or min(bands) < 1:
            raise ValueError(f"`bands` share {head_dim // 2} pairs among {axes} axes, each at least 1; got {bands}.")
        order = tuple(range(axes)) if order is None else order
        if sorted(order) != list(range(axes)):
            raise ValueError(f"`order` names each of {axes} axes once, as {tuple(range(axes))}; got {order}.")
        if pairing not in PAIRINGS:
            raise ValueError(f"AxialRoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim, self.bands, self.order = head_dim, bands, order
        self.pairing: Pairing = pairing
        cpu = torch.device("cpu")
        self.theta = tuple(tuple(geometric(count, base=base, device=cpu).tolist()) for count in bands)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        coords, device = spread(pos.precise(), pos), pos.coords.device
        angles = [coords[..., a : a + 1] * torch.tensor(self.theta[a], dtype=coords.dtype, device=device)
                  for a in self.order]  # fmt: skip
        return turns(torch.cat(angles, -1), pos, self.pairing)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return turn(of_width(x, self.head_dim, "AxialRoPE"), where) if site in ("q", "k") else x

    def rerotate(self, x: Tensor, where_from: Turn, where_to: Turn, site: Literal["k", "v"] = "k") -> Tensor:
        """``R_{p' - p} (R_p k)``."""
        return turn(x, where_to.after(where_from)) if site == "k" else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), iter(channels(self.pairing, self.head_dim).tolist())
        for axis in self.order:
            for theta in self.theta[axis]:
                a, b = next(pairs)
                cos, sin = torch.cos(p[axis] * theta), torch.sin(p[axis] * theta)
                y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x
