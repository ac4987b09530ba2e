"""Generated graphs with known answers: circulant skip-link graphs, and distances to a marked node.

skip links:   node n is joined to n + 1 and n + R modulo 41, then renumbered at random; the class is R
distances:    a random tree with some more edges; one node is marked, and the answer of each node is the number of edges
              on its shortest path to it

Skip-link graphs are those of Murphy et al. 2019, arXiv 1903.02541: all nodes have four edges, so that message passing
without further features has the same answer for every class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.graph_data.distances import hops
from posenc.graph_data.edges import Graph
from posenc.workbench.data.graph_set import GraphSet, undirected

Kind = Literal["skip links", "distances"]
NODES = 41
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""Number of nodes and lengths of the second link, one for each class, no two of them isomorphic."""
EXTRA = 0.2
"""Further edges of a random tree as a share of its nodes."""


def skip_links(count: int, seed: Sequence[int]) -> GraphSet:
    """Generate skip-link graphs in random numberings.

    Args:
        count: Number of graphs. The classes take turns, so that a multiple of 10 has equal classes.
        seed: Seed of the numberings.

    Returns:
        The graphs with their classes.
    """
    draw, nodes, edges = np.random.default_rng(list(seed)), np.arange(NODES), list[NDArray[np.int64]]()
    labels = np.arange(count) % len(SKIPS)
    for number, label in enumerate(labels):
        joined = np.concatenate([np.stack([nodes, (nodes + step) % NODES]) for step in (1, SKIPS[label])], 1)
        edges.append(draw.permutation(NODES)[joined] + NODES * number)
    return GraphSet(
        form="skip links",
        sizes=np.full(count, NODES),
        edges=undirected(np.concatenate(edges, 1), NODES * count)[0],
        answer="class of a graph",
        answers=labels,
        classes=tuple(f"skip {skip}" for skip in SKIPS),
        colors=np.zeros(NODES * count, np.int64),
    )


def distances(sizes: Sequence[int], seed: Sequence[int]) -> GraphSet:
    """Generate connected graphs with a marked node and the distances to it.

    Args:
        sizes: Number of nodes of each graph, at least 2.
        seed: Seed of the graphs.

    Returns:
        The graphs. The marked node has the label "marked".
    """
    draw, first = np.random.default_rng(list(seed)), 0
    edges, colors, lengths = list[NDArray[np.int64]](), list[NDArray[np.int64]](), list[NDArray[np.int8]]()
    for size in sizes:
        own = _random_graph(size, draw)
        marked = int(draw.integers(size))
        lengths.append(hops(Graph(torch.from_numpy(own), size))[marked])
        colors.append(np.eye(size, dtype=np.int64)[marked])
        edges.append(own + first)
        first += size
    return GraphSet(
        form="distances",
        sizes=np.array(sizes, np.int64),
        edges=np.concatenate(edges, 1),
        answer="value of a node",
        answers=np.concatenate(lengths)[:, None].astype(np.float32),
        classes=(),
        colors=np.concatenate(colors),
        color_names=("not marked", "marked"),
    )


def _random_graph(size: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """A tree whose nodes are joined to random earlier ones, with further edges, in a random numbering."""
    later = np.arange(1, size)
    tree = np.stack([later, draw.integers(0, later)])
    further = draw.integers(0, size, (2, round(EXTRA * size)))
    return undirected(draw.permutation(size)[np.concatenate([tree, further], 1)], size)[0]
