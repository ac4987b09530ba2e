"""Graphs: the forms that they come in, their eigenvectors, walks and shortest paths against other code, and batches."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

from posenc.graph_data import eigenvectors
from posenc.graph_data.builders import graph, graphs
from posenc.graph_data.distances import hops
from posenc.graph_data.edges import Graph, as_graph
from posenc.graph_data.union import union_of

PATH = [(0, 1), (1, 2), (2, 3)]
BOTH = [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
SPIDER = [(0, 1), (0, 2), (1, 3), (3, 4), (2, 5), (4, 6), (0, 7)]
"""A tree whose three legs have 4, 2 and 1 nodes: no symmetry, no equal eigenvalues."""


def some_graph(nodes: int, edges: int, seed: int = 0) -> networkx.Graph:
    return networkx.gnm_random_graph(nodes, edges, seed=seed)


# forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        PATH,
        [list(edge) for edge in PATH],
        [torch.tensor(edge) for edge in PATH],
        iter(PATH),
        torch.tensor(PATH),
        np.array(PATH),
        np.array(PATH, dtype=np.uint8),
        torch.tensor(BOTH),
        BOTH,
        networkx.path_graph(4),
        networkx.path_graph(4).to_directed(),
        scipy.sparse.coo_array(networkx.to_numpy_array(networkx.path_graph(4))),
        scipy.sparse.csr_matrix(networkx.to_numpy_array(networkx.path_graph(4))),
        SimpleNamespace(edge_index=torch.tensor(BOTH), num_nodes=4, edge_attr=None),
        Graph(torch.tensor(BOTH)),
    ],
    ids=lambda source: type(source).__name__,
)
def test_every_form_of_a_graph_is_the_same_graph(source):
    one = as_graph(source)
    assert (one.num_nodes, one.edge_index.tolist()) == (4, torch.tensor(BOTH).tolist())
    assert one.edge_weight is None


def test_weights_and_attributes_follow_their_edges():
    source = networkx.Graph()
    source.add_weighted_edges_from([("b", "a", 2.0), ("a", "c", 3.0)])
    one = as_graph(source)  # numbered b, a, c
    assert one.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert one.edge_weight.tolist() == [2, 2, 3, 3]
    matrix = scipy.sparse.coo_array(([2.0, 2.0, 3.0, 3.0, 0.0], ([0, 1, 1, 2, 0], [1, 0, 2, 1, 2])))
    assert as_graph(matrix).edge_weight.tolist() == [2, 2, 3, 3]
    data = SimpleNamespace(edge_index=torch.tensor(BOTH).flip(1), num_nodes=6, edge_attr=torch.arange(6) // 2)
    assert as_graph(data).edge_attr.tolist() == [2, 2, 1, 1, 0, 0]
    assert as_graph(data).num_nodes == 6


def test_two_by_two_is_ambiguous_unless_it_is_told():
    square = torch.tensor([[0, 1], [1, 2]])
    for source in (square, square.tolist(), square.numpy()):
        with pytest.raises(ValueError, match=r"shape \(2, 2\) can be read in two ways. Write layout='pairs'"):
            as_graph(source)
    assert as_graph(square, layout="pairs").edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    with pytest.warns(UserWarning, match="one direction only"):
        assert as_graph(square, layout="edge_index").edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert as_graph([(0, 1), (1, 2)]).num_nodes == 3


@pytest.mark.parametrize(
    ("source", "sentence", "edges"),
    [
        ([(0, 1), (1, 1)], r"^1 of 2 edges joins a node to itself, and is left out\.$", [[0, 1], [1, 0]]),
        ([(0, 1), (0, 1)], r"^1 edge is given twice, and is read once\.$", [[0, 1], [1, 0]]),
        (
            networkx.DiGraph([(0, 1)]),
            r"^1 of 1 edges are given in one direction only, such as 0 -> 1",
            [[0, 1], [1, 0]],
        ),
    ],
)
def test_what_is_changed_is_said(source, sentence, edges):
    with pytest.warns(UserWarning, match=sentence):
        assert as_graph(source).edge_index.tolist() == edges
    assert as_graph([(0, 1), (1, 0)]).edge_index.tolist() == [[0, 1], [1, 0]]  # both directions: nothing to say


def wrong(edges, **given):
    return lambda: Graph(torch.tensor(edges), **given)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: as_graph([]), r"without edges needs the number of its nodes, at least 1\. Write nodes=3"),
        (lambda: as_graph([], nodes=0), r"without edges needs the number of its nodes"),
        (lambda: as_graph([(0, 4)], nodes=3), r"3 nodes are numbered from 0 to 2; got node 4\. Use nodes=5"),
        (
            lambda: as_graph([(0, 10**9), (1, 2)]),
            r"^edges name the node 1000000000, and nodes are numbered .* Number them so: edges = torch\.unique\("
            r"torch\.as_tensor\(edges\), return_inverse=True\)\[1\]\. If .* write nodes=1000000001\.$",
        ),
        (lambda: as_graph([(0, 10**12)], nodes=10**13), r"an edge names the node 1000000000000, .*=True\)\[1\]\.$"),
        (lambda: as_graph([("a", "b")]), r"pairs of node numbers, an array \(E, 2\) or \(2, E\).* got a list"),
        (lambda: as_graph("edges.txt"), r"got 'edges\.txt'\. A file is read first, as by networkx\.read_edgelist"),
        (lambda: as_graph([(0, 1, 2)]), r"pairs of node numbers, as \[\(0, 1\), \(1, 2\)\]; got \(0, 1, 2\)"),
        (lambda: as_graph(7), r"edges are pairs of node numbers, .* got \(\)"),
        (lambda: as_graph(None), r"a graph is pairs of node numbers, .* got None\."),
        (lambda: as_graph(np.eye(3, dtype=int)), r"got \(3, 3\)\. For an adjacency matrix write scipy"),
        (lambda: as_graph(np.array(PATH, dtype=float)), r"node numbers are integers; got torch\.float64"),
        (
            lambda: as_graph(np.array(PATH), layout="edge_index"),
            r"layout='edge_index' have shape \(2, E\); got \(3, 2\)",
        ),
        (lambda: as_graph(SimpleNamespace(edge_index=None)), r"this data has no edge_index"),
        (lambda: as_graph(scipy.sparse.coo_array(np.ones((2, 3)))), r"matrix is square, .* got \(2, 3\)"),
        (wrong(PATH), r"edge_index has shape \(2, E\), .* got \(3, 2\)\. For pairs"),
        (
            wrong(BOTH, edge_weight=torch.ones(3)),
            r"`edge_weight` has one row for each of the 6 edges; got shape \(3,\)",
        ),
        (wrong(BOTH, edge_weight=-torch.ones(6)), r"edge weights are positive and finite; got -1"),
        (wrong(BOTH, edge_attr=torch.arange(6)), r"the edge 0 - 1 is given in two directions: with the value 0 and"),
        (wrong([[0, 0, 1], [1, 1, 0]], edge_weight=torch.tensor([1.0, 2.0, 1.0])), r"the edge 0 - 1 is given twice:"),
        (lambda: graphs([]), r"a batch has at least one graph; got none"),
        (lambda: graphs([PATH, []]), r"graph 1 of 2: a graph without edges needs"),
        (
            lambda: graphs([PATH], axes=0),
            r"the view 'eigenvectors' has axes as many as eigenvectors, at least one; got axes=0",
        ),
        (lambda: graph(PATH, axes=9), r"the view 'eigenvectors' was asked for axes=9\. Ask .* or for view='walks'"),
        (
            lambda: graph(Graph(torch.zeros(2, 0, dtype=torch.long), 1)),
            r"a graph of 1 node has 0 non-constant eigenvectors; .* axes=2\. Ask for view='walks'\.",
        ),
        (lambda: graphs([PATH], view="hops", axes=2), r"the view 'hops' has one axis; got axes=2"),
        (
            lambda: graphs([as_graph([(0, 1)], nodes=6000)], view="hops"),
            r"1 x 6,000 x 6,000 are 36 MB.* up to 5,000 nodes",
        ),
        (
            lambda: graphs([Graph(torch.tensor(BOTH), edge_attr=torch.zeros(6)), PATH]),
            r"graph 1 of 2 has no `edge_attr`, and others have",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("value", ["heavy", None, "2"])
def test_weights_of_networkx_that_are_no_numbers_are_named_with_their_edge(value):
    network = networkx.path_graph(["a", "b", "c"])
    networkx.set_edge_attributes(network, 1.5, "weight")
    network.edges["b", "c"]["weight"] = value
    with pytest.raises(
        ValueError, match=f"the edge 'b' - 'c' of this networkx graph has weight={value!r}, .* no number"
    ):
        as_graph(network)
    network.edges["b", "c"]["weight"] = [1.0, 2.0]
    with pytest.raises(ValueError, match="different numbers of values as 'weight'"):
        as_graph(network)


def test_the_warning_of_one_direction_names_a_call_that_takes_the_same_edges():
    edges = torch.tensor(PATH).T
    with pytest.warns(UserWarning, match=r"as_graph\(edge_index\.T, layout='pairs'\)"):
        warned = as_graph(edges)
    assert torch.equal(as_graph(edges.T, layout="pairs").edge_index, warned.edge_index)


@pytest.mark.bare  # the shape hook would refuse the words before the sentences do
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"view": "spectrum"}, r"views of a graph are 'eigenvectors', 'walks', 'degree', 'hops'; got 'spectrum'"),
        ({"ties": "no"}, r"'warn', 'keep' or 'whole'; got ties='no'"),
        ({"layout": "rows"}, r"layout 'pairs', \(E, 2\), or 'edge_index', \(2, E\); got 'rows'"),
    ],
)
def test_unknown_words(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        graph(PATH, **given)


# eigenvectors ------------------------------------------------------------------------------------------------------


def laplacian(source: networkx.Graph, nodes: list[int]) -> np.ndarray:
    return networkx.normalized_laplacian_matrix(source.subgraph(nodes), nodelist=nodes).toarray()


def residuals(source: networkx.Graph, pos) -> float:
    """Largest ``|L v - lambda v|`` of unit vectors, over components and axes."""
    v, values = (t.double().numpy() for t in (pos.coords, pos.graph.eigenvalues))
    worst = 0.0
    for nodes in networkx.connected_components(source):
        at = sorted(nodes)
        of_part = laplacian(source, at) if len(at) > 1 else np.zeros((1, 1))
        part = v[at] / np.maximum(np.linalg.norm(v[at], axis=0), 1e-30)
        worst = max(worst, float(np.abs(of_part @ part - part * values[at]).max()))
    return worst


def test_eigenvectors_are_the_smallest_non_zero_ones_of_each_component():
    source = networkx.disjoint_union(networkx.path_graph(6), networkx.path_graph(3))
    source.add_node(9)
    pos = graph(source, axes=4, ties="keep")
    assert residuals(source, pos) < 1e-6
    # a path of n nodes has 1 - cos(pi p / (n - 1)) (Chung 1997, Spectral Graph Theory, 1.4)
    wanted = [1 - np.cos(np.pi * p / 5) for p in range(1, 5)]
    np.testing.assert_allclose(pos.graph.eigenvalues[:6], np.tile(wanted, (6, 1)), atol=1e-6)
    np.testing.assert_allclose(pos.graph.eigenvalues[6:9], np.tile([1, 2, 0, 0], (3, 1)), atol=1e-6)
    assert pos.coords[6:9, 2:].abs().max() == 0
    assert pos.coords[9].abs().max() == 0
    torch.testing.assert_close(pos.coords[:6].square().mean(0), torch.ones(4))
    assert pos.graph.component.tolist() == [0] * 6 + [1] * 3 + [2]


def test_a_graph_in_a_union_has_the_coordinates_that_it_has_alone():
    alone = graph(SPIDER, axes=3)
    joined = graph([*((a + 3, b + 3) for a, b in SPIDER), (0, 1), (1, 2)], axes=3, ties="keep")
    torch.testing.assert_close(joined.coords[3:], alone.coords)
    batch = graphs([SPIDER, PATH], axes=3, ties="keep")
    torch.testing.assert_close(batch.coords[0], alone.coords)
    assert batch.placed.sum(1).tolist() == [8, 4]
    assert batch.coords[1, 4:].abs().max() == 0
    assert batch.graph.component[1].tolist() == [0, 0, 0, 0, -1, -1, -1, -1]


def test_equal_eigenvalues_are_said_and_can_be_left_out():
    ring = networkx.cycle_graph(9)
    with pytest.warns(
        UserWarning, match=r"^this graph has equal eigenvalues at the first 3 axes: .* SPE with ties='whole'"
    ):
        graph(ring, axes=3)
    with pytest.warns(UserWarning, match=r"^1 of 2 graphs \(number 1 is one\) has equal eigenvalues"):
        graphs([SPIDER, ring], axes=3)
    whole = graph(ring, axes=3, ties="whole")  # eigenvalues come in pairs: the third has no partner
    assert whole.coords[:, :2].abs().min(0).values.max() > 0
    assert whole.coords[:, 2].abs().max() == 0
    assert whole.graph.eigenvalues[0, 2] == 0
    torch.testing.assert_close(whole.coords[:, :2], graph(ring, axes=2, ties="keep").coords)


@pytest.mark.parametrize("weighted", [False, True])
def test_large_components_are_solved_sparse_and_agree_with_the_dense_solver(monkeypatch, weighted):
    source = some_graph(60, 90, seed=1)
    if weighted:
        for number, (a, b) in enumerate(source.edges):
            source[a][b]["weight"] = 1.0 + number % 5
    dense = graph(source, axes=4)
    assert residuals(source, dense) < 1e-6
    monkeypatch.setattr(eigenvectors, "DENSE", 10)
    torch.testing.assert_close(graph(source, axes=4).coords, dense.coords, atol=1e-4, rtol=0)


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize("source", [some_graph(5000, 15000), networkx.grid_2d_graph(70, 71)], ids=["random", "grid"])
def test_thousands_of_nodes_are_solved_to_a_small_residual(source):
    source = networkx.convert_node_labels_to_integers(source)
    largest = source.subgraph(max(networkx.connected_components(source), key=len)).copy()
    largest = networkx.convert_node_labels_to_integers(largest)
    pos = graph(largest, axes=4)
    v = pos.coords.double().numpy()
    v = v / np.linalg.norm(v, axis=0)
    sparse = networkx.normalized_laplacian_matrix(largest)
    assert float(np.linalg.norm(sparse @ v - v * pos.graph.eigenvalues[0].double().numpy(), axis=0).max()) <= 1e-5


def test_a_long_path_is_one_component_and_is_solved():
    one = as_graph([(n, n + 1) for n in range(1200)])
    assert union_of([one]).sizes.tolist() == [1201]
    pos = graph(one, axes=2)
    np.testing.assert_allclose(pos.graph.eigenvalues[0], [1 - np.cos(np.pi * p / 1200) for p in (1, 2)], atol=1e-7)


# walks, degrees, shortest paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [12, 300])  # dense, and sparse for some columns at a time
def test_walks_are_the_diagonals_of_powers(nodes):
    source = some_graph(nodes, 2 * nodes, seed=3)
    source.add_node(nodes)
    for number, (a, b) in enumerate(source.edges):
        source[a][b]["weight"] = 1.0 + number % 3
    adjacency = networkx.to_numpy_array(source)
    step = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1e-30)
    wanted, power = [], np.eye(nodes + 1)
    for _ in range(7):
        power = power @ step
        wanted.append(np.diag(power))
    np.testing.assert_allclose(graph(source, view="walks", axes=7).coords, np.stack(wanted, 1), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_shortest_paths_are_those_of_networkx(seed):
    source = some_graph(70, 75, seed=seed)
    wanted = np.full((70, 70), -1)
    for a, row in networkx.all_pairs_shortest_path_length(source):
        for b, length in row.items():
            wanted[a, b] = length
    np.testing.assert_array_equal(hops(as_graph(source)), wanted)
    assert (wanted == -1).any()


def test_long_paths_end_at_127_and_no_path_is_minus_one():
    table = hops(as_graph([(n, n + 1) for n in range(200)], nodes=202))
    assert table[0, :201].tolist() == [min(n, 127) for n in range(201)]
    assert set(table[201, :201].tolist()) == {-1}
    assert hops(as_graph([], nodes=1)).tolist() == [[0]]


def test_degrees_count_edges_or_add_weights():
    assert graph(SPIDER, view="degree").coords[:, 0].tolist() == [3, 2, 2, 2, 2, 1, 1, 1]
    one = Graph(torch.tensor([[0, 1], [1, 0]]), 3, edge_weight=torch.tensor([0.5, 0.5]))
    assert graph(one, view="degree").coords[:, 0].tolist() == [0.5, 0.5, 0]


# batches -----------------------------------------------------------------------------------------------------------


def test_a_batch_of_hops_has_numbers_lengths_and_types_of_edges():
    bonds = Graph(torch.tensor(BOTH), edge_attr=torch.tensor([[0], [0], [2], [2], [0], [0]]))
    pos = graphs([bonds, as_graph([], nodes=1)], view="hops")
    assert pos.coords[..., 0].tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]
    assert pos.graph.hops.dtype == torch.int8
    assert pos.graph.hops[1].tolist() == [[0, -1, -1, -1]] + [[-1] * 4] * 3
    assert pos.graph.edge_types[0].tolist() == [[0, 1, 0, 0], [1, 0, 3, 0], [0, 3, 0, 1], [0, 0, 1, 0]]
    assert pos.graph.edge_sample.tolist() == [0] * 6
    assert graphs([PATH, PATH], view="hops").placed is None


def test_positions_keep_the_graph_of_the_tokens_that_are_taken():
    pos = graphs([SPIDER, PATH], axes=2, ties="keep")
    cut = pos[2:5]
    torch.testing.assert_close(cut.graph.eigenvalues, pos.graph.eigenvalues[:, 2:5])
    assert cut.graph.component.tolist() == pos.graph.component[:, 2:5].tolist()
    taken = pos.take(torch.tensor([[3, 0], [1, 2]]))
    torch.testing.assert_close(taken.graph.eigenvalues[1], pos.graph.eigenvalues[1, [1, 2]])
    one = graph(SPIDER, axes=2)
    assert one.take(torch.tensor([3, 1])).graph.eigenvalues.shape == (2, 1, 2)
    assert (one + 1).graph is one.graph
    assert one[1:].graph.eigenvalues.shape == (7, 2)
    assert one.to("meta").graph.eigenvalues.device.type == "meta"


@pytest.mark.parametrize("view", ["eigenvectors", "walks", "degree"])
def test_a_renumbered_graph_has_renumbered_coordinates(view):
    order = torch.tensor([5, 2, 7, 0, 3, 1, 6, 4])  # node n is called order[n]
    one, other = (graph(edges, view=view).coords for edges in (SPIDER, order[torch.tensor(SPIDER)]))
    torch.testing.assert_close(other[order].abs(), one.abs(), atol=1e-5, rtol=0)


def test_many_small_graphs_cost_as_much_each_as_few(monkeypatch):
    calls = []
    solve = eigenvectors._dense
    monkeypatch.setattr(eigenvectors, "_dense", lambda *given: calls.append(1) or solve(*given))
    graphs(list(itertools.repeat(SPIDER, 300)))
    assert len(calls) == 1


def test_a_batch_of_pytorch_geometric_is_several_graphs() -> None:
    """``graph(batch)`` made one graph of all, so attention without a mask mixed them."""
    one = SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    batch = SimpleNamespace(
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        num_nodes=4,
        num_graphs=2,
        to_data_list=lambda: [one, one],
    )
    with pytest.raises(ValueError, match=r"a batch of 2 graphs, and one is needed\. Write graphs\(batch\)"):
        graph(batch, view="degree")
    assert graphs(batch, view="degree").coords.shape[:2] == (2, 2)
