"""Graphs as edges: one value for pairs, arrays, sparse matrices, networkx graphs and PyTorch Geometric data.

A ``Graph`` is undirected. It has each edge in both directions, as PyTorch Geometric stores it, sorted, once each and
without self-loops. What it changes in the edges that it is given is reported by a warning.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

Layout = Literal["pairs", "edge_index"]
"""Form of an array of edges: ``(E, 2)`` with one pair of nodes a row, or ``(2, E)`` as in PyTorch Geometric."""
MOST_NODES = 2**31
"""Number of nodes from which on products of two node numbers could overflow 64 bits."""
MANY_NODES, NODES_PER_END = 10**6, 100
"""Number of nodes, and number per end of an edge, from which on node numbers are taken for identifiers with gaps."""

SHOWN = 80
"""Number of characters up to which an error shows a value."""


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph, with the names of PyTorch Geometric.

    Edges are sorted and present in both directions. Edges that are given in one direction only are read as undirected,
    doubled edges once, and self-loops are left out, each with a warning.

    Attributes:
        edge_index: Node numbers ``(2, E)``, integers from 0.
        num_nodes: Number of nodes. Default: the largest node number plus 1.
        edge_weight: Positive weights ``(E,)``, equal in both directions; None, the default, if all are 1.
        edge_attr: Attributes ``(E,)`` or ``(E, F)``, equal in both directions, such as types of bonds. Default: None.

    Raises:
        ValueError: If a shape or dtype differs, a node number is not below ``num_nodes``, node numbers are identifiers
            with large gaps, there is no node, a weight is not positive, or an edge has two different weights or
            attributes.

    Example:
        >>> import torch
        >>> from posenc import Graph
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> path.num_nodes, path.edge_index.tolist()
        (3, [[0, 1, 1, 2], [1, 0, 2, 1]])
    """

    edge_index: Int[Tensor, "2 E"]
    num_nodes: int = -1
    edge_weight: Shaped[Tensor, " E"] | None = None
    edge_attr: Shaped[Tensor, "E ..."] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.edge_index, Tensor):
            raise ValueError(
                f"edge_index is a tensor (2, E); got {type(self.edge_index).__name__}. Write as_graph(pairs), or "
                "torch.as_tensor(edge_index)."
            )
        edges = _node_numbers(self.edge_index)
        if edges.dim() != 2 or edges.shape[0] != 2:
            raise ValueError(
                f"edge_index has shape (2, E), a row of first and a row of second nodes; got {tuple(edges.shape)}. "
                "For pairs (E, 2) write as_graph(pairs)."
            )
        count = _count_nodes(edges, None if self.num_nodes == -1 else self.num_nodes)
        for name in ("edge_weight", "edge_attr"):
            value = getattr(self, name)
            if value is not None and (value.dim() < 1 or len(value) != edges.shape[1]):
                raise ValueError(
                    f"`{name}` has one row for each of the {edges.shape[1]} edges; got shape {tuple(value.shape)}."
                )
        edges, order = _unique(edges, count, self.edge_weight, self.edge_attr)
        values = {}
        for name in ("edge_weight", "edge_attr"):
            value = getattr(self, name)
            values[name] = None if value is None else value[order]
        _check_weights(values["edge_weight"])
        lacking = ~torch.isin(_numbers(edges.flip(0), count), _numbers(edges, count))
        if bool(lacking.any()):
            a, b = edges[:, lacking][:, 0].tolist()
            warnings.warn(
                f"{int(lacking.sum())} of {edges.shape[1]} edges are given in one direction only, such as {a} -> {b}; "
                "the graph is read as undirected. If each stands for both directions, pass them as pairs, "
                "as_graph(edge_index.T, layout='pairs'), or a networkx graph as its to_undirected().",
                UserWarning,
                stacklevel=3,
            )
        edges, values = _both_directions(edges, lacking, values, count)
        for name, value in {"edge_index": edges, "num_nodes": count, **values}.items():
            object.__setattr__(self, name, value)


def as_graph(source: Any, *, nodes: int | None = None, layout: Layout | None = None) -> Graph:
    """Normalize a graph to ``Graph``.

    Pairs and the edges of an undirected networkx graph are undirected edges. Arrays ``(2, E)``, sparse matrices,
    PyTorch Geometric data and directed networkx graphs list directions; edges that lack the other direction are read as
    undirected with a warning.

    Args:
        source: One of: a ``Graph``; a list of pairs of node numbers; an integer array or tensor ``(E, 2)`` or
            ``(2, E)``; a square ``scipy.sparse`` matrix, whose values are weights; a networkx graph, whose nodes are
            numbered in its own order, with the attributes ``weight`` and ``edge_attr`` of its edges;
            ``torch_geometric.data.Data``, or another object with ``edge_index``.
        nodes: Number of nodes. Default: that of ``source``, or the largest node number plus 1.
        layout: "pairs" for ``(E, 2)`` or "edge_index" for ``(2, E)``. Needed for shape ``(2, 2)`` only.

    Returns:
        The graph.

    Raises:
        ValueError: If ``source`` is none of these, its shape can be read in two ways, or it is not a graph.

    Example:
        >>> from posenc import as_graph
        >>> as_graph([(0, 1), (1, 2)]).edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    if layout not in (None, "pairs", "edge_index"):
        raise ValueError(f"edges have the layout 'pairs', (E, 2), or 'edge_index', (2, E); got {layout!r}.")
    if isinstance(source, Graph):
        return source if nodes in (None, source.num_nodes) else dataclasses.replace(source, num_nodes=nodes)
    if hasattr(source, "to_data_list") and getattr(source, "num_graphs", 1) > 1:
        raise ValueError(f"this is a batch of {source.num_graphs} graphs, and one is needed. Write graphs(batch).")
    if hasattr(source, "edge_index"):
        return _of_data(source, nodes)
    if hasattr(source, "tocoo"):
        return _of_sparse(source, nodes)
    if hasattr(source, "nodes") and hasattr(source, "adj"):
        return _of_networkx(source, nodes)
    edges, layout = _of_array(source, layout)
    if layout == "edge_index":
        return Graph(edges.T, -1 if nodes is None else nodes)
    return _undirected(edges, nodes)


def _of_data(data: Any, nodes: int | None) -> Graph:
    """A graph from an object with the names of PyTorch Geometric's ``Data``."""
    if data.edge_index is None:
        raise ValueError(
            "this data has no edge_index. For nodes without edges write torch.zeros(2, 0, dtype=torch.long)."
        )
    count = nodes if nodes is not None else getattr(data, "num_nodes", None)
    weight, attr = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    return Graph(data.edge_index, -1 if count is None else int(count), weight, attr)


def _of_sparse(matrix: Any, nodes: int | None) -> Graph:
    """A graph from a square matrix of ``scipy.sparse``."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency matrix is square, one row and one column a node; got {tuple(matrix.shape)}.")
    entries = matrix.tocoo()
    there = entries.data != 0
    edges = torch.stack([torch.as_tensor(axis[there].astype("int64")) for axis in (entries.row, entries.col)])
    weight = torch.as_tensor(entries.data[there])
    ones = bool((weight == 1).all())
    return Graph(edges, matrix.shape[0] if nodes is None else nodes, None if ones else weight.to(torch.float64))


def _of_networkx(source: Any, nodes: int | None) -> Graph:
    """A graph from one of networkx; its nodes are numbered in its own order."""
    number = {node: n for n, node in enumerate(source.nodes)}
    rows = list(source.edges(data=True))
    edges = torch.tensor([(number[a], number[b]) for a, b, _ in rows], dtype=torch.long).reshape(-1, 2)
    values = {}
    for name, kind in (("weight", torch.float64), ("edge_attr", None)):
        having = [of_edge[name] for *_, of_edge in rows if name in of_edge]
        if having and len(having) != len(rows):
            raise ValueError(
                f"{len(having)} of {len(rows)} edges of this networkx graph have the attribute {name!r}. Give it to "
                "all or to none."
            )
        values[name] = _numbers_of_edges(rows, name, kind) if having else None
    count = len(number) if nodes is None else nodes
    if source.is_directed():
        return Graph(edges.T, count, values["weight"], values["edge_attr"])
    return _undirected(edges, count, values["weight"], values["edge_attr"])


def _numbers_of_edges(
    rows: Sequence[tuple[Any, Any, Mapping[str, Any]]], name: str, kind: torch.dtype | None
) -> Tensor:
    """Values of an attribute that all edges of a networkx graph have, as a tensor."""
    try:
        return torch.as_tensor([values[name] for *_, values in rows], dtype=kind)
    except (TypeError, ValueError, RuntimeError):
        pass
    for a, b, values in rows:
        try:
            torch.as_tensor(values[name], dtype=kind)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"the edge {a!r} - {b!r} of this networkx graph has {name}={values[name]!r}, which is no number. Give "
                f"all edges numbers, or remove the attribute: for *_, d in G.edges(data=True): del d[{name!r}]"
            ) from None
    raise ValueError(
        f"the edges of this networkx graph have different numbers of values as {name!r}. Give each as many."
    )


def _of_array(source: Any, layout: Layout | None) -> tuple[Tensor, Layout]:
    """Edges ``(E, 2)`` from pairs, an array or a tensor, and the layout that was read."""
    given = source
    pairs_by_form = isinstance(source, Iterable) and not isinstance(source, Tensor) and not hasattr(source, "shape")
    if pairs_by_form:
        source = list(source)
        tuples = bool(source) and all(isinstance(edge, tuple) for edge in source)
        strange = next((e for e in source if tuples and len(e) != 2), None)
        if strange is not None:
            raise ValueError(f"edges are pairs of node numbers, as [(0, 1), (1, 2)]; got {strange!r}. Write them so.")
        layout = "pairs" if tuples and layout is None else layout
    try:
        edges = _node_numbers(source if isinstance(source, Tensor) else torch.as_tensor(_plain(source)))
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, ValueError) and "node numbers" in str(error):
            raise
        raise ValueError(
            "a graph is pairs of node numbers, an array (E, 2) or (2, E), a scipy.sparse matrix, a networkx graph or "
            f"PyTorch Geometric's Data; got {_shown(given)}. {_remedy(given)}"
        ) from None
    edges = edges.reshape(0, 2) if edges.numel() == 0 else edges
    shape = tuple(edges.shape)
    if len(shape) != 2 or 2 not in shape:
        hint = "For an adjacency matrix write scipy.sparse.csr_array(matrix)." if len(set(shape)) == 1 else "Transpose?"
        raise ValueError(f"edges are pairs of node numbers, shape (E, 2) or (2, E); got {shape}. {hint}")
    if shape == (2, 2) and layout is None:
        raise ValueError(
            "edges of shape (2, 2) can be read in two ways. Write layout='pairs' for one edge a row, or "
            "layout='edge_index' for PyTorch Geometric's rows of first and second nodes."
        )
    read: Layout = layout or ("pairs" if shape[1] == 2 else "edge_index")
    if shape[1 if read == "pairs" else 0] != 2:
        raise ValueError(
            f"edges with layout={read!r} have shape {'(E, 2)' if read == 'pairs' else '(2, E)'}; got {shape}."
        )
    return (edges if read == "pairs" else edges.T), read


def _shown(given: Any) -> str:
    words = repr(given) if isinstance(given, str | bytes | PathLike) or not hasattr(given, "__len__") else ""
    return words if 0 < len(words) <= SHOWN else f"a {type(given).__name__}"


def _remedy(given: Any) -> str:
    if isinstance(given, str | bytes | PathLike):
        return "A file is read first, as by networkx.read_edgelist(path, nodetype=int) for lines of two node numbers."
    return "Write pairs of integers, [(0, 1), (1, 2)]."


def _plain(source: Any) -> Any:
    """Nested lists of numbers from lists that may hold tensors."""
    if isinstance(source, Sequence):
        return [each.tolist() if isinstance(each, Tensor) else each for each in source]
    return source


def _node_numbers(edges: Tensor) -> Tensor:
    if edges.numel() == 0:
        return edges.long()
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise ValueError(
            f"node numbers are integers; got {edges.dtype}. Convert whole numbers by edges.long() or "
            "edges.astype('int64'). For an adjacency matrix write scipy.sparse.csr_array(matrix)."
        )
    return edges.long()


def _count_nodes(edges: Tensor, nodes: int | None) -> int:
    low, high = (int(edges.min()), int(edges.max())) if edges.numel() else (0, -1)
    count = high + 1 if nodes is None else nodes
    if not edges.numel() and count < 1:
        raise ValueError("a graph without edges needs the number of its nodes, at least 1. Write nodes=3.")
    if low >= 0 and (high >= MOST_NODES or (nodes is None and count > max(MANY_NODES, NODES_PER_END * edges.numel()))):
        stated = "" if high >= MOST_NODES else f" If the other nodes have no edge, write nodes={count}."
        named = "an edge names" if edges.numel() == 2 else "edges name"
        raise ValueError(
            f"{named} the node {high}, and nodes are numbered from 0 without gaps. Number "
            f"them so: edges = torch.unique(torch.as_tensor(edges), return_inverse=True)[1].{stated}"
        )
    if low > 0 and nodes is None:
        no_edge = "node 0 has no edge, and is" if low == 1 else f"nodes 0 to {low - 1} have no edge, and are"
        warnings.warn(
            f"nodes are numbered from 0: {no_edge} counted too. If the first node is {low}, subtract {low} from all "
            f"numbers; if not, write nodes={count}.",
            UserWarning,
            stacklevel=4,
        )
    if low < 0 or high >= count or count > MOST_NODES:
        raise ValueError(
            f"{count} nodes are numbered from 0 to {count - 1}; got node {low if low < 0 else high}. "
            f"{'Number them from 0' if low < 0 else f'Use nodes={high + 1}'}."
        )
    return count


def _numbers(edges: Tensor, count: int) -> Tensor:
    """One number for each directed edge."""
    return edges[0] * count + edges[1]


def _unique(edges: Tensor, count: int, *values: Tensor | None) -> tuple[Tensor, Tensor]:
    """Edges sorted, once each and without self-loops, and the index of the given edge that each is."""
    kept = (edges[0] != edges[1]).nonzero().flatten()
    loops = edges.shape[1] - len(kept)
    if loops:
        warnings.warn(
            f"{loops} of {edges.shape[1]} edges {'joins' if loops == 1 else 'join'} a node to itself, and "
            f"{'is' if loops == 1 else 'are'} left out.",
            UserWarning,
            stacklevel=4,
        )
    number, order = _numbers(edges[:, kept], count).sort(stable=True)
    again = torch.zeros_like(number, dtype=torch.bool)
    again[1:] = number[1:] == number[:-1]
    order = kept[order]
    doubled = int(again.sum())
    if doubled:
        place = again.nonzero().flatten()
        for value in values:
            if value is not None and not torch.equal(value[order[place]], value[order[place - 1]]):
                apart = (value[order[place]] != value[order[place - 1]]).reshape(doubled, -1).any(1)
                second = order[place[apart][0]]
                _refuse_two_values(edges[:, second], value[second], "is given twice:")
        subject = "1 edge is given twice, and is" if doubled == 1 else f"{doubled} edges are given twice, and are"
        warnings.warn(f"{subject} read once.", UserWarning, stacklevel=4)
    order = order[~again]
    return edges[:, order], order


def _both_directions(
    edges: Tensor, lacking: Tensor, values: dict[str, Tensor | None], count: int
) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Add the other direction of edges that lack it, and require equal values of both directions."""
    edges = torch.cat([edges, edges[:, lacking].flip(0)], 1)
    order = _numbers(edges, count).argsort()
    values = {
        name: None if value is None else torch.cat([value, value[lacking]])[order] for name, value in values.items()
    }
    edges = edges[:, order]
    other = _numbers(edges.flip(0), count).argsort()  # the edges are sorted, so this is where each one's other half is
    for value in values.values():
        if value is not None and not torch.equal(value, value[other]):
            apart = (value != value[other]).reshape(len(value), -1).any(1).nonzero().flatten()[0]
            _refuse_two_values(edges[:, apart], value[apart], "is given in two directions:")
    return edges, values


def _refuse_two_values(edge: Tensor, value: Tensor, how: str) -> None:
    a, b = edge.tolist()
    raise ValueError(
        f"the edge {a} - {b} {how} with the value {value.tolist()} and with another one. An undirected edge has one "
        "weight and one attribute: pass one of them, or the mean of both."
    )


def _check_weights(weight: Tensor | None) -> None:
    if weight is not None and weight.numel() and not bool(((weight > 0) & weight.isfinite()).all()):
        bad = weight[~((weight > 0) & weight.isfinite())][0].item()
        raise ValueError(f"edge weights are positive and finite; got {bad:g}. Leave out edges of weight 0.")


def _undirected(pairs: Tensor, nodes: int | None, weight: Tensor | None = None, attr: Tensor | None = None) -> Graph:
    """A graph from pairs ``(E, 2)``, each of which is an undirected edge."""
    edges, count = pairs.T, _count_nodes(pairs, nodes)
    edges, order = _unique(edges, count, weight, attr)
    weight, attr = (None if value is None else value[order] for value in (weight, attr))
    lacking = ~torch.isin(_numbers(edges.flip(0), count), _numbers(edges, count))
    _check_weights(weight)
    edges, values = _both_directions(edges, lacking, {"edge_weight": weight, "edge_attr": attr}, count)
    return _made(edges, count, values)


def _made(edges: Tensor, count: int, values: Mapping[str, Tensor | None]) -> Graph:
    """A graph whose edges are normalized already."""
    one = object.__new__(Graph)
    for name, value in {"edge_index": edges, "num_nodes": count, **values}.items():
        object.__setattr__(one, name, value)
    return one
