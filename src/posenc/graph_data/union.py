"""Disjoint union of graphs, by connected components of equal size, so that small ones are computed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.graph_data.edges import Graph

BLOCK = 2**23
"""Number of matrix entries that are computed at a time: 64 MiB in float64."""


class Union(NamedTuple):
    """The disjoint union of graphs, as tensors on the CPU.

    Attributes:
        edges: Node numbers ``(2, E)`` in the union, each edge in both directions.
        weight: Weights ``(E,)``, float64.
        offsets: Number ``(G + 1,)`` of the first node of each graph; the last entry is the number of nodes.
        component: Number ``(N,)`` of the connected component of each node, in the order of their first nodes.
        sizes: Number of nodes ``(C,)`` of each component.
    """

    edges: Tensor
    weight: Tensor
    offsets: Tensor
    component: Tensor
    sizes: Tensor

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.offsets[-1])

    def degrees(self) -> Tensor:
        """Sum of the weights of the edges of each node, ``(N,)``, float64."""
        return torch.zeros(self.num_nodes, dtype=torch.float64).index_add_(0, self.edges[0], self.weight)

    def symmetric_weights(self) -> Tensor:
        """Entries ``(E,)`` of ``D^(-1/2) A D^(-1/2)``."""
        scale = self.degrees().clamp(min=torch.finfo(torch.float64).tiny).rsqrt()
        return self.weight * scale[self.edges[0]] * scale[self.edges[1]]


class Block(NamedTuple):
    """Components of equal size.

    Attributes:
        nodes: Node numbers ``(G, n)`` of each component.
        edges: Indices of their edges.
        place: Number of each node of the union within its component, ``(N,)``.
        row: Number of each component of the union within the block, ``(C,)``.
    """

    nodes: Tensor
    edges: Tensor
    place: Tensor
    row: Tensor

    def dense(self, union: Union, values: Tensor) -> Tensor:
        """Symmetric matrices ``(G, n, n)`` with ``values (E,)`` at the edges."""
        count, n = self.nodes.shape
        a, b = union.edges[:, self.edges]
        at = (self.row[union.component[a]] * n + self.place[a]) * n + self.place[b]
        matrix = torch.zeros(count * n * n, dtype=values.dtype)
        return matrix.index_add_(0, at, values[self.edges]).view(count, n, n)

    def sparse(self, union: Union, values: Tensor) -> tuple[Tensor, Tensor]:
        """Indices ``(2, E)`` and values of the matrix of a block of one component."""
        return self.place[union.edges[:, self.edges]], values[self.edges]


def union_of(graphs: Sequence[Graph]) -> Union:
    """Join graphs to one without edges between them."""
    counts = torch.tensor([0, *(graph.num_nodes for graph in graphs)])
    offsets = counts.cumsum(0)
    parts = [graph.edge_index.cpu() + start for graph, start in zip(graphs, offsets.tolist(), strict=False)]
    edges = torch.cat(parts, 1)
    weights = [
        torch.ones(graph.edge_index.shape[1], dtype=torch.float64)
        if graph.edge_weight is None
        else graph.edge_weight.detach().cpu().to(torch.float64)
        for graph in graphs
    ]
    component, sizes = _components(edges, int(offsets[-1]))
    return Union(edges, torch.cat(weights), offsets, component, sizes)


def _components(edges: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Number of the component of each node, and the sizes: the smallest label is passed on until none changes."""
    label = torch.arange(count)
    while True:
        low = label.scatter_reduce(0, label[edges[0]], label[edges[1]], "amin")  # of the node that names the component
        low = low[label]
        while not torch.equal(low, low[low]):
            low = low[low]
        if torch.equal(low, label):
            break
        label = low
    _, component, sizes = label.unique(return_inverse=True, return_counts=True)
    return component, sizes


def blocks(union: Union, most: int) -> Iterator[Block]:
    """Components in groups of equal size: as many as ``BLOCK`` has room for, or one of more than ``most`` nodes.

    Args:
        union: The graphs.
        most: Number of nodes from which on a component is alone, as it is not computed as a dense matrix.

    Yields:
        Blocks that have each node once.
    """
    by_component = union.component.argsort(stable=True)
    ends = union.sizes.cumsum(0)
    place = torch.empty(union.num_nodes, dtype=torch.long)
    place[by_component] = torch.arange(union.num_nodes) - (ends - union.sizes)[union.component[by_component]]
    of_edge = union.component[union.edges[0]]
    edge_order = of_edge.argsort(stable=True)
    edge_ends = torch.bincount(of_edge, minlength=len(union.sizes)).cumsum(0)
    row = torch.zeros(len(union.sizes), dtype=torch.long)
    for size in union.sizes.unique().tolist():
        same = (union.sizes == size).nonzero().flatten()
        at_once = 1 if size > most else max(BLOCK // size**2, 1)
        for chosen in same.split(at_once):
            row[chosen] = torch.arange(len(chosen))
            starts = (ends - union.sizes)[chosen]
            nodes = by_component[starts[:, None] + torch.arange(size)]
            yield Block(nodes, edge_order[_ranges(edge_ends, chosen)], place, row)


def _ranges(ends: Tensor, chosen: Tensor) -> Tensor:
    """Numbers from ``ends[c - 1]`` to ``ends[c] - 1`` for each c of ``chosen``, one after the other."""
    starts = torch.cat([ends.new_zeros(1), ends])[chosen]
    lengths = ends[chosen] - starts
    before = lengths.cumsum(0) - lengths
    return torch.arange(int(lengths.sum())) + (starts - before).repeat_interleave(lengths)
