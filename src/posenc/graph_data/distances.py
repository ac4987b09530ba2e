"""Shortest-path lengths of all pairs of nodes of a graph, in edges: a breadth-first search from all nodes at once.

The nodes that each node has reached are bits. One step joins the bits of the neighbors of a node, so that it costs
``N E / 64`` operations on words.
"""

from __future__ import annotations

import numpy as np

from posenc.graph_data.edges import Graph

FARTHEST = 127
"""Largest length that is told apart, the largest number of int8."""
GATHERED = 2**22
"""Number of words of neighbors that are read at a time: 32 MiB."""
UNREACHED = -1
"""Length of a pair of nodes without a path."""


def hops(graph: Graph) -> np.ndarray:
    """Compute the number of edges on the shortest path of each pair of nodes; edge weights are not read.

    Args:
        graph: The graph, with N nodes.

    Returns:
        Lengths ``(N, N)``, int8: -1 without a path, 127 for 127 edges and more.
    """
    n, edges = graph.num_nodes, graph.edge_index.cpu().numpy()
    reached = np.packbits(np.eye(n, dtype=bool), axis=1, bitorder="little")
    words = np.zeros((n, -(-reached.shape[1] // 8) * 8), np.uint8)
    words[:, : reached.shape[1]] = reached
    bits, lengths = words.view(np.uint64), np.zeros((n, n), np.int8)
    wider = _one_step(bits, edges)
    for _ in range(FARTHEST):
        if np.array_equal(wider, bits):
            break
        lengths += ~_bits(bits, n)  # one more edge for each pair that is not reached yet
        bits, wider = wider, _one_step(wider, edges)
    while not np.array_equal(wider, bits):
        bits, wider = wider, _one_step(wider, edges)
    lengths[~_bits(bits, n)] = UNREACHED
    return lengths


def _one_step(bits: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Add the bits of the neighbors of each node to its own."""
    first, second = edges
    if not len(first):
        return bits
    starts = np.flatnonzero(np.diff(first, prepend=-1))  # the edges of a graph are sorted by their first node
    wider, at_once = bits.copy(), max(GATHERED // len(first), 1)
    for low in range(0, bits.shape[1], at_once):
        some = bits[:, low : low + at_once]
        wider[first[starts], low : low + at_once] |= np.bitwise_or.reduceat(some[second], starts, axis=0)
    return wider


def _bits(words: np.ndarray, n: int) -> np.ndarray:
    return np.unpackbits(words.view(np.uint8), axis=1, count=n, bitorder="little").view(bool)
