"""N-gram baselines: unigram and bigram models with counted probabilities.

    p(b)     = (c(b) + 1) / (N + V)                                  add-one smoothing, N tokens of V kinds
    p(b | a) = (c(a b) + T(a) p(b)) / (c(a) + T(a))                  T(a): number of kinds of token that follow a

The bigram is interpolated with the unigram by method C of Witten and Bell, which has no parameter to choose.

References:
    Witten and Bell 1991, doi 10.1109/18.87000.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch
from jaxtyping import Float64, Int32
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class NgramModel:
    """Unigram or bigram probabilities of the next token.

    Attributes:
        unigram: ``(V,)`` probability of each token without context.
        pair_counts: ``(K,)`` counts of the pairs that occur; None for a unigram model.
        pair_codes: ``(K,)`` sorted codes ``a V + b`` of these pairs; None for a unigram model.
    """

    unigram: Float64[Tensor, "V"]
    pair_counts: Float64[Tensor, "K"] | None
    pair_codes: Tensor | None

    def losses(self, tokens: Tensor) -> Float64[Tensor, "N-1"]:
        """``-ln p`` of each token of ``tokens`` ``(N,)`` but the first, which is only context."""
        before, after = tokens[:-1].long(), tokens[1:].long()
        p = self.unigram[after]
        if self.pair_counts is not None and self.pair_codes is not None:
            size = len(self.unigram)
            first = self.pair_codes // size
            followed = torch.zeros(size, dtype=torch.float64).index_add_(0, first, self.pair_counts)
            kinds = torch.bincount(first, minlength=size).double()
            codes = before * size + after
            at = torch.searchsorted(self.pair_codes, codes).clamp(max=len(self.pair_codes) - 1)
            counts = torch.where(self.pair_codes[at] == codes, self.pair_counts[at], 0.0)
            known = followed[before] > 0
            interpolated = (counts + kinds[before] * p) / (followed + kinds)[before].clamp(min=1)
            p = torch.where(known, interpolated, p)
        return -p.log()


def fit_ngram(train: Int32[Tensor, "N"], vocabulary: int, *, order: Literal[1, 2]) -> NgramModel:
    """Fit a unigram (order 1) or bigram (order 2) model to a training text; only pairs that occur take memory."""
    unigram = torch.bincount(train.long(), minlength=vocabulary).double() + 1
    unigram /= unigram.sum()
    if order == 1:
        return NgramModel(unigram, None, None)
    codes, counts = torch.unique(train[:-1].long() * vocabulary + train[1:].long(), return_counts=True)
    return NgramModel(unigram, counts.double(), codes)
