"""Graphs of a data set that are equal to others; many data sets have them (Ivanov et al. 2019, arXiv 1910.12091)."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data.graph_set import GraphSet
from posenc.workbench.tasks.equal_items import TEST, equal_items_note
from posenc.workbench.tasks.graphs.baselines import refined_colors

STEPS = 20
"""Longest closed walk that is counted. Walks differ where neighborhoods do not, as in regular graphs."""
MODULUS = 2**26 - 5
"""Prime modulus of the counts, so that their sums are exact in float64."""
MOST_WALKED = 1000
"""Largest number of nodes of a graph whose walks are counted. A larger graph counts as different from all others."""


def equal_graphs_note(graphs: GraphSet) -> str:
    """Sentence on graphs that have the neighborhoods and the closed walks of another one; "" without such graphs.

    Args:
        graphs: The graphs. Labels and attributes of their nodes count.
    """
    nodes = np.concatenate([graphs.colors[:, None], graphs.attributes.reshape(len(graphs.colors), -1)], 1)
    _, start = np.unique(nodes, axis=0, return_inverse=True)
    ends = np.cumsum(graphs.sizes)
    colors = np.split(refined_colors(graphs, start.reshape(-1))[-1], ends[:-1])
    keys = [np.sort(each).tobytes() for each in colors]
    alike = Counter(keys)
    for number, (key, own, end) in enumerate(zip(keys, colors, ends.tolist(), strict=True)):
        if alike[key] > 1:
            first = end - len(own)
            at = slice(*np.searchsorted(graphs.edges[0], [first, end]))
            keys[number] = key + _walks(graphs.edges[:, at] - first, own, number)
    return equal_items_note(
        {TEST: keys}, "graphs", drawn=True, equal=f"equal, by their neighborhoods and closed walks of {STEPS} steps, to"
    )


def _walks(edges: NDArray[np.int64], colors: NDArray[np.int64], number: int) -> bytes:
    """Numbers of closed walks at the nodes of a graph in an order that its isomorphic graphs share."""
    if len(colors) > MOST_WALKED:
        return b"%d" % number
    adjacency = np.zeros((len(colors), len(colors)))
    adjacency[edges[0], edges[1]] = 1
    power, columns = adjacency, [colors.astype(np.float64)]
    for _ in range(STEPS - 1):
        power = adjacency @ power % MODULUS
        columns.append(np.diagonal(power))
    table = np.stack(columns, 1)
    return table[np.lexsort(table.T)].tobytes()
