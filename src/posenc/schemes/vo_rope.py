"""VO-RoPE: values are turned by their position too, and the output of attention is turned back by the query's.

    s_ij = (R_i q_i) . (R_j k_j) = q_i . R_{j-i} k_j           at the sites q and k
    o_i  = R_i^T sum_j a_ij (R_j v_j) = sum_j a_ij R_{j-i} v_j  at the sites v and o

Source: Su 2025, kexue.fm/archives/10862 (nine settings: any of q, k, v, o, qk, vo, qkv, qkvo, or none); earlier as
"RoPER" (labml.ai, 2022) and in POYO, arXiv 2310.16046 (qkvo). Values turn by +j theta, outputs by -i theta, before W_O.
Only settings with both or neither of q and k, and both or neither of v and o, are relative:

    none qk vo qkvo: relative        q k v o qkv (and any other): not
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


class VORoPE(Scheme):
    """``o_i = sum_j a_ij R_{j-i} v_j``, with ``a_ij`` from ``q_i . R_{j-i} k_j``: positions reach the values.

    head_dim: a head's width, even. at: the sites that turn, letters of "qkvo" in this order. base: of the schedule.
    pairing: which channels turn together.
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
            raise ValueError(f"VORoPE turns some of q, k, v and o, written in this order, as at='qkvo'; got at={at!r}.")
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
    def head_width(self) -> int | None:
        return self.head_dim if self.claims.sites else None

    def prepare(self, pos: Positions) -> Turn:
        self._take(pos)
        p = spread(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        return turns(p * theta, pos, self.pairing)

    def transform(self, x: Tensor, where: Turn, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in self.claims.sites:
            return x
        return turn(of_width(x, self.head_dim, "VORoPE"), where, back=site == "o")

    def rerotate(self, x: Tensor, where_from: Turn, where_to: Turn, site: Literal["k", "v"] = "k") -> Tensor:
        """``R_{n' - n} (R_n k)``, and cached values alike."""
        return turn(x, where_to.after(where_from)) if site in self.claims.sites else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        y, sign = list(x), -1 if site == "o" else 1
        for theta, (a, b) in zip(self.theta, channels(self.pairing, self.head_dim).tolist(), strict=True):
            cos, sin = torch.cos(p[0] * theta), sign * torch.sin(p[0] * theta)
            y[a], y[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return torch.stack(y) if site in self.claims.sites else x
