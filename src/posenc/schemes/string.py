"""STRING: multi-axis RoPE in a learned basis, the most general rotation that is exactly relative.

    R(p) = P diag(R_2(theta_i . p)) P^T,    P = (I - S)(I + S)^{-1},    S = -S^T and theta_i in R^axes learned

Source: Schenck et al. 2025, arXiv 2502.02562, section 3 ("Cayley-STRING"): the generators of all axes commute because
they are block diagonal in one basis, so ``R(p)^T R(p') = R(p' - p)``. Conventions: pairs are (2i, 2i+1) in the basis P;
the leading P cancels between query and key and is kept all the same, so that a token without a place is left alone.
Before training S = 0 and pair i turns with axis ``i mod axes`` at ``base^(-floor(i / axes) axes / (d/2))``: axial RoPE.
Every head has its own S and theta, kept in float32 whatever the model is cast to.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from posenc.kernels.rotary import Turn, for_heads, turn, turns
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme, per_head


class Basis(NamedTuple):
    """P of every head ``(h, 1, d, d)``, and the turns in it."""

    basis: Tensor
    by: Turn


class STRING(Scheme):
    """``q_p -> P R(Theta p) P^T q_p``, keys too: logits depend on ``p_k - p_q`` alone.

    head_dim: a head's width, even. heads: h, key heads where query heads share them. axes: P. base: of the first
    frequencies.
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
        """Axial RoPE in the channels' own basis (also after building on the meta device)."""
        _, axes, pairs = self.theta.shape
        with torch.no_grad():
            self.skew.zero_()
            self.theta.zero_()
            for i in range(pairs):
                self.theta[:, i % axes, i] = self.base ** -((i // axes) * axes / pairs)

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Basis:
        self._take(pos)
        coords = pos.precise().unsqueeze(-3)[..., None]  # (.., 1, N, P, 1) by (h, 1, P, R)
        by = turns((coords * self.theta.double()[:, None]).sum(-2), pos, "interleaved")
        return Basis(cayley(self.skew.double(), self.head_dim)[:, None].to(pos.table_dtype), by)

    def transform(self, x: Tensor, where: Basis, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return self._turned(x, where.basis, where.by) if site in ("q", "k") else x

    def rerotate(self, x: Tensor, where_from: Basis, where_to: Basis, site: Literal["k", "v"] = "k") -> Tensor:
        """``R(p' - p) (R(p) k)``."""
        return self._turned(x, where_to.basis, where_to.by.after(where_from.by)) if site == "k" else x

    def _turned(self, x: Tensor, basis: Tensor, by: Turn) -> Tensor:
        basis = per_head(basis, of_width(x, self.head_dim, "STRING"), "STRING", dim=-4)[:, 0]
        wide = torch.promote_types(x.dtype, basis.dtype)
        with torch.autocast(x.device.type, enabled=False):  # a product in half precision is no rotation
            inside = turn(x.to(wide) @ basis.to(wide), for_heads(by, x, "STRING"))
            return (inside @ basis.to(wide).mT).to(x.dtype)

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
        turned = list(basis.T @ x)
        for i in range(d // 2):
            angle = torch.stack([p[a] * self.theta[own, a, i] for a in range(len(p))]).sum()
            u, v = turned[2 * i], turned[2 * i + 1]
            turned[2 * i] = u * torch.cos(angle) - v * torch.sin(angle)
            turned[2 * i + 1] = v * torch.cos(angle) + u * torch.sin(angle)
        return basis @ torch.stack(turned)


def cayley(upper: Tensor, size: int) -> Tensor:
    """``(I - S)(I + S)^{-1}``, orthogonal, from the entries of S above its diagonal, row by row."""
    i, j = torch.triu_indices(size, size, 1, device=upper.device).unbind()
    flat = upper.new_zeros(*upper.shape[:-1], size * size).index_copy(-1, i * size + j, upper)
    skew = flat.unflatten(-1, (size, size)) - flat.unflatten(-1, (size, size)).mT
    one = torch.eye(size, dtype=upper.dtype, device=upper.device)
    return torch.linalg.solve(one + skew, one - skew, left=False)
