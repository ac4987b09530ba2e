"""ALiBi: attention with linear biases, which lower each logit in proportion to distance, with one fixed slope per head.

    s_ij = q_i . k_j - m_h |p_j - p_i|,   m_h = 2^(-8 h / H),   h = 1 .. H        (section 3)

Source: Press, Smith and Lewis 2022, arXiv 2108.12409.

Conventions:
- Slopes are float64 numbers. They are never rounded to half precision.
- The paper is causal. Here the bias falls with ``|p_j - p_i|`` on both sides, so no later key is rewarded.
- ``plain_slopes`` applies the formula to every H. ``released_slopes`` returns the slopes of the authors' code (github
  ofirpress/attention_with_linear_biases), which released models use. The two agree where H is a power of two.
- All layers share one instance. It is built for the number of query heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.scheme import At, Claims, per_head


def _refuse_no_head(heads: int) -> None:
    """Raise ValueError for fewer than one head."""
    if heads < 1:
        raise ValueError(f"ALiBi has a slope for each of its query heads, at least one; got heads={heads}.")


def plain_slopes(heads: int) -> tuple[float, ...]:
    """Compute the slopes ``m_h = 2^(-8 h / H)``, ``h = 1 .. H``, for any number of heads.

    Args:
        heads: Number H of query heads, at least 1.

    Returns:
        The H slopes, one per head.

    Raises:
        ValueError: If ``heads`` is less than 1.
    """
    _refuse_no_head(heads)
    return tuple(2.0 ** (-8 * h / heads) for h in range(1, heads + 1))


def released_slopes(heads: int) -> tuple[float, ...]:
    """Compute the slopes of the authors' code, which released models use.

        plain_slopes(n), then the 1st, 3rd, 5th, .. slope of plain_slopes(2 n);   n = largest power of two <= H

    Args:
        heads: Number H of query heads, at least 1.

    Returns:
        The H slopes, one per head.

    Raises:
        ValueError: If ``heads`` is less than 1.
    """
    _refuse_no_head(heads)
    power = 2 ** int(math.log2(heads))
    return plain_slopes(power) + plain_slopes(2 * power)[::2][: heads - power]


class ALiBi(PairScheme):
    """Attention with linear biases (ALiBi), for real positions on one axis.

        s_ij = q_i . k_j - m_h |p_j - p_i|

    Args:
        heads: Number H of query heads.
        slopes: Slopes ``m_h``, positive and finite, ``(heads,)``. Default: ``plain_slopes(heads)``.

    Raises:
        ValueError: If ``heads`` is less than 1, or ``slopes`` are not ``heads`` positive finite numbers.

    Example:
        >>> import torch
        >>> from posenc import ALiBi, attention, sequence
        >>> q = k = v = torch.randn(1, 4, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=ALiBi(heads=4), q_pos=sequence(10)).shape
        torch.Size([1, 4, 10, 16])

    References:
        Press, Smith and Lewis 2022, arXiv 2108.12409, section 3.
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
        self.heads = heads
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

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return pair.neutral(-self._slopes(q, pair)[:, None, None] * pair.far())

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, slopes = pair.reader(), self._slopes(q, pair).expand(q.shape[1])

        def linear(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - slopes[h] * distance.abs()
            return lower if placed is None else torch.where(placed, lower, score)

        return linear

    def _slopes(self, q: Tensor, pair: Pairs) -> Tensor:
        """Return the slopes of the heads of ``q``, ``(H,)``."""
        return per_head(torch.tensor(self.slopes, dtype=pair.dtype, device=q.device), q, "ALiBi", dim=0)

    @override
    def define_bias(self, at: At) -> Tensor:
        return -self.slopes[at.head.among(len(self.slopes))] * (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()
