"""Positions of the nodes of one graph or of a padded batch of graphs, on one of four views."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from posenc.graph_batch import GraphBatch
from posenc.graph_data.distances import hops
from posenc.graph_data.edges import Graph, Layout, as_graph
from posenc.graph_data.eigenvectors import smooth_eigenvectors
from posenc.graph_data.union import Union, union_of
from posenc.graph_data.walks import return_probabilities
from posenc.positions import Positions

View = Literal["eigenvectors", "walks", "degree", "hops"]
"""Coordinates of a node: entries in eigenvectors, return probabilities of walks, its degree, or its number."""
Ties = Literal["warn", "keep", "whole"]
"""Treatment of equal eigenvalues, whose eigenvectors are not unique."""
AXES: dict[str, int] = {"eigenvectors": 2, "walks": 16, "degree": 1, "hops": 1}
"""Default number of axes of each view."""
MOST_NODES = 5000
"""Number of nodes of a graph up to which all pairs are tabulated: 25 MB as int8."""
MOST_TYPES = 2**15 - 2
"""Largest attribute of an edge that a table of int16 has room for."""


def graph(
    source: Any,
    *,
    nodes: int | None = None,
    axes: int | None = None,
    view: View = "eigenvectors",
    layout: Layout | None = None,
    ties: Ties = "warn",
) -> Positions:
    """Positions of the nodes of one undirected graph; by default Laplacian eigenvectors.

        L = I - D^(-1/2) A D^(-1/2)

    Axis ``p`` of the view "eigenvectors" is the eigenvector of the (p+1)-th smallest non-zero eigenvalue of each
    connected component, scaled to unit root mean square over its nodes. A component with fewer eigenvectors has 0 on
    the other axes. The sign of an eigenvector is arbitrary, so its largest entry is made positive.

    Args:
        source: Pairs of node numbers, an array ``(E, 2)`` or ``(2, E)``, a ``Graph``, or any graph of ``as_graph``.
        nodes: Number of nodes. Default: the largest node number plus one. Give it if the last nodes have no edge.
        axes: Number P of eigenvectors (default 2) or of steps of the walk (default 16). The other views have one axis.
        view: The coordinates of a node: "eigenvectors"; "walks", the probabilities that a random walk is back after 1
            to P steps (``RWSE``); "degree"; or "hops", its number, with the table of shortest-path lengths that
            ``GraphDistance`` reads. Weights count in all views but "hops". Default: "eigenvectors".
        layout: "pairs" for ``(E, 2)`` or "edge_index" for ``(2, E)``. Needed for shape ``(2, 2)`` only.
        ties: Equal eigenvalues, whose eigenvectors are arbitrary up to a rotation: "warn" (default) of them; "keep"
            them without a warning; or "whole" to keep without a warning only eigenvalues all of whose eigenvectors
            have an axis, and set the others to 0, as ``SPE`` needs it to be the same in every basis.

    Returns:
        Positions ``(nodes, P)``: float32, or int64 node numbers and degrees. ``graph`` has the edges.

    Raises:
        ValueError: If ``source`` is not a graph, an argument is unknown, the graph has fewer than ``axes`` non-constant
            eigenvectors, or more than 5,000 nodes in the view "hops".

    Example:
        >>> from posenc import graph
        >>> graph([(0, 1), (1, 2), (2, 3)], axes=1).coords.shape
        torch.Size([4, 1])

    References:
        Dwivedi and Bresson 2020, "A Generalization of Transformer Networks to Graphs", arXiv 2012.09699.
    """
    one = as_graph(source, nodes=nodes, layout=layout)
    wanted = _axes(view, axes, ties)
    if view == "eigenvectors" and wanted >= one.num_nodes:
        count, remedy = one.num_nodes - 1, "Ask for fewer axes, or for" if one.num_nodes > 1 else "Ask for"
        raise ValueError(
            f"a graph of {one.num_nodes} node{'s' * (count != 0)} has {count} non-constant eigenvector"
            f"{'s' * (count != 1)}; the view 'eigenvectors' was asked for axes={wanted}. {remedy} view='walks'."
        )
    return _positions([one], view, wanted, ties, batched=False)


def graphs(
    sources: Sequence[Any],
    *,
    view: View = "eigenvectors",
    axes: int | None = None,
    layout: Layout | None = None,
    ties: Ties = "warn",
) -> Positions:
    """Positions of the nodes of several graphs as one padded batch, on one of the views of ``graph``.

    Graphs with fewer nodes than the largest one are padded by tokens with ``placed=False``. Everything is computed for
    graphs of all sizes together, so that many small graphs take little time.

    Args:
        sources: Graphs, each in any form that ``as_graph`` takes; or a ``Batch`` of PyTorch Geometric.
        view: "eigenvectors" (default), "walks", "degree" or "hops".
        axes: Number P of eigenvectors (default 2) or of steps of the walk (default 16). What a small graph lacks is 0.
        layout: "pairs" or "edge_index", for arrays of shape ``(2, 2)``.
        ties: "warn" (default), "keep" or "whole", as in ``graph``.

    Returns:
        Positions ``(B, N, P)``, where N is the largest number of nodes. ``placed`` is False for padding, and None if
        there is none. ``graph`` has the edges, the components, the eigenvalues or the shortest-path lengths.

    Raises:
        ValueError: If there is no graph, one of ``sources`` is not a graph (with its number), an argument is unknown,
            or a graph has more than 5,000 nodes in the view "hops".

    Example:
        >>> from posenc import graphs
        >>> pos = graphs([[(0, 1), (1, 2), (0, 2)], [(0, 1)]], view="degree")
        >>> pos.coords[..., 0].tolist(), pos.placed.tolist()
        ([[2, 2, 2], [1, 1, 0]], [[True, True, True], [True, True, False]])

    References:
        Dwivedi and Bresson 2020, arXiv 2012.09699 (eigenvectors); Dwivedi et al. 2022, arXiv 2110.07875 (walks);
        Ying et al. 2021, arXiv 2106.05234 (degree and shortest paths).
    """
    wanted = _axes(view, axes, ties)
    many = []
    sources = getattr(sources, "to_data_list", lambda: sources)()
    _refuse_one_graph(sources)
    for number, source in enumerate(sources):
        try:
            many.append(as_graph(source, layout=layout))
        except ValueError as error:
            raise ValueError(f"graph {number} of {len(sources)}: {error}") from None
    if not many:
        raise ValueError("a batch has at least one graph; got none. Write graphs([first, second]).")
    return _positions(many, view, wanted, ties, batched=True)


def _refuse_one_graph(sources: Any) -> None:
    """Raise ValueError for one graph in place of several."""
    first = next(iter(sources), None) if isinstance(sources, list | tuple) else None
    pairs = isinstance(first, list | tuple) and len(first) == 2 and all(isinstance(each, int) for each in first)
    if pairs or hasattr(sources, "edge_index") or hasattr(sources, "adj") or hasattr(sources, "tocoo"):
        what = "pairs of node numbers are" if pairs else f"a {type(sources).__name__} is"
        raise ValueError(f"{what} one graph, and a batch is a list of graphs. Write graphs([one]), or graph(one).")


def _axes(view: View, axes: int | None, ties: Ties) -> int:
    if view not in AXES:
        raise ValueError(f"the views of a graph are {', '.join(map(repr, AXES))}; got {view!r}.")
    if ties not in get_args(Ties):
        raise ValueError(f"equal eigenvalues are treated as 'warn', 'keep' or 'whole'; got ties={ties!r}.")
    if axes is not None and not isinstance(axes, int):
        raise ValueError(f"axes is a whole number; got axes={axes!r}. Write axes=4.")
    if axes is not None and axes < 1:
        what = {"eigenvectors": "eigenvectors", "walks": "steps of the walk"}.get(view, "axes")
        raise ValueError(f"the view {view!r} has axes as many as {what}, at least one; got axes={axes}.")
    if axes not in (None, 1) and view in ("degree", "hops"):
        raise ValueError(f"the view {view!r} has one axis; got axes={axes}. Leave it out, or take view='walks'.")
    return AXES[view] if axes is None else axes


def _positions(many: Sequence[Graph], view: View, axes: int, ties: Ties, *, batched: bool) -> Positions:
    device = many[0].edge_index.device
    with torch.device("cpu"):
        return _on_the_cpu(many, view, axes, ties, batched).to(device)


def _on_the_cpu(many: Sequence[Graph], view: View, axes: int, ties: Ties, batched: bool) -> Positions:
    union = union_of(many)
    counts = union.offsets.diff()
    most = int(counts.max())
    place = torch.arange(union.num_nodes) - union.offsets[:-1].repeat_interleave(counts)
    at = torch.arange(len(many)).repeat_interleave(counts) * most + place

    def padded(rows: Tensor, fill: float = 0) -> Tensor:
        whole = rows.new_full((len(many) * most, *rows.shape[1:]), fill)
        whole[at] = rows
        return whole.view(len(many), most, *rows.shape[1:]) if batched else whole

    eigenvalues: Tensor | None = None
    tables: dict[str, Tensor | None] = {}
    if view == "eigenvectors":
        spectrum = smooth_eigenvectors(union, axes, whole=ties == "whole")
        coords, eigenvalues = padded(spectrum.vectors.float()), padded(spectrum.values.float())
        if ties == "warn":
            _warn_of_ties(spectrum.tied | spectrum.cut, union, axes)
    elif view == "walks":
        coords = padded(return_probabilities(union, axes).float())
    elif view == "degree":
        degrees = union.degrees()
        whole = all(one.edge_weight is None for one in many)
        coords = padded((degrees.round().long() if whole else degrees.float())[:, None])
    else:
        coords = padded(place[:, None])
        tables = _tables(many, most, batched)
    component = union.component - union.component[union.offsets[:-1].clamp(max=union.num_nodes - 1)].repeat_interleave(
        counts
    )
    fields: dict[str, Any] = (
        _edge_fields(many, batched) | tables | {"component": padded(component, -1), "eigenvalues": eigenvalues}
    )
    placed = padded(torch.ones(union.num_nodes, dtype=torch.bool)) if bool((counts < most).any()) else None
    return Positions(coords, placed, graph=GraphBatch(**fields))


def _warn_of_ties(ties: Tensor, union: Union, axes: int) -> None:
    if not bool(ties.any()):
        return
    having = torch.searchsorted(union.offsets, ties.nonzero().flatten(), right=True).unique() - 1
    number = len(union.offsets) - 1
    of_all = f"{len(having)} of {number} graphs (number {int(having[0])} is one)" if number > 1 else "this graph"
    warnings.warn(
        f"{of_all} {'has' if len(having) == 1 else 'have'} equal eigenvalues at the first {axes} axes: their "
        "eigenvectors are arbitrary up to a rotation, so that renumbering the nodes moves the coordinates. Read them "
        "by SPE with ties='whole', take view='walks', or write ties='keep'.",
        UserWarning,
        stacklevel=5,
    )


def _edge_fields(many: Sequence[Graph], batched: bool) -> dict[str, Any]:
    """Edges, weights and attributes of all graphs, one after the other."""
    counts = torch.tensor([one.edge_index.shape[1] for one in many])
    found: dict[str, Any] = {"edge_index": torch.cat([one.edge_index.cpu() for one in many], 1)}
    found["edge_sample"] = torch.arange(len(many)).repeat_interleave(counts) if batched else None
    for name, default in (("edge_weight", lambda n: torch.ones(n)), ("edge_attr", None)):
        found[name] = _joined(many, name, default)
    return found


def _joined(many: Sequence[Graph], name: str, default: Callable[[int], Tensor] | None) -> Tensor | None:
    """Values of the edges of all graphs; None if no graph has any. A graph without edges needs none."""
    values = [getattr(one, name) for one in many]
    edges = [one.edge_index.shape[1] for one in many]
    if all(value is None for value in values):
        return None
    lacking = [number for number, value in enumerate(values) if value is None and edges[number]]
    if lacking and default is None:
        raise ValueError(
            f"graph {lacking[0]} of {len(many)} has no `{name}`, and others have. Give it to all graphs or to none."
        )
    full = [default(n) if value is None and default else value for value, n in zip(values, edges, strict=True)]
    return torch.cat([value.detach().cpu() for value in full if value is not None])


def _tables(many: Sequence[Graph], most: int, batched: bool) -> dict[str, Tensor | None]:
    """Shortest-path lengths of all pairs, and the types of the edges where their attributes are integers."""
    if most > MOST_NODES:
        raise ValueError(
            f"the view 'hops' has a length for each pair of nodes: {len(many)} x {most:,} x {most:,} are "
            f"{len(many) * most**2 / 1e6:,.0f} MB. It takes graphs of up to {MOST_NODES:,} nodes; view='walks' and "
            "'eigenvectors' have no limit."
        )
    lengths = np.full((len(many), most, most), -1, np.int8)
    attributes = [one.edge_attr for one in many]
    typed = any(each is not None for each in attributes) and all(_is_type(one) for one in many)
    types = torch.zeros(len(many), most, most, dtype=torch.int16) if typed else None
    for number, one in enumerate(many):
        lengths[number, : one.num_nodes, : one.num_nodes] = hops(one)
        if types is not None and one.edge_attr is not None:
            a, b = one.edge_index.cpu()
            types[number, a, b] = (one.edge_attr.reshape(-1).cpu() + 1).to(torch.int16)
    table = torch.from_numpy(lengths)
    return {"hops": table if batched else table[0], "edge_types": types if types is None or batched else types[0]}


def _is_type(one: Graph) -> bool:
    """True for attributes that number types: one integer from 0 for each edge."""
    attr = one.edge_attr
    if attr is None:
        return not one.edge_index.shape[1]
    numbers = attr.reshape(len(attr), -1)
    if attr.is_floating_point() or attr.dtype == torch.bool or numbers.shape[1] != 1:
        return False
    return not attr.numel() or (int(attr.min()) >= 0 and int(attr.max()) <= MOST_TYPES)
