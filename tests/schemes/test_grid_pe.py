"""GridPE: the simplex, its scales and orientations, exact relativity, and what it is on one axis."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.contract import check
from posenc.frequencies import economy
from posenc.kernels import simplex
from posenc.positions import Positions, grid, sequence
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.rope import RoPE


@pytest.mark.parametrize("axes", [2, 3, 4, 7])
def test_the_directions_are_a_regular_simplex_and_a_tight_frame(axes):
    u = simplex.directions(axes).numpy()
    gram = np.full((axes + 1, axes + 1), -1 / axes)
    np.fill_diagonal(gram, 1)
    np.testing.assert_allclose(u @ u.T, gram, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, (axes + 1) / axes * np.eye(axes), atol=1e-12)


def test_on_two_axes_they_stand_120_degrees_apart_and_on_one_there_is_one():
    u = simplex.directions(2)
    degrees = sorted(math.degrees(math.atan2(float(y), float(x))) % 360 for x, y in u)
    assert degrees == pytest.approx([0, 120, 240])
    assert simplex.directions(1).tolist() == [[1.0]]


@pytest.mark.parametrize("axes", [1, 2, 3, 5])
def test_orientations_are_rotations_and_the_same_for_a_seed(axes):
    q = simplex.orientations(9, axes, torch.Generator().manual_seed(3)).numpy()
    np.testing.assert_allclose(q @ q.transpose(0, 2, 1), np.broadcast_to(np.eye(axes), q.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(q), 1)
    again = simplex.orientations(9, axes, torch.Generator().manual_seed(3))
    np.testing.assert_array_equal(again, q)


def test_orientations_are_uniform():
    """A random rotation of the plane has no preferred angle; in space its first column is uniform on the sphere."""
    plane = simplex.orientations(4000, 2, torch.Generator().manual_seed(0))
    angle = torch.atan2(plane[:, 1, 0], plane[:, 0, 0])
    quarters = torch.histc(angle, 4, -math.pi, math.pi)
    assert float(quarters.min()) > 900
    space = simplex.orientations(4000, 3, torch.Generator().manual_seed(0))
    thirds = torch.histc(space[:, 2, 0], 3, -1, 1)  # heights are uniform (Archimedes)
    assert float(thirds.min()) > 1200


@pytest.mark.parametrize(("axes", "extent", "lengths"), [
    (1, 14.0, [4, 4 * math.e, 4 * math.e**2]),
    (2, 14.0, [4, 4 * math.e**0.5, 4 * math.e, 4 * math.e**1.5]),
    (2, 4.0, [4]),
    (2, 3.0, [4]),
    (3, 5.0, [4, 4 * math.e ** (1 / 3)]),
])  # fmt: skip
def test_the_ladder_climbs_by_the_economic_ratio_until_it_spans_the_extent(axes, extent, lengths):
    found = 2 * math.pi / economy(axes=axes, shortest=4.0, extent=extent)
    assert found.tolist() == pytest.approx(lengths)


def waves_of(scheme):
    return scheme.waves.numpy()


def test_every_group_is_one_scale_of_the_turned_simplex():
    scheme = GridPE(60, 2, extent=14.0)
    waves = waves_of(scheme).reshape(10, 3, 2)
    size = np.linalg.norm(waves, axis=-1)
    expected = [2 * np.pi / (4 * np.e ** (s / 2)) for s in (0, 1, 2, 3, 0, 1, 2, 3, 0, 1)]
    np.testing.assert_allclose(size, np.repeat(np.array(expected)[:, None], 3, 1))
    unit = waves / size[..., None]
    np.testing.assert_allclose(np.einsum("gip,gjp->gij", unit, unit)[:, 0, 1], -0.5, atol=1e-12)
    angle = np.degrees(np.arctan2(unit[:, 0, 1], unit[:, 0, 0]))
    np.testing.assert_allclose((angle[[4, 8]] - angle[0]) % 360, [20, 40])  # three rounds share 60 degrees
    np.testing.assert_allclose(angle[:4], angle[0])


def test_the_pure_ladder_has_a_scale_a_group():
    lengths = 2 * np.pi / np.linalg.norm(waves_of(GridPE(24, 2, extent=None, ratio=2.0)).reshape(4, 3, 2), axis=-1)
    np.testing.assert_allclose(lengths[:, 0], [4, 8, 16, 32])


def test_spare_channels_on_one_axis_take_waves_in_between():
    lengths = 2 * np.pi / waves_of(GridPE(12, 1, extent=14.0))[0, :, 0]
    e = np.e
    np.testing.assert_allclose(lengths, [4, 4 * e, 4 * e**2, 4 * e**0.5, 4 * e**1.5, 4 * e**2.5])


def test_on_one_axis_it_can_be_rope():
    """|omega_s| = 10000^(-2 s / d): the pure ladder that starts at a wavelength of 2 pi and grows by 10000^(2 / d)."""
    d, pos = 16, sequence(9)
    q, k, v = torch.randn(3, 2, 3, 9, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scheme = GridPE(d, 1, extent=None, shortest=2 * math.pi, ratio=10000 ** (2 / d))
    out = [attention(q, k, v, scheme=s, q_pos=Positions(pos.coords.double())) for s in (scheme, RoPE(d))]
    torch.testing.assert_close(*out, atol=1e-12, rtol=0)


def test_logits_depend_on_the_offset_alone_and_heads_have_rotations_of_their_own():
    scheme = GridPE(24, 2, heads=2, extent=6.0)
    q, k = torch.randn(2, 1, 2, 1, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def logit(q_pos, k_pos):
        q_where, k_where = (scheme.prepare(Positions(torch.tensor([p]).double())) for p in (q_pos, k_pos))
        return (scheme.transform(q, q_where, "q") * scheme.transform(k, k_where, "k")).sum(-1).flatten()

    here, there = logit([1.0, 2.0], [4.0, 0.0]), logit([1001.5, -7.0], [1004.5, -9.0])
    torch.testing.assert_close(here, there, atol=1e-9, rtol=0)
    plain = (q * k).sum(-1).flatten()
    assert float((here - plain).abs().min()) > 1e-3
    first, second = waves_of(scheme)
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(first, axis=-1), np.linalg.norm(second, axis=-1))


def test_the_kernel_is_isotropic_to_second_order():
    """Mean cos(omega . x) = 1 - |omega|^2 |x|^2 / 4 + .. for a tight frame: near things are alike in all directions."""
    waves = waves_of(GridPE(6, 2, extent=4.0))[0]
    step = 1e-3 * np.array([[math.cos(a), math.sin(a)] for a in np.linspace(0, 6, 7)])
    fall = (1 - np.cos(step @ waves.T)).mean(1)
    np.testing.assert_allclose(fall, (2 * np.pi / 4) ** 2 * 1e-6 / 4, rtol=1e-5)


def test_left_over_channels_pass():
    scheme = GridPE(17, 3, extent=5.0)  # two groups of 8 and one channel
    x = torch.randn(1, 1, 6, 17, generator=torch.Generator().manual_seed(0))
    turned = scheme.transform(x, scheme.prepare(grid(1, 2, 3)), "q")
    assert torch.equal(turned[..., 16:], x[..., 16:])
    assert float((turned[..., :16] - x[..., :16])[:, :, 1:].abs().min(2).values.max()) > 0
    assert torch.equal(scheme.transform(x, scheme.prepare(grid(1, 2, 3)), "v"), x)


def test_seeds_and_nothing_else_decide_the_orientation():
    torch.manual_seed(0)
    first = GridPE(24, extent=6.0).waves
    torch.manual_seed(1)
    assert torch.equal(first, GridPE(24, extent=6.0).waves)
    assert not torch.allclose(first, GridPE(24, extent=6.0, rotation_seed=1).waves)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"head_dim": 5}, r"GridPE rotates 6 channels together, by 3 waves of 2 axes; got head_dim=5. Use 6 or more."),
        ({"head_dim": 12}, r"2 groups of 6 channels.*takes 4. Use head_dim=24, extent=6.59"),
        ({"head_dim": 12, "axes": 0}, "at least one axis and one head; got axes=0"),
        ({"head_dim": 12, "heads": 0}, "heads=0"),
        ({"head_dim": 12, "shortest": 0.0}, "`shortest` > 0.*got shortest=0"),
        ({"head_dim": 12, "ratio": 1.0}, "`ratio` > 1.*ratio=1"),
        ({"head_dim": 12, "extent": math.inf}, "extent=inf"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GridPE(**options)


@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_what_the_refusal_advises_is_accepted(axes):
    """Its numbers are short: an extent rounded up would take one scale more than there are groups."""
    refused = 0
    for groups, ratio, shortest in itertools.product((1, 2, 3, 5), (None, 1.3, 2.0), (4.0, 2.7, 0.1)):
        head_dim = groups * (2 if axes == 1 else 2 * (axes + 1))
        try:
            GridPE(head_dim, axes, extent=100.0, ratio=ratio, shortest=shortest)
        except ValueError as error:
            wide, near = re.search(r"Use head_dim=(\d+), extent=([\d.e+-]+), or", str(error)).groups()
            GridPE(int(wide), axes, extent=100.0, ratio=ratio, shortest=shortest)
            GridPE(head_dim, axes, extent=float(near), ratio=ratio, shortest=shortest)
            refused += 1
    assert refused > 20


def test_on_one_axis_all_heads_are_alike_whatever_their_number():
    """Nothing can turn there, and so a scheme for four heads serves any number of them."""
    scheme = GridPE(12, 1, heads=4)
    report = check(scheme)
    assert report.ok, report
    assert scheme.claims.sharing == "model"
    x, where = torch.ones(1, 6, 5, 12), scheme.prepare(sequence(5))
    torch.testing.assert_close(scheme.transform(x, where, "q"), GridPE(12, 1).transform(x, where, "q"))


def test_other_heads_and_widths_are_refused():
    scheme = GridPE(12, extent=6.0, heads=3)
    where = scheme.prepare(grid(2, 2))
    with pytest.raises(ValueError, match="built for 3 heads and meets 4"):
        scheme.transform(torch.zeros(1, 4, 4, 12), where, "q")
    with pytest.raises(ValueError, match="heads of width 12; these have 16"):
        scheme.transform(torch.zeros(1, 3, 4, 16), where, "q")
    with pytest.raises(ValueError, match="2 axes"):
        scheme.prepare(sequence(3))
