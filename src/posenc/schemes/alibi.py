"""ALiBi: logits fall in proportion to distance, with a fixed slope for each head.

    s_ij = q_i . k_j - m_h |p_j - p_i|,   m_h = 2^(-8 h / H),   h = 1 .. H        (section 3)

Source: Press et al. 2022, arXiv 2108.12409. Conventions: slopes are float64 numbers, never rounded to half precision.
The paper is causal; on both sides ``|p_j - p_i|`` falls either way, so that no later key is ever rewarded.
``released_slopes`` are those of the paper's public code (github ofirpress/attention_with_linear_biases), which
released models use: the same where H is a power of two; elsewhere those of the power below, then every other one of
the power above. One shared by all layers; built for the query heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.kernels.pairs import Pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head


def _refuse_no_head(heads: int) -> None:
    if heads < 1:
        raise ValueError(f"ALiBi has a slope for each of its query heads, at least one; got heads={heads}.")


def plain_slopes(heads: int) -> tuple[float, ...]:
    """``2^(-8 h / H)`` for h = 1 .. H, whatever H is."""
    _refuse_no_head(heads)
    return tuple(2.0 ** (-8 * h / heads) for h in range(1, heads + 1))


def released_slopes(heads: int) -> tuple[float, ...]:
    """The paper's public code: with n the largest power of two <= H, ``plain_slopes(n)``, then the 1st, 3rd, 5th .. of
    ``plain_slopes(2 n)``."""
    _refuse_no_head(heads)
    power = 2 ** int(math.log2(heads))
    return plain_slopes(power) + plain_slopes(2 * power)[::2][: heads - power]


class ALiBi(Scheme):
    """``-m_h |p_j - p_i|`` on the logits, for real positions on one axis.

    heads: the number H of query heads. slopes: their ``m_h``, positive numbers; ``plain_slopes(heads)`` otherwise.
    """

    cite = """@inproceedings{press2022train,
  title={Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation},
  author={Press, Ofir and Smith, Noah A. and Lewis, Mike},
  booktitle={ICLR}, year={2022}, note={arXiv:2108.12409}}"""
    examples = ({"heads": 4}, {"heads": 4, "slopes": released_slopes(12)[6:10]}, {"heads": 1})
    bias_reads = frozenset()
    conventions = ("slopes",)

    def __init__(self, heads: int, *, slopes: Sequence[float] | Tensor | None = None) -> None:
        super().__init__()
        _refuse_no_head(heads)
        given = slopes.detach().double().tolist() if isinstance(slopes, Tensor) else slopes
        self.slopes = plain_slopes(heads) if given is None else tuple(float(m) for m in given)
        if len(self.slopes) != heads or not all(math.isfinite(m) and m > 0 for m in self.slopes):
            raise ValueError(
                f"ALiBi({heads}) needs {heads} slopes, positive and finite; got {list(self.slopes)}. Leave them "
                f"out, or take released_slopes({heads})."
            )
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head" if len(set(self.slopes)) > 1 else "model",
            cacheable=True,
        )

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        return pair.neutral(-self._slopes(q, pair)[:, None, None] * pair.far())

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, slopes = pair.reader(), self._slopes(q, pair).expand(q.shape[1])

        def linear(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - slopes[h] * distance.abs()
            return lower if placed is None else torch.where(placed, lower, score)

        return linear

    def _slopes(self, q: Tensor, pair: Pairs) -> Tensor:
        return per_head(torch.tensor(self.slopes, dtype=pair.dtype, device=q.device), q, "ALiBi", dim=0)

    def define_bias(self, at: At) -> Tensor:
        return -self.slopes[at.head.among(len(self.slopes))] * (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()
