"""Axial RoPE: rotary position embedding on several axes, where each axis rotates its own pairs of channels.

    pair i of axis a:  (x, y) -> rotation by p_a theta_i^(a),    theta_i^(a) = base^(-i / n_a),  i = 0 .. n_a - 1

Source: Heo et al. 2024, arXiv 2403.13298, section 3.1 (two axes, base 100). EVA-02, Pixtral and others use the same
formula.

Conventions, which differ between libraries:
- The pairs of one axis are adjacent. The axes follow the order of the positions: on an image rows come first, as in
  timm and rotary-embedding-torch. rope-vit has columns first, which is ``order=(1, 0)``.
- The exponent counts the pairs of one axis.
- Positions count patches. DINOv3 rotates by ``2 pi p`` with p in [-1, 1]: pass these values as a tensor of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, channels, prepare_rotation, rotate, with_head_axis
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class AxialRoPE(Scheme):
    """Axial rotary position embedding (axial RoPE) of queries and keys.

        q_p -> diag(R^(1)_{p_1}, .., R^(P)_{p_P}) q_p,   k_p -> diag(R^(1)_{p_1}, .., R^(P)_{p_P}) k_p

    The logits depend on positions through ``p_k - p_q`` alone.

    Args:
        head_dim: Width of one head, even.
        axes: Number P of axes of the positions. Default: 2.
        base: Base of the frequency schedule, the same for every axis. Default: 100, as in the paper.
        bands: Number ``n_a`` of channel pairs for each axis, ``(P,)``, at least 1 each and ``head_dim / 2`` in sum.
            Default: equal numbers.
        order: The axes in the order in which their pairs stand in the head, a permutation of ``0 .. P - 1``. Default:
            the order of the positions.
        pairing: Channels that are rotated together: "interleaved" for (2i, 2i + 1), "half" or "across" for
            (i, i + head_dim / 2). Default: "interleaved".

    Raises:
        ValueError: If ``head_dim`` is odd, if its pairs do not divide among the axes, or if ``axes``, ``bands``,
            ``order`` or ``pairing`` is not one of the values above.

    Example:
        >>> import torch
        >>> from posenc import AxialRoPE, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=AxialRoPE(16, axes=2), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Heo et al. 2024, arXiv 2403.13298, section 3.1.
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
        bands: Sequence[int] | None = None,
        order: Sequence[int] | None = None,
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
        bands = (head_dim // 2 // axes,) * axes if bands is None else tuple(bands)
        if len(bands) != axes or sum(bands) != head_dim // 2 or min(bands) < 1:
            raise ValueError(f"`bands` share {head_dim // 2} pairs among {axes} axes, each at least 1; got {bands}.")
        order = tuple(range(axes)) if order is None else tuple(order)
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

    @override
    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)
        coords, device = with_head_axis(pos.precise(), pos), pos.coords.device
        angles = [coords[..., a : a + 1] * torch.tensor(self.theta[a], dtype=coords.dtype, device=device)
                  for a in self.order]  # fmt: skip
        return prepare_rotation(torch.cat(angles, -1), pos, self.pairing)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return rotate(require_width(x, self.head_dim, "AxialRoPE"), where) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate cached keys from p to p': ``R_{p' - p} (R_p k)``."""
        return rotate(x, where_to.after(where_from)) if site == "k" else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), iter(channels(self.pairing, self.head_dim).tolist())
        for axis in self.order:
            for theta in self.theta[axis]:
                a, b = next(pairs)
                cos, sin = torch.cos(p[axis] * theta), torch.sin(p[axis] * theta)
                y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in ("q", "k") else x
