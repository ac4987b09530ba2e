"""SignNet against its formula in another hand, what flips leave alone, and what it sees that ``|v|`` does not show."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from posenc.graph_data.builders import graph, graphs
from posenc.position_augmentation import flipped
from posenc.positions import Positions, sequence
from posenc.schemes.laplacian import Laplacian
from posenc.schemes.sign_net import SignNet

# a triangle with a tail: no two of its nodes are alike but the triangle's far ones
EDGES = torch.tensor([[0, 1], [0, 2], [1, 2], [2, 3], [3, 4], [4, 5]])


def rows(scheme, pos):
    return scheme.embed(scheme.prepare(pos)).detach()


def rows_by_numpy(scheme: SignNet, v: np.ndarray) -> np.ndarray:
    """``v`` is ``(N, P)``; the formula with the mean as a matrix, one eigenvector after the other."""
    w = {name: parameter.detach().numpy() for name, parameter in scheme.named_parameters()}
    mean = np.full((len(v), len(v)), 1 / len(v))

    def phi(column):
        x = column[:, None]
        for layer in "12":
            x = np.maximum(x @ w[f"A_{layer}"].T + mean @ x @ w[f"B_{layer}"].T + w[f"b_{layer}"], 0)
        return x

    y = np.hstack([phi(column) + phi(-column) for column in v.T])
    return np.maximum(y @ w["C_1"].T + w["c_1"], 0) @ w["C_2"].T + w["c_2"]


def test_rows_are_the_formula():
    scheme = SignNet(5, axes=3, hidden=7).double()
    v = torch.randn(6, 3, dtype=torch.float64)
    np.testing.assert_allclose(rows(scheme, Positions(v)), rows_by_numpy(scheme, v.numpy()), atol=1e-12)


def test_no_flip_changes_a_row():
    pos = graph(EDGES, axes=3, ties="keep")
    scheme = SignNet(5, axes=3)
    before = rows(scheme, pos)
    assert float(before.std(0).min()) > 0
    for signs in itertools.product((1.0, -1.0), repeat=3):
        flipped = Positions(pos.coords * torch.tensor(signs))
        torch.testing.assert_close(rows(scheme, flipped), before, atol=1e-6, rtol=0)


def test_it_tells_the_sides_of_a_cut_apart_unless_they_are_alike():
    uneven, even = (torch.tensor(v, dtype=torch.float64)[:, None] for v in ([1, -1, 3, -0.5, -2.5], [1, -1, 2, -2]))
    magnitude, signed = Laplacian(4, axes=1, signs="absolute").double(), SignNet(4, axes=1).double()
    for v, seen in ((uneven, True), (even, False)):
        there, here = rows(signed, Positions(v))[:2]
        assert bool((there - here).abs().max() > 1e-3) is seen
        there, here = rows(magnitude, Positions(v))[:2]
        assert torch.equal(there, here)


def test_graphs_padded_into_a_batch_are_as_alone():
    one, two = graph(EDGES, axes=2), graph(torch.tensor([[0, 1], [1, 2], [2, 3]]), axes=2)
    coords = torch.stack([one.coords, torch.cat([two.coords, torch.full((2, 2), 9.0)])])
    placed = torch.arange(6) < torch.tensor([[6], [4]])
    scheme = SignNet(3, axes=2)
    together = rows(scheme, Positions(coords, placed))
    torch.testing.assert_close(together[0], rows(scheme, one), atol=1e-6, rtol=0)
    torch.testing.assert_close(together[1, :4], rows(scheme, two), atol=1e-6, rtol=0)
    assert float(together[1, 4:].abs().max()) == 0
    shared = rows(scheme, Positions(one.coords, placed))  # one graph, of which a sample lacks two nodes
    torch.testing.assert_close(shared[1, :4], rows(scheme, Positions(one.coords[:4])), atol=1e-6, rtol=0)


def test_a_renumbered_graph_gives_renumbered_rows():
    order = torch.tensor([3, 0, 5, 1, 4, 2])  # node n is called order[n]
    scheme = SignNet(4, axes=2)
    renumbered = rows(scheme, graph(order[EDGES]))
    torch.testing.assert_close(renumbered[order], rows(scheme, graph(EDGES)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SignNet(0, 2), r"through hidden >= 1 channels to dim >= 1; got dim=0, axes=2, hidden=32"),
        (lambda: SignNet(3, 2, hidden=0), r"got dim=3, axes=2, hidden=0"),
        (
            lambda: SignNet(3, 2).prepare(sequence(4)),
            r"SignNet here reads 2 axes of the view 'eigenvectors' of a graph; these positions have 1",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_components_have_signs_and_means_of_their_own():
    """Means over the whole sample made a row depend on the signs of the eigenvectors of other components."""
    apart = torch.cat([EDGES, EDGES[:3] + 6, torch.tensor([[8, 9]])])
    pos, scheme = graph(apart, axes=2, ties="keep"), SignNet(4, axes=2).double()
    pos = dataclasses.replace(pos, coords=pos.coords.double())
    before = rows(scheme, pos)
    alone = graph(EDGES, axes=2, ties="keep")
    there = rows(scheme, dataclasses.replace(alone, coords=alone.coords.double()))
    torch.testing.assert_close(before[:6], there, atol=1e-6, rtol=0)
    signs = torch.where(torch.arange(10)[:, None] < 6, -1.0, 1.0).double()
    torch.testing.assert_close(rows(scheme, dataclasses.replace(pos, coords=pos.coords * signs)), before)
    torch.testing.assert_close(scheme.define_node_rows(pos.coords, pos.graph).detach(), before)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    renumbered = graph(order[apart], axes=2, ties="keep")
    torch.testing.assert_close(rows(scheme, renumbered)[order], before, atol=1e-5, rtol=0)
    batch = graphs([apart, EDGES], axes=2, ties="keep")
    together = rows(scheme, batch)
    torch.testing.assert_close(together[0], before, atol=1e-6, rtol=0)
    torch.testing.assert_close(together[1, :6], there, atol=1e-6, rtol=0)
    assert float(together[1, 6:].abs().max()) == 0


def test_flips_are_drawn_for_each_component():
    pos = graph(torch.cat([EDGES, EDGES + 6]), axes=3, ties="keep")
    generator, seen = torch.Generator().manual_seed(0), set()
    for _ in range(40):
        signs = (flipped(pos, generator=generator).coords * pos.coords.sign()).sign()
        first, second = signs[:6].unique(dim=0), signs[6:].unique(dim=0)
        assert len(first) == len(second) == 1
        seen.add(torch.equal(first, second))
    assert seen == {True, False}
