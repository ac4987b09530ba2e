"""Sinusoid against the published figures of arXiv 2406.08272 and against numbers that need no figure."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme
from posenc.schemes.sinusoid import Sinusoid


def rows(scheme: Scheme, pos: Positions) -> torch.Tensor:
    return scheme.embed(scheme.prepare(Positions(pos.coords.double(), pos.placed)))


@pytest.mark.parametrize(
    ("dim", "wanted"),
    [
        (4, [1, 0.770, 0.292, 0.005, 0.173, 0.641, 0.979, 0.876, 0.426, 0.042]),
        (2048, [1, 0.974, 0.907, 0.830, 0.771, 0.742, 0.735, 0.734, 0.724, 0.704]),
    ],
)
def test_cosine_similarity_to_the_first_row(dim, wanted):
    # by hand for dim 4: cos = (cos p + cos p/100) / 2; for p = 3 that is (-.98999 + .99955) / 2 = .0048
    table = rows(Sinusoid(dim), sequence(10))
    cosine = table @ table[0] / (dim / 2)
    torch.testing.assert_close(cosine, torch.tensor(wanted, dtype=torch.float64), atol=5e-4, rtol=0)


def procrustes(a: np.ndarray, b: np.ndarray) -> float:
    """The distance of two tables after the best rotation of one, as they stand: neither centred nor scaled."""
    singular = np.linalg.svd(a.T @ b, compute_uv=False)
    return math.sqrt((a**2).sum() + (b**2).sum() - 2 * singular.sum())


def test_the_4_x_4_grid_of_width_160():
    # arXiv 2406.08272, Figure A9: "baseline cosine similarity 0.72"; its code's tables give the other figures
    one, two = rows(Sinusoid(160), sequence(16)), rows(Sinusoid(160, axes=2), grid(4, 4))
    cosine = torch.nn.functional.cosine_similarity(one.flatten(), two.flatten(), 0)
    assert float(cosine) == pytest.approx(0.7246, abs=1e-4)
    assert float(two.norm()) == pytest.approx(35.777, abs=1e-3)
    assert float((one - two).norm()) == pytest.approx(26.554, abs=1e-3)
    assert procrustes(one.numpy(), two.numpy()) == pytest.approx(13.173, abs=1e-3)


def test_rows_by_the_formula_in_numpy():
    p, d = np.arange(7)[:, None], 8
    angle = p * 10000.0 ** (-np.arange(0, d, 2) / d)
    wanted = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(7, d)
    np.testing.assert_allclose(rows(Sinusoid(8), sequence(7)).numpy(), wanted, atol=1e-12)
    # two axes: the last axis first, each with the frequencies of its own width
    two = rows(Sinusoid(16, axes=2), grid(7, 7)).reshape(7, 7, 16).numpy()
    np.testing.assert_allclose(two[3, 5], np.concatenate([wanted[5], wanted[3]]), atol=1e-12)


def test_the_orders_of_channels_that_other_libraries_have():
    # timm, build_sincos2d_pos_embed: sines of rows and columns, then cosines; interleaved: [sin | cos] of rows first.
    # MAE, get_2d_sincos_pos_embed: [sin | cos] of columns, then of rows. PVT's: interleaved, rows first.
    h, w, d = 3, 5, 16
    row, column = (c.reshape(-1, 1) for c in np.meshgrid(np.arange(h), np.arange(w), indexing="ij"))
    omega = 10000.0 ** (-np.arange(d // 4) / (d // 4))
    y, x = row * omega, column * omega

    def made(**options) -> np.ndarray:
        return rows(Sinusoid(d, axes=2, **options), grid(h, w)).numpy()

    sin, cos = np.sin, np.cos
    by_hand = {
        ("sines first", "first"): [sin(y), sin(x), cos(y), cos(x)],
        ("halves", "first"): [sin(y), cos(y), sin(x), cos(x)],
        ("halves", "last"): [sin(x), cos(x), sin(y), cos(y)],
    }
    for (channels, leading), parts in by_hand.items():
        wanted = np.concatenate(parts, -1)
        np.testing.assert_allclose(made(channels=channels, leading=leading), wanted, atol=1e-12)
    alternating = np.stack([np.stack([sin(y), cos(y)], -1), np.stack([sin(x), cos(x)], -1)], 1).reshape(h * w, d)
    np.testing.assert_allclose(made(leading="first"), alternating, atol=1e-12)


@pytest.mark.bare  # the shape hook would refuse the words before the sentences do
def test_unknown_orders():
    with pytest.raises(ValueError, match=r"stand 'interleaved', in 'halves' or 'sines first'; got 'shuffled'"):
        Sinusoid(12, channels="shuffled")
    with pytest.raises(ValueError, match=r"'last' axis leads a row of Sinusoid, or the 'first'; got 'second'"):
        Sinusoid(12, leading="second")


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3),
    st.floats(-1e6, 1e6),
    st.sampled_from([(1, 1e4), (3, 1e4), (3, 7)]),
)
def test_rows_keep_their_length_and_their_products_move_along(place, shift, form):
    axes, base = form
    scheme = Sinusoid(12, axes=axes, base=base)
    coords = torch.tensor([place[:axes], [0.0] * axes], dtype=torch.float64)
    here, there = rows(scheme, Positions(coords)), rows(scheme, Positions(coords + shift))
    torch.testing.assert_close(here.norm(dim=-1), torch.full((2,), math.sqrt(6), dtype=torch.float64))
    torch.testing.assert_close(here @ here.T, there @ there.T, atol=1e-8, rtol=0)


def test_far_positions_keep_their_phase_in_float32():
    p = 10**7
    row = Sinusoid(12).embed(Sinusoid(12).prepare(Positions(torch.tensor([[p]]))))[0].numpy()
    assert row.dtype == np.float32
    angle = p * 10000.0 ** (-np.arange(0, 12, 2) / 12)
    error = np.angle((row[1::2] + 1j * row[0::2]) * np.exp(-1j * angle))
    assert np.abs(error).max() <= 1e-3


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Sinusoid(12, axes=0), r"needs at least one axis; got axes=0\. Use axes=1"),
        (lambda: Sinusoid(13), r"`dim` must be a multiple of 2; got 13\. Use 12\."),
        (lambda: Sinusoid(18, axes=2), r"each of 2 axes .* multiple of 4; got 18\. Use 16\."),
        (lambda: Sinusoid(0), r"multiple of 2; got 0\. Use 2\."),
        (lambda: Sinusoid(12, base=0), r"base of a geometric schedule is positive; got 0\. The papers use 10000"),
        (lambda: Sinusoid(12).prepare(grid(2, 2)), r"reads 1 axes per position; these positions have 2\. Build it for"),
        (lambda: Sinusoid(12)(torch.zeros(3)), r"Sinusoid is not called like a layer: use attention\("),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
