"""Positions of graphs: what they cost beside scipy and, where it is installed, PyTorch Geometric.

    python benchmarks/graphs.py --out results/graphs-cpu.json

One thread; seconds are the process's own, so that another process costs little, and the median of the rounds counts.
Nothing is reported for eigenvectors whose residual ``|L v - lambda v|`` of unit vectors is above 1e-5. scipy's time is
that of the matrix and of ``eigsh`` with the same number of eigenvectors, for the largest component, as it knows none.
PyTorch Geometric's is that of ``AddLaplacianEigenvectorPE``, and on small graphs of ``AddRandomWalkPE`` too. Memory is
what the first call adds to the process at its peak (Linux). Aims: 3 s for graphs of 5,000 nodes, and 30 s for 12,000
graphs of 23 nodes in each view.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.graph_data.builders import AXES, View, graph, graphs
from posenc.graph_data.edges import Graph, as_graph
from posenc.positions import Positions

SPARSE: Any = importlib.import_module("scipy.sparse")
CONNECTED: Any = importlib.import_module("scipy.sparse.csgraph")
LINALG: Any = importlib.import_module("scipy.sparse.linalg")
AXES_MEASURED, STEPS = 4, 16
RESIDUAL, LARGE, MANY = 1e-5, 3.0, 30.0


def main() -> int:
    chosen = begin(options("Positions of graphs, beside scipy and PyTorch Geometric.", 3))
    torch.set_num_threads(1)
    large = {
        "random graph, 5,000 nodes": (random_graph(5_000, 15_000), LARGE),
        "grid, 70 x 71": (lattice(70, 71), LARGE),
        "random graph, 100,000 nodes": (random_graph(100_000, 300_000), None),
    }
    found: dict[str, Any] = {}
    for name, (one, aim) in large.items():
        found[name] = eigenvectors(one, chosen.rounds)
        line = ", ".join(f"{key} {value:.3g}" for key, value in found[name].items())
        print(f"{name}: {line}", "" if aim is None else met(found[name]["posenc (s)"] <= aim))
    found["12,000 graphs of 23 nodes"] = small = batches(12_000)
    for name, value in small.items():
        aim = met(value <= MANY) if name.endswith("(s)") and "Geometric" not in name else ""
        print(f"12,000 graphs of 23 nodes, {name}: {value:.3g}", aim)
    keep(chosen, seconds=found)
    return 0


def random_graph(nodes: int, edges: int, seed: int = 0) -> Graph:
    """The largest component of a random graph with this number of edges."""
    pairs = np.random.default_rng(seed).integers(0, nodes, (2 * edges, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], 1), axis=0)
    pairs = np.random.default_rng(seed).permutation(pairs)[:edges]
    matrix = SPARSE.coo_array((np.ones(len(pairs)), pairs.T), shape=(nodes, nodes))
    _, label = CONNECTED.connected_components(matrix, directed=False)
    kept = label == np.bincount(label).argmax()
    number = kept.cumsum() - 1
    return as_graph(number[pairs[kept[pairs[:, 0]]]], layout="pairs")


def lattice(height: int, width: int) -> Graph:
    number = np.arange(height * width).reshape(height, width)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1)
    return as_graph(np.concatenate([across, np.stack([number[:-1].ravel(), number[1:].ravel()], 1)]))


def eigenvectors(one: Graph, rounds: int) -> dict[str, float]:
    """Seconds of each library for the eigenvectors of one graph, and the residual of posenc's."""

    def ours() -> Positions:
        return graph(one, axes=AXES_MEASURED, ties="keep")

    worst = residual(one, ours())
    if worst > RESIDUAL:
        raise SystemExit(f"the residual is {worst:.1e}, above {RESIDUAL:g}: nothing is timed.")
    found = {"residual": worst} | costs("posenc", ours, rounds) | costs("scipy", lambda: by_scipy(one), rounds)
    found["posenc / scipy"] = found["posenc (s)"] / found["scipy (s)"]
    if find_spec("torch_geometric"):
        found |= costs("PyTorch Geometric", lambda: by_geometric(one), rounds)
    return found


def symmetric(one: Graph) -> Any:
    """``D^(-1/2) A D^(-1/2)``."""
    n, edges = one.num_nodes, one.edge_index.numpy()
    adjacency = SPARSE.csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))
    scale = SPARSE.diags_array(1 / np.sqrt(adjacency.sum(0)))
    return SPARSE.csr_array(scale @ adjacency @ scale)


def by_scipy(one: Graph) -> np.ndarray:
    return LINALG.eigsh(symmetric(one), AXES_MEASURED + 1, which="LA")[1]


def by_geometric(one: Graph) -> Any:
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE

    transform = AddLaplacianEigenvectorPE(AXES_MEASURED, is_undirected=True)
    return transform(Data(edge_index=one.edge_index, num_nodes=one.num_nodes))


def residual(one: Graph, pos: Positions) -> float:
    assert pos.graph is not None
    assert pos.graph.eigenvalues is not None
    v = pos.coords.double().numpy() / np.sqrt(one.num_nodes)
    return float(np.linalg.norm(v - symmetric(one) @ v - v * pos.graph.eigenvalues[0].double().numpy(), axis=0).max())


def batches(count: int) -> dict[str, float]:
    """Seconds and memory to prepare many small graphs in each view: trees of 23 nodes."""
    rng = np.random.default_rng(0)
    trees = [np.stack([np.arange(1, 23), rng.integers(0, np.arange(1, 23))], 1) for _ in range(count)]
    views: list[View] = [view for view in ("eigenvectors", "walks", "degree", "hops") if view in AXES]
    found: dict[str, float] = {}
    for view in views:
        found |= costs(view, lambda view=view: graphs(trees, view=view, ties="keep"), 1)
    if find_spec("torch_geometric"):
        from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

        edges = [as_graph(tree).edge_index for tree in trees]
        for view, transform in (
            ("eigenvectors", AddLaplacianEigenvectorPE(2, is_undirected=True)),
            ("walks", AddRandomWalkPE(STEPS)),
        ):
            found |= costs(f"{view}, PyTorch Geometric", lambda use=transform: by_transform(use, edges), 1)
    return found


def by_transform(transform: Any, edges: list[Any]) -> list[Any]:
    """Data of PyTorch Geometric with the rows of a transform, graph by graph, as its data sets apply it."""
    from torch_geometric.data import Data

    return [transform(Data(edge_index=each, num_nodes=23)) for each in edges]


def costs(name: str, call: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Seconds, and MiB that the first call adds to the process at its peak."""
    rest = start_memory()
    taken, memory = [], 0.0
    for _ in range(rounds):
        before = time.process_time()
        call()
        taken.append(time.process_time() - before)
        memory = memory or peak_memory() - rest
    return {f"{name} (s)": statistics.median(taken), f"{name} (MiB)": memory}


if __name__ == "__main__":
    raise SystemExit(main())
