"""GeoCLIP against the authors' location encoder, and its map: areas, the ends, the date line and the poles."""

import math

import pytest
import torch
from torch import nn

from posenc import GeoCLIP, sphere
from posenc.positions import Positions
from posenc.schemes.geoclip import SCALE, equal_earth

PLACES = torch.tensor([[0.0, 0.0], [13.4, 52.5], [-179.9, -16.5], [120.0, 89.0], [18.4, -33.9], [-58.4, -90.0]])
"""Longitude and latitude in degrees."""


def draw(*shape, seed=7):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def released_map(degrees):
    """``equal_earth_projection``, from (latitude, longitude) in degrees."""
    latitude, longitude = torch.deg2rad(degrees).unbind(1)
    theta = torch.asin(3**0.5 / 2 * torch.sin(latitude))
    below = 3 * (9 * 0.003796 * theta**8 + 7 * 0.000893 * theta**6 - 3 * 0.081106 * theta**2 + 1.340264)
    x = 2 * 3**0.5 * longitude * torch.cos(theta) / below
    y = 0.003796 * theta**9 + 0.000893 * theta**7 - 0.081106 * theta**3 + 1.340264 * theta
    return torch.stack((x, y), 1) * 66.50336 / 180


class Released(nn.Module):
    """``LocationEncoder`` of smaller widths: a capsule and a head for each sigma, whose rows are added."""

    def __init__(self, scheme):
        super().__init__()
        self.frequencies = list(scheme.directions)
        self.networks = nn.ModuleList()
        for s in range(len(scheme.directions)):
            layers = []
            for weight, bias in zip(scheme.weights, scheme.biases, strict=True):
                layer = nn.Linear(weight.shape[2], weight.shape[1]).double()
                layer.weight.data.copy_(weight[s])
                layer.bias.data.copy_(bias[s])
                layers += [layer, nn.ReLU()]
            self.networks.append(nn.Sequential(*layers[:-1]))

    def forward(self, degrees):
        place, rows = released_map(degrees), 0
        for b, network in zip(self.frequencies, self.networks, strict=True):
            angle = 2 * math.pi * place @ b.T
            rows = rows + network(torch.cat((angle.cos(), angle.sin()), -1))
        return rows


@torch.no_grad()
@pytest.mark.compares("GeoCLIP", "transcribed", "VicenteVivan/geo-clip")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_location_encoder_of_the_authors(dtype, same):
    scheme = GeoCLIP(16, features=24, hidden=20, generator=torch.Generator().manual_seed(1)).double()
    places = PLACES.double()
    want = Released(scheme)(places.flip(1))
    single = scheme.to(dtype)
    pos = sphere(*places.unbind(1))
    assert pos.coords.dtype == torch.float64
    same(single.embed(single.prepare(pos)).to(dtype), want.to(dtype), 1e-5 if dtype == torch.float32 else 1e-12)


def test_the_map_keeps_areas():
    """The determinant of its derivative is the cosine of latitude, times the square of its scale."""
    for lat in (-1.5, -0.9, 0.0, 0.3, 1.2):
        place = torch.tensor([0.7, lat], dtype=torch.float64)
        slope = torch.autograd.functional.jacobian(lambda p: equal_earth(p[0], p[1]), place)
        assert isinstance(slope, torch.Tensor)
        assert float(torch.linalg.det(slope)) == pytest.approx(SCALE**2 * math.cos(lat), rel=1e-5)


def test_the_map_ends_at_one_along_the_equator():
    lon, lat = (torch.tensor(t, dtype=torch.float64) for t in ([math.pi, -math.pi, 0.0], [0.0, 0.0, math.pi / 2]))
    x, y = equal_earth(lon, lat).unbind(-1)
    torch.testing.assert_close(x, torch.tensor([1.0, -1.0, 0.0]).double(), atol=1e-6, rtol=0)
    assert float(y[2]) == pytest.approx(1.3173627 * SCALE, abs=1e-6)


@torch.no_grad()
def test_rows_jump_at_the_date_line_and_differ_along_a_pole():
    scheme = GeoCLIP(16, features=64, hidden=64, generator=torch.Generator().manual_seed(0)).double()
    lon = torch.tensor([180.0, -180.0, 10.0, 10.000001, 0.0, 90.0]).double()
    lat = torch.tensor([20.0, 20.0, 20.0, 20.0, 90.0, 90.0]).double()
    rows = scheme.embed(scheme.prepare(sphere(lon, lat)))
    apart = [float((rows[i] - rows[i + 1]).norm() / rows[i].norm()) for i in (0, 2, 4)]
    assert apart[0] > 0.01
    assert apart[2] > 0.01
    assert apart[1] < 1e-4


@torch.no_grad()
def test_degrees_are_radians():
    made = [GeoCLIP(8, features=8, hidden=8, unit=unit, generator=torch.Generator().manual_seed(2)).double()
            for unit in ("degrees", "radians")]  # fmt: skip
    degrees, radians = Positions(PLACES.double()), sphere(*PLACES.double().unbind(1))
    found, want = (each.embed(each.prepare(pos)) for each, pos in zip(made, (degrees, radians), strict=True))
    torch.testing.assert_close(found, want)


def test_sizes_of_the_paper_and_what_is_trained():
    with torch.device("meta"):
        scheme = GeoCLIP(512)
    assert sum(p.numel() for p in scheme.parameters()) == 9_447_936
    assert "directions" in scheme.state_dict()
    assert "directions" not in dict(scheme.named_parameters())
    assert GeoCLIP(8, features=8, hidden=8).bfloat16().directions.dtype == torch.float32


def test_it_starts_as_torchs_linear_layers_with_frequencies_of_each_sigma():
    scheme = GeoCLIP(400, features=4000, hidden=300, sigma=(1.0, 16.0), generator=torch.Generator().manual_seed(0))
    assert [round(float(b.std()), 1) for b in scheme.directions] == [
        pytest.approx(1, abs=0.1),
        pytest.approx(16, abs=0.5),
    ]
    for weight, bias, inputs in zip(scheme.weights, scheme.biases, (4000, 300, 300, 300), strict=True):
        for t in (weight, bias):
            assert float(t.detach().abs().max()) <= inputs**-0.5
            assert float(t.detach().std()) == pytest.approx(inputs**-0.5 / 3**0.5, rel=0.06)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: GeoCLIP(0), "at least 1, and even features; got dim=0"),
        (lambda: GeoCLIP(8, features=7), "features=7"),
        (lambda: GeoCLIP(8, hidden=0), "hidden=0. Write GeoCLIP"),
        (lambda: GeoCLIP(8, sigma=()), r"as \(1, 16, 256\); got \(\)"),
        (lambda: GeoCLIP(8, sigma=(1.0, 0.0)), r"got \(1.0, 0.0\)"),
        (lambda: GeoCLIP(8, sigma=(math.inf,)), r"got \(inf,\)"),
        (
            lambda: GeoCLIP(8, features=8, hidden=8).prepare(Positions(PLACES)),
            r"GeoCLIP reads \(longitude, latitude\) in radians, within one turn; got 179.9",
        ),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.bare  # the shape hook would refuse this before the sentence does
def test_an_unknown_unit():
    with pytest.raises(ValueError, match="'radians' or 'degrees'; got unit='gon'"):
        GeoCLIP(8, unit="gon")
