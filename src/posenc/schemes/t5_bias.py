"""T5Bias: the relative position bias of T5, a learned scalar per head and bucket of distances, logarithmic far away.

    s_ij = q_i . k_j + b_h[bucket(p_j - p_i)]
    bucket(d) = [d > 0] n + (|d|  if |d| < e  else  min(e + floor(log(|d| / e) / log(D / e) (n - e)), n - 1))

with n = B / 2 buckets per side and e = n / 2. Causal (``bidirectional=False``): n = B, and all later keys (d > 0) share
bucket 0 with distance 0.

Source: Raffel et al. 2020, arXiv 1910.10683, section 2.1, and the public code of T5 (github google-research/t5), which
defines these buckets.

Conventions:
- Where the logarithm would be rounded, bucket edges are computed in whole numbers instead.
- All layers share one table ``(B, H)``, which starts as N(0, 0.02^2).
- T5 does not divide the logits by sqrt(d): call ``attention(.., scale=1)``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.kernels.table_lookup import look_up_pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head

SIGMA = 0.02
"""Standard deviation of the initial table."""


def buckets_by_distance(buckets: int, max_distance: int, *, bidirectional: bool) -> tuple[int, ...]:
    """Bucket of each distance from ``-max_distance`` to ``max_distance``; larger distances share the last bucket.

    Bucket e + s of the L logarithmic ones starts at ``n >= e (D / e)^(s / L)``. In whole numbers this is
    ``n^L e^s >= e^L D^s``.

    Args:
        buckets: Number B of buckets.
        max_distance: Distance D from which on all share a bucket.
        bidirectional: Whether later keys have half of the buckets, or all share bucket 0.

    Returns:
        ``2 D + 1`` bucket numbers, for the distances -D .. D.
    """
    side = buckets // 2 if bidirectional else buckets
    exact = side // 2
    steps = side - exact

    def one_side(n: int) -> int:
        if n < exact:
            return n
        passed = (s for s in range(1, steps) if n**steps * exact**s >= exact**steps * max_distance**s)
        return exact + max(passed, default=0)

    earlier = [one_side(n) for n in range(max_distance, -1, -1)]
    later = [side + bucket if bidirectional else 0 for bucket in reversed(earlier[:-1])]
    return (*earlier, *later)


class T5Bias(PairScheme):
    """Relative position bias of T5, for whole positions on one axis.

        s_ij = q_i . k_j + b_h[bucket(p_j - p_i)]

    Args:
        heads: Number of query heads.
        buckets: Number B of buckets, even if bidirectional; 32 in T5.
        max_distance: Distance D in positions from which on all share a bucket; 128 in T5.
        bidirectional: Whether later keys have half of the buckets (T5's encoder), or none of their own (its decoder).
        generator: Random generator for the initial table ``(buckets, heads)``; torch's default generator if None.

    Raises:
        ValueError: If ``heads`` is below 1, ``buckets`` is too small or odd, or ``max_distance`` has an exact bucket.

    Example:
        >>> import torch
        >>> from posenc import T5Bias, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=T5Bias(4), q_pos=sequence(6), scale=1.0).shape
        torch.Size([1, 4, 6, 12])

    References:
        Raffel, Shazeer, Roberts, Lee, Narang, Matena, Zhou, Li and Liu, 2020, "Exploring the Limits of Transfer
        Learning with a Unified Text-to-Text Transformer", arXiv 1910.10683, section 2.1.
    """

    cite = """@article{raffel2020exploring,
  title={Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer},
  author={Raffel, Colin and Shazeer, Noam and Roberts, Adam and Lee, Katherine and Narang, Sharan and Matena, Michael
  and Zhou, Yanqi and Li, Wei and Liu, Peter J.},
  journal={JMLR}, year={2020}, note={arXiv:1910.10683}}"""
    examples = (
        {"heads": 4},
        {"heads": 4, "buckets": 8, "max_distance": 12},
        {"heads": 4, "buckets": 8, "max_distance": 12, "bidirectional": False},
        {"heads": 1},
    )
    bias_reads = frozenset()
    conventions = ("bidirectional", "max_distance")

    table: nn.Parameter

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        sides = 2 if bidirectional else 1
        if heads < 1 or buckets < 2 * sides or buckets % sides or max_distance <= buckets // sides // 2:
            raise ValueError(
                f"T5Bias needs heads >= 1, {'an even number of ' if bidirectional else ''}buckets >= {2 * sides} and a "
                f"max_distance beyond the {max(buckets // sides // 2, 0)} exact ones; got heads={heads}, "
                f"buckets={buckets}, max_distance={max_distance}. T5 has 32 and 128."
            )
        self.max_distance = max_distance
        self.bucket = buckets_by_distance(buckets, max_distance, bidirectional=bidirectional)
        self.bidirectional = bidirectional
        self.table = nn.Parameter(torch.empty(buckets, heads))
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
        """Draw the initial table again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        nn.init.normal_(self.table, std=SIGMA, generator=generator)

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        row = pair.distance().clamp(-self.max_distance, self.max_distance).long() + self.max_distance
        return pair.neutral(look_up_pairs(self._by_distance(q), row))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, far, values = pair.reader(), self.max_distance, self._by_distance(q).expand(-1, q.shape[1])

        def bucketed(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            higher = score + values[distance.clamp(-far, far).long() + far, h]
            return higher if placed is None else torch.where(placed, higher, score)

        return bucketed

    def _by_distance(self, q: Tensor) -> Tensor:
        """Bias ``b_h`` of every distance -D .. D, ``(2 D + 1, H)``."""
        return per_head(self.table[torch.tensor(self.bucket, device=self.table.device)], q, "T5Bias", dim=1)

    @override
    def define_bias(self, at: At) -> Tensor:
        distance, (buckets, heads) = int(at.k_pos[at.j, 0] - at.q_pos[at.i, 0]), self.table.shape
        side, n = (buckets // 2, abs(distance)) if self.bidirectional else (buckets, max(-distance, 0))
        exact, start = side // 2, side if self.bidirectional and distance > 0 else 0
        steps = side - exact
        passed = [s for s in range(steps) if n**steps * exact**s >= exact**steps * self.max_distance**s]
        return self.table[start + (n if n < exact else exact + passed[-1]), at.head.among(heads)]
