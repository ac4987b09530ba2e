"""Coordinates of graph nodes, against the transforms of PyTorch Geometric."""

import pytest
import torch

from posenc.graph_data.builders import graph

pytestmark = [
    pytest.mark.oracles,
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),  # its own, at its first import
]

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5), (5, 6), (6, 7), (7, 4), (7, 8)]
NODES, AXES = 9, 5


@pytest.fixture
def geometric():
    pytest.importorskip("xxhash")
    return pytest.importorskip("torch_geometric")


def data(geometric):
    ends = torch.tensor(EDGES).T
    return geometric.data.Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=NODES)


@pytest.mark.compares("RWSE", "torch-geometric", "AddRandomWalkPE")
def test_return_probabilities(geometric, same):
    theirs = geometric.transforms.AddRandomWalkPE(AXES, attr_name="pe")(data(geometric)).pe
    same(graph(torch.tensor(EDGES), view="walks", axes=AXES).coords, theirs)


@pytest.mark.compares("Laplacian", "torch-geometric", "AddLaplacianEigenvectorPE")
def test_eigenvectors_up_to_their_sign(geometric, same):
    theirs = geometric.transforms.AddLaplacianEigenvectorPE(AXES, attr_name="pe")(data(geometric)).pe
    ours = graph(torch.tensor(EDGES), axes=AXES).coords / NODES**0.5  # mean square 1 here, unit length there
    same(ours * (ours * theirs).sum(0).sign(), theirs)  # signs are drawn at random there
