"""Transform of PyTorch Geometric that writes the encoding of a graph's nodes into its ``Data``."""

from __future__ import annotations

import copy
from typing import Any

import torch

from posenc.adapt.compatibility import refuse_sites
from posenc.graph_data.builders import graphs
from posenc.graph_data.edges import as_graph
from posenc.scheme import Scheme


class AddNodeEncoding:
    """Write the rows of a scheme for the nodes of a graph into ``data.pe``, as transforms of PyTorch Geometric do.

    Use it as ``transform`` or ``pre_transform`` of a data set, or call it with a ``Data``. The graph is read as
    ``posenc.graph`` reads it: undirected, with ``edge_weight``.

    Args:
        scheme: A scheme that acts at "embed" alone and reads a view of graphs: ``RWSE``, ``Laplacian``, ``SignNet`` or
            ``SPE``.
        name: Attribute of the data that is written. Default "pe".
        coordinates: True to write the coordinates that the scheme reads in place of its rows. A model then computes the
            rows and trains the scheme: ``scheme.embed(scheme.prepare(Positions(batch.pe)))``. Default False: rows of
            the scheme's present weights, without a gradient.

    Raises:
        ValueError: If the scheme acts elsewhere or reads no view of graphs, or needs more of a graph than coordinates.

    Example:
        >>> from types import SimpleNamespace
        >>> import torch
        >>> from posenc import RWSE
        >>> from posenc.adapt import AddNodeEncoding
        >>> data = SimpleNamespace(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)  # or a PyG Data
        >>> AddNodeEncoding(RWSE(8, axes=4))(data).pe.shape
        torch.Size([3, 8])
    """

    def __init__(self, scheme: Scheme, *, name: str = "pe", coordinates: bool = False) -> None:
        refuse_sites(scheme, {"embed"}, "this transform writes rows of nodes", example="RWSE(64, axes=16)")
        if scheme.graph_view is None:
            raise ValueError(
                f"{type(scheme).__name__} reads no view of graphs. Schemes that do are RWSE, SignNet and others of "
                "docs/graphs.md."
            )
        if coordinates and scheme.graph_reads:
            raise ValueError(
                f"{type(scheme).__name__} reads the {sorted(scheme.graph_reads)[0]} of a graph beside its coordinates. "
                "Write its rows, coordinates=False, or make positions of the batch by posenc.graphs."
            )
        self.scheme, self.name, self.coordinates = scheme, name, coordinates

    @torch.no_grad()
    def __call__(self, data: Any) -> Any:
        """Return a shallow copy of the data with the encoding of its nodes.

        Args:
            data: A ``Data`` of PyTorch Geometric, or anything with ``edge_index`` and ``num_nodes``.

        Returns:
            The copy.
        """
        view, ties = self.scheme.graph_view, "whole" if self.scheme.graph_reads else "warn"
        assert view is not None
        pos = graphs([as_graph(data)], view=view, axes=self.scheme.claims.axes, ties=ties)
        data = copy.copy(data)
        rows = pos.coords if self.coordinates else self.scheme.embed(self.scheme.prepare(pos))
        setattr(data, self.name, rows[0])
        return data

    def __repr__(self) -> str:
        return f"AddNodeEncoding({type(self.scheme).__name__}, name={self.name!r}, coordinates={self.coordinates})"
