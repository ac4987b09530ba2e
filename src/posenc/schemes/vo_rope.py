"""VO-RoPE: rotary embedding of values too; a value rotates by its position, an output rotates back by the query's.

    s_ij = (R_i q_i) . (R_j k_j) = q_i . R_{j-i} k_j           at the sites q and k
    o_i  = R_i^T sum_j a_ij (R_j v_j) = sum_j a_ij R_{j-i} v_j  at the sites v and o

Source: Su 2025, kexue.fm/archives/10862 (nine choices of sites: q, k, v, o, qk, vo, qkv, qkvo, or none).
Earlier the scheme was published as "RoPER" (labml.ai, 2022) and in POYO, arXiv 2310.16046 (qkvo).

Conventions:
- Values rotate by +j theta and outputs by -i theta, before W_O.
- The scheme is relative if it rotates both or neither of q and k, and both or neither of v and o:

      relative      none, qk, vo, qkvo
      not relative  q, k, v, o, qkv and all others
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import geometric
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, channels, prepare_rotation, rotate, with_head_axis
from posenc.kernels.shape_checks import require_width
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class VORoPE(Scheme):
    """Rotary embedding of queries, keys, values and outputs, so that the output also depends on distances ``j - i``.

        o_i = sum_j a_ij R_{j-i} v_j,   a_ij = softmax_j(q_i . R_{j-i} k_j / sqrt(d))

    Args:
        head_dim: Width d of a head in channels, even.
        at: Sites that rotate, letters of "qkvo" in this order; "" for none.
        base: Base of the geometric schedule of frequencies, in radians per unit of position.
        pairing: Channels that rotate together: "interleaved", (2i, 2i+1); "half" or "across", (i, i + d/2).

    Raises:
        ValueError: If ``head_dim`` is odd, or ``at`` or ``pairing`` is not one of the above.

    Example:
        >>> import torch
        >>> from posenc import VORoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=VORoPE(12), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Su, 2025, "Transformer Upgrade Road 19: The Second Kind of Rotary Position Embedding", kexue.fm/archives/10862.
        Azabou et al., 2023 (POYO), arXiv 2310.16046.
    """

    cite = """@misc{su2025vorope,
  title={Transformer Upgrade Road 19: The Second Kind of Rotary Position Embedding},
  author={Su, Jianlin}, year={2025},
  note={kexue.fm/archives/10862; used before in POYO, Azabou et al. 2023, arXiv:2310.16046}}"""
    examples = (
        *({"head_dim": 12, "at": at} for at in ("", "qk", "vo", "q", "k", "v", "o", "qkv", "qkvo")),
        {"head_dim": 12, "base": 100.0, "pairing": "half"},
    )
    conventions = ("pairing",)

    def __init__(
        self, head_dim: int, at: str = "qkvo", *, base: float = 10000.0, pairing: Pairing = "interleaved"
    ) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(
                f"VORoPE rotates pairs of channels, so `head_dim` must be even; got {head_dim}. "
                f"Use {max(head_dim + 1, 2)}."
            )
        if at != "".join(site for site in "qkvo" if site in at):
            raise ValueError(f"VORoPE rotates some of q, k, v and o, in this order, as at='qkvo'; got at={at!r}.")
        if pairing not in PAIRINGS:
            raise ValueError(f"VORoPE pairs channels {', '.join(map(repr, PAIRINGS))}; got {pairing!r}.")
        self.head_dim = head_dim
        self.pairing: Pairing = pairing
        self.theta = tuple(geometric(head_dim // 2, base=base, device=torch.device("cpu")).tolist())
        relative = ("q" in at) == ("k" in at) and ("v" in at) == ("o" in at)
        named: tuple[Literal["q", "k", "v", "o"], ...] = ("q", "k", "v", "o")
        self.claims = Claims(
            translation="exact" if relative else "none",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset(site for site in named if site in at),
            sharing="model",
            cacheable=True,
        )

    @property
    @override
    def head_width(self) -> int | None:
        return self.head_dim if self.claims.sites else None

    @override
    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)
        p = with_head_axis(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return prepare_rotation(p * theta, pos, self.pairing)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in self.claims.sites:
            return x
        return rotate(require_width(x, self.head_dim, "VORoPE"), where, back=site == "o")

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key or value by the change of position: ``R_{n' - n} (R_n k)``."""
        return rotate(x, where_to.after(where_from)) if site in self.claims.sites else x

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, sign = list(x), -1 if site == "o" else 1
        for theta, (a, b) in zip(self.theta, channels(self.pairing, self.head_dim).tolist(), strict=True):
            cos, sin = torch.cos(p[0] * theta), sign * torch.sin(p[0] * theta)
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in self.claims.sites else x
