"""Positions: what builds them, what moves and cuts them, what refuses them."""

import contextlib
import dataclasses
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from posenc import CausalNoPE
from posenc.graph_data.builders import graph
from posenc.kernels.pairs import Pairs, distances, window_rows
from posenc.positions import Positions, as_positions, grid, readable, sequence, sphere

# Tests of arguments of a wrong type or shape: the shape hook would refuse them before our sentence does.
without_the_shape_hook = pytest.mark.bare


def coords(pos: Positions) -> list:
    return pos.coords.tolist()


# builders ----------------------------------------------------------------------------------------------------------


def test_a_sequence_counts_from_its_start():
    assert coords(sequence(3)) == [[0], [1], [2]]
    assert coords(sequence(2, start=5)) == [[5], [6]]
    assert coords(sequence(2, start=-0.5)) == [[-0.5], [0.5]]
    assert sequence(0).coords.shape == (0, 1)
    assert (sequence(3).lattice, sequence(3).axes, sequence(3).count, sequence(3).batched) == ((3,), 1, 3, False)


def test_position_ids_are_taken_as_they_are():
    packed = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
    pos = sequence(packed)
    assert torch.equal(pos.coords[..., 0], packed)
    assert (pos.batched, pos.count, pos.axes, pos.lattice) == (True, 5, 1, None)
    assert coords(sequence(torch.tensor([2.5, 7.0]), start=1)) == [[3.5], [8.0]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_grid_is_row_major_with_axes_in_the_order_of_its_shape(shape):
    pos = grid(*shape)
    assert pos.lattice == tuple(shape)
    assert coords(pos) == [list(index) for index in np.ndindex(*shape)]


def test_a_grid_of_one_axis_is_a_sequence():
    assert torch.equal(grid(5).coords, sequence(5).coords)
    assert grid(0, 3).coords.shape == (0, 2)


def test_a_sphere_is_longitude_first_in_radians():
    pos = sphere(torch.tensor([180.0, -90.0]), torch.tensor([90.0, 0.0]))
    torch.testing.assert_close(pos.coords, torch.tensor([[math.pi, math.pi / 2], [-math.pi / 2, 0]]))
    same = sphere(torch.tensor([math.pi, -math.pi / 2]), torch.tensor([math.pi / 2, 0]), unit="radians")
    torch.testing.assert_close(same.coords, pos.coords)
    assert sphere(torch.zeros(2, 5), torch.tensor(10.0)).coords.shape == (2, 5, 2)


def test_the_coordinates_of_a_path_are_the_laplacians_eigenvectors():
    n = 6
    edges = torch.tensor([[i, i + 1] for i in range(n - 1)])
    adjacency = np.zeros((n, n))
    for i, j in edges.tolist():
        adjacency[i, j] = adjacency[j, i] = 1
    scale = np.diag(adjacency.sum(1) ** -0.5)
    values, vectors = np.linalg.eigh(np.eye(n) - scale @ adjacency @ scale)
    # known in closed form: 1 - cos(pi p / (n - 1)), p = 0 .. n - 1 (Chung 1997, Spectral Graph Theory, 1.4)
    np.testing.assert_allclose(values, 1 - np.cos(np.pi * np.arange(n) / (n - 1)), atol=1e-12)
    found = graph(edges, axes=3).coords.double().numpy()
    wanted = vectors[:, 1:4] * math.sqrt(n)
    np.testing.assert_allclose(np.abs((found * wanted).mean(0)), 1, atol=1e-6)
    np.testing.assert_allclose((found**2).mean(0), 1, atol=1e-6)


def test_the_sign_of_a_coordinate_is_its_largest_entrys_whatever_the_order_of_edges():
    star = torch.tensor([[0, 1], [0, 2], [0, 3], [3, 4], [4, 5]])
    pos = graph(star, axes=2, ties="keep")
    largest = pos.coords.gather(0, pos.coords.abs().argmax(0, keepdim=True))
    assert bool((largest > 0).all())
    again = graph(star.flip(0).flip(1), axes=2, ties="keep")
    torch.testing.assert_close(again.coords, pos.coords)
    with pytest.warns(UserWarning, match="edges") as said:
        doubled = graph(torch.cat([star, star, torch.tensor([[2, 2]])]), axes=2, ties="keep")
    torch.testing.assert_close(doubled.coords, pos.coords)
    assert [str(each.message) for each in said] == [
        "1 of 11 edges joins a node to itself, and is left out.",
        "5 edges are given twice, and are read once.",
    ]


def test_nodes_without_an_edge_are_counted_when_they_are_named():
    assert graph([(0, 1), (1, 2)], nodes=5, axes=1).count == 5


# arithmetic, cutting, taking ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=2), st.integers(-50, 50))
def test_moving_there_and_back(per_axis, shift):
    pos = grid(2, 3)
    assert torch.equal((pos + shift - shift).coords, pos.coords)
    assert torch.equal((pos + per_axis).coords, pos.coords + torch.tensor(per_axis))
    assert torch.equal((pos + torch.tensor(per_axis) - per_axis).coords, pos.coords)
    assert (pos + shift).lattice == (2, 3)


def test_a_shift_for_each_sample_makes_a_batch():
    moved = sequence(3) + torch.tensor([0.0, 10.0])[:, None, None]
    assert moved.coords[..., 0].tolist() == [[0, 1, 2], [10, 11, 12]]
    assert moved.batched


def test_a_slice_of_tokens_is_no_grid():
    placed = torch.tensor([True, False, True, True])
    pos = Positions(grid(2, 2).coords, placed)
    part = pos[1:3]
    assert coords(part) == [[0, 1], [1, 0]]
    assert part.placed.tolist() == [False, True]
    assert grid(2, 2)[:].lattice is None
    assert coords(sequence(torch.tensor([[1, 2, 3], [4, 5, 6]]))[-1:]) == [[[3]], [[6]]]
    assert sequence(3)[5:].count == 0


def test_taking_one_token_of_each_sample():
    index = torch.tensor([2, 0])
    assert coords(sequence(4, start=1).take(index)) == [[[3]], [[1]]]
    batch = Positions(torch.arange(12).view(2, 3, 2), torch.tensor([[True, True, False], [False, True, True]]))
    taken = batch.take(index)
    assert coords(taken) == [[[4, 5]], [[6, 7]]]
    assert taken.placed.tolist() == [[False], [False]]
    shared = Positions(sequence(3).coords, torch.tensor([True, True, False])).take(index)
    assert (shared.placed.tolist(), shared.count) == ([[False], [True]], 1)


def test_precision():
    assert sequence(3).precise().dtype == torch.float64
    assert sequence(3).table_dtype == torch.float32
    assert Positions(torch.zeros(1, 1, dtype=torch.float64)).table_dtype == torch.float64
    assert Positions(torch.zeros(1, 1, dtype=torch.float16)).table_dtype == torch.float32


def test_to_a_device_takes_all_of_it():
    pos = Positions(torch.zeros(2, 1), torch.tensor([True, False]), None).to("meta")
    assert pos.coords.device.type == pos.placed.device.type == "meta"
    assert sequence(3).to("meta").lattice == (3,)


def test_positions_are_values():
    with pytest.raises(dataclasses.FrozenInstanceError):
        sequence(2).coords = torch.zeros(2, 1)


def test_gradients_reach_the_users_own_tensor():
    mine = torch.zeros(3, 2, requires_grad=True)
    moved = as_positions(mine) + torch.tensor([1.0, 2.0])
    moved[1:].precise().sum().backward()
    assert mine.grad.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert as_positions(sequence(2)).lattice == (2,)


# a pytree ----------------------------------------------------------------------------------------------------------


def test_a_pytree_of_two_leaves():
    pos = Positions(torch.zeros(4, 2), torch.ones(4, dtype=torch.bool), (2, 2))
    leaves, spec = pytree.tree_flatten(pos)
    again = pytree.tree_unflatten(leaves, spec)
    assert torch.equal(again.coords, pos.coords)
    assert torch.equal(again.placed, pos.placed)
    assert again.lattice == (2, 2)
    doubled = pytree.tree_map_only(torch.Tensor, lambda t: t + t, grid(2, 2))
    assert torch.equal(doubled.coords, 2 * grid(2, 2).coords)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    paths = [pytree.keystr(path) for path, leaf in pytree.tree_flatten_with_path(pos)[0]]
    assert paths == [".coords", ".placed"]


class Moves(torch.nn.Module):
    def forward(self, pos: Positions) -> Positions:
        return pos + 1.5


@pytest.mark.compile
def test_positions_go_through_compile():
    compiled = torch.compile(Moves(), fullgraph=True, dynamic=True, backend="eager")
    for n in (3, 4, 6):
        out = compiled(sequence(n))
        assert torch.equal(out.coords, sequence(n).coords + 1.5)
        assert isinstance(out, Positions)
    torch._dynamo.reset()


@pytest.mark.compile
def test_positions_go_through_export_at_another_length():
    length = torch.export.Dim("length", min=2, max=64)
    unplaced = Positions(torch.zeros(5, 1), torch.zeros(5, dtype=torch.bool))
    program = torch.export.export(Moves(), (unplaced,), dynamic_shapes=(([{0: length}, {0: length}]),), strict=False)
    out = program.module()(Positions(torch.ones(9, 1), torch.ones(9, dtype=torch.bool)))
    assert isinstance(out, Positions)
    assert torch.equal(out.coords, torch.full((9, 1), 2.5))
    assert bool(out.placed.all())


def test_values_are_looked_at_only_where_there_are_some():
    bad = torch.tensor([[torch.nan]])
    assert readable(bad)
    assert not readable(bad.to("meta"))
    with pytest.raises(ValueError, match="must be finite"):
        Positions(bad)
    batch = torch.cat([bad[None], torch.zeros(1, 1, 1)])
    found = []
    moved = torch.func.vmap(lambda c: (found.append(readable(c)), (Positions(c) + 1).coords)[1])(batch)
    assert found == [False]
    assert bool(moved[0].isnan().all())
    assert moved[1].tolist() == [[1]]


def test_float32_that_cannot_tell_neighbors_apart_is_warned_of_once():
    times = 1.7e9 + torch.arange(3.0, dtype=torch.float64)[:, None]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        for first in range(3):
            Positions((times + 1e3 * first).float())
        Positions(times)
        Positions(times.long())
        Positions((times - times[0]).float())
        sequence(times[:, 0]) + 0.5
    assert [str(each.message).partition(",")[0] for each in heard] == [
        "positions beyond 2^24 in float32 are rounded to steps of 2 or more (128 for Unix times)"
    ]


def test_whole_numbers_that_float64_rounds_are_warned_of():
    """Unix nanoseconds: all rotations had the angle of a rounded position."""
    with pytest.warns(UserWarning, match=r"positions beyond 2\^53 are rounded .*256 for Unix times in nanoseconds"):
        Positions(torch.tensor([[17 * 10**17], [17 * 10**17 + 100]]))
    Positions(torch.tensor([[2**53 - 1], [100]]))


# what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Positions(torch.zeros(2, 1, dtype=torch.bool)), r"real numbers; got torch\.bool\. Pass integers or"),
        (lambda: Positions(torch.zeros(2, 1, dtype=torch.complex64)), r"real numbers; got torch\.complex64"),
        (
            lambda: Positions(torch.tensor([[0.0], [torch.inf], [torch.nan]])),
            r"positions must be finite; 2 of 3 coordinates are NaN or infinite\. Tokens without a position take "
            r"placed=False",
        ),
        (
            lambda: Positions(torch.zeros(5, 2), lattice=(2, 3)),
            r"lattice of shape \(2, 3\) has 6 points; there are 5 positions\. Use grid\(2, 3\), or lattice=None",
        ),
        (lambda: sequence(-1), r"at least 0 tokens; got -1\. Pass its length"),
        (lambda: grid(), r"a grid needs a size along each axis, as grid\(14, 14\); got grid\(\)"),
        (lambda: grid(3, -1), r"got grid\(3, -1\)"),
        (
            lambda: sphere(torch.tensor([10.0, 2.0]), torch.tensor([91.0, 0.0])),
            r"latitude lies within ±90 degrees; got 91 degrees\. The order is sphere\(lon, lat\): exchanged\?",
        ),
        (
            lambda: sphere(torch.tensor([0.0]), torch.tensor([-2.0]), unit="radians"),
            r"within ±90 degrees; got 2 radians",
        ),
        (
            lambda: graph(torch.tensor([[0, 1, 2]])),
            r"edges are pairs of node numbers, shape \(E, 2\) or \(2, E\); got \(1, 3\)\. Transpose\?",
        ),
        (
            lambda: graph(torch.tensor([[0, 1]]), axes=2),
            r"a graph of 2 nodes has 1 non-constant eigenvector; .* was asked for axes=2\. Ask for fewer axes",
        ),
        (
            lambda: graph([(0, 1), (1, 7)], nodes=4, axes=1),
            r"numbered from 0 to 3; got node 7\. Use nodes=8",
        ),
        (
            lambda: graph([(0, 1), (1, -1)], axes=1),
            r"numbered from 0 to 1; got node -1\. Number them from 0",
        ),
        (lambda: graph(torch.zeros(0, 2, dtype=torch.long), axes=1), r"without edges needs the number of its nodes"),
        (lambda: graph(torch.tensor([[0.5, 1.0]]), axes=1), r"node numbers are integers; got torch\.float32"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


# the shape hook would refuse some of these before our sentence does
@pytest.mark.bare
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        # a mask became the positions 0 and 1, and one start for each sample became further axes, without a word
        (lambda: sequence(torch.ones(2, 3).bool()), r"Its ids are \(mask\.cumsum\(-1\) - 1\)\.clamp\(min=0\)"),
        (lambda: sequence(8, start=torch.tensor([3, 4])), r"one per axis, here 1, or.*got one of shape \(2,\)"),
        (lambda: sequence(4).__add__((1, 2)), r"one per axis, here 1, or.*got one of shape \(2,\)"),
        (lambda: sequence(4, start="1"), r"`start` is the position of the first token, a number; got '1'"),
        (lambda: grid(2.5, 3), r"a grid needs a size along each axis.*got grid\(2\.5, 3\)"),
        (lambda: Positions(torch.zeros(3, 1), [True] * 3), r"`placed` is True or False for each token; got list"),
    ],
)
def test_other_types_and_shifts_that_add_axes_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@without_the_shape_hook
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Positions(torch.zeros(7)),
            r"shape \(N, P\) or \(B, N, P\), tokens by axes; got \(7,\)\. For positions on one axis write",
        ),
        (lambda: Positions(torch.zeros(2, 3, 4, 1)), r"got \(2, 3, 4, 1\)"),
        (
            lambda: Positions(torch.zeros(3, 2), torch.ones(4, dtype=torch.bool)),
            r"for each of the 3 tokens whether it has a position; got shape \(4,\)\. Give it shape \(3,\)",
        ),
        (lambda: Positions(torch.zeros(2, 3, 1), torch.ones(5, 3, dtype=torch.bool)), r"Give it shape \(2, 3\)"),
        (
            lambda: Positions(torch.zeros(3, 2), torch.ones(3)),
            r"`placed` is True or False for each token; got torch\.float32",
        ),
        (lambda: sequence(3)[1], r"cut by a slice of tokens, as pos\[3:4\]; got 1\. Or use pos\.take"),
        (
            lambda: as_positions(16),
            r"Positions or a tensor \(N, P\); got int\. For n tokens in a row write sequence\(n\)",
        ),
        (lambda: as_positions([[0, 1]]), r"got list"),
        (lambda: sphere(torch.zeros(1), torch.zeros(1), unit="grad"), r"'degrees' or 'radians'; got 'grad'"),
        (lambda: sequence(2.5), r"a sequence takes a number of tokens or a tensor of positions; got 2\.5"),
        (lambda: sequence([1, 2]), r"got list of 2\. Write .*, or sequence\(torch\.tensor\("),
        (lambda: sequence(np.arange(3)), r"got ndarray of 3\."),
        (lambda: sequence("3"), r"got str of 1\."),
        (lambda: sequence(None), r"got None\."),
    ],
)
def test_bad_types(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_round_distances(dtype):
    """258 and 1 are numbers of bfloat16, and 257 is none."""
    coords = torch.tensor([[1.0], [258.0]], dtype=dtype, requires_grad=True)
    rounds = dtype == torch.bfloat16
    with pytest.warns(UserWarning, match="bfloat16 are rounded.*above 256") if rounds else contextlib.nullcontext():
        pos = Positions(coords)
    assert pos.coords.dtype == torch.float32
    assert distances(pos, pos)[0, 1].item() == 257
    (pos.coords * 3).sum().backward()
    assert coords.grad is not None
    assert coords.grad.tolist() == [[3], [3]]
    half, whole = Positions(grid(24, 24).coords.to(dtype)), grid(24, 24)
    assert torch.equal(window_rows(Pairs(half, half), (24, 24)), window_rows(Pairs(whole, whole), (24, 24)))


@without_the_shape_hook
def test_what_is_no_tensor_of_positions():
    with pytest.raises(ValueError, match=r"positions are one tensor \(N, P\) or \(B, N, P\); got list\. For a list"):
        Positions([[1.0], [2.0]])
    nested = torch.nested.nested_tensor([torch.zeros(3, 1), torch.zeros(2, 1)], layout=torch.jagged)
    with pytest.raises(ValueError, match=r"got a nested tensor\. .* pad them, with placed=False where there is"):
        Positions(nested)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.uint64])
def test_small_integers_do_not_wrap_round(dtype):
    pos = Positions(torch.arange(6).to(dtype)[:, None])
    assert pos.coords.dtype == torch.int64
    assert (pos + 300).coords[-1].item() == 305
    causal = CausalNoPE()
    seen = causal.mask(causal.relate(causal.prepare(pos), causal.prepare(pos)))
    assert torch.equal(seen, torch.ones(6, 6, dtype=torch.bool).tril())


def test_tokens_are_taken_of_positions_that_all_samples_share():
    shared = Positions(torch.arange(5.0)[None, :, None], torch.tensor([[True, True, False, True, True]]))
    found = shared.take(torch.tensor([1, 2]))
    assert found.coords.flatten().tolist() == [1, 2]
    assert found.placed is not None
    assert found.placed.flatten().tolist() == [True, False]


def test_a_fraction_far_out_is_not_lost():
    near, far = Positions(torch.tensor([[1001]])) + 0.5, Positions(torch.tensor([[100_000_001]])) + 0.5
    assert near.coords.dtype == torch.float32
    assert far.precise().item() == 100_000_001.5
    assert (Positions(torch.tensor([[100_000_001]])) - 0.25).precise().item() == 100_000_000.75
    assert sequence(torch.tensor([100_000_001]), start=0.5).precise().item() == 100_000_001.5
    assert (Positions(torch.tensor([[100_000_001]])) + 3).coords.dtype == torch.int64
    assert (Positions(torch.tensor([[5]])) - torch.tensor([2], dtype=torch.uint8)).coords.item() == 3
