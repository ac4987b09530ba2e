"""Encodings of places on the globe and on a plane: scipy's harmonics, the addition theorem, poles, seams and units."""

import math

import numpy as np
import pytest
import torch
from scipy.special import eval_legendre, sph_harm_y

from posenc.contract import check
from posenc.kernels import harmonics
from posenc.positions import Positions, sphere
from posenc.schemes.space2vec_grid import Space2VecGrid
from posenc.schemes.space2vec_theory import Space2VecTheory
from posenc.schemes.sphere_c import SphereC
from posenc.schemes.sphere_c_plus import SphereCPlus
from posenc.schemes.sphere_dfs import SphereDFS
from posenc.schemes.sphere_m import SphereM
from posenc.schemes.sphere_m_plus import SphereMPlus
from posenc.schemes.spherical_harmonics import SphericalHarmonics

ON_GLOBE = [SphereC, SphereCPlus, SphereM, SphereMPlus, SphereDFS]


def places(count=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))


def rows(scheme, lon, lat):
    pos = sphere(torch.as_tensor(lon, dtype=torch.float64), torch.as_tensor(lat, dtype=torch.float64))
    return scheme.embed(scheme.prepare(pos)).detach().numpy()


def scipys(lon, lat, degree, condon_shortley):
    """Real harmonics from scipy's complex ones, which carry (-1)^m."""
    theta, phi = np.pi / 2 - np.radians(lat), np.radians(lon)
    row = []
    for n in range(degree + 1):
        for m in range(-n, n + 1):
            y = sph_harm_y(n, abs(m), theta, phi)
            real = y.real if m == 0 else math.sqrt(2) * (y.imag if m < 0 else y.real)
            row.append(real * (1 if condon_shortley else (-1) ** m))
    return np.stack(row, -1)


@pytest.mark.parametrize("condon_shortley", [False, True])
@pytest.mark.parametrize("degree", [1, 10, 50])
def test_harmonics_are_scipys(degree, condon_shortley):
    lon, lat = places()
    found = rows(SphericalHarmonics(degree, condon_shortley=condon_shortley), lon, lat)
    assert found.shape == (40, (degree + 1) ** 2)
    np.testing.assert_allclose(found, scipys(lon, lat, degree, condon_shortley), atol=1e-10)


def test_degree_one_is_the_unit_vector():
    found = rows(SphericalHarmonics(1), [0.0, 90.0, 30.0, 0.0], [0.0, 0.0, 45.0, 90.0]) / math.sqrt(3 / 4 / math.pi)
    x = math.sqrt(0.5)
    y, z = x * 0.5, x
    expected = [[0, 0, 1], [1, 0, 0], [y, z, x * math.sqrt(0.75)], [0, 1, 0]]  # (y, z, x)
    np.testing.assert_allclose(found[:, 1:], expected, atol=1e-12)
    np.testing.assert_allclose(found[:, 0], 1 / math.sqrt(3))


def test_harmonics_are_orthonormal():
    """Gauss-Legendre in sin(latitude) times equal steps of longitude integrates products up to degree 15 exactly."""
    heights, weights = np.polynomial.legendre.leggauss(10)
    lon = np.arange(20) * 18 - 180.0
    grid = np.meshgrid(lon, np.degrees(np.arcsin(heights)), indexing="ij")
    y = rows(SphericalHarmonics(7), grid[0].ravel(), grid[1].ravel())
    area = np.tile(weights, 20) * 2 * np.pi / 20
    np.testing.assert_allclose((y * area[:, None]).T @ y, np.eye(64), atol=1e-12)


@pytest.mark.parametrize("degree", [4, 50])
def test_inner_products_depend_on_the_angle_between_places_alone(degree):
    lon, lat = places()
    y = rows(SphericalHarmonics(degree), lon, lat)
    a, b = np.radians(lon), np.radians(lat)
    unit = np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], -1)
    cosine = np.clip(unit @ unit.T, -1, 1)
    expected = sum((2 * n + 1) / (4 * np.pi) * eval_legendre(n, cosine) for n in range(degree + 1))
    np.testing.assert_allclose(y @ y.T, expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), (degree + 1) / math.sqrt(4 * math.pi))


@pytest.mark.parametrize("degree", [1, 50, 120])
def test_poles_are_finite_with_their_slopes_and_forget_longitude(degree):
    coords = [[0.3, math.pi / 2], [2.0, math.pi / 2], [1.0, -math.pi / 2], [1.0, 1.5707]]
    coords = torch.tensor(coords, dtype=torch.float64, requires_grad=True)
    scheme = SphericalHarmonics(degree)
    y = scheme.embed(scheme.prepare(Positions(coords.detach())))
    assert bool(y.isfinite().all())
    torch.testing.assert_close(y[0], y[1], atol=1e-12, rtol=0)
    (slope,) = torch.autograd.grad(harmonics.harmonics(*coords.unbind(-1), degree).square().cumsum(-1).sum(), coords)
    assert bool(slope.isfinite().all())


def test_the_date_line_is_no_seam_for_harmonics():
    y = rows(SphericalHarmonics(20), [180.0, -180.0, 540.0 - 360.0], [12.0, 12.0, 12.0])
    np.testing.assert_allclose(y[0], y[1], atol=1e-12)


def test_past_the_pole_one_comes_down_on_the_other_side():
    coords = torch.tensor([[0.4, 2.0], [0.4 + math.pi, math.pi - 2.0]], dtype=torch.float64)
    over, down = SphericalHarmonics(6).prepare(Positions(coords))
    torch.testing.assert_close(over, down, atol=1e-12, rtol=0)


def by_hand(scheme, lon, lat):
    """The formulas of arXiv 2306.17624 in numpy, for four scales from .05 to .8."""
    lon, lat = np.radians(lon), np.radians(lat)
    scales = 0.05 * (0.8 / 0.05) ** (np.arange(4) / 3)
    sin, cos, parts = np.sin, np.cos, []
    for s in scales:
        a, b = lon / s, lat / s
        c = [cos(b) * cos(a), cos(b) * sin(a)]
        m = [cos(b) * cos(lon), cos(lat) * cos(a), cos(b) * sin(lon), cos(lat) * sin(a)]
        grid = [sin(b), cos(b), sin(a), cos(a)]
        parts.append({
            "SphereC": [sin(b), *c], "SphereCPlus": [*grid, *c], "SphereM": [sin(b), *m], "SphereMPlus": [*grid, *m],
            "SphereDFS": grid,
        }[type(scheme).__name__])  # fmt: skip
    row = [number for part in parts for number in part]
    if isinstance(row, list) and type(scheme).__name__ == "SphereDFS":
        by_lon = [f(lon / s) for f in (sin, cos) for s in scales]
        by_lat = [f(lat / s) for f in (sin, cos) for s in scales]
        row = [x * y for x in by_lon for y in by_lat] + row
    return np.stack(row, -1)


@pytest.mark.parametrize("kind", ON_GLOBE)
def test_sphere2vec_is_its_formula(kind):
    lon, lat = places()
    scheme = kind(4, r_min=0.05, r_max=0.8)
    found = rows(scheme, lon, lat)
    np.testing.assert_allclose(found, by_hand(scheme, lon, lat), atol=1e-12)
    assert found.shape[1] == scheme.out_dim
    counts = {"SphereC": 12, "SphereCPlus": 24, "SphereM": 20, "SphereMPlus": 32, "SphereDFS": 80}
    assert scheme.out_dim == counts[kind.__name__]


def test_the_coarsest_scale_of_sphere_c_is_the_unit_vector():
    lon, lat = places()
    z, x, y = rows(SphereC(1, r_min=1.0), lon, lat).T
    cosine = np.cos(np.radians(lat))
    np.testing.assert_allclose(x, cosine * np.cos(np.radians(lon)), atol=1e-12)
    np.testing.assert_allclose(y, cosine * np.sin(np.radians(lon)), atol=1e-12)
    np.testing.assert_allclose(z, np.sin(np.radians(lat)), atol=1e-12)


def test_the_date_line_is_a_seam_of_sphere2vec_unless_scales_divide_the_turn():
    seam = [180.0, -180.0], [30.0, 30.0]
    whole, other = (rows(SphereC(2, r_min=r), *seam) for r in (0.125, 0.3))
    np.testing.assert_allclose(whole[0], whole[1], atol=1e-12)
    assert np.abs(other[0] - other[1]).max() > 0.1


@pytest.mark.parametrize("kind", [SphericalHarmonics, *ON_GLOBE])
def test_degrees_and_radians_are_one_place(kind):
    lon, lat = places()
    degrees = kind(3, unit="degrees")
    pos = Positions(torch.from_numpy(np.stack([lon, lat], -1)))
    np.testing.assert_allclose(degrees.embed(degrees.prepare(pos)).numpy(), rows(kind(3), lon, lat), atol=1e-11)


@pytest.mark.parametrize("kind", [SphericalHarmonics, *ON_GLOBE])
def test_degrees_taken_for_radians_are_refused(kind):
    degrees = Positions(torch.tensor([[139.7, 35.7]]))
    with pytest.raises(ValueError, match=rf"{kind.__name__} reads \(longitude, latitude\) in radians.*got 139.7"):
        kind(3).prepare(degrees)
    kind(3).prepare(sphere(torch.tensor([360.0, -360.0]), torch.tensor([90.0, -90.0])))
    # under the shape hook the type checker is the first to refuse a word that is none of a Literal's
    with pytest.raises(ValueError, match=r"'radians' or 'degrees'; got (unit=)?'gon'"):
        kind(3, unit="gon")


@pytest.mark.parametrize("kind", [Space2VecGrid, Space2VecTheory])
def test_space2vec_is_its_formula(kind):
    x = np.random.default_rng(0).uniform(-500, 500, (30, 2))
    scheme = kind(5, r_min=2.0, r_max=300.0)
    directions = np.eye(2) if kind is Space2VecGrid else np.array([[1, 0], [-0.5, 3**0.5 / 2], [-0.5, -(3**0.5) / 2]])
    scales = 2 * 150 ** (np.arange(5) / 4)
    angle = (x @ directions.T)[..., None] / scales
    each = np.stack([np.sin(angle), np.cos(angle)], -1)  # direction, scale, sine and cosine
    each = (
        each if kind is Space2VecGrid else each.swapaxes(1, 2)
    )  # theory: PE_s = [PE_s1, PE_s2, PE_s3], scale by scale
    expected = each.reshape(30, -1)
    found = scheme.embed(scheme.prepare(Positions(torch.from_numpy(x)))).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert scheme.out_dim == expected.shape[1] == 10 * len(directions)


@pytest.mark.parametrize("kind", [Space2VecGrid, Space2VecTheory, SphereC, SphereM, SphereDFS])
def test_one_scale_is_the_smallest(kind):
    scheme, pos = kind(1, r_min=0.3, r_max=2.0), Positions(torch.tensor([[0.4, -0.7], [2.0, 1.1]]))
    wanted = scheme.define_rows(pos.coords.double())
    torch.testing.assert_close(scheme.embed(scheme.prepare(pos)).double(), wanted, atol=1e-6, rtol=0)


def test_theory_is_isotropic_where_grid_is_not():
    """Inner products at one distance along the axis and at 45 degrees, near by: equal to fourth order for theory."""
    there = 3 * np.array([[0, 0], [1, 0], [math.sqrt(0.5), math.sqrt(0.5)]])
    gaps = []
    for kind in (Space2VecGrid, Space2VecTheory):
        scheme = kind(1, r_min=2.0, r_max=2.0)
        y = scheme.embed(scheme.prepare(Positions(torch.from_numpy(there)))).numpy()
        gaps.append(abs(y[0] @ y[1] - y[0] @ y[2]) / (y[0] @ y[0]))
    assert gaps[1] < 0.1 * gaps[0]


@pytest.mark.parametrize("kind", [*ON_GLOBE, Space2VecGrid, Space2VecTheory])
def test_bad_scales_are_refused(kind):
    for options in ({"scales": 0}, {"r_min": 0.0}, {"r_min": 2.0, "r_max": 1.0}, {"r_max": math.inf}):
        with pytest.raises(ValueError, match=f"{kind.__name__} has at least one scale"):
            kind(**options)


@pytest.mark.bare
@pytest.mark.full
def test_the_contract_holds_at_degree_50():
    """The explicit sum of Legendre's functions would lose all its digits there."""
    report = check(SphericalHarmonics(50, condon_shortley=True), family="definition")
    assert report.ok, report


@pytest.mark.full
def test_the_definition_reaches_degree_120():
    lon, lat = places(3)
    scheme = SphericalHarmonics(120)
    pos = sphere(torch.from_numpy(lon), torch.from_numpy(lat))
    defined = torch.stack([scheme.define_embed(p) for p in pos.coords])
    torch.testing.assert_close(scheme.prepare(pos), defined, atol=1e-11, rtol=0)


@pytest.mark.parametrize("kind", [SphericalHarmonics, *ON_GLOBE])
def test_more_than_a_turn_of_degrees_says_how_to_come_back(kind):
    scheme = kind(2, unit="degrees")
    with pytest.raises(ValueError, match=rf"{kind.__name__} reads .* in degrees, within one turn; got 400. .*% 360"):
        scheme.prepare(Positions(torch.tensor([[400.0, 10.0]])))
    scheme.prepare(Positions(torch.tensor([[400.0, 10.0]]) % 360))


@pytest.mark.parametrize("kind", [SphericalHarmonics, *ON_GLOBE])
def test_a_tensor_is_no_position(kind):
    with pytest.raises((ValueError, TypeError), match=r"prepare takes positions; got Tensor|Type-check error"):
        kind(2).prepare(torch.zeros(3, 2))


def test_a_bad_degree_is_refused():
    with pytest.raises(ValueError, match="degree >= 1, degree 0 is one constant; got 0"):
        SphericalHarmonics(0)
