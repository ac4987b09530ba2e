"""SCPE and its two remedies: unit vectors of pixels, the likeness of diagonals, the readout."""

import math

import numpy as np
import pytest
import torch

from posenc.positions import Positions, grid
from posenc.schemes.sc_pe import SCPE
from posenc.schemes.sc_shear import SCShear
from posenc.schemes.sc_torus import SCTorus

N = 28


def vectors(scheme):
    pos = grid(N, N)
    return scheme.embed(scheme.prepare(Positions(pos.coords.double()))).numpy().reshape(N, N, -1)


def different(v):
    return len(np.unique(np.round(v.reshape(N * N, -1), 9), axis=0))


def likeness(v, a, b):
    return float(v[a] @ v[b])


@pytest.mark.parametrize(("variant", "count"), [("open", 784), ("closed", 757), ("code", 757)])
def test_unit_vectors_of_the_octant_and_how_many_differ(variant, count):
    v = vectors(SCPE(N, variant=variant))
    np.testing.assert_allclose(np.linalg.norm(v, axis=-1), 1)
    assert v.min() >= -1e-12
    assert different(v) == count


def test_where_the_axes_begin_and_lead():
    v = vectors(SCPE(N))
    np.testing.assert_allclose(v[0, 0], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(v[0, 14], [math.sqrt(0.5), math.sqrt(0.5), 0])  # right, towards +Y
    np.testing.assert_allclose(v[14, 0], [math.sqrt(0.5), 0, math.sqrt(0.5)])  # down, towards +Z
    closed = vectors(SCPE(N, variant="closed"))
    np.testing.assert_allclose(closed[27], [[0, 0, 1]] * N, atol=1e-12)
    np.testing.assert_allclose(closed[0, 27], [0, 1, 0], atol=1e-12)
    code = vectors(SCPE(N, variant="code"))
    np.testing.assert_allclose(code[0], [[0, 0, 1]] * N, atol=1e-12)
    np.testing.assert_allclose(code[27, 0], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(code[27, 27], [0, 1, 0], atol=1e-12)


def test_both_diagonals_of_a_square_are_equally_alike():
    v = vectors(SCPE(N))
    down, up = likeness(v, (0, 0), (1, 1)), likeness(v, (0, 1), (1, 0))
    assert down == pytest.approx(0.996856, abs=5e-7)
    assert up == pytest.approx(down, abs=1e-12)
    for r, c in ((0, 0), (9, 20), (26, 3)):
        assert likeness(v, (r, c), (r + 1, c + 1)) == pytest.approx(likeness(v, (r, c + 1), (r + 1, c)), abs=1e-12)


def test_neighbours_in_a_row_grow_more_alike_downwards():
    v = vectors(SCPE(N))
    found = [likeness(v, (r, 0), (r, 1)) for r in (0, 14, 27)]
    assert found == pytest.approx([0.998427, 0.999213, 0.999995], abs=5e-7)


def test_shear_parts_the_diagonals_in_the_octant():
    v = vectors(SCShear(N))
    assert likeness(v, (0, 0), (1, 1)) == pytest.approx(0.996856, abs=5e-7)
    assert likeness(v, (0, 1), (1, 0)) == pytest.approx(0.998252, abs=5e-7)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-1), 1)
    assert v.min() >= 0
    assert different(v) == N * N
    np.testing.assert_allclose(vectors(SCShear(N, kappa=0.0)), vectors(SCPE(N)), atol=1e-12)


def test_a_grid_has_as_many_pixels_on_a_side_as_is_said():
    assert SCPE(N).claims.range == SCShear(N).claims.range == (0, N - 1)


def test_torus_parts_the_diagonals_and_is_translation_invariant():
    v = vectors(SCTorus(N))
    assert likeness(v, (1, 1), (2, 2)) == pytest.approx(0.999184, abs=5e-7)
    assert likeness(v, (1, 2), (2, 1)) == pytest.approx(0.999728, abs=5e-7)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-1), 1)
    assert v.min() >= 0
    for a, b in (((0, 0), (3, 5)), ((2, 9), (20, 4))):
        moved = [(r + 5, c + 11) for r, c in (a, b)]
        assert likeness(v, a, b) == pytest.approx(likeness(v, *moved), abs=1e-12)
    w = vectors(SCTorus(N, diagonal="minus"))
    assert likeness(w, (1, 1), (2, 2)) == pytest.approx(0.999728, abs=5e-7)
    assert likeness(w, (1, 2), (2, 1)) == pytest.approx(0.999184, abs=5e-7)


def test_the_readout_is_a_small_network():
    scheme = SCPE(N, hidden=(128,), generator=torch.Generator().manual_seed(0))
    assert {name: tuple(p.shape) for name, p in scheme.named_parameters()} == {
        "readout.weights.0": (128, 3), "readout.weights.1": (1, 128), "readout.biases.0": (128,),
        "readout.biases.1": (1,),
    }  # fmt: skip
    state = {name: value.numpy() for name, value in scheme.state_dict().items()}
    v = vectors(SCPE(N)).reshape(-1, 3)
    inside = np.maximum(v @ state["readout.weights.0"].T + state["readout.biases.0"], 0)
    expected = inside @ state["readout.weights.1"].T + state["readout.biases.1"]
    with torch.no_grad():
        found = scheme.embed(scheme.prepare(grid(N, N)))
    assert scheme.out_dim == 1
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    again = SCPE(N, hidden=(128,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.state_dict(), scheme.state_dict())
    assert abs(state["readout.weights.0"]).max() <= 1 / math.sqrt(3)
    assert len(list(SCPE(N, hidden=(256, 64)).parameters())) == 6
    assert [p.numel() for p in SCTorus(N, hidden=()).parameters()] == [6, 1]


def test_the_note_s_readout_without_a_relu_is_a_linear_map():
    scheme = SCPE(N, hidden=(128,), relu=False)
    state = {name.removeprefix("readout."): value.double() for name, value in scheme.state_dict().items()}
    rows = SCPE(N).embed(SCPE(N).prepare(grid(N, N))).double()
    hidden = rows @ state["weights.0"].T + state["biases.0"]
    expected = hidden @ state["weights.1"].T + state["biases.1"]
    torch.testing.assert_close(scheme.embed(scheme.prepare(grid(N, N))).double(), expected, atol=1e-5, rtol=0)
    partly = SCPE(N, hidden=(4, 3), relu=(True, False))
    partly.load_state_dict(SCPE(N, hidden=(4, 3)).state_dict())
    assert not torch.equal(partly.embed(partly.prepare(grid(N, N))), scheme.embed(scheme.prepare(grid(N, N))))


def test_pixels_without_a_place_get_zeros_from_the_readout_too():
    pos = Positions(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([True, False]))
    rows = SCPE(N, hidden=(8,)).embed(SCPE(N, hidden=(8,)).prepare(pos)).detach()
    assert rows[1].abs().max() == 0
    assert rows[0].abs().max() > 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SCPE(1), "n >= 2; got n=1"),
        (lambda: SCPE(N, variant="note"), "'open', 'closed' or 'code'; got 'note'"),
        (lambda: SCPE(N, hidden=(4, 0)), r"at least one unit each; got hidden=\(4, 0\)"),
        (lambda: SCPE(N, relu=False), r"relu=False is for the readout.* Add hidden=\(128,\)"),
        (lambda: SCTorus(N, hidden=(4,), relu=(True, False)), r"got relu=\(True, False\) for hidden=\(4,\)"),
        (lambda: SCShear(N, kappa=-1.0), "kappa >= 0; got n=28, kappa=-1"),
        (lambda: SCTorus(0), "n >= 1; got n=0"),
        (lambda: SCTorus(N, diagonal="both"), "got 'both'"),
        (lambda: SCPE(N).prepare(grid(29, 29)), "stops at 27; position 28"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(make, sentence):
    # under the shape hook the type checker is the first to refuse a word that is none of a Literal's
    with pytest.raises((ValueError, TypeError), match=rf"({sentence})|Type-check error"):
        make()
