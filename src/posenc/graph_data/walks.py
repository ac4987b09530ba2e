"""Return probabilities of random walks on graphs, the coordinates of RWSE.

    p_n = [(M)_nn, (M^2)_nn, .., (M^K)_nn],   M = D^(-1) A

With ``S = D^(-1/2) A D^(-1/2)``, which is symmetric, ``(M^k)_nn = (S^k)_nn``, and ``(S^(a+b))_nn`` is the inner product
of row n of ``S^a`` and of ``S^b``. So K steps need K / 2 products of matrices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.graph_data.union import BLOCK, Block, Union, blocks

DENSE = 256
"""Number of nodes up to which a component is computed as a dense matrix."""


def return_probabilities(union: Union, steps: int) -> Tensor:
    """Probability that a random walk from a node is back after 1, 2, .., K steps.

    A walk takes an edge with the probability of its share in the weights of the node's edges. A node without an edge
    has the probability 0.

    Args:
        union: The graphs.
        steps: Number K of steps.

    Returns:
        Probabilities ``(N, K)``, float64.
    """
    found, entries = torch.zeros(union.num_nodes, steps, dtype=torch.float64), union.symmetric_weights()
    for block in blocks(union, DENSE):
        size = block.nodes.shape[1]
        if size == 1:
            continue
        if size <= DENSE:
            found[block.nodes] = _dense(block.dense(union, entries), steps)
        else:
            found[block.nodes[0]] = _sparse(block, union, entries, steps)
    return found


def _dense(matrix: Tensor, steps: int) -> Tensor:
    """Diagonals of the powers of symmetric matrices ``(G, n, n)``, as ``(G, n, K)``."""
    power, before, rows = matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype), []
    for step in range(1, steps + 1):
        rows.append((power * (before if step % 2 else power)).sum(-1))  # step = a + b with a - b in (0, 1)
        if step % 2 == 0 and step < steps:
            before, power = power, power @ matrix
    return torch.stack(rows, -1)


def _sparse(block: Block, union: Union, entries: Tensor, steps: int) -> Tensor:
    """The same ``(n, K)`` of one component, for some columns of the powers at a time."""
    n = block.nodes.shape[1]
    (rows, columns), values = block.sparse(union, entries)
    matrix = torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (n, n), check_invariants=False).coalesce()
    found = torch.empty(n, steps, dtype=torch.float64)
    for part in torch.arange(n).split(max(BLOCK // (8 * n), 1)):
        before = torch.zeros(n, len(part), dtype=torch.float64)
        before[part, torch.arange(len(part))] = 1
        power = torch.sparse.mm(matrix, before)
        for step in range(1, steps + 1):
            found[part, step - 1] = (power * (before if step % 2 else power)).sum(0)
            if step % 2 == 0 and step < steps:
                before, power = power, torch.sparse.mm(matrix, power)
    return found
