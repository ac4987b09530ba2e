"""Views of the nodes of graphs, computed once for all graphs, and padded batches of them as positions.

eigenvectors   entries in the 16 smoothest Laplacian eigenvectors; those of an eigenvalue that 16 axes cut are 0
walks          probabilities that a random walk is back after 1 to 16 steps, standardized by the training part
degree         number of edges, at most 63
hops           number of the node, with the shortest-path lengths of all pairs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.graph_batch import GraphBatch
from posenc.graph_data.builders import graph
from posenc.graph_data.distances import hops
from posenc.graph_data.edges import Graph
from posenc.positions import Positions
from posenc.workbench.data.graph_set import GraphSet

NodeView = Literal["eigenvectors", "walks", "degree", "hops"]
AXES: Mapping[NodeView, int] = {"eigenvectors": 16, "walks": 16, "degree": 1, "hops": 1}
"""Number of coordinates of a node on each view."""
MOST_DEGREE = 63
"""Degree from which on all degrees are one."""
Arrays = dict[str, NDArray[Any]]


def view_arrays(graphs: GraphSet, view: NodeView) -> Arrays:
    """Compute a view of all nodes.

    Args:
        graphs: The graphs.
        view: The view.

    Returns:
        "coords" ``(N, P)``; for eigenvectors also "eigenvalues" ``(N, P)`` and "component" ``(N,)``; for hops "hops",
        the rows of the tables of all graphs one after the other.
    """
    edges, nodes = torch.from_numpy(graphs.edges), int(graphs.sizes.sum())
    if view == "hops":
        offsets = graphs.offsets
        bounds = np.searchsorted(graphs.edges[0], offsets)
        tables = [
            hops(Graph(edges[:, bounds[at] : bounds[at + 1]] - int(offsets[at]), int(size))).ravel()
            for at, size in enumerate(graphs.sizes)
        ]
        places = np.arange(nodes) - np.repeat(offsets[:-1], graphs.sizes)
        return {"coords": places[:, None], "hops": np.concatenate(tables)}
    # One graph of all: each component has eigenvectors and walks of its own.
    whole = Graph(edges, nodes)
    if view == "degree":
        degrees = graph(whole, view="degree").coords
        return {"coords": degrees.clamp(max=MOST_DEGREE).numpy()}
    if view == "walks":
        return {"coords": graph(whole, view="walks", axes=AXES["walks"]).coords.numpy()}
    axes = min(AXES["eigenvectors"], nodes - 1)
    pos = graph(whole, axes=axes, ties="whole")
    assert pos.graph is not None
    assert pos.graph.eigenvalues is not None
    assert pos.graph.component is not None
    wide = ((0, 0), (0, AXES["eigenvectors"] - axes))
    made = {"coords": pos.coords.numpy(), "eigenvalues": pos.graph.eigenvalues.numpy()}
    return {name: np.pad(array, wide) for name, array in made.items()} | {"component": pos.graph.component.numpy()}


class GraphBatches:
    """Padded batches of graphs on one view.

    Args:
        graphs: The graphs.
        view: The view.
        arrays: What ``view_arrays`` returns.
        training: Numbers of the training graphs, by which walks and attributes are standardized.
        device: Device of the batches.
    """

    def __init__(
        self, graphs: GraphSet, view: NodeView, arrays: Arrays, training: NDArray[np.int64], device: str = "cpu"
    ) -> None:
        self.view: NodeView = view
        tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        self.sizes, self.offsets = torch.from_numpy(graphs.sizes), torch.from_numpy(graphs.offsets)
        edges = torch.from_numpy(graphs.edges)
        self.edge_bounds = torch.searchsorted(edges[0].contiguous(), self.offsets)
        self.pair_offsets = torch.cat([torch.zeros(1, dtype=torch.long), self.sizes.square().cumsum(0)])
        trained = self._nodes_of(torch.from_numpy(training))
        if view == "walks":
            tensors["coords"] = standardized(tensors["coords"], trained)
        attributes = torch.from_numpy(graphs.attributes)
        attributes = standardized(attributes, trained) if attributes.numel() else attributes.view(len(graphs.colors), 0)
        labels = torch.from_numpy(graphs.colors)[:, None] == torch.arange(max(len(graphs.color_names), 1))
        self.edges = edges.to(device)
        self.tensors = {name: value.to(device) for name, value in tensors.items()}
        self.node_features = torch.cat([labels.float(), attributes], 1).to(device)
        self.device = device

    @property
    def channels(self) -> int:
        """Number of features of a node: one for each label, or a constant, and the attributes."""
        return self.node_features.shape[1]

    def batch(self, items: Tensor, axes: int) -> tuple[Tensor, Positions]:
        """Features and positions of some graphs.

        Args:
            items: Numbers ``(B,)`` of the graphs.
            axes: Number of coordinates of a node, the first ones of the view.

        Returns:
            Features ``(B, N, C)`` and positions ``(B, N, axes)``, padded to the largest graph.
        """
        sizes, first = self.sizes[items], self.offsets[items]
        most = int(sizes.max())
        steps = torch.arange(most)
        placed = steps < sizes[:, None]
        nodes = (first[:, None] + steps).clamp(max=len(self.node_features) - 1).to(self.device)
        shown = placed.to(self.device)

        def padded(values: Tensor, fill: float = 0) -> Tensor:
            rows = values[nodes]
            return rows.masked_fill(~(shown if rows.dim() == 2 else shown[..., None]), fill)

        coords = padded(self.tensors["coords"])[..., :axes]
        fields: dict[str, Any] = {}
        if "eigenvalues" in self.tensors:
            fields["eigenvalues"] = padded(self.tensors["eigenvalues"])[..., :axes]
            fields["component"] = padded(self.tensors["component"], -1)
        if "hops" in self.tensors:
            fields["hops"] = self._tables(items, placed, most)
        edge_index, sample = self._edges(items, first)
        of_batch = GraphBatch(edge_index, sample, **fields)
        alike = bool(placed.all())
        return padded(self.node_features), Positions(coords, None if alike else shown, graph=of_batch)

    def _edges(self, items: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Edges of some graphs with node numbers within each graph, and the place of the graph of each edge."""
        low = self.edge_bounds[items]
        chosen, sample = _ranges(low, self.edge_bounds[items + 1] - low)
        return self.edges[:, chosen.to(self.device)] - first[sample].to(self.device), sample.to(self.device)

    def _tables(self, items: Tensor, placed: Tensor, most: int) -> Tensor:
        """Shortest-path lengths ``(B, N, N)``, -1 for padding."""
        steps, sizes = torch.arange(most), self.sizes[items]
        at = self.pair_offsets[items][:, None, None] + steps[:, None] * sizes[:, None, None] + steps
        there = placed[:, :, None] & placed[:, None, :]
        lengths = self.tensors["hops"][at.where(there, 0).to(self.device)]
        return lengths.masked_fill(~there.to(self.device), -1)

    def _nodes_of(self, items: Tensor) -> Tensor:
        return _ranges(self.offsets[items], self.sizes[items])[0]


def standardized(values: Tensor, rows: Tensor) -> Tensor:
    """Values ``(N, P)`` less the mean of some rows, over their standard deviation; constant columns are 0."""
    some = values[rows].double()
    mean, scale = some.mean(0), some.std(0, unbiased=False)
    return ((values.double() - mean) / scale.where(scale > 1e-9, torch.inf)).float()


def _ranges(low: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers from low[b] to low[b] + lengths[b] - 1 for each b, one after the other, and the b of each."""
    of = torch.arange(len(low)).repeat_interleave(lengths)
    before = lengths.cumsum(0) - lengths
    return torch.arange(int(lengths.sum())) - before[of] + low[of], of
