"""Laplacian eigenvectors of graphs, by connected component: dense for small components, sparse (scipy) for large ones.

    L = I - D^(-1/2) A D^(-1/2)

Each component has its own eigenvalue 0, which carries no position and is left out. Axis ``p`` has the eigenvector of
the (p+1)-th smallest non-zero eigenvalue *of the component*, scaled to unit root mean square over its nodes.
"""

from __future__ import annotations

import importlib
import math
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.graph_data.union import Block, Union, blocks

DENSE = 400
"""Number of nodes up to which a component is solved as a dense matrix, where scipy is installed."""
EQUAL = 1e-6
"""Distance of two eigenvalues that count as equal. They lie between 0 and 2, and the solvers err by less than 1e-9."""
START = 20261125
"""Seed of the first vector of the iterative solver, so that equal graphs give equal eigenvectors."""


class Spectrum(NamedTuple):
    """Eigenvectors of the nodes of a union of graphs.

    Attributes:
        vectors: Entries ``(N, P)`` in the eigenvectors of the component of each node; 0 where it has fewer, float64.
        values: Their eigenvalues ``(N, P)``.
        tied: True ``(N,)`` for nodes of components that have equal eigenvalues among the first P.
        cut: True ``(N,)`` for nodes of components in which the P-th and the next eigenvalue are equal.
    """

    vectors: Tensor
    values: Tensor
    tied: Tensor
    cut: Tensor


def smooth_eigenvectors(union: Union, axes: int, *, whole: bool = False) -> Spectrum:
    """Compute the eigenvectors of the smallest non-zero eigenvalues of each component.

    Args:
        union: The graphs.
        axes: Number P of eigenvectors.
        whole: Leave out, as zeros, the eigenvectors of an eigenvalue that has more of them than P has room for.

    Returns:
        Eigenvectors and eigenvalues of each node.
    """
    entries, count = union.symmetric_weights(), union.num_nodes
    vectors = torch.zeros(count, axes, dtype=torch.float64)
    values, tied = torch.zeros_like(vectors), torch.zeros(count, dtype=torch.bool)
    cut = tied.clone()
    for block in blocks(union, DENSE if find_spec("scipy") else union.num_nodes):
        nodes, size = block.nodes, block.nodes.shape[1]
        if size == 1:
            continue
        found = min(axes + 1, size - 1)  # one more than asked for, to see whether an eigenvalue is cut
        dense = size <= DENSE or not find_spec("scipy")
        value, vector = _dense(block, union, entries, found) if dense else _sparse(block, union, entries, found)
        vector = vector * math.sqrt(size)
        peak = vector.gather(1, vector.abs().argmax(1, keepdim=True))
        vector = vector * peak.sign()
        equal = (value[:, 1:] - value[:, :-1]).abs() <= EQUAL  # (G, found - 1)
        tied[nodes] = equal[:, : axes - 1].any(1)[:, None].expand_as(nodes)
        cuts = equal[:, axes - 1] if equal.shape[1] >= axes else torch.zeros(len(nodes), dtype=torch.bool)
        cut[nodes] = cuts[:, None].expand_as(nodes)
        value, vector = value[:, :axes], vector[:, :, :axes]
        if whole:
            kept = ~(cuts[:, None] & ((value - value[:, -1:]).abs() <= EQUAL * axes))
            value, vector = value * kept, vector * kept[:, None]
        vectors[nodes, : value.shape[1]] = vector
        values[nodes, : value.shape[1]] = value[:, None].expand(-1, size, -1)
    return Spectrum(vectors, values, tied, cut)


def _dense(block: Block, union: Union, entries: Tensor, found: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(G, found)`` and unit eigenvectors ``(G, n, found)`` without the smallest, from dense matrices."""
    laplacian = torch.eye(block.nodes.shape[1], dtype=torch.float64) - block.dense(union, entries)
    values, vectors = torch.linalg.eigh(laplacian)
    return values[:, 1 : found + 1], vectors[:, :, 1 : found + 1]


def _sparse(block: Block, union: Union, entries: Tensor, found: int) -> tuple[Tensor, Tensor]:
    """The same of one component by scipy: Lanczos, and where it does not converge with an inverse close to 0."""
    sparse: Any = importlib.import_module("scipy.sparse")
    linalg: Any = importlib.import_module("scipy.sparse.linalg")
    n = block.nodes.shape[1]
    (rows, columns), values = block.sparse(union, entries)
    adjacency = sparse.csc_array((values.numpy(), (rows.numpy(), columns.numpy())), shape=(n, n))
    start = np.random.default_rng(START).standard_normal(n)
    wanted, basis = found + 1, max(2 * (found + 1) + 1, 40)
    try:
        largest, vectors = linalg.eigsh(adjacency, wanted, which="LA", v0=start, ncv=min(basis, n), maxiter=40)
        smallest = 1 - largest
    except linalg.ArpackNoConvergence:
        laplacian = sparse.eye_array(n, format="csc") - adjacency
        smallest, vectors = linalg.eigsh(laplacian, wanted, sigma=-1e-3, which="LM", v0=start)
    order = smallest.argsort()[1:]
    return torch.from_numpy(smallest[order])[None], torch.from_numpy(np.ascontiguousarray(vectors[:, order]))[None]
