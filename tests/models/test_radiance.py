"""Volume rendering against closed forms, the cube and its sections, the occupancy grid, gradients, both devices."""

import copy
import math

import pytest
import torch
from torch import Tensor

from posenc.models import radiance
from posenc.models.field import Field, FieldConfig
from posenc.models.radiance import (
    Occupancy,
    Radiance,
    RadianceConfig,
    density_activation,
    intersect_cube,
    resampled,
    sections,
    weights,
)
from posenc.schemes.coordinates import Coordinates
from posenc.schemes.multires_grid import MultiResolutionGrid
from posenc.schemes.sinusoid import Sinusoid


def small(features: int = 3, grid: bool = True, **changes: object) -> Radiance:
    torch.manual_seed(1)
    scheme = MultiResolutionGrid(3, (3, 6), table_size=256) if grid else Coordinates(3)
    settings = {"features": features, "width": 8, "degree": 2, "samples": 12, "cells": 4, **changes}
    return Radiance(Field(scheme, FieldConfig(outputs=1 + features, width=8)), RadianceConfig(**settings))


def of_constant(density: float, **changes: object) -> Radiance:
    """The same density everywhere, the same colour, and no background of its own."""
    model = small(grid=False, background="white", cells=0, first=density, **changes)
    with torch.no_grad():
        for layer in model.field.layers:
            layer.weight.zero_()
            layer.bias.zero_()
        for layer in (model.colour[0], model.colour[2]):
            layer.weight.zero_()
            layer.bias.zero_()
        model.colour[2].bias.copy_(torch.tensor([-2.0, 0.0, 3.0]))
    return model


def rays(count: int) -> tuple[Tensor, Tensor]:
    """From outside the cube towards places in it."""
    origin = 0.5 + 2 * torch.nn.functional.normalize(torch.randn(count, 3), dim=-1)
    return origin, torch.nn.functional.normalize(0.2 + 0.6 * torch.rand(count, 3) - origin, dim=-1)


@pytest.mark.parametrize("generator", [None, torch.Generator().manual_seed(3)])
@pytest.mark.parametrize("changes", [{}, {"samples": 1}, {"fine": 5}])
def test_a_constant_slab_is_exact(changes, generator):
    """Opacity 1 - exp(-sigma L), whatever the sections and wherever in them the field is asked."""
    density = 1.7
    model = of_constant(density, **changes)
    origin, direction = rays(50)
    near, far = intersect_cube(origin, direction)
    with torch.no_grad():
        seen = model(origin, direction, generator=generator)
    opacity = 1 - torch.exp(-density * (far - near))
    assert torch.allclose(seen.opacity, opacity, atol=1e-5)
    own = torch.tensor([-2.0, 0.0, 3.0]).sigmoid()
    assert torch.allclose(seen.color, opacity[:, None] * own + (1 - opacity)[:, None], atol=1e-5)


def test_depth_in_a_slab_is_the_closed_form():
    """Mean depth below the surface: 1 / sigma - L / (exp(sigma L) - 1)."""
    density = 6.0
    model = of_constant(density, samples=2000)
    origin, direction = rays(20)
    near, far = intersect_cube(origin, direction)
    with torch.no_grad():
        depth = model(origin, direction).depth - near
    length = (far - near).double()
    assert torch.allclose(depth.double(), 1 / density - length / torch.expm1(density * length), atol=1e-4)


def test_weights_are_the_papers_sum():
    density, length = 5 * torch.rand(6, 9, dtype=torch.float64), torch.rand(6, 9, dtype=torch.float64)
    found, left = weights(density, length)
    for ray in range(6):
        through = 1.0
        for section in range(9):
            alpha = 1 - math.exp(-float(density[ray, section] * length[ray, section]))
            assert float(found[ray, section]) == pytest.approx(through * alpha, rel=1e-12)
            through *= 1 - alpha
        assert float(left[ray]) == pytest.approx(through, rel=1e-12)
    assert torch.allclose(found.sum(-1) + left, torch.ones(6).double())


def test_weights_are_the_limit_of_the_integral():
    """sigma(t) = 4 t on [0, 1]: exp(-2) is left; with finer sections the sum converges to it."""
    wrong = []
    for count in (4, 8, 16):
        edges = sections(torch.zeros(1).double(), torch.ones(1).double(), count)
        middle = (edges[:, 1:] + edges[:, :-1]) / 2
        weight, left = weights(4 * middle, edges.diff(dim=-1))
        assert float(left) == pytest.approx(math.exp(-2))  # the midpoint rule is exact for a straight line
        mean = float((weight * middle).sum())  # the integral of t sigma exp(-2 t^2): 0.4638
        exact = math.sqrt(math.pi / 8) * math.erf(math.sqrt(2)) - math.exp(-2)
        wrong.append(abs(mean - exact))
    assert wrong[0] > 3 * wrong[1] > 9 * wrong[2]


def test_a_ray_crosses_the_cube():
    origin = torch.tensor([[-1.0, 0.5, 0.5], [0.5, 0.5, 0.5], [-1.0, 2.0, 0.5], [3.0, 0.5, 0.5], [0.5, 0.5, 2.0]])
    direction = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [1.0, 0, 0], [1.0, 0, 0], [0, 0, -1.0]])
    near, far = intersect_cube(origin, direction)
    assert torch.allclose(near[[0, 1, 4]], torch.tensor([1.0, 0.0, 1.0]), atol=1e-6)
    assert torch.allclose(far[[0, 1, 4]], torch.tensor([2.0, 0.5, 2.0]), atol=1e-6)
    assert torch.equal(near[2:4], far[2:4])  # they miss it


def test_a_ray_that_misses_the_cube_sees_what_is_behind():
    model = of_constant(50.0)
    origin, direction = torch.tensor([[2.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    with torch.no_grad():
        seen = model(origin, direction, torch.tensor([0.1, 0.2, 0.3]))
    assert torch.allclose(seen.color, torch.tensor([[0.1, 0.2, 0.3]]))
    assert float(seen.opacity) == 0
    assert seen.points == 0


def test_places_fill_their_sections():
    model = small()
    origin, direction = rays(30)
    near, far = intersect_cube(origin, direction)
    edges = sections(near, far, 12)
    assert torch.allclose(edges[:, 0], near)
    assert torch.allclose(edges[:, -1], far)
    for generator in (None, torch.Generator().manual_seed(0)):
        places, inside = model._places(origin, direction, edges, generator)
        along = ((places - origin[:, None]) * direction[:, None]).sum(-1)
        assert bool(((along >= edges[:, :-1] - 1e-5) & (along <= edges[:, 1:] + 1e-5)).all())
        assert bool(inside.all())


def test_finer_sections_lie_where_the_weight_is():
    edges = sections(torch.zeros(2), torch.ones(2), 10)
    weight = torch.zeros(2, 10)
    weight[0, 3] = 0.7
    found = resampled(edges, weight, 8)
    assert torch.allclose(found[:, 0], torch.zeros(2))
    assert torch.allclose(found[:, -1], torch.ones(2))
    assert bool((found.diff(dim=-1) >= 0).all())
    assert int(((found[0] > 0.29) & (found[0] < 0.41)).sum()) == 7  # all but the first and the last
    assert torch.allclose(found[1], torch.linspace(0, 1, 9), atol=1e-6)  # nothing known: even


def test_a_second_pass_has_as_many_sections_as_it_says():
    model = small(samples=6, fine=5)
    origin, direction = torch.full((3, 3), 0.5), torch.eye(3)
    edges = sections(torch.zeros(3), torch.full((3,), 0.5), 6)
    places, inside = model._places(origin, direction, edges, None)
    assert model._finer(edges, places, inside).shape == (3, model.config.per_ray + 1)
    assert model.config.per_ray == 11


def test_a_second_pass_sees_a_thin_wall_better():
    """A wall of thickness 0.03 at x = 0.63 with a density of 50 takes away 1 - exp(-1.5) of the light."""

    class Wall(torch.nn.Module):
        def __init__(self, field: Field) -> None:
            super().__init__()
            self.scheme, self.config, self.layers = field.scheme, field.config, field.layers

        def forward(self, x: Tensor) -> Tensor:
            inside = ((x[:, 0] - 0.63).abs() < 0.015).float()
            return torch.stack([math.log(50) * inside - 20 * (1 - inside), *x.T], -1)

    origin = torch.tensor([[-0.5, 0.5, 0.5]]).expand(64, 3)
    towards = torch.nn.functional.normalize(torch.cat([torch.ones(64, 1), 0.05 * torch.randn(64, 2)], -1), dim=-1)
    truth = 1 - torch.exp(-1.5 / towards[:, 0])
    wrong = []
    for changes in ({"samples": 80}, {"samples": 64, "fine": 16}):
        model = small(grid=False, cells=0, **changes)
        model.field = Wall(model.field)  # type: ignore[assignment]
        with torch.no_grad():
            found = model(origin, towards, generator=torch.Generator().manual_seed(0)).opacity
        wrong.append(float((found - truth).square().mean().sqrt()))
    assert wrong[1] < wrong[0] / 2


def test_colour_depends_on_the_direction_unless_told_otherwise():
    place, around = torch.full((2, 3), 0.5), torch.tensor([[1.0, 0, 0], [-0.6, 0.8, 0]])
    for views in (True, False):
        model = small(views=views, cells=0, first=30.0, background="white")
        with torch.no_grad():
            model.field.layers[-1].bias.fill_(0.5)
            seen = model(place, around)
        assert torch.allclose(seen.color[0], seen.color[1], atol=1e-3) is not views


def test_harmonics_of_directions_tell_them_apart():
    model = small()
    axes = torch.tensor([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0, 0, -1.0]])
    found = model._around(axes)
    assert found.shape == (4, 9)
    assert torch.allclose(found.norm(dim=-1), torch.full((4,), 3.0), atol=1e-5)  # sqrt((degree + 1)^2)
    cosine = math.sqrt(3) * torch.tensor([[0.0, 0, 1], [1, 0, 0], [0, 1, 0], [0, -1, 0]])
    assert torch.allclose(found[:, 1:4], cosine, atol=1e-6)  # degree 1 is (y, z, x)


def test_what_is_behind_is_white_or_learned():
    white, learned = (small(background=name) for name in ("white", "learned"))
    direction = rays(5)[1]
    assert torch.equal(white.behind(direction), torch.ones(5, 3))
    found = learned.behind(direction)
    assert bool(((found > 0) & (found < 1)).all())
    assert float(found.std(0).min().detach()) > 0


def test_gradients_reach_everything_and_are_finite():
    model = small()
    origin, direction = rays(40)
    for extreme in (0.0, 60.0, -60.0):  # of the density's logarithm: empty, opaque, beyond where exp overflows
        model.zero_grad()
        with torch.no_grad():
            model.field.layers[-1].bias[0] = extreme
        seen = model(origin, direction, generator=torch.Generator().manual_seed(0))
        (seen.color.square().sum() + seen.opacity.sum()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert bool(torch.isfinite(parameter.grad).all()), (name, extreme)
        if extreme == 0:
            assert all(float(parameter.grad.abs().max()) > 0 for parameter in model.parameters())


def test_density_goes_on_as_a_straight_line():
    z = torch.tensor([-3.0, 0.0, 11.0, 12.5, 500.0], dtype=torch.float64, requires_grad=True)
    density_activation(z).sum().backward()
    assert z.grad is not None
    top = math.exp(12)
    expected = [math.exp(-3), 1.0, math.exp(11), 1.5 * top, 489 * top]
    assert torch.allclose(density_activation(z).detach(), torch.tensor(expected).double())
    assert torch.allclose(z.grad, torch.tensor([math.exp(-3), 1.0, math.exp(11), top, top]).double())


def test_only_so_many_places_are_asked():
    model = small()
    origin, direction = rays(30)
    whole = model(origin, direction)
    part = model(origin, direction, torch.rand(30, 3), most=100)
    assert part.points <= 100 < part.points + 12
    assert torch.equal(part.opacity, whole.opacity[: len(part.opacity)])
    assert len(model(origin, direction, most=1).color) == 1


def test_a_second_pass_asks_no_more_and_looks_along_the_same_rays_first():
    model = small(samples=6, fine=6)
    origin, direction = rays(30)
    whole, part = model(origin, direction), model(origin, direction, most=100)
    assert part.points <= 100 < part.points + 2 * 12
    assert torch.allclose(part.opacity, whole.opacity[: len(part.opacity)])
    assert len(model(origin, direction, most=1).color) == 1


def test_an_empty_cell_is_not_asked_and_a_full_one_is():
    model = small(samples=64)
    assert model.occupancy is not None
    model.occupancy.occupied.zero_()
    model.occupancy.occupied[(1 * 4 + 2) * 4 + 3] = True  # x in [1/4, 1/2], y in [1/2, 3/4], z in [3/4, 1]
    origin, direction = torch.tensor([[0.3, 0.6, -1.0], [0.6, 0.6, -1.0]]), torch.tensor([[0.0, 0, 1]]).expand(2, 3)
    places, inside = model._places(origin, direction, sections(*intersect_cube(origin, direction), 64), None)
    assert bool((places[0, inside[0], 2] >= 0.75).all())
    assert int(inside[0].sum()) == 16
    assert int(inside[1].sum()) == 0
    assert model(origin, direction).points == 16


def test_the_grid_finds_what_is_empty():
    model = small(grid=False, cells=8, samples=50)
    assert model.occupancy is not None

    def ball(places: Tensor) -> tuple[Tensor, Tensor]:
        return 80.0 * ((places - 0.5).norm(dim=-1) < 0.25), places

    model.density = ball  # type: ignore[method-assign]
    for step in range(200):
        model.occupancy.look(model, torch.Generator().manual_seed(step))
    occupied = model.occupancy.occupied.reshape(8, 8, 8)
    middle = (torch.arange(8) + 0.5) / 8 - 0.5
    away = torch.stack(torch.meshgrid(middle, middle, middle, indexing="ij"), -1).norm(dim=-1)
    assert bool(occupied[away < 0.25 - 0.11].all())  # wholly within the ball
    assert not bool(occupied[away > 0.25 + 0.11].any())  # wholly outside
    assert torch.equal(model.occupancy.level, _again(model, ball))


def _again(model: Radiance, density: object) -> Tensor:
    """The levels of a second grid that looked as often with the same seeds."""
    assert model.occupancy is not None
    mine, model.occupancy = model.occupancy, Occupancy(8, 50)
    for step in range(200):
        model.occupancy.look(model, torch.Generator().manual_seed(step))
    found, model.occupancy = model.occupancy.level, mine
    return found


def test_a_thin_fog_is_not_forgotten():
    """Where all is thinner than the threshold the mean decides: something is always looked at."""
    grid, model = Occupancy(4, 100), small(cells=4)

    def fog(places: Tensor) -> tuple[Tensor, Tensor]:
        return 0.01 * places[:, 0], places

    model.density = fog  # type: ignore[method-assign]
    for step in range(200):
        grid.look(model, torch.Generator().manual_seed(step))
    assert 0 < float(grid.occupied.float().mean()) < 0.8


def test_cells_are_as_empty_whether_or_not_a_second_pass_has_half_of_the_sections():
    whole, parted = small(samples=12), small(samples=6, fine=6)
    assert whole.occupancy is not None
    assert parted.occupancy is not None
    assert whole.occupancy.threshold == parted.occupancy.threshold == pytest.approx(0.12)


def test_occupancy_is_saved_with_the_weights():
    model, other = small(), small()
    assert model.occupancy is not None
    model.occupancy.look(model, torch.Generator().manual_seed(0))
    other.load_state_dict(model.state_dict())
    assert other.occupancy is not None
    assert torch.equal(model.occupancy.level, other.occupancy.level)
    assert model.parameter_count == sum(p.numel() for p in model.parameters())


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"needs a field of 3 axes and 1 \+ 15 outputs, .* got 3 axes and 4 outputs"):
        Radiance(Field(Coordinates(3), FieldConfig(outputs=4)), RadianceConfig())
    with pytest.raises(ValueError, match="got 2 axes"):
        Radiance(Field(Sinusoid(8, axes=2), FieldConfig(outputs=16)), RadianceConfig())
    with pytest.raises(ValueError, match="at least one feature, hidden unit, section per ray and degree"):
        RadianceConfig(samples=0)
    with pytest.raises(ValueError, match=r"the first density is above 0; got fine=0, cells=32, first=0\."):
        RadianceConfig(first=0.0)


def test_colours_behind_may_differ_by_ray():
    model = of_constant(1e-6)
    origin, direction = rays(4)
    behind = torch.rand(4, 3)
    assert torch.allclose(model(origin, direction, behind).color, behind, atol=1e-4)
    assert radiance.STEEPEST == 12


@pytest.mark.parametrize("fine", [0, 4])
@pytest.mark.parametrize("how", ["autocast", "weights"])
def test_half_precision_is_near(fine, how):
    model = small(samples=8, fine=fine)
    origin, direction = rays(20)
    with torch.no_grad():
        wanted = model(origin, direction).color
        if how == "weights":
            found = copy.deepcopy(model).bfloat16()(origin, direction).color
        else:
            with torch.autocast("cpu", torch.bfloat16):
                found = model(origin, direction).color
    assert found.isfinite().all()
    torch.testing.assert_close(found.float(), wanted, atol=0.05, rtol=0)
