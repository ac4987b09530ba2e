"""Faults of rotations. Each exhibit is a whole scheme that differs from a healthy one, its base, in a few lines.

Here alone schemes are subclassed: what stands in the subclass is the fault and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.xpos import XPos

CLAIMS = Claims(
    translation="exact",
    isometric=True,
    learned=False,
    range=None,
    axes=1,
    sites=frozenset({"q", "k"}),
    sharing="model",
    cacheable=True,
)


class Rotary(Scheme):
    """Two pairs of channels turned by ``p theta``."""

    examples = ({"theta": (1.0, 0.1)}, {"theta": (0.5, 0.02)})

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__()
        self.theta, self.claims = theta, CLAIMS

    @property
    def head_width(self) -> int:
        return 4

    def angles(self, pos: Positions) -> Tensor:
        return pos.precise() * torch.tensor(self.theta, dtype=torch.float64)

    def prepare(self, pos: Positions) -> Tensor:
        angle = self.angles(self._take(pos))
        angle = angle if pos.placed is None else angle * pos.placed[..., None]
        return angle.unsqueeze(-3) if pos.batched else angle

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        if site not in ("q", "k"):
            return x
        a, b, cos, sin = x[..., 0::2], x[..., 1::2], where.cos(), where.sin()
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)

    def rerotate(self, x: Tensor, where_from: Tensor, where_to: Tensor, site: str = "k") -> Tensor:
        return self.transform(x, where_to - where_from, site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        row = []
        for i, theta in enumerate(self.theta if site in ("q", "k") else ()):
            a, b, m = x[2 * i], x[2 * i + 1], p[0] * theta
            row += [a * torch.cos(m) - b * torch.sin(m), b * torch.cos(m) + a * torch.sin(m)]
        return torch.stack(row) if row else x


# numbers -----------------------------------------------------------------------------------------------------------


class PositionsInTheInputsDtype(Rotary):
    """rotary-embedding-torch 0.9.1: ``arange(dtype=q.dtype)``, so of 4096 positions in bfloat16 769 are left."""

    caught_by = "precision.half_precision_does_not_move_tokens"

    def prepare(self, pos: Positions) -> Any:
        return self._take(pos)

    def transform(self, x: Tensor, where: Any, site: str) -> Tensor:
        rounded = dataclasses.replace(where, coords=where.coords.to(x.dtype))
        return super().transform(x, super().prepare(rounded), site)


class FrequenciesInABuffer(Rotary):
    """transformers#25681, #29285, #29496, #24262: ``.bfloat16()`` on the model rounds ``inv_freq``."""

    caught_by = "precision.half_precision_does_not_move_tokens"

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.register_buffer("inv_freq", torch.tensor(theta, dtype=torch.float64))

    def angles(self, pos: Positions) -> Tensor:
        return pos.precise() * self.inv_freq


class AnglesByMatrixProduct(Rotary):
    """nd-rotary-encodings: the angles are a ``mm``, which autocast takes to bfloat16."""

    caught_by = "precision.autocast_does_not_move_tokens"

    def angles(self, pos: Positions) -> Tensor:
        return pos.coords.float() @ torch.tensor([self.theta])


class AnglesInFloat32(Rotary):
    """Every peer: float32 angles, off by 0.06 rad at a position of a million."""

    caught_by = "precision.far_positions_keep_their_phase"

    def angles(self, pos: Positions) -> Tensor:
        return (pos.coords.float() * torch.tensor(self.theta)).double()


class InvertedRamp(Rotary):
    """litgpt's YaRN: the ramp is upside down, so the pairs that keep their speed are those that must be slowed."""

    caught_by = "definition.attention_equals_its_definition"

    def angles(self, pos: Positions) -> Tensor:
        return super().angles(pos) * (1 - yarn_ramp(self.theta) * 3 / 4)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        keep = yarn_ramp(self.theta)
        slowed = type(self).__base__([t * float(k + (1 - k) / 4) for t, k in zip(self.theta, keep, strict=True)])
        return slowed.define_transform(x, p, site, head)


def yarn_ramp(theta: tuple[float, float]) -> Tensor:
    """1 for what turns 32 times in 256 tokens, 0 for what turns once at most; YaRN by a factor of 4."""
    return ((256 * torch.tensor(theta, dtype=torch.float64) / (2 * torch.pi) - 1) / 31).clamp(0, 1)


# hidden state ------------------------------------------------------------------------------------------------------


class CachedByLength(Rotary):
    """rotary-embedding-torch, positional-encodings: the cache is asked for a length, whoever filled it."""

    caught_by = "state.using_it_changes_nothing"

    def angles(self, pos: Positions) -> Tensor:
        kept = self.__dict__.setdefault("kept", {})
        return kept.setdefault(pos.count, super().angles(pos))


KEPT: dict[int, tuple[float, float]] = {}


class CacheForgetsTheta(Rotary):
    """equinox ``RotaryPositionalEmbedding``: one cache for all, keyed without theta, so the first one wins."""

    caught_by = "options.every_example_differs_from_the_others"

    def angles(self, pos: Positions) -> Tensor:
        return pos.precise() * torch.tensor(KEPT.setdefault(self.head_width, self.theta), dtype=torch.float64)


class TurnsInPlace(Rotary):
    """Liger, unsloth#5001, Megatron-LM#5412: the rotation writes into the caller's q and k."""

    caught_by = "state.using_it_changes_nothing"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return x.copy_(super().transform(x, where, site))


class CannotBePickled(Rotary):
    """Made up for the check: a lambda in the instance, on which ``torch.save`` and worker processes fail."""

    caught_by = "state.copies_do_the_same"

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.schedule = lambda: theta


# which tokens, heads and channels ----------------------------------------------------------------------------------


class TokenIndexIsThePosition(Rotary):
    """positional-encodings#1 and #44, x-transformers#299, Liger#276: positions are counted, whatever was passed."""

    caught_by = "placement.the_order_of_tokens_does_not_matter"

    def angles(self, pos: Positions) -> Tensor:
        return super().angles(dataclasses.replace(pos, coords=torch.arange(pos.count)[:, None].expand_as(pos.coords)))


class BatchMeetsHeads(Rotary):
    """Liger#477, x-transformers: positions of a batch have no axis for the heads and are broadcast against them."""

    caught_by = "placement.a_batch_of_positions_equals_one_at_a_time"

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(pos).squeeze(-3) if pos.batched else super().prepare(pos)


class ClassTokenTurns(Rotary):
    """rope-vit, timm: the class token must be cut off by hand, or it is turned with the pixels."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(Positions(pos.coords))


class OrderIsKeptAsItWasGiven(AxialRoPE):
    """A fault of this package: a state of order=(1, 0) did not load where a JSON file gave [1, 0]."""

    caught_by = "options.a_list_may_stand_for_a_tuple"
    examples = ({"head_dim": 12, "order": (1, 0)},)

    def __init__(self, head_dim: int, order: Sequence[int]) -> None:
        super().__init__(head_dim, order=order)
        self.order = order


class OtherPairing(Rotary):
    """timm#2692, transformers#47403, coreai-models#66: the half layout where the definition is interleaved."""

    caught_by = "definition.attention_equals_its_definition"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        halves = [0, 2, 1, 3]
        return super().transform(x[..., halves], where, site)[..., halves]


class FrequenciesPerHead(Rotary):
    """flash-attention#578 asks for it: a head has frequencies of its own, and nothing says so."""

    caught_by = "claims.sharing_is_as_claimed"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return super().transform(x, where * (1 + torch.arange(x.shape[1])[:, None, None]), site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return super().define_transform(x, p * (1 + head), site, head)


class KeyHeadsAreCountedAsQueryHeads(Rotary):
    """Per-head frequencies again: grouped keys are fewer heads, and key head 1 is not query head 1."""

    caught_by = "placement.grouped_and_cross_attention_agree_with_plain"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return super().transform(x, where * (1 + torch.arange(x.shape[1])[:, None, None]), site)


# what is relative --------------------------------------------------------------------------------------------------


class QueriesAndKeysTurnApart(Rotary):
    """RoSE: q and k have frequencies of their own, so scores are not functions of the distance, as they claim to be."""

    caught_by = "claims.translation_is_as_claimed"

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return super().transform(x, where * 1.1 if site == "k" else where, site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return super().define_transform(x, p * 1.1 if site == "k" else p, site, head)


class ClaimsLessThanItDoes(Rotary):
    """gpytorch ``is_stationary``: a claim with a default is soon a wrong one, here the modest one."""

    caught_by = "claims.translation_is_as_claimed"

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.claims = dataclasses.replace(CLAIMS, translation="none")


class MovesKeysBackwards(Rotary):
    """Made up after llama.cpp#24875, which asks for moving cached keys: they are turned by the shift the wrong way."""

    caught_by = "placement.moved_keys_are_as_if_made_there"

    def rerotate(self, x: Tensor, where_from: Tensor, where_to: Tensor, site: str = "k") -> Tensor:
        return super().rerotate(x, where_to, where_from, site)


class ScalesByTheLongest(Rotary):
    """transformers#34046, dynamic NTK: frequencies follow the longest position at hand, also of another document."""

    caught_by = "placement.packed_documents_equal_separate_ones"

    def angles(self, pos: Positions) -> Tensor:
        return super().angles(pos) * (1 if pos.count < 1 else 2 - (pos.coords.max() - pos.coords.min()) / 100)


class Decaying(Rotary):
    """xPos with a fixed centre: queries grow by ``1.02^p`` and keys shrink by it; its range keeps that finite."""

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.claims = dataclasses.replace(CLAIMS, isometric=False, range=(0, 60))

    rerotate = Scheme.rerotate

    def growth(self, where: Tensor) -> Tensor:
        return where[..., :1] / self.theta[0]

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        power = {"q": 1, "k": -1}.get(site, 0)
        return (super().transform(x, where, site) * 1.02 ** (power * self.growth(where))).to(x.dtype)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        power = {"q": 1, "k": -1}.get(site, 0)
        return super().define_transform(x, p, site, head) * 1.02 ** (power * p[0])


class CentredOnTheLength(Decaying):
    """xPos in rotary-embedding-torch, x-transformers, flash-attn: cached keys are stale when the text grows."""

    caught_by = "claims.caching_is_as_claimed"

    def growth(self, where: Tensor) -> Tensor:
        return super().growth(where) - where.shape[-2] // 2


class ClaimsToKeepLengths(Decaying):
    """The same, in another claim: xPos called a rotation."""

    caught_by = "claims.isometry_is_as_claimed"

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.claims = dataclasses.replace(self.claims, isometric=True)


# gradients and compilation -----------------------------------------------------------------------------------------


class TheSmallestZetaForgotten(XPos):
    """Ours until 2026-11: a range for the paper's gamma, whatever gamma was, in which numbers grew past float16."""

    caught_by = "precision.half_precision_does_not_move_tokens"
    examples = ({"head_dim": 12, "gamma": 0.05},)

    def __init__(self, head_dim: int, gamma: float) -> None:
        super().__init__(head_dim, 500.0, scale_base=64.0)
        self.gamma = gamma


class RoundsPositions(Rotary):
    """flash-attention, timm's tables: rows are integers, and a position between two is cut off without a word."""

    caught_by = "definition.attention_equals_its_definition"

    def angles(self, pos: Positions) -> Tensor:
        return super().angles(dataclasses.replace(pos, coords=pos.coords.long()))


class NoGradientToPositions(Rotary):
    """rotary-embedding-torch, x-transformers: positions get a gradient in part of the calls; here in none."""

    caught_by = "definition.attention_equals_its_definition"

    def angles(self, pos: Positions) -> Tensor:
        with torch.no_grad():
            return super().angles(pos)


class NowhereAGradientToPositions(Rotary):
    """positional-encodings, torchtune: positions get no gradient, and here the definition agrees."""

    caught_by = "definition.positions_get_the_gradient_of_the_effect"

    def angles(self, pos: Positions) -> Tensor:
        return super().angles(pos).detach()

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return super().define_transform(x, p.detach(), site, head)


class ReadsPositionsWhileCompiling(Rotary):
    """transformers#34046, vllm#58064: dynamic scaling asks for ``max(position_ids)`` and breaks the graph there."""

    caught_by = "compiling.it_compiles_whole_at_changing_lengths"

    def angles(self, pos: Positions) -> Tensor:
        longest = float(pos.coords.max()) if pos.count else 0.0
        return super().angles(pos) * (1.0 if longest < 1e9 else 0.5)


class FrequenciesAreRounded(RoPE):
    """Made up after tables of angles in few digits: slow frequencies, as those per second, become 0."""

    caught_by = "units.a_unit_with_its_frequencies_changes_nothing"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.theta = tuple(round(theta, 4) for theta in self.theta)
