"""KERPLEPower: logits fall with a learned power of the distance, for each head its own.

    s_ij = q_i . k_j - r1 |p_j - p_i|^r2,   r1 > 0,  0 < r2 <= 2        (the power kernel of section 4)

At r2 = 1 it is ALiBi with a learned slope. Source: Chi et al. 2022, arXiv 2205.09921. Conventions: ``r1 =
softplus(raw_1)`` and ``r2 = 2 sigmoid(raw_2)`` keep them in their bounds, where the authors' public code (github
chijames/KERPLE) clamps; before training ``r1, r2 ~ U(0, 1)``. At distance 0 the bias is 0, and so is its gradient by
positions. Built for the query heads; one shared by all layers, or one a layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.pairs import Pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head

LEAST = 0.01


class KERPLEPower(Scheme):
    """``-r1 |p_j - p_i|^r2`` on the logits, for real positions on one axis.

    heads: the number of query heads, each with its own r1 and r2. generator: of the first ones.
    """

    cite = """@inproceedings{chi2022kerple,
  title={KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation},
  author={Chi, Ta-Chung and Fan, Ting-Han and Ramadge, Peter J. and Rudnicky, Alexander I.},
  booktitle={NeurIPS}, year={2022}, note={arXiv:2205.09921}}"""
    examples = ({"heads": 4}, {"heads": 1})
    bias_reads = frozenset()
    wide = frozenset({"raw"})

    raw: nn.Parameter

    def __init__(self, heads: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(
                f"KERPLEPower has a rate and a power for each of its query heads, at least one; got heads={heads}."
            )
        self.raw = nn.Parameter(torch.empty(2, heads))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw rates and powers anew (also after building on the meta device)."""
        with torch.no_grad():
            r1, r2 = self.raw.uniform_(LEAST, 1, generator=generator).clone()
            self.raw.copy_(torch.stack([r1 + (-torch.expm1(-r1)).log(), torch.logit(r2 / 2)]))

    @property
    def rates(self) -> Tensor:
        """``r1`` and ``r2`` of each head, ``(2, H)``."""
        return torch.stack([functional.softplus(self.raw[0]), 2 * torch.sigmoid(self.raw[1])])

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        r1, r2 = per_head(self.rates, q, "KERPLEPower", dim=1)[..., None, None]
        return pair.neutral(-r1 * _power(pair.far(), r2))

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rates = pair.reader(), per_head(self.rates, q, "KERPLEPower", dim=1).expand(-1, q.shape[1])

        def power(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - rates[0, h] * _power(distance.abs().to(pair.dtype), rates[1, h])
            return lower if placed is None else torch.where(placed, lower, score)

        return power

    def define_bias(self, at: At) -> Tensor:
        raw1, raw2 = self.raw[:, at.head.among(self.raw.shape[1])]
        r1, r2 = torch.log(1 + torch.exp(raw1)), 2 / (1 + torch.exp(-raw2))
        far = (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()
        return -r1 * far**r2 if far > 0 else torch.zeros_like(r1)


def _power(far: Tensor, exponent: Tensor) -> Tensor:
    """``far ** exponent``, whose slope at 0 is infinite below an exponent of 1: there value and gradient are 0."""
    apart = far > 0
    return torch.where(apart, far, 1).pow(exponent) * apart
