"""STRING: multi-axis rotary embedding in a learned orthogonal basis, with exactly relative logits (Cayley-STRING).

    R(p) = P diag(R_2(theta_i . p)) P^T,    P = (I - S)(I + S)^{-1},    S = -S^T and theta_i in R^axes learned

The generators of all axes are block diagonal in one basis, so they commute and ``R(p)^T R(p') = R(p' - p)``. STRING is
the most general rotation with this property.

Source: Schenck et al. 2025, arXiv 2502.02562, section 3 ("Cayley-STRING").

Conventions:
- Pairs are (2i, 2i+1) in the basis P.
- The leading P cancels between query and key. It is computed nevertheless, so that a token without a position stays
  unchanged.
- Initially S = 0 and pair i rotates with axis ``i mod axes`` at ``base^(-floor(i / axes) axes / (d/2))``: axial RoPE.
- Each head has its own S and theta, which stay in float32 when the model is cast to a narrower dtype.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.matrix_exponential import cayley
from posenc.kernels.rotary import Rotation, for_heads, prepare_rotation, rotate
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme, per_head


class Basis(NamedTuple):
    """Basis P of each head ``(h, 1, d, d)``, and the rotations in that basis."""

    basis: Tensor
    by: Rotation


class STRING(Scheme):
    """Cayley-STRING: q and k rotate in a learned basis, so logits depend only on ``p_k - p_q``.

        q_p -> P R(Theta p) P^T q_p,   k_p -> P R(Theta p) P^T k_p

    Args:
        head_dim: Width d of a head in channels, even and at least ``2 * axes``.
        heads: Number of heads h; in grouped-query attention the number of key heads.
        axes: Number of position axes.
        base: Base of the initial frequencies, which are in radians per unit of position.

    Raises:
        ValueError: If ``head_dim`` is odd or below ``2 * axes``, a count is below 1, or ``base`` is not positive.

    Example:
        >>> import torch
        >>> from posenc import STRING, attention, grid
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=STRING(12, heads=4), q_pos=grid(2, 3)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Schenck, Reid, Jacob, Bewley, Ainslie et al., 2025, "Learning the RoPEs: Better 2D and 3D Position Encodings
        with STRING", arXiv 2502.02562, section 3.
    """

    cite = """@inproceedings{schenck2025learning,
  title={Learning the RoPEs: Better 2D and 3D Position Encodings with STRING},
  author={Schenck, Connor and Reid, Isaac and Jacob, Mithun George and Bewley, Alex and Ainslie, Joshua and others},
  booktitle={ICML}, year={2025}, note={arXiv:2502.02562}}"""
    examples = (
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "base": 10.0},
        {"head_dim": 12, "heads": 4, "axes": 1},
        {"head_dim": 12, "heads": 1, "axes": 3},
    )
    wide = frozenset({"skew", "theta"})

    skew: nn.Parameter
    theta: nn.Parameter

    def __init__(self, head_dim: int, heads: int, axes: int = 2, *, base: float = 100.0) -> None:
        super().__init__()
        self.heads = heads
        if axes < 1 or heads < 1 or head_dim < 2 * axes or head_dim % 2:
            raise ValueError(
                f"STRING needs axes >= 1, heads >= 1 and an even head_dim with a pair for every axis; got axes={axes}, "
                f"heads={heads}, head_dim={head_dim}. Use head_dim={max(head_dim + head_dim % 2, 2 * axes, 2)}."
            )
        if not 0 < base < math.inf:
            raise ValueError(f"the base of the first frequencies is positive; got {base:g}. Axial RoPE's is 100.")
        self.head_dim, self.base = head_dim, base
        self.skew = nn.Parameter(torch.empty(heads, head_dim * (head_dim - 1) // 2))
        self.theta = nn.Parameter(torch.empty(heads, axes, head_dim // 2))
        self.reset_parameters()
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

    def reset_parameters(self) -> None:
        """Set S and theta to those of axial RoPE, also after the module was built on the meta device."""
        _, axes, pairs = self.theta.shape
        with torch.no_grad():
            self.skew.zero_()
            self.theta.zero_()
            for i in range(pairs):
                self.theta[:, i % axes, i] = self.base ** -((i // axes) * axes / pairs)

    @override
    def prepare(self, pos: Positions) -> Basis:
        self._take(pos)
        coords = pos.precise().unsqueeze(-3)[..., None]  # (.., 1, N, P, 1) times (h, 1, P, R)
        by = prepare_rotation((coords * self.theta.double()[:, None]).sum(-2), pos, "interleaved")
        return Basis(cayley(self.skew.double(), self.head_dim)[:, None].to(pos.table_dtype), by)

    @override
    def transform(self, x: Tensor, where: Basis, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self._rotated(x, where.basis, where.by) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Basis, where_to: Basis, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key by the change of position: ``R(p' - p) (R(p) k)``."""
        return self._rotated(x, where_to.basis, where_to.by.after(where_from.by)) if site == "k" else x

    def _rotated(self, x: Tensor, basis: Tensor, by: Rotation) -> Tensor:
        basis = per_head(basis, require_width(x, self.head_dim, "STRING"), "STRING", dim=-4)[:, 0]
        wide = torch.promote_types(x.dtype, basis.dtype)
        with torch.autocast(x.device.type, enabled=False):  # half precision would not keep lengths
            inside = rotate(x.to(wide) @ basis.to(wide), for_heads(by, x, "STRING"))
            return (inside @ basis.to(wide).mT).to(x.dtype)

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        own, d = head.among(len(self.skew)), self.head_dim
        entry, one = iter(self.skew[own]), torch.eye(d, dtype=x.dtype)
        antisymmetric = torch.zeros_like(one)
        for i in range(d):
            for j in range(i + 1, d):
                both = torch.outer(one[i], one[j]) - torch.outer(one[j], one[i])
                antisymmetric = antisymmetric + next(entry) * both
        basis = (one - antisymmetric) @ torch.linalg.inv(one + antisymmetric)
        y = list(basis.T @ x)
        for i in range(d // 2):
            angle = torch.stack([p[a] * self.theta[own, a, i] for a in range(len(p))]).sum()
            u, v = y[2 * i], y[2 * i + 1]
            y[2 * i] = u * torch.cos(angle) - v * torch.sin(angle)
            y[2 * i + 1] = v * torch.cos(angle) + u * torch.sin(angle)
        return basis @ torch.stack(y)
