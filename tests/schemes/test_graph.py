"""Laplacian eigenvectors on graphs whose eigenvectors are known, and what a flip of signs changes."""

import math

import pytest
import torch

from posenc.graph_data.builders import graph
from posenc.position_augmentation import flipped
from posenc.positions import Positions, sequence
from posenc.schemes.laplacian import Laplacian


def test_a_path_of_three_by_hand():
    # degrees 1, 2, 1: the eigenvectors are (1, sqrt 2, 1), (1, 0, -1), (1, -sqrt 2, 1), scaled to unit root mean square
    pos = graph([(0, 1), (1, 2)], axes=2)
    scheme = Laplacian(2, axes=2)
    scheme.weight.data = torch.tensor([[1.0, 0.0], [10.0, 1.0]])
    scheme.shift.data = torch.tensor([0.0, 100.0])
    rows = scheme.embed(scheme.prepare(pos)).detach()
    a, b = math.sqrt(3 / 2), math.sqrt(3) / 2
    sign = float(rows[0, 0].sign())  # which end is positive is a tie
    wanted = [
        [sign * a, 100 + 10 * sign * a - b],
        [0, 100 + 2 * b / math.sqrt(2)],
        [-sign * a, 100 - 10 * sign * a - b],
    ]
    torch.testing.assert_close(rows, torch.tensor(wanted), atol=1e-5, rtol=0)


def test_a_row_is_a_linear_map_of_the_coordinates():
    scheme = Laplacian(5, axes=3).double()
    v = torch.randn(4, 3, dtype=torch.float64)
    wanted = v @ scheme.weight.T + scheme.shift
    torch.testing.assert_close(scheme.embed(scheme.prepare(Positions(v))), wanted)
    magnitude = Laplacian(5, axes=3, signs="absolute").double()
    magnitude.load_state_dict(dict(scheme.state_dict()))  # the weights alone
    wanted = v.abs() @ scheme.weight.T + scheme.shift
    torch.testing.assert_close(magnitude.embed(magnitude.prepare(Positions(v))), wanted)


def test_flips_change_given_signs_and_not_absolute_ones():
    ring = torch.tensor([[n, (n + 1) % 5] for n in range(5)] + [[0, 2]])
    pos = graph(ring, axes=2)
    flips = flipped(pos, batch=16, generator=torch.Generator().manual_seed(0))
    for signs, different in (("absolute", 1), ("given", 4)):
        scheme = Laplacian(3, axes=2, signs=signs)
        rows = scheme.embed(scheme.prepare(flips)).detach()
        assert len(rows.flatten(1).mul(1e4).round().unique(dim=0)) == different


def test_random_signs_are_drawn_for_each_eigenvector_in_training_mode_alone():
    scheme, v = Laplacian(3, axes=3, signs="random").double(), torch.randn(2, 5, 3, dtype=torch.float64)
    drawn = torch.stack([scheme.prepare(Positions(v)).v / v for _ in range(400)])
    assert bool((drawn.abs() == 1).all())
    signs = drawn[:, :1, :1]
    assert bool((drawn == signs).all()), "the nodes and the graphs of a call share its signs"
    signs = signs[:, 0, 0]
    assert len(signs.unique(dim=0)) == 8, "the eigenvectors have signs of their own"
    assert float(signs.mean(0).abs().max()) < 4 / 400**0.5
    assert int(scheme.drawn) == 400
    scheme.eval()
    for _ in range(3):
        assert torch.equal(scheme.prepare(Positions(v)).v, v)
    assert int(scheme.drawn) == 400


def test_random_signs_continue_from_a_saved_state():
    scheme, v = Laplacian(3, axes=6, signs="random"), Positions(torch.randn(5, 6))
    for _ in range(7):
        scheme.prepare(v)
    other = Laplacian(3, axes=6, signs="random")
    other.load_state_dict(scheme.state_dict())
    for _ in range(5):
        assert torch.equal(scheme.prepare(v).v, other.prepare(v).v)
    other.reset_parameters()
    assert torch.equal(other.prepare(v).v, Laplacian(3, axes=6, signs="random").prepare(v).v)
    assert "drawn" not in Laplacian(3, axes=6).state_dict(), "states of earlier versions load"


def test_a_renumbered_graph_gives_renumbered_rows():
    edges = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [1, 4], [4, 5]])
    order = torch.tensor([3, 0, 5, 1, 4, 2])  # node n is called order[n]
    scheme = Laplacian(4, axes=2, signs="absolute")
    rows = scheme.embed(scheme.prepare(graph(edges)))
    renumbered = scheme.embed(scheme.prepare(graph(order[edges])))
    torch.testing.assert_close(renumbered[order], rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Laplacian(0, 2), r"maps axes >= 1 eigenvectors to dim >= 1; got dim=0, axes=2"),
        (lambda: Laplacian(3, 0), r"got dim=3, axes=0"),
        (
            lambda: Laplacian(3, 2).prepare(sequence(4)),
            r"Laplacian here reads 2 axes of the view 'eigenvectors' of a graph; these positions have 1",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_unknown_signs():
    with pytest.raises(ValueError, match=r"as 'given', 'absolute' or 'random'; got signs='squared'"):
        Laplacian(3, 2, signs="squared")
