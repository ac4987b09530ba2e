"""Isomap: geodesic distances along the nearest-neighbor graph of encodings, and their multidimensional scaling.

    g_ij = length of the shortest path from i to j in the k-nearest-neighbor graph with edge lengths |e_i - e_j|
    points = the first axes of U S,   -J g^2 J / 2 = U S^2 U^T,   J = 1 - 11^T / N

A table can represent the neighbors of a grid correctly and still be curved in space, as sines and cosines of a position
are. Multidimensional scaling of Euclidean distances then gives a ball. Isomap gives the grid. Source: Tenenbaum, de
Silva and Langford 2000, doi 10.1126/science.290.5500.2319.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.measure.distances import token_distances
from posenc.measure.encoding_tables import table_of
from posenc.measure.modularity import ONE_DISTANCE

ROUNDING = 1e-12
"""Share of the largest eigenvalue below which an eigenvalue is a rounding error."""


def geodesic_distances(table: Tensor, *, neighbors: int = 4) -> Float64[Tensor, "N N"]:
    """Compute geodesic distances along the k-nearest-neighbor graph of a table.

    Args:
        table: encodings ``(N, d)``, one row per token.
        neighbors: k; it is increased until the graph is connected. Tokens as near as the k-th are neighbors too.

    Returns:
        Distances ``g (N, N)``.

    Raises:
        ValueError: a number of neighbors that no token has.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components, shortest_path

    d = token_distances(table).numpy()
    if len(d) < 2:
        raise ValueError("geodesic distances are between tokens, two or more; got a table of one row.")
    if not 0 < neighbors < len(d):
        raise ValueError(f"{len(d)} tokens have 1 to {len(d) - 1} neighbors each; got neighbors={neighbors}.")
    # equal rows get a small distance, because scipy takes a distance of 0 for no edge
    d = np.maximum(d, 1e-12 * max(float(d.max()), 1e-300))
    away = d + np.diag(np.full(len(d), np.inf))
    nearest = np.sort(away, 1)
    for k in range(neighbors, len(d)):
        links = np.where(away <= nearest[:, k - 1 : k] * (1 + ONE_DISTANCE), d, 0.0)
        links = csr_matrix(np.maximum(links, links.T))  # in a dense array scipy takes small values for no edge
        if connected_components(links, directed=False)[0] == 1:
            return torch.from_numpy(shortest_path(links, directed=False))
    raise AssertionError("the graph is connected if every token is a neighbor of every other")


def isomap(table: Tensor, *, axes: int = 2, neighbors: int = 4) -> Float64[Tensor, "N axes"]:
    """Compute the Isomap embedding of a table: multidimensional scaling of its geodesic distances.

    Args:
        table: encodings ``(N, d)``, one row per token.
        axes: number of axes of the points.
        neighbors: k of the nearest-neighbor graph.

    Returns:
        Points ``(N, axes)``. The largest coordinate of each axis is positive; axes without variation are 0.

    Raises:
        ValueError: fewer than one axis, or a number of neighbors that no token has.
    """
    rows = table_of(table)
    if axes < 1:
        raise ValueError(f"points lie on at least one axis; got axes={axes}. Use axes=2 for a plane.")
    g = geodesic_distances(rows, neighbors=neighbors).square()
    centered = g - g.mean(0) - g.mean(1, keepdim=True) + g.mean()
    sizes, directions = torch.linalg.eigh(-centered / 2)
    sizes = torch.where(sizes > ROUNDING * sizes.abs().max(), sizes, 0)
    points = rows.new_zeros(len(rows), axes)
    filled = min(axes, len(sizes))
    points[:, :filled] = (directions * sizes.sqrt()).flip(1)[:, :filled]
    return points * points.gather(0, points.abs().argmax(0, keepdim=True)).sign()
