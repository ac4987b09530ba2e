"""Fields: an encoding, a network behind it, their size, and derivatives through both."""

import math

import pytest
import torch
from torch import nn

from posenc.kernels.domain import coarse_to_fine
from posenc.models.field import Field, FieldConfig, largest_size_within, network_size
from posenc.positions import Positions, grid
from posenc.schemes.coordinates import Coordinates
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.multires_grid import MultiResolutionGrid
from posenc.schemes.rope import RoPE


def grid_field(**changes):
    torch.manual_seed(0)
    scheme = MultiResolutionGrid(2, (4, 8, 16), table_size=64, interpolation="smoothstep")
    nn.init.normal_(scheme.table)
    return Field(scheme, FieldConfig(**{"outputs": 3, "width": 16, **changes})).double()


@pytest.mark.parametrize("activation", ["relu", "gelu", "softplus", "sine"])
def test_a_field_is_its_formula(activation):
    torch.manual_seed(1)
    config = FieldConfig(outputs=2, width=5, depth=2, activation=activation, output="sigmoid", omega=3.0)
    field = Field(Coordinates(2), config).double()
    x = torch.rand(7, 2, dtype=torch.float64)
    act = {"relu": torch.relu, "gelu": nn.functional.gelu, "sine": lambda z: torch.sin(3.0 * z),
           "softplus": lambda z: (1 + (100 * z).exp()).log() / 100}[activation]  # fmt: skip
    h = x
    for layer in field.layers[:-1]:
        h = act(h @ layer.weight.T + layer.bias)
    expected = torch.sigmoid(h @ field.layers[-1].weight.T + field.layers[-1].bias)
    assert torch.allclose(field(x), expected, atol=1e-12)


def test_first_weights_are_glorots_or_sirens():
    torch.manual_seed(0)
    plain = Field(Coordinates(2), FieldConfig(outputs=1, width=64, depth=2)).layers[1].weight
    assert plain.abs().max() <= math.sqrt(6 / 128)
    assert plain.abs().max() > 0.9 * math.sqrt(6 / 128)
    sines = Field(Coordinates(2), FieldConfig(outputs=1, width=64, depth=2, activation="sine", omega=30.0))
    assert sines.layers[1].weight.abs().max() <= math.sqrt(6 / 64) / 30


def test_its_size_is_what_training_changes():
    field = grid_field(depth=2)
    assert field.parameter_count == sum(p.numel() for p in field.parameters())
    assert field.parameter_count - field.scheme.table.numel() == network_size(6, field.config)
    fixed = Field(FourierFeatures(12, 2), FieldConfig(outputs=1, depth=0))
    assert fixed.parameter_count == 13


def test_closed_levels_say_nothing_and_get_no_gradient():
    field = grid_field()
    x = torch.rand(50, 2, dtype=torch.float64)
    weights = coarse_to_fine(0.34, 3)
    field(x, weights).sum().backward()
    rows = field.scheme.levels
    grad = field.scheme.table.grad
    closed = [level for level, weight in zip(rows, weights.tolist(), strict=True) if weight == 0]
    assert closed
    for level in closed:
        assert grad[level.first : level.first + level.rows].abs().max() == 0
    assert grad[: rows[0].rows].abs().max() > 0
    assert not torch.allclose(field(x, weights), field(x))


def test_fourier_features_open_from_slow_to_fast():
    field = Field(FourierFeatures(12, 2, directions="positional", sigma=8.0), FieldConfig(outputs=1))
    x = torch.rand(20, 2)
    closed = coarse_to_fine(1 / 3, 3).repeat(2)
    assert closed.tolist() == [1, 0, 0, 1, 0, 0]
    assert not torch.allclose(field(x, closed), field(x))
    slow = x + torch.tensor([1.0, 1.0])  # a whole period of the slowest, which alone are open
    assert torch.allclose(field(x, closed), field(slow, closed), atol=1e-5)


def test_what_has_no_levels_or_no_embedding_is_refused():
    with pytest.raises((ValueError, TypeError), match=r"weights are for the levels of a grid|Type-check error"):
        Field(Coordinates(2), FieldConfig(outputs=1))(torch.rand(4, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"RoPE acts at k, q\. Take one that embeds"):
        Field(RoPE(8), FieldConfig(outputs=1))
    with pytest.raises(ValueError, match="at least one output"):
        FieldConfig(outputs=0)


def test_gradients_and_laplacian_match_central_differences():
    field = grid_field(outputs=1, activation="softplus")
    x = torch.tensor([[0.31, 0.62]], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(field(x).sum(), x, create_graph=True)
    second = torch.stack([torch.autograd.grad(grad[0, i], x, retain_graph=True)[0][0, i] for i in range(2)])
    step = 1e-5
    for axis in range(2):
        shift = torch.zeros(1, 2, dtype=torch.float64)
        shift[0, axis] = step
        up, here, down = (field(x.detach() + s).item() for s in (shift, 0 * shift, -shift))
        assert grad[0, axis].item() == pytest.approx((up - down) / (2 * step), rel=1e-4)
        assert second[axis].item() == pytest.approx((up - 2 * here + down) / step**2, rel=1e-2, abs=1e-2)


def test_points_come_alone_or_in_batches():
    field = grid_field()
    x = torch.rand(2, 5, 2, dtype=torch.float64)
    assert torch.allclose(field(x)[1], field(x[1]), atol=1e-12)
    assert field(x[:, :0]).shape == (2, 0, 3)


def test_positions_are_read_as_their_coordinates():
    field = Field(FourierFeatures(8, axes=2), FieldConfig(outputs=3, width=4, depth=1))
    x = torch.rand(5, 2, dtype=torch.float64)
    assert torch.equal(field(Positions(x)), field(x))
    assert field(grid(2, 3)).shape == (6, 3)


@pytest.mark.parametrize("budget", [10, 11, 99, 1000])
def test_within_finds_the_largest(budget):
    found = largest_size_within(budget, lambda n: n * n + 1)
    assert found * found + 1 <= budget < (found + 1) ** 2 + 1


def test_within_refuses_what_is_too_small():
    with pytest.raises(ValueError, match="the smallest field of this kind has 50 parameters, and 7 are allowed"):
        largest_size_within(7, lambda n: 50 * n)


def test_coordinates_are_moved_and_scaled():
    rows = Coordinates(2, scale=2.0, center=0.5)
    pos = Positions(torch.tensor([[0.5, 1.0]]))
    assert rows.embed(rows.prepare(pos)).tolist() == [[0.0, 1.0]]
