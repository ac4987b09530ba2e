"""Biases of pairs of graph nodes: a value per head from tables whose rows are numbered for each pair of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posenc.graph_data.distances import hops
from posenc.graph_data.edges import Graph, as_graph
from posenc.kernels.pairs import Pairs
from posenc.kernels.table_lookup import look_up_pairs
from posenc.positions import Positions, readable

PairTable = tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]
"""A table ``(rows, h)``, a number for each pair of nodes, ``(N, N)`` or ``(B, N, N)``, and the row of a number.

Rows are computed for the pairs of tokens alone, since a graph may have many more pairs of nodes."""


def node_numbers(pos: Positions) -> Tensor:
    """Return node numbers, ``(N,)`` or ``(B, N)``; 0 for tokens with ``placed=False``."""
    number = pos.coords[..., 0].long()
    return number if pos.placed is None else number.where(pos.placed, 0)


def bias_of_nodes(tables: Sequence[PairTable], pair: Pairs) -> Tensor:
    """Return the sum of the tables' values for each pair, ``(h, Q, K)`` or ``(B, h, Q, K)``; 0 without a position."""
    at_q, at_k = node_numbers(pair.q)[..., :, None], node_numbers(pair.k)[..., None, :]
    found = []
    for table, numbers, row_of in tables:
        if numbers.dim() == 3:
            row = numbers[torch.arange(len(numbers), device=at_q.device)[:, None, None], at_q, at_k]
        else:
            row = numbers[at_q, at_k]
        row = row_of(row)
        found.append(look_up_pairs(table, row.unsqueeze(-3) if row.dim() == 3 else row))
    return pair.neutral(torch.stack(found).sum(0) if len(found) > 1 else found[0])


def score_of_nodes(tables: Sequence[PairTable], heads: int, pair: Pairs) -> Callable[..., Tensor]:
    """Return ``bias_of_nodes`` as a function of ``(score, b, h, i, j)`` for FlexAttention."""
    read = pair.reader()
    at_q, at_k = (n if n.dim() == 2 else n[None] for n in (node_numbers(pair.q), node_numbers(pair.k)))
    wide = [(t.expand(-1, heads), n if n.dim() == 3 else n[None], row_of) for t, n, row_of in tables]

    def linked(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        _, placed = read(b, i, j)
        node_q, node_k = at_q[b if len(at_q) > 1 else 0, i], at_k[b if len(at_k) > 1 else 0, j]
        higher = score
        for table, numbers, row_of in wide:
            higher = higher + table[row_of(numbers[b if len(numbers) > 1 else 0, node_q, node_k]), h]
        return higher if placed is None else torch.where(placed, higher, score)

    return linked


def one_graph(edges: Any, nodes: int | None) -> tuple[tuple[tuple[int, int], ...], Tensor | None]:
    """Return the edges of a graph in both directions, and the table ``(N, N)`` of its shortest-path lengths.

    Without edges the result is ``((), None)``.
    """
    if edges is None:
        return (), None
    if isinstance(edges, int):
        raise ValueError(
            f"this scheme takes the edges of one graph in this place, or none; got {edges}. Write "
            f"max_distance={edges}, or nodes={edges}."
        )
    with torch.device("cpu"):  # also while a module is built on the meta device
        one = as_graph(edges, nodes=nodes, layout=None if isinstance(edges, Graph) else "pairs")
        return tuple((a, b) for a, b in one.edge_index.T.tolist()), torch.from_numpy(hops(one))


def without_rows(module: nn.Module, state_dict: Any, prefix: str, *_: Any) -> None:
    """Leave out of a state the lengths that earlier versions stored; a hook of ``load_state_dict``."""
    state_dict.pop(f"{prefix}rows", None)


def length_table(table: Tensor, lengths: Tensor, longest: int) -> PairTable:
    """Return a table whose rows are numbered by the lengths of paths, on the device of the table."""
    return table, lengths.to(table.device), partial(length_rows, longest=longest)


def length_rows(lengths: Tensor, longest: int) -> Tensor:
    """Return rows of a table: the length up to ``longest``, and ``longest + 1`` for -1, pairs without a path."""
    lengths = lengths.long()
    return lengths.clamp(max=longest).where(lengths >= 0, longest + 1)


def require_nodes_of_the_graph(pos: Positions, own: Tensor | None, name: str) -> None:
    """Raise ValueError for a node number beyond the tables of ``pos.graph``, or for another graph than a scheme's own.

    own: Shortest-path lengths of the graph of the scheme; None for a scheme that reads those of the positions.
    """
    if own is not None:
        _refuse_another_graph(pos, own, name)
        return
    if pos.graph is None or pos.graph.hops is None or not readable(pos.coords) or not pos.coords.numel():
        return
    nodes, highest = pos.graph.hops.shape[-1], int(node_numbers(pos).max())
    if highest >= nodes:
        raise ValueError(
            f"positions of {name} are numbers of nodes, and these graphs have up to {nodes}; got node {highest}. Take "
            "positions of posenc.graphs([..], view='hops')."
        )


def _refuse_another_graph(pos: Positions, lengths: Tensor, name: str) -> None:
    """Raise ValueError for positions whose graph has other shortest-path lengths than those of a scheme."""
    table = None if pos.graph is None else pos.graph.hops
    if table is None or not readable(table):
        return
    if table.shape == lengths.shape and torch.equal(table.to(lengths.device), lengths):
        return
    raise ValueError(
        f"this {name} has the edges of one graph, and these positions are of another graph or of several. Leave "
        "`edges` out: it then reads the graphs of the positions."
    )


def require_types_of_edges(pos: Positions, count: int, name: str) -> None:
    """Raise ValueError if the graphs have no types of edges, or one from ``count`` on."""
    found = None if pos.graph is None else pos.graph.edge_types
    if found is None:
        raise ValueError(
            f"this {name} has a bias for {count} types of edges, and these graphs have no edge_attr of whole numbers "
            "from 0 to 32,766. Pass Graph(edge_index, num_nodes, edge_attr=types), or leave edge_types out."
        )
    highest = int(found.max()) if readable(found) and found.numel() else 0
    if highest > count:
        raise ValueError(
            f"an edge has the type {highest - 1}, and this {name} has types 0 to {count - 1}. Use edge_types={highest}."
        )
