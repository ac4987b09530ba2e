"""Spherical harmonics and their slopes, against sphericart."""

import math

import pytest
import torch

from posenc.positions import Positions, sphere
from posenc.schemes.spherical_harmonics import SphericalHarmonics

pytestmark = pytest.mark.oracles

DEGREES = [1, 4, 12, 25]


def unit_vectors(coords):
    """Longitude and latitude here, ``(x, y, z)`` there, the pole on z."""
    lon, lat = coords.unbind(-1)
    return torch.stack([lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()], -1)


def places(dtype=torch.float64):
    coords = torch.rand(40, 2, dtype=dtype) * torch.tensor([2 * math.pi, math.pi], dtype=dtype)
    ends = torch.tensor([[0, 0], [1, math.pi / 2], [2, -math.pi / 2], [math.pi, 0]], dtype=dtype)
    return torch.cat([coords - torch.tensor([math.pi, math.pi / 2], dtype=dtype), ends])


def ours(scheme, coords):
    return scheme.embed(scheme.prepare(Positions(coords)))


@pytest.fixture
def sphericart():
    return pytest.importorskip("sphericart.torch")


@pytest.mark.compares("SphericalHarmonics", "sphericart-torch", "SphericalHarmonics")
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
@pytest.mark.parametrize("degree", DEGREES)
def test_values(sphericart, degree, dtype, close, same):
    # orthonormal, entry l^2 + l + m, and no sign (-1)^m in either
    coords = places()
    theirs = sphericart.SphericalHarmonics(degree)(unit_vectors(coords)).to(dtype)
    same(ours(SphericalHarmonics(degree), coords.to(dtype)), theirs, close, close)


@pytest.mark.compares("SphericalHarmonics", "sphericart-torch", "SphericalHarmonics")
def test_values_from_degrees(sphericart, same):
    coords = places()
    lon, lat = coords.rad2deg().unbind(-1)
    theirs = sphericart.SphericalHarmonics(6)(unit_vectors(coords))
    scheme = SphericalHarmonics(6)
    same(scheme.embed(scheme.prepare(sphere(lon, lat))), theirs, 1e-12)


@pytest.mark.compares("SphericalHarmonics", "sphericart-torch", "SphericalHarmonics")
def test_the_sign_of_condon_and_shortley(sphericart, same):
    coords = places()
    theirs = sphericart.SphericalHarmonics(5)(unit_vectors(coords))
    signs = torch.tensor([(-1.0) ** abs(m) for l in range(6) for m in range(-l, l + 1)])  # noqa: E741
    mine = ours(SphericalHarmonics(5, condon_shortley=True), coords)
    same(mine, theirs * signs, 1e-12)


@pytest.mark.compares("SphericalHarmonics", "sphericart-torch", "SphericalHarmonics")
@pytest.mark.parametrize("degree", DEGREES)
def test_first_derivatives(sphericart, degree, same):
    """Of a weighted sum, in longitude and latitude; theirs through the unit vectors, at the poles too."""
    weight = torch.randn((degree + 1) ** 2, dtype=torch.float64)
    mine, theirs = (places_with_slopes() for _ in range(2))
    theirs.data.copy_(mine.data)
    (slope,) = torch.autograd.grad((ours(SphericalHarmonics(degree), mine) @ weight).sum(), mine)
    told = (sphericart.SphericalHarmonics(degree)(unit_vectors(theirs)) @ weight).sum()
    (expected,) = torch.autograd.grad(told, theirs)
    assert expected.abs().max() > 0.1
    same(slope, expected, 1e-10, 1e-10)


def places_with_slopes():
    return places().requires_grad_()
