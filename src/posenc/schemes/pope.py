"""PoPE: content is a magnitude and position a phase, so "what" and "where" no longer mix.

    q~_c = mu(q_c) e^{i t theta_c},  k~_c = mu(k_c) e^{i (s theta_c + delta_c)},  mu(x) = ln(1 + e^x)
    a_ts = Re sum_c conj(q~_c) k~_c = sum_c mu(q_c) mu(k_c) cos((s - t) theta_c + delta_c)
    theta_c = base^(-c / d),  c = 0 .. d - 1;   -2 pi <= delta_c <= 0 learned

Source: Gopalakrishnan et al. 2025, arXiv 2509.10534, section 4. Every channel is a complex number of its own: heads of
width d become 2d wide for queries and keys, real parts first. The softmax scale stays ``1 / sqrt(d)`` of the unwidened
head. delta starts at 0, which the authors found to extrapolate better, or uniform on [-2 pi, 0]; it is kept in float32.
A token without a place has phase 0 (and no delta) and keeps its magnitudes.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.frequencies import geometric
from posenc.kernels.rotary import Turn, for_heads, spread, turn, turns
from posenc.kernels.widths import of_width
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme


class Phases(NamedTuple):
    """Of queries ``(N, 2, d)``, and of keys in each head ``(h, N, 2, d)``; before them the batch where they differ."""

    q: Turn
    k: Turn


class PoPE(Scheme):
    """``s_ts = sum_c mu(q_tc) mu(k_sc) cos((s - t) theta_c + delta_c)``, ``mu`` the softplus.

    head_dim: d, a head's width before it is widened. heads: h, key heads where query heads share them. base: of the
    frequencies. initial: delta before training. generator: of a uniform delta.
    """

    cite = """@article{gopalakrishnan2025pope,
  title={Decoupling the "What" and "Where" With Polar Coordinate Positional Embeddings},
  author={Gopalakrishnan, Anand and Csord{\\'a}s, R{\\'o}bert and Schmidhuber, J{\\"u}rgen and Mozer, Michael C},
  journal={arXiv:2509.10534}, year={2025}}"""
    examples = (
        {"head_dim": 12, "heads": 4, "initial": "uniform"},
        {"head_dim": 12, "heads": 4},
        {"head_dim": 12, "heads": 4, "initial": "uniform", "base": 100.0},
    )
    wide = frozenset({"delta"})

    delta: nn.Parameter

    def __init__(
        self,
        head_dim: int,
        heads: int,
        *,
        base: float = 10000.0,
        initial: Literal["zero", "uniform"] = "zero",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if head_dim < 1 or heads < 1:
            raise ValueError(f"PoPE needs head_dim >= 1 and heads >= 1; got head_dim={head_dim}, heads={heads}.")
        if initial not in ("zero", "uniform"):
            raise ValueError(f"PoPE's delta starts at 'zero' or 'uniform' on [-2 pi, 0]; got {initial!r}.")
        self.head_dim, self.initial = head_dim, initial
        self.theta = tuple(geometric(head_dim, base=base, device=torch.device("cpu")).tolist())
        self.delta = nn.Parameter(torch.empty(heads, head_dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=False,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"q", "k"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set or draw delta anew (also after building on the meta device)."""
        with torch.no_grad():
            self.delta.uniform_(-2 * math.pi, 0, generator=generator).mul_(self.initial == "uniform")

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Phases:
        self._take(pos)
        p = spread(pos.precise(), pos)
        angle = p * torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        delta = self.delta.double().clamp(-2 * math.pi, 0)[:, None]
        return Phases(turns(angle, pos, "half"), turns(angle + delta, pos, "half"))

    def transform(self, x: Tensor, where: Phases, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site not in ("q", "k"):
            return x
        phase = where.q if site == "q" else for_heads(where.k, x, "PoPE")
        wide = torch.promote_types(x.dtype, phase.cos_sin.dtype)
        size = functional.softplus(of_width(x, self.head_dim, "PoPE").to(wide)).unsqueeze(-2)
        return (size * phase.cos_sin.to(wide)).flatten(-2).to(x.dtype)

    def rerotate(self, x: Tensor, where_from: Phases, where_to: Phases, site: Literal["k", "v"] = "k") -> Tensor:
        """``e^{i (s' - s) theta_c}`` times the widened key: a turn, where ``transform`` is none."""
        return turn(x, where_to.q.after(where_from.q)) if site == "k" else x

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        if site not in ("q", "k"):
            return x
        real, imaginary = [], []
        for c in range(self.head_dim):
            size, phase = torch.log(1 + torch.exp(x[c])), p[0] * self.theta[c]
            if site == "k":
                phase = phase + self.delta[head.among(len(self.delta)), c].clamp(-2 * math.pi, 0)
            real.append(size * torch.cos(phase))
            imaginary.append(size * torch.sin(phase))
        return torch.stack(real + imaginary)
