"""GridPE: rotary embedding by waves along the directions of a regular simplex, with wavelengths a factor e^(1/P) apart.

    pair (s, i):  (x_a, x_b) -> rotation by omega_{s,i} . p,     omega_{s,i} = (2 pi / lambda_s) Q u_i
    u_i . u_j = -1/P,  i = 0 .. P;     lambda_s = shortest r^s,  r = e^(1/P)      (P = 1: u_0 = 1 alone, as RoPE)

The directions of one scale are a tight frame, so no direction is preferred. The logits depend on ``p_k - p_q`` alone.
The ratio r is the one that covers space with the fewest grid cells.

Source: Li et al., arXiv 2406.07049, eqs. 9 to 11 (ratio) and 16 to 20. The simplex in P axes is that of version 3
(github BoyangL1/Gridpe).

Conventions:
- Channels form groups of ``2 n_waves``, with ``n_waves = P + 1``, or 1 for P = 1. Each group has one scale. Within a
  group, each wave in turn rotates one pair (2j, 2j+1). Channels of ``head_dim`` that fill no group are not rotated.
- The scales are repeated. Once the longest wave spans ``extent``, further groups start again at the shortest wave, with
  the simplex rotated: for P = 2 by equal parts of 60 degrees, for P > 2 at random. For P = 1, where no rotation exists,
  their waves are longer by equal parts of a factor r.
- Q is one random rotation per head, drawn once from ``rotation_seed``.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

import posenc.frequencies as schedules  # `from posenc import frequencies` would import every scheme
from posenc.kernels import rotary, simplex
from posenc.kernels.rotary import Rotation
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class GridPE(Scheme):
    """Grid-cell inspired rotary embedding (GridPE) of queries and keys, for real positions.

        q_m -> R_m q_m,   k_n -> R_n k_n,   R_p rotates pair (s, i) by omega_{s,i} . p

    Args:
        head_dim: Width of one head, at least ``2 n_waves``: 6 for two axes.
        axes: Number P of axes of the positions. Default: 2.
        heads: Number of heads with a rotation Q of their own; 1 for one Q that all heads share. On one axis there is
            no Q. Default: 1.
        extent: Distance that the longest wave spans, in units of position; None for one scale per group, as in the
            paper. Default: 14, for an image of 14 x 14 patches.
        shortest: Shortest wavelength, in units of position. Default: 4.
        ratio: Ratio r of neighboring wavelengths, above 1. Default: ``e^(1/axes)``.
        rotation_seed: Seed of the rotations Q. Default: 0.

    Raises:
        ValueError: If ``axes`` or ``heads`` is less than 1, if ``head_dim`` is less than ``2 n_waves`` or has too few
            groups to span ``extent``, or if ``extent``, ``shortest`` or ``ratio`` is out of range.

    Example:
        >>> import torch
        >>> from posenc import GridPE, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 24)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=GridPE(24, axes=2, heads=2), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 24])

    References:
        Li, Wu, Huang and Zhang 2024, arXiv 2406.07049, eqs. 9 to 11 and 16 to 20.
    """

    cite = """@article{li2024gridpe,
  title={GridPE: Unifying Positional Encoding in Transformers with a Grid Cell-Inspired Framework},
  author={Li, Boyang and Wu, Yulin and Huang, Nuoxian and Zhang, Wenjia},
  journal={arXiv:2406.07049}, year={2024}}"""
    examples = (
        {"head_dim": 12, "extent": 6.0},
        {"head_dim": 12, "axes": 1},
        {"head_dim": 18, "axes": 3, "extent": 5.0},
        {"head_dim": 24, "extent": 6.0, "heads": 4},
        {"head_dim": 18, "extent": None},
        {"head_dim": 12, "extent": 4.5, "shortest": 3.0},
        {"head_dim": 12, "extent": 6.0, "ratio": 2.0},
        {"head_dim": 12, "extent": 6.0, "rotation_seed": 1},
    )

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        heads: int = 1,
        extent: float | None = 14.0,
        shortest: float = 4.0,
        ratio: float | None = None,
        rotation_seed: int = 0,
    ) -> None:
        super().__init__()
        if axes < 1 or heads < 1:
            raise ValueError(f"GridPE needs at least one axis and one head; got axes={axes}, heads={heads}.")
        n = len(simplex.directions(axes))
        groups = head_dim // (2 * n)
        if not groups:
            raise ValueError(
                f"GridPE rotates {2 * n} channels together, by {n} waves of {axes} axes; got head_dim={head_dim}. "
                f"Use {2 * n} or more."
            )
        r = math.exp(1 / axes) if ratio is None else ratio
        cpu, longest = torch.device("cpu"), shortest if extent is None else extent
        scales = schedules.economy(axes=axes, shortest=shortest, extent=longest, ratio=r, device=cpu)
        if extent is None:
            scales = scales[0] / r ** torch.arange(groups, dtype=torch.float64, device="cpu")
        if len(scales) > groups:
            spanned = shortest * r ** (groups - 1)
            step = 10.0 ** (math.floor(math.log10(spanned)) - 2)
            raise ValueError(
                f"GridPE has {groups} groups of {2 * n} channels, and spanning extent={extent:g} from wavelength "
                f"{shortest:g} by a ratio of {r:.3g} takes {len(scales)}. Use head_dim={2 * n * len(scales)}, "
                f"extent={math.floor(spanned / step) * step:.3g}, or another ratio."
            )
        self.head_dim, self.heads = head_dim, heads if axes > 1 else 1
        self.waves = _waves(groups, scales, axes, r, self.heads, rotation_seed)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="head" if self.heads > 1 else "model",
            cacheable=True,
        )

    @override
    def prepare(self, pos: Positions) -> Rotation:
        return simplex.turns(self._take(pos), self.waves)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self._turned(x, where) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        return self._turned(x, where_to.after(where_from)) if site == "k" else x

    def _turned(self, x: Tensor, by: Rotation) -> Tensor:
        """Rotate the pairs of channels of ``x``."""
        return rotary.rotate(require_width(x, self.head_dim, "GridPE"), rotary.for_heads(by, x, "GridPE"))

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        y = list(x)
        for j, omega in enumerate(self.waves[head.among(len(self.waves))]):
            angle = torch.stack([omega[axis] * p[axis] for axis in range(len(p))]).sum()
            a, b = x[2 * j], x[2 * j + 1]
            y[2 * j], y[2 * j + 1] = a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()
        return torch.stack(y)


def _waves(groups: int, scales: Tensor, axes: int, ratio: float, heads: int, seed: int) -> Tensor:
    """Return wave vectors, ``(heads, groups n, P)``; group g has scale ``g mod S`` in repetition ``g // S``."""
    generator = torch.Generator().manual_seed(seed)
    head = simplex.orientations(heads, axes, generator)
    rounds = -(-groups // len(scales))
    part = torch.arange(rounds, dtype=torch.float64, device="cpu") / rounds
    again, longer = torch.eye(axes, dtype=torch.float64, device="cpu").expand(rounds, -1, -1), torch.ones_like(part)
    if axes == 1:
        longer = ratio**part
    elif axes == 2:
        cos, sin = (part * math.pi / 3).cos(), (part * math.pi / 3).sin()
        again = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    elif rounds > 1:
        again = torch.cat([again[:1], simplex.orientations(rounds - 1, axes, generator)])
    units = simplex.directions(axes) @ again.mT / longer[:, None, None]  # (rounds, n, P)
    units = units.repeat_interleave(len(scales), 0)[:groups] * simplex.cycled(scales, groups)[:, None, None]
    return (units @ head[:, None].mT).flatten(1, 2)
