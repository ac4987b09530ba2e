"""Graph fields of positions: the edges, eigenvalues and shortest-path lengths of the graphs whose nodes are tokens."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from jaxtyping import Int, Int8, Int16, Shaped
from torch import Tensor
from torch.utils import _pytree as pytree

PER_TOKEN = ("component", "eigenvalues")
"""Fields with a row for each token; the others are numbered by nodes, whichever tokens are read."""


@dataclasses.dataclass(frozen=True, eq=False)
class GraphBatch:
    """The graphs of a batch of positions, as ``Positions.graph``. The builders ``graph`` and ``graphs`` make it.

    A frozen value and a pytree. One graph has no batch axis ``B``. Node numbers count from 0 in each graph.

    Attributes:
        edge_index: Node numbers ``(2, E)`` of all edges of the batch, each edge in both directions.
        edge_sample: Number ``(E,)`` of the graph of each edge; None for one graph.
        edge_weight: Weights ``(E,)``; None if all are 1.
        edge_attr: Attributes ``(E,)`` or ``(E, F)`` of the edges; None without attributes.
        component: Number ``(N,)`` or ``(B, N)`` of the connected component of each token; -1 for padding.
        eigenvalues: Eigenvalue of each axis in the component of each token, ``(N, P)`` or ``(B, N, P)``; 0 where the
            component has no such eigenvector. None in other views than "eigenvectors".
        hops: Number of edges on the shortest path, ``(N, N)`` or ``(B, N, N)``, indexed by node numbers. -1 without a
            path, 127 for 127 edges and more. None in other views than "hops".
        edge_types: 1 + the integer attribute of the edge that joins two nodes, ``(N, N)`` or ``(B, N, N)``; 0 for nodes
            without an edge. None without such attributes or in other views than "hops".

    Example:
        >>> from posenc import graphs
        >>> pos = graphs([[(0, 1), (1, 2)], [(0, 1)]], view="hops")
        >>> pos.graph.hops[0].tolist()
        [[0, 1, 2], [1, 0, 1], [2, 1, 0]]
    """

    edge_index: Int[Tensor, "2 E"]
    edge_sample: Int[Tensor, " E"] | None = None
    edge_weight: Shaped[Tensor, " E"] | None = None
    edge_attr: Shaped[Tensor, "E ..."] | None = None
    component: Int[Tensor, "*B N"] | None = None
    eigenvalues: Shaped[Tensor, "*B N P"] | None = None
    hops: Int8[Tensor, "*B N N"] | None = None
    edge_types: Int16[Tensor, "*B N N"] | None = None

    @property
    def view(self) -> str:
        """View of the nodes that the positions have, as words: "'eigenvectors'", "'hops'" or "'walks' or 'degree'"."""
        return (
            "'eigenvectors'" if self.eigenvalues is not None else "'hops'" if self.hops is not None else
            "'walks' or 'degree'"
        )  # fmt: skip

    def of_tokens(self, tokens: slice | Tensor) -> GraphBatch:
        """The same graphs for some of the tokens.

        Args:
            tokens: A slice or indices along the token axis; indices ``(B, M)`` differ between samples.

        Returns:
            Graph fields whose rows belong to these tokens. Edges and tables of pairs of nodes stay whole.
        """
        fields = {name: getattr(self, name) for name in PER_TOKEN}
        wide = {"component": 1, "eigenvalues": 2}
        rows = {
            name: _rows(value, tokens, value.dim() - wide[name]) for name, value in fields.items() if value is not None
        }
        return dataclasses.replace(self, **rows)

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same graphs on another device.

        Args:
            device: A torch device or its name.

        Returns:
            Graph fields with all tensors on ``device``.
        """
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        moved = {name: value.to(device) for name, value in named.items() if value is not None}
        return dataclasses.replace(self, **moved)


def _rows(value: Tensor, tokens: slice | Tensor, axis: int) -> Tensor:
    """Rows of some tokens, of values whose token axis is ``axis``: 0, or 1 behind a batch axis."""
    if isinstance(tokens, slice):
        return value[tokens] if axis == 0 else value[:, tokens]
    if tokens.dim() == 1:
        return value.index_select(axis, tokens)
    value = (value[None] if axis == 0 else value).expand(len(tokens), *value.shape[axis:])
    index = tokens.reshape(*tokens.shape, *(1,) * (value.dim() - 2)).expand(*tokens.shape, *value.shape[2:])
    return value.gather(1, index)


def _flatten(graph: Any) -> tuple[list[Any], Any]:
    return [getattr(graph, field.name) for field in dataclasses.fields(GraphBatch)], None


def _flatten_with_keys(graph: Any) -> tuple[list[tuple[Any, Any]], Any]:
    leaves, context = _flatten(graph)
    names = [field.name for field in dataclasses.fields(GraphBatch)]
    return [(pytree.GetAttrKey(name), leaf) for name, leaf in zip(names, leaves, strict=True)], context


def _rebuild(leaves: Any, _context: Any) -> GraphBatch:
    graph = object.__new__(GraphBatch)  # torch.compile and torch.export pass objects that stand in for tensors
    for field, leaf in zip(dataclasses.fields(GraphBatch), leaves, strict=True):
        object.__setattr__(graph, field.name, leaf)
    return graph


pytree.register_pytree_node(
    GraphBatch, _flatten, _rebuild, serialized_type_name="posenc.GraphBatch", flatten_with_keys_fn=_flatten_with_keys
)
