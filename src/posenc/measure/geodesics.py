"""The sheet on which tokens lie, measured along itself: distances from neighbour to neighbour, and what they unroll to.

    g_ij = the shortest way from i to j in the graph that joins each to its k nearest, a link as long as |e_i - e_j|
    points = the first axes of U S,   -J g^2 J / 2 = U S^2 U^T,   J = 1 - 11^T / N

A table can have a grid's neighbours right and be rolled up in space: sines and cosines of a position are. Straight
distances then unroll to a ball, and these to the grid. Source: Tenenbaum, de Silva and Langford 2000 (Isomap), doi
10.1126/science.290.5500.2319.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.measure.distances import token_distances
from posenc.measure.tables import table_of


def geodesic_distances(table: Tensor, *, neighbours: int = 4) -> Float64[Tensor, "N N"]:
    """``g`` of a table ``(N, d)``. neighbours: k, and as many more as it takes for the graph to hang together.

    Raises ValueError for a number of neighbours that no token has.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components, shortest_path

    d = token_distances(table).numpy()
    if not 0 < neighbours < len(d):
        raise ValueError(f"{len(d)} tokens have 1 to {len(d) - 1} neighbours each; got neighbours={neighbours}.")
    # rows that are equal are linked too: no length would mean no link
    d = np.maximum(d, 1e-12 * max(float(d.max()), 1e-300))
    order = np.argsort(d + np.diag(np.full(len(d), np.inf)), 1, kind="stable")
    for k in range(neighbours, len(d)):
        links = np.zeros_like(d)
        rows = np.arange(len(d))[:, None]
        links[rows, order[:, :k]] = d[rows, order[:, :k]]
        links = csr_matrix(np.maximum(links, links.T))  # of an array scipy takes what is small for no link
        if connected_components(links, directed=False)[0] == 1:
            return torch.from_numpy(shortest_path(links, directed=False))
    raise AssertionError("with every token for a neighbour the graph hangs together")


def unfolded(table: Tensor, *, axes: int = 2, neighbours: int = 4) -> Float64[Tensor, "N axes"]:
    """The points whose straight distances come nearest to the geodesic ones; the largest coordinate of each axis is
    positive. Axes that the distances do not fill are 0."""
    rows = table_of(table)
    if axes < 1:
        raise ValueError(f"points lie on at least one axis; got axes={axes}. Use axes=2 for a plane.")
    g = geodesic_distances(rows, neighbours=neighbours).square()
    centred = g - g.mean(0) - g.mean(1, keepdim=True) + g.mean()
    sizes, directions = torch.linalg.eigh(-centred / 2)
    points = rows.new_zeros(len(rows), axes)
    kept = min(axes, len(sizes))
    points[:, :kept] = (directions * sizes.clamp(min=0).sqrt()).flip(1)[:, :kept]
    return points * points.gather(0, points.abs().argmax(0, keepdim=True)).sign()
