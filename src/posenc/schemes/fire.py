"""FIRE: a small network turns the relative distance, as a share of the query's own place, into a bias.

    b(i, j) = f_theta(psi(i - j) / psi(max{L, i})),   psi(x) = log(c x + 1),   c, L > 0        (eqs. 4, 5 and 7)

``f_theta`` is one hidden layer of ReLUs from 1 number to one a head: on long sequences distances become shares, so that
no place is out of what was trained. Source: Li et al. 2024, arXiv 2310.04418, and the code of its appendix.
Conventions: the threshold is ``|s L|`` and the scale ``|c|``, with s (from 1) and c (from 0.1) trained and L given, as
there. The paper is causal; a later key stands at ``|p_j - p_i|`` here, and a place before 0 counts as within L. Built
for the query heads; the paper trains one a layer, and its FIRE-S one for all.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posenc.kernels.pairs import Pairs
from posenc.kernels.relus import relus
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head

C = 0.1


class FIRE(Scheme):
    """``f(log(1 + c |p_j - p_i|) / log(1 + c max(L, p_i)))`` on the logits, for real positions on one axis.

    heads: the number of query heads. threshold: L > 0, in units of position, the paper's 512. hidden: width of f.
    generator: of the first weights of f.
    """

    cite = """@inproceedings{li2024functional,
  title={Functional Interpolation for Relative Positions Improves Long Context Transformers},
  author={Li, Shanda and You, Chong and Guruganesh, Guru and Ainslie, Joshua and Ontanon, Santiago and Zaheer, Manzil
  and Sanghai, Sumit and Yang, Yiming and Kumar, Sanjiv and Bhojanapalli, Srinadh},
  booktitle={ICLR}, year={2024}, note={arXiv:2310.04418}}"""
    examples = (
        {"heads": 4, "threshold": 4.0},
        {"heads": 4, "threshold": 8.0, "hidden": 8},
        {"heads": 1, "threshold": 4.0},
    )
    bias_reads = frozenset()
    wide = frozenset({"scales"})

    scales: nn.Parameter
    inner: nn.Parameter
    outer: nn.Parameter

    def __init__(
        self, heads: int, *, threshold: float = 512.0, hidden: int = 32, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if heads < 1 or hidden < 1 or not (math.isfinite(threshold) and threshold > 0):
            raise ValueError(
                f"FIRE needs heads >= 1, hidden >= 1 and a positive threshold; got heads={heads}, hidden={hidden}, "
                f"threshold={threshold:g}. The paper's are 32 and 512."
            )
        self.threshold = float(threshold)
        self.scales = nn.Parameter(torch.empty(2))  # c and s
        self.inner = nn.Parameter(torch.empty(2, hidden))  # weights and biases of f's hidden layer
        self.outer = nn.Parameter(torch.empty(hidden + 1, heads))  # weights, and biases as the last row
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """c = 0.1 and s = 1, and f as torch draws linear layers (also after building on the meta device)."""
        bound = len(self.outer[1:]) ** -0.5
        with torch.no_grad():
            self.scales.copy_(self.scales.new_tensor([C, 1.0]))
            self.inner.uniform_(-1, 1, generator=generator)
            self.outer.uniform_(-bound, bound, generator=generator)

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        own = self._own(pair)
        share = torch.log1p(self.scales[0].abs() * pair.far().to(own.dtype)) / own[..., :, None]
        inner, outer = self.inner.to(share.dtype), per_head(self.outer, q, "FIRE", dim=1).to(share.dtype)
        return pair.neutral(relus(share.squeeze(-3) if share.dim() == 4 else share, inner, outer))

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, own, c, inner = pair.reader(), self._own(pair), self.scales[0].abs(), self.inner
        outer = per_head(self.outer, q, "FIRE", dim=1).expand(-1, q.shape[1])
        own = own.squeeze(-2) if own.dim() == 3 else own[None]

        def interpolated(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            share = torch.log1p(c * distance.abs()) / (own[b, i] if own.shape[0] > 1 else own[0, i])
            other = score + outer[-1, h]
            for m in range(inner.shape[1]):  # unrolled: a score_mod adds up no vectors
                other = other + outer[m, h] * torch.relu(share * inner[0, m] + inner[1, m])
            return other if placed is None else torch.where(placed, other, score)

        return interpolated

    def _own(self, pair: Pairs) -> Tensor:
        """``psi(max{L, p_i})`` of each query, ``(Q,)`` or ``(B, 1, Q)``."""
        c, s = self.scales.abs()
        place = pair.q.coords[..., 0].to(torch.promote_types(pair.dtype, c.dtype))
        own = torch.log1p(c * torch.maximum(place, s * self.threshold))
        return own.unsqueeze(-2) if own.dim() == 2 else own

    def define_bias(self, at: At) -> Tensor:
        (c, s), (w1, b1), i, j = self.scales.abs(), self.inner, at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        head = at.head.among(self.outer.shape[1])
        threshold = s * self.threshold
        share = torch.log(c * (j - i).abs() + 1) / torch.log(c * (i if i > threshold else threshold) + 1)
        return sum((w2 * torch.relu(w * share + b) for w, b, w2 in zip(w1, b1, self.outer[:-1, head], strict=True)),
                   start=self.outer[-1, head])  # fmt: skip
