"""Faults of biases on the logits. An exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from posenc.kernels.pairs import Pairs, running_sums
from posenc.positions import Positions
from posenc.scheme import At, Head
from posenc.schemes.alibi import ALiBi, plain_slopes
from posenc.schemes.causal_nope import CausalNoPE
from posenc.schemes.cope import CoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.kerple_power import KERPLEPower
from posenc.schemes.shaw import Shaw
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.t5_bias import T5Bias


class SlopesOfAnotherRule(ALiBi):
    """mlx#343, TensorRT-LLM#1611, Baichuan2#225: one rule of slopes for all heads, and checkpoints had the other."""

    caught_by = "definition.attention_equals_its_definition"

    def _slopes(self, q: Tensor, pair: Pairs) -> Tensor:
        return torch.tensor(plain_slopes(12)[6:10], dtype=pair.dtype)[: len(self.slopes)]


class SlopesInHalfPrecision(ALiBi):
    """vllm-fork#503, TensorRT-Model-Connect#667: slopes rounded to bfloat16; some of 12 are not powers of two."""

    caught_by = "definition.attention_equals_its_definition"

    def _slopes(self, q: Tensor, pair: Pairs) -> Tensor:
        return super()._slopes(q, pair).bfloat16().to(pair.dtype)


class TheFutureIsRewarded(ALiBi):
    """attention-gym ``alibi`` without a causal mask: no absolute value, so the furthest later key wins."""

    caught_by = "definition.attention_equals_its_definition"

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return pair.neutral(self._slopes(q, pair)[:, None, None] * pair.distance().to(pair.dtype))


class TheFormulaDealsHeadsInTurn(ALiBi):
    """Once in thirteen formulas of ours: query head h has slope h mod 4; in the code neighbours share one."""

    caught_by = "definition.attention_equals_its_definition"

    def define_bias(self, at: At) -> Tensor:
        own = len(self.slopes)
        return super().define_bias(dataclasses.replace(at, head=Head(at.head % own, own)))


class TheCodeDealsHeadsInTurn(ALiBi):
    """``repeat`` for ``repeat_interleave``: slopes are tiled, so query heads that share a key head have other ones."""

    caught_by = "definition.attention_equals_its_definition"

    def _slopes(self, q: Tensor, pair: Pairs) -> Tensor:
        return torch.tensor(self.slopes, dtype=pair.dtype).repeat(q.shape[1] // len(self.slopes))


class DistancesOfIndices(ALiBi):
    """x-transformers#298: made from token numbers, so own positions, packed documents and shuffles are not seen."""

    caught_by = "placement.the_order_of_tokens_does_not_matter"

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        of = (dataclasses.replace(p, coords=torch.arange(p.count)[:, None].double()) for p in (where_q, where_k))
        return Pairs(*of)


class QueriesCountedFromTheStart(ALiBi):
    """x-transformers#85, decoding: the new query counts as the first token, whatever the cache holds."""

    caught_by = "claims.caching_is_as_claimed"

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(Positions(where_k.coords[..., : where_q.count, :], where_q.placed), where_k)


class OneBucketOff(T5Bias):
    """x-transformers#10: the last exact distance falls into the first logarithmic bucket."""

    caught_by = "definition.attention_equals_its_definition"

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__(heads, buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
        middle, off = len(self.bucket) // 2, buckets // (4 if bidirectional else 2) - 1
        self.bucket = tuple(row + (n == middle - off) for n, row in enumerate(self.bucket))


class OneSideForBothAxes(SwinBias):
    """One interval stands for all axes: the longest side, so a short axis runs over into the next row of the table."""

    caught_by = "claims.range_is_as_claimed"

    def __init__(self, heads: int, window: Sequence[int]) -> None:
        super().__init__(heads, window)
        self.claims = dataclasses.replace(self.claims, range=(0, max(window) - 1))


class QueryMinusKey(SwinBias):
    """Swin's released index beside a table that counts key minus query: every picture is seen in a mirror."""

    caught_by = "definition.attention_equals_its_definition"

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        ends = torch.tensor([size - 1.0 for size in self.window]).double()
        return Pairs(*(dataclasses.replace(p, coords=ends - p.coords) for p in (where_q, where_k)))


class ClassTokenHasAnOffset(SwinBias):
    """timm, BEiT: a class token that is given the offsets of the first pixel instead of none."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def prepare(self, pos: Positions) -> Positions:
        return super().prepare(dataclasses.replace(pos, placed=None, lattice=None))


class InfiniteSlopeAtZero(KERPLEPower):
    """A power below 1 at distance 0, where every token stands from itself: the gradient by positions is NaN."""

    caught_by = "definition.attention_equals_its_definition"

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        r1, r2 = self.rates[..., None, None]
        return pair.neutral(-r1 * pair.far().pow(r2))


class NormalisedByTheLength(FIRE):
    """FIRE by the length of the sequence, not by the query's place: a cache that grows changes what was said before."""

    caught_by = "claims.caching_is_as_claimed"

    def _own(self, pair: Pairs) -> Tensor:
        place = pair.k.coords[..., 0].amax(-1, keepdim=True)
        return super()._own(Pairs(Positions(place[..., None].expand(*pair.q.coords.shape)), pair.k))


class GatesAreDrawnInPart(FoX):
    """fla#967 and meta devices: what nobody filled is whatever was in memory."""

    caught_by = "state.the_meta_device_holds_a_scheme"

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        torch.nn.init.uniform_(self.weight, -0.1, 0.1, generator=generator)


class PaddingForgets(FoX):
    """Gates of padding are added up with the others: what a sequence says depends on how it was padded."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def keep(self, x: Tensor, where: Positions) -> Tensor:
        return super().keep(x, dataclasses.replace(where, placed=None))


class NeighboursAreCounted(CoPE):
    """Counts without ``attn_mask``: a packed document counts the keys of the one beside it."""

    caught_by = "placement.packed_documents_equal_separate_ones"

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return super().bias(q, k, kept, pair, None)


class SlopeOfTheNextHead(ALiBi):
    """aprender#2143: heads counted from 0 where slopes count from 1; here in the FlexAttention form alone."""

    caught_by = "compiling.its_score_mod_agrees_with_eager"

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs) -> Callable[..., Tensor]:
        right, heads = super().score_mod(q, kept, pair), q.shape[1]
        return lambda score, b, h, i, j: right(score, b, (h + 1) % heads, i, j)


class NotCausal(FoX):
    """Without its mask: the running sum is negative for later keys too, and F_i - F_j rewards them."""

    caught_by = "definition.attention_equals_its_definition"

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        self.claims = dataclasses.replace(self.claims, sites=frozenset({"bias"}))

    def mask(self, pair: Pairs) -> None:
        return None

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        at_q, at_k = running_sums(self._given(kept), pair)
        return pair.neutral(at_q[..., :, None] - at_k[..., None, :])


class LooksAtQueriesUnsaid(CoPE):
    """A bias that says it looks at nothing is made once for all layers that share it: all would have the first's."""

    caught_by = "claims.what_its_bias_reads_is_as_said"
    bias_reads = frozenset()


class SharesKeysInAnotherOrder(CoPE):
    """Heads 0 and 1 of queries share the first head of keys, as attention has it; here heads 0 and 2 do."""

    caught_by = "placement.grouped_and_cross_attention_agree_with_plain"

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return super().bias(q, k.repeat(1, q.shape[1] // k.shape[1], 1, 1), kept, pair, attn_mask)


class TheFlexFormHasNoAbsoluteValue(ALiBi):
    """Mutation of ours that only the slow FlexAttention check saw: later keys are rewarded in one backend alone."""

    caught_by = "definition.score_mod_equals_its_bias_and_mask"

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, slopes = pair.reader(), self._slopes(q, pair).expand(q.shape[1])

        def linear(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - slopes[h] * distance
            return lower if placed is None else torch.where(placed, lower, score)

        return linear


class TheFlexFormReadsMissingPositions(ALiBi):
    """A mutant that survived: a pair with a class token had a bias in the FlexAttention form alone."""

    caught_by = "definition.score_mod_equals_its_bias_and_mask"

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, slopes = pair.reader(), self._slopes(q, pair).expand(q.shape[1])
        return lambda score, b, h, i, j: score - slopes[h] * read(b, i, j)[0].abs()


class DistancesAreRounded(ALiBi):
    """All real test positions once had the same fraction, so that their distances stayed whole."""

    caught_by = "definition.attention_equals_its_definition"

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        return pair.neutral(-self._slopes(q, pair)[:, None, None] * pair.distance().abs().round().to(pair.dtype))


class ValuesAreSummedInHalfPrecision(Shaw):
    """A mutation of ours: bfloat16 stops adding small weights after a few hundred keys."""

    caught_by = "precision.long_rows_keep_their_sums"

    def value_bias(self, weights: Tensor, pair: Pairs) -> Tensor | None:
        if self.values is None:
            return None
        total = weights.new_zeros(*weights.shape[:-1], 2 * self.max_distance + 2)
        rows = self._row(pair).expand(weights.shape)
        for row, weight in zip(rows.split(4, -1), weights.split(4, -1), strict=True):
            total = total.scatter_add(-1, row, weight)  # rounded after every fourth key
        return total[..., :-1] @ self.values.to(weights.dtype)


class Window(CausalNoPE):
    """A healthy sliding window of eight tokens, longer than the rows of most checks."""

    def mask(self, pair: Pairs) -> Tensor:
        return pair.before() & self._near(pair, pair.distance() > -8)

    def _near(self, pair: Pairs, near: Tensor) -> Tensor:
        placed = pair.placed()
        return near if placed is None else near | ~placed

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        return None

    def define_mask(self, at: At) -> bool:
        distance = (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).item()
        return -8 < distance <= 0


class TheWindowHoldsOneMore(Window):
    """``>=`` for ``>``: no drawn pair of positions was that far apart, so all checks passed."""

    caught_by = "definition.mask_equals_its_definition"

    def mask(self, pair: Pairs) -> Tensor:
        return pair.before() & self._near(pair, pair.distance() >= -8)
