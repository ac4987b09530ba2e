"""GridRotate: the rotary variant of GridPE; each pair of channels is rotated by one wave with its own direction.

    R_m = diag(A_1 .. A_{d/2}),   A_k = rotation by omega_{k,1} . m          (eqs. 18, 19)
    <q', k'> = q^T R_m^T R_n k                                               (eq. 20)

With one wave per scale, this is RoPE with oblique wave vectors. On one axis it is RoPE itself.

Source: Li et al. 2024, arXiv 2406.07049, version 2.

Conventions:
- Pair k is the channels (2k, 2k+1). Its direction is the first of a regular simplex. Each pair has its own random
  rotation of the simplex, drawn once from ``rotation_seed``.
- The lengths ``|omega_s|`` are repeated where there are more pairs than lengths.
- ``literal=True``: as released (github BoyangL1/gridpe-vision). Three waves are summed with fixed complex coefficients,
  ``g_k = sum_i c_i exp(j omega_{i,k} . m)`` with ``|omega_k| = 200^(k/d)``. (Re g, Im g) replace (cos, sin) without
  being normalized; |g| ranges from 0.07 to 2.7. Pairs are (k, k + d/2). Directions are drawn anew at every ``prepare``,
  separately for q and k, so the logits are not translation invariant. ``"frozen"`` keeps the first draw.
- The contract checks use the same draw for two calls that they compare.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import rotary, simplex
from posenc.kernels.rotary import Rotation
from posenc.kernels.shape_checks import require_width
from posenc.kernels.simplex import GivenFrequencies, Released
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Turns(NamedTuple):
    """Rotations of queries and of keys, which differ only with ``literal``."""

    q: Rotation
    k: Rotation


class GridRotate(Scheme):
    """GridPE by rotation of pairs of channels (GridPE-rotate), for real positions.

        (x_2k, x_2k+1) -> A_k (x_2k, x_2k+1),   A_k = rotation by omega_{k,1} . m

    Args:
        head_dim: Width d of one head, even.
        axes: Number P of axes of the positions. Default: 2.
        extent: Distance that the longest wave spans, in units of position. Default: 14.
        frequencies: Lengths ``|omega_s|`` of the wave vectors, S numbers or a tensor ``(S,)``, in radians per unit of
            position; ``economy(shortest=2.0, ratio=1.5)`` of ``posenc.frequencies`` has other scales. Default:
            ``2 pi / (4 r^s)`` with ``r = e^(1/P)``, up to the first wavelength of at least ``extent``.
        rotation_seed: Seed of the random directions. Default: 0.
        literal: If True, as released, with new directions at every ``prepare``; if "frozen", the same with the first
            draw kept. Both need ``axes=2``. Default: False.

    Raises:
        ValueError: If ``head_dim`` is odd, ``axes`` is less than 1, ``extent`` or ``frequencies`` do not suit, or
            ``literal`` is given with ``axes`` other than 2.

    Example:
        >>> import torch
        >>> from posenc import GridRotate, attention, grid
        >>> q = k = v = torch.randn(1, 2, 12, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=GridRotate(16, axes=2), q_pos=grid(3, 4)).shape
        torch.Size([1, 2, 12, 16])

    References:
        Li, Wu, Huang and Zhang 2024, arXiv 2406.07049, version 2, eqs. 18 to 20.
    """

    cite = """@article{li2024gridpe,
  title={GridPE: Unifying Positional Encoding in Transformers with a Grid Cell-Inspired Framework},
  author={Li, Boyang and Wu, Yulin and Huang, Nuoxian and Zhang, Wenjia},
  journal={arXiv:2406.07049}, year={2024}}"""
    examples = (
        {"head_dim": 12},
        {"head_dim": 12, "axes": 1},
        {"head_dim": 12, "axes": 3, "extent": 30.0},
        {"head_dim": 12, "frequencies": torch.tensor([2.0, 1.0, 0.5])},
        {"head_dim": 12, "rotation_seed": 1},
        {"head_dim": 12, "literal": "frozen"},
        {"head_dim": 12, "rotation_seed": 1, "literal": True},
    )

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        extent: float = 14.0,
        frequencies: GivenFrequencies | None = None,
        rotation_seed: int = 0,
        literal: bool | Literal["frozen"] = False,
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"GridRotate rotates pairs of channels, so `head_dim` must be even; got {head_dim}.")
        sizes = simplex.wave_frequencies("GridRotate", axes, extent, frequencies, literal)
        pairs = head_dim // 2
        self.head_dim, self.literal = head_dim, bool(literal)
        self.waves = simplex.wave_vectors(pairs, axes, sizes, rotation_seed)[None, :, 0]
        self.released = Released(pairs, head_dim, 2, rotation_seed, frozen=literal == "frozen") if literal else None
        self.draws = simplex.DRAWS if literal is True else ()
        self.faults = simplex.NO_GRAPH if literal is True else {}
        self.claims = Claims(
            translation="none" if literal else "exact",
            isometric=not literal,
            learned=False,
            range=None,
            axes=axes,
            sites=frozenset({"q", "k"}),
            sharing="layer" if literal is True else "model",
            cacheable=literal is not True,
        )

    def reset_parameters(self) -> None:
        """Restart the random draws of ``literal``."""
        if self.released is not None:
            self.released.reset_parameters()

    @override
    def prepare(self, pos: Positions) -> Turns:
        self._take(pos)
        if self.released is None:
            return Turns(*[simplex.turns(pos, self.waves)] * 2)
        both = simplex.sides(simplex.sums(pos, self.released(), simplex.RELEASED))
        return Turns(*(Rotation(torch.stack(g, -2), "half") for g in both))

    @override
    def transform(self, x: Tensor, where: Turns, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        return rotary.rotate(require_width(x, self.head_dim, "GridRotate"), where.q if site == "q" else where.k)

    @override
    def rerotate(self, x: Tensor, where_from: Turns, where_to: Turns, site: Literal["k", "v"] = "k") -> Tensor:
        if self.literal or site != "k":
            return super().rerotate(x, where_from, where_to, site)
        return rotary.rotate(x, where_to.k.after(where_from.k))

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, pairs = list(x), self.head_dim // 2
        for k in range(pairs):
            if self.released is None:
                a, b = 2 * k, 2 * k + 1
                angle = torch.stack([w * z for w, z in zip(self.waves[0, k], p, strict=True)]).sum()
                g = torch.exp(1j * angle)
            else:
                a, b = k, k + pairs
                waves = self.released.now()[0 if site == "q" else 1, k]
                angle = [waves[i, 0] * p[0] + waves[i, 1] * p[1] for i in range(3)]
                g = torch.stack([complex(*simplex.RELEASED[i]) * torch.exp(1j * angle[i]) for i in range(3)]).sum()
            y[a], y[b] = x[a] * g.real - x[b] * g.imag, x[b] * g.real + x[a] * g.imag
        return torch.stack(y)
