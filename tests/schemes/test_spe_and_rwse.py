"""SPE against the paper's formula in another hand, on graphs with equal eigenvalues; RWSE as a map of its walks."""

import networkx
import numpy as np
import pytest
import torch

from posenc.graph_data.builders import graph, graphs
from posenc.positions import sequence
from posenc.schemes.rwse import RWSE
from posenc.schemes.spe import SPE

UNEVEN = [(0, 1), (0, 2), (1, 3), (3, 4), (2, 5), (4, 6), (0, 7)]


def rows(scheme, pos):
    return scheme.embed(scheme.prepare(pos)).detach()


def rows_by_numpy(scheme: SPE, unit: np.ndarray, values: np.ndarray) -> np.ndarray:
    """SPE of one connected graph from unit eigenvectors ``(N, P)``: V diag(phi(lambda)) V^T, then a network of rows."""
    w = {name: parameter.detach().double().numpy() for name, parameter in scheme.named_parameters()}
    phi = np.maximum(values[:, None] @ w["w_1"].T + w["b_1"], 0) @ w["W_2"].T + w["b_2"]
    k = len(unit) * np.stack([unit @ np.diag(each) @ unit.T for each in phi.T], -1)
    mean = np.maximum(k @ w["A"].T + w["a"], 0).mean(1)
    both = np.concatenate([k[np.arange(len(unit)), np.arange(len(unit))], mean], -1)
    return np.maximum(both @ w["C_1"].T + w["c_1"], 0) @ w["C_2"].T + w["c_2"]


@pytest.mark.parametrize("source", [networkx.Graph(UNEVEN), networkx.cycle_graph(8), networkx.complete_graph(6)])
def test_rows_are_the_formula_in_whatever_basis_numpy_finds(source):
    nodes = sorted(source)
    axes = {8: 6, 6: 5}[len(nodes)]  # whole eigenvalues
    values, vectors = np.linalg.eigh(networkx.normalized_laplacian_matrix(source, nodes).toarray())
    scheme = SPE(5, axes, features=3, hidden=7)
    relabeled = networkx.relabel_nodes(source, {node: number for number, node in enumerate(nodes)})
    ordered = networkx.Graph()
    ordered.add_nodes_from(range(len(nodes)))
    ordered.add_edges_from(relabeled.edges)
    found = rows(scheme, graph(ordered, axes=axes, ties="whole"))
    wanted = rows_by_numpy(scheme, vectors[:, 1 : axes + 1], values[1 : axes + 1])
    np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_renumbering_a_ring_moves_coordinates_and_not_rows():
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    ring = torch.tensor([(n, (n + 1) % 7) for n in range(7)])
    one, other = (graph(edges, axes=2, ties="keep") for edges in (ring, order[ring]))
    scheme = SPE(4, axes=2)
    assert float((other.coords[order] - one.coords).abs().max()) > 0.5
    torch.testing.assert_close(rows(scheme, other)[order], rows(scheme, one), atol=1e-5, rtol=0)


def test_eigenvalues_that_are_cut_are_left_out_so_that_rows_stay_the_same():
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    ring = torch.tensor([(n, (n + 1) % 7) for n in range(7)])
    scheme = SPE(4, axes=3)
    for ties, same in (("whole", True), ("keep", False)):
        one, other = (rows(scheme, graph(edges, axes=3, ties=ties)) for edges in (ring, order[ring]))
        assert (float((other[order] - one).abs().max()) < 1e-5) is same


def test_no_node_has_no_row():
    pos, scheme = graph(networkx.path_graph(5), axes=3), SPE(8, 3)
    assert scheme.define_node_rows(pos.coords[:0], pos.graph).shape == (0, 8)


def test_spe_refuses_positions_without_eigenvalues():
    with pytest.raises(
        ValueError, match=r"SPE here reads the eigenvalues of a batch of graphs, .* view='eigenvectors'\)"
    ):
        SPE(4, axes=1).prepare(sequence(3))
    with pytest.raises(ValueError, match=r"hidden >= 1 channels to dim >= 1; got dim=4, axes=0, features=8, hidden=16"):
        SPE(4, axes=0)


def test_rwse_maps_the_probabilities_of_return():
    scheme = RWSE(3, axes=4)
    pos = graphs([UNEVEN, [(0, 1)]], view="walks", axes=4)
    found = rows(scheme, pos)
    pair = torch.tensor([0.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(found[1, 0], scheme.weight.detach() @ pair + scheme.shift.detach())
    assert found[1, 2:].abs().max() == 0
    with pytest.raises(ValueError, match=r"RWSE maps axes >= 1 return probabilities to dim >= 1; got dim=0, axes=16"):
        RWSE(0)
