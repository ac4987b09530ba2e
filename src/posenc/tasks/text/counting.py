"""What counting tells: the baselines unigram and bigram, which every model of a text should beat.

    p(b)     = (c(b) + 1) / (N + V)                                  add one, over N tokens of V kinds
    p(b | a) = (c(a b) + T(a) p(b)) / (c(a) + T(a))                  T(a): how many kinds follow a

Source: interpolation with the unigram by Witten and Bell 1991, doi 10.1109/18.87000, method C: nothing to choose.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch
from jaxtyping import Float64, Int32
from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Counted:
    """Probabilities of the next token, without any context or after one token."""

    alone: Float64[Tensor, "V"]
    pairs: Float64[Tensor, "K"] | None
    """Counts of the pairs that were seen; ``codes`` says of which, sorted: ``a V + b``."""
    codes: Tensor | None

    def losses(self, tokens: Tensor) -> Float64[Tensor, "N-1"]:
        """``-ln p`` of each token but the first, which only gives the second its context."""
        before, after = tokens[:-1].long(), tokens[1:].long()
        p = self.alone[after]
        if self.pairs is not None and self.codes is not None:
            size = len(self.alone)
            first = self.codes // size
            followed = torch.zeros(size, dtype=torch.float64).index_add_(0, first, self.pairs)
            kinds = torch.bincount(first, minlength=size).double()
            wanted = before * size + after
            at = torch.searchsorted(self.codes, wanted).clamp(max=len(self.codes) - 1)
            seen = torch.where(self.codes[at] == wanted, self.pairs[at], 0.0)
            known = followed[before] > 0
            told = (seen + kinds[before] * p) / (followed + kinds)[before].clamp(min=1)
            p = torch.where(known, told, p)
        return -p.log()


def count(train: Int32[Tensor, "N"], vocabulary: int, *, order: Literal[1, 2]) -> Counted:
    """Counts a training text; order 1: unigram, 2: bigram. A vocabulary of any size: only what occurs is kept."""
    alone = torch.bincount(train.long(), minlength=vocabulary).double() + 1
    alone /= alone.sum()
    if order == 1:
        return Counted(alone, None, None)
    codes, times = torch.unique(train[:-1].long() * vocabulary + train[1:].long(), return_counts=True)
    return Counted(alone, times.double(), codes)
