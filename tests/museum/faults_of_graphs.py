"""Faults of encodings of a graph's nodes. An exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.sign_net import SignNet
from posenc.schemes.spe import SPE, Nodes


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


class EachEigenvectorIsReadAlone(SPE):
    """Made up after networks on raw eigenvectors: the projector of an eigenvalue is replaced by single entries."""

    caught_by = "graphs.the_basis_of_equal_eigenvalues_does_not_matter"

    def prepare(self, pos: Positions) -> Nodes:
        where = super().prepare(pos)
        return where._replace(v=where.v.abs())


class SignsAreRead(SPE):
    """Made up after Laplacian encodings without random flips: a row depends on the sign that a solver returned."""

    caught_by = "graphs.signs_of_eigenvectors_do_not_matter"

    def prepare(self, pos: Positions) -> Nodes:
        where = super().prepare(pos)
        return where._replace(v=where.v + 0.5)


class TheMeanIsOfAllNodes(SPE):
    """Made up after PyTorch Geometric's Laplacian encoding, which knows no components."""

    caught_by = "graphs.a_disjoint_union_is_its_parts"

    def prepare(self, pos: Positions) -> Nodes:
        where = super().prepare(pos)
        placed = where.together.any(-1)
        return where._replace(together=placed[..., :, None] & placed[..., None, :])


class PaddingIsAComponent(SPE):
    """Made up after padded batches: padding counts as nodes of the component of the first node."""

    caught_by = "graphs.a_padded_graph_is_the_graph_alone"

    def prepare(self, pos: Positions) -> Nodes:
        return super().prepare(pos)._replace(together=torch.ones(pos.count, pos.count, dtype=torch.bool))


class TheNumberOfANodeIsRead(GraphDistance):
    """Made up after tables of lengths that are indexed by tokens, whatever their numbers of nodes are."""

    caught_by = "graphs.renumbered_nodes_are_the_same_nodes"

    def bias(self, q, k, kept, pair, attn_mask):
        there = super().bias(q, k, kept, pair, attn_mask)
        return there + 0.1 * torch.arange(there.shape[-1])
