"""Graphs that are given in another form than they are read in: one sentence each, or a warning."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch

from posenc.graph_data.builders import graph, graphs
from posenc.graph_data.edges import Graph, as_graph
from posenc.schemes.graph_distance import GraphDistance

pytestmark = pytest.mark.bare

PATH = [(0, 1), (1, 2), (2, 3)]


def test_numbers_from_one_are_warned_of_unless_the_number_of_nodes_is_stated():
    with pytest.warns(UserWarning, match=r"node 0 has no edge, .* If the first node is 1, subtract 1 from all"):
        assert as_graph([(1, 2), (2, 3)]).num_nodes == 4
    with pytest.warns(UserWarning, match=r"nodes 0 to 99 have no edge, and are counted too\. .*write nodes=103"):
        as_graph([(100, 101), (101, 102)])
    assert as_graph([(1, 2), (2, 3)], nodes=4).num_nodes == 4
    assert as_graph(networkx.Graph([(1, 2), (2, 3)])).num_nodes == 3  # its nodes are names


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Graph(PATH), r"edge_index is a tensor \(2, E\); got list\. Write as_graph\(pairs\)"),
        (lambda: Graph(np.array(PATH).T), r"got ndarray\. Write as_graph"),
        (lambda: graphs(PATH), r"pairs of node numbers are one graph, .* Write graphs\(\[one\]\)"),
        (lambda: graphs(as_graph(PATH)), r"a Graph is one graph, and a batch is a list of graphs"),
        (lambda: graphs(networkx.path_graph(3)), r"a Graph is one graph"),
        (lambda: graph(PATH, axes=2.0), r"axes is a whole number; got axes=2\.0"),
        (lambda: as_graph(np.eye(4)), r"got torch\.float64\. .*For an adjacency matrix write scipy\.sparse\.csr_array"),
    ],
)
def test_another_form_is_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_distance_of_one_graph_refuses_the_positions_of_another():
    scheme = GraphDistance(2, edges=torch.tensor(PATH))
    scheme.prepare(graph(PATH, view="hops"))
    for other in (graph([(0, 1), (1, 2), (1, 3)], view="hops"), graphs([PATH, PATH], view="hops")):
        with pytest.raises(ValueError, match=r"has the edges of one graph, and these positions are of another graph"):
            scheme.prepare(other)
