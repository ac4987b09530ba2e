"""KERPLELog: logits fall with the logarithm of the distance, at learned rates for each head.

    s_ij = q_i . k_j - r1 log(1 + r2 |p_j - p_i|),   r1, r2 > 0        (the logarithmic kernel of section 4)

Source: Chi et al. 2022, arXiv 2205.09921. Conventions: ``r = softplus(raw)`` keeps both positive, where the authors'
public code (github chijames/KERPLE) clamps them at 0.01; before training ``r1 ~ U(0, 2)`` and ``r2 ~ U(0, 1)``, as
there. Built for the query heads; one shared by all layers, or one a layer. The paper has one axis; on more,
``|p_j - p_i|`` is Euclidean, of which this kernel is conditionally positive definite too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.pairs import Pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head

LEAST = 0.01


class KERPLELog(Scheme):
    """``-r1 log(1 + r2 |p_j - p_i|)`` on the logits, for real positions.

    heads: the number of query heads, each with its own r1 and r2. axes: P. generator: of the first ones.
    """

    cite = """@inproceedings{chi2022kerple,
  title={KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation},
  author={Chi, Ta-Chung and Fan, Ting-Han and Ramadge, Peter J. and Rudnicky, Alexander I.},
  booktitle={NeurIPS}, year={2022}, note={arXiv:2205.09921}}"""
    examples = ({"heads": 4}, {"heads": 1}, {"heads": 4, "axes": 3})
    bias_reads = frozenset()
    wide = frozenset({"raw"})

    raw: nn.Parameter

    def __init__(self, heads: int, axes: int = 1, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"KERPLELog has two rates for each of its query heads, at least one; got heads={heads}.")
        if axes < 1:
            raise ValueError(f"KERPLELog reads at least one axis; got axes={axes}. Use 1 for tokens in a row.")
        self.raw = nn.Parameter(torch.empty(2, heads))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the rates anew (also after building on the meta device)."""
        with torch.no_grad():
            r = self.raw.uniform_(LEAST, 1, generator=generator) * self.raw.new_tensor([[2.0], [1.0]])
            self.raw.copy_(r + (-torch.expm1(-r)).log())  # the inverse of softplus

    @property
    def rates(self) -> Tensor:
        """``r1`` and ``r2`` of each head, ``(2, H)``."""
        return functional.softplus(self.raw)

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        r1, r2 = per_head(self.rates, q, "KERPLELog", dim=1)[..., None, None]
        return pair.neutral(-r1 * torch.log1p(r2 * pair.far()))

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rates = pair.far_reader(), per_head(self.rates, q, "KERPLELog", dim=1).expand(-1, q.shape[1])

        def logarithmic(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - rates[0, h] * torch.log1p(rates[1, h] * distance)
            return lower if placed is None else torch.where(placed, lower, score)

        return logarithmic

    def define_bias(self, at: At) -> Tensor:
        r1, r2 = torch.log(1 + torch.exp(self.raw[:, at.head.among(self.raw.shape[1])]))
        return -r1 * torch.log(1 + r2 * torch.linalg.vector_norm(at.k_pos[at.j] - at.q_pos[at.i]))
