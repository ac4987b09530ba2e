"""Faults of encodings of a graph's nodes. An exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.schemes.sign_net import SignNet


class TheOtherSignIsLeftOut(SignNet):
    """Made up after Lim et al. 2022: phi(v) without phi(-v), so a row depends on the sign that a solver returned."""

    caught_by = "definition.embedding_equals_its_definition"

    def _phi(self, v: Tensor, placed: Tensor | None) -> Tensor:
        plus, minus = super()._phi(v, placed).chunk(2, -2)
        return torch.cat([plus, torch.zeros_like(minus)], -2)


class PaddingIsInTheMean(SignNet):
    """Made up after batches of padded graphs: the mean over nodes counts those that are none."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def _phi(self, v: Tensor, placed: Tensor | None) -> Tensor:
        return super()._phi(v, None)


class OneMeanForTheBatch(SignNet):
    """Made up after graphs joined into one long batch: the mean runs over the nodes of all samples together."""

    caught_by = "placement.a_batch_of_positions_equals_one_at_a_time"

    def _phi(self, v: Tensor, placed: Tensor | None) -> Tensor:
        joined = None if placed is None else placed.expand(v.shape[:-1]).reshape(-1)
        return super()._phi(v.reshape(-1, v.shape[-1]), joined).unflatten(0, v.shape[:-1])
