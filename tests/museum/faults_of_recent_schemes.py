"""Faults of encodings of 2022 to 2026, met in releases and in ports. Each differs from its base in a few lines."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from posenc.frequencies import proportional
from posenc.kernels.domain import Points
from posenc.kernels.rotary import Rotation
from posenc.positions import Positions
from posenc.schemes.fope import FoPE
from posenc.schemes.permutohedral_grid import PermutohedralGrid
from posenc.schemes.rope import RoPE
from posenc.schemes.temperature import Temperature


class TokensAreCounted(Temperature):
    """transformers 5.23, Llama 4 (read, not run): it counts the tokens of the cache, padding on the left among them."""

    caught_by = "placement.the_order_of_tokens_does_not_matter"

    def prepare(self, pos: Positions) -> Tensor:
        counted = torch.arange(pos.count, device=pos.coords.device)[:, None]
        return super().prepare(dataclasses.replace(pos, coords=counted.expand_as(pos.coords)))


class TokensWithoutAPositionAreScaled(Temperature):
    """A mutant of this package that passed: maps were compared with the identity only where they keep lengths."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def prepare(self, pos: Positions) -> Tensor:
        factor = super().prepare(pos)
        return factor if pos.placed is None else torch.where(pos.placed, factor, 2.0)


class PartialIsTakenForProportional(RoPE):
    """A trap in ports of Gemma 4: the exponent counts the rotated channels alone, as in a partial rotation."""

    caught_by = "definition.attention_equals_its_definition"
    examples = ({"head_dim": 8, "frequencies": proportional(4, share=0.5)},)

    def prepare(self, pos: Positions):
        partial = torch.tensor([1.0, 10000 ** (-1 / 2), 0.0, 0.0], dtype=torch.float64)
        return RoPE(self.head_dim, frequencies=partial).prepare(pos)


class ShiftedInFloat32(PermutohedralGrid):
    """github RaduAlexandru/permutohedral_encoding: a shift of 10 over a cell of 1e-4 leaves float32 no digits."""

    caught_by = "definition.embedding_equals_its_definition"
    examples = ({"axes": 2, "scales": (1e-4,), "table_size": 32},)

    def embed(self, where: Points) -> Tensor:
        return super().embed(where._replace(unit=where.unit.float()))


class LeftOutPairsCountTwice(FoPE):
    """github yiju-zhao/Fourier-Position-Embedding, vLLM: sines of left-out pairs are padded with 1 as their cosines."""

    caught_by = "definition.attention_equals_its_definition"
    examples = ({"head_dim": 12, "heads": 4, "extent": 60},)

    def prepare(self, pos: Positions) -> Rotation:
        cos, sin = super().prepare(pos).cos_sin.unbind(-2)
        sin[..., self.cos_coef.shape[-1] :] = 1
        return Rotation(torch.stack([cos, sin], -2), "half")
