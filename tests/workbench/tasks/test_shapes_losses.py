"""The losses of a field of a shape, and the second derivatives that the eikonal term asks for."""

import pytest
import torch

from posenc.kernels.grid_levels import growth
from posenc.models.field import Field, FieldConfig
from posenc.schemes.multires_grid import MultiResolutionGrid
from posenc.schemes.siren import SIREN
from posenc.workbench.tasks import shapes
from posenc.workbench.tasks.shapes import Batch, LabeledPoints, LossTerms, losses

CLAMP = 0.1


def sphere(x):
    return (x - 0.5).norm(dim=-1) - 0.3


def a_batch(count=40, dtype=torch.float64):
    points = torch.rand(count, 3, dtype=dtype)
    d = sphere(points)
    surface = torch.randn(count, 3, dtype=dtype)
    normals = surface / surface.norm(dim=1, keepdim=True)
    known = LabeledPoints(points, d, (d < 0).to(dtype))
    return Batch(known, 0.5 + 0.3 * normals, normals, torch.rand(count, 3, dtype=dtype))


def a_field(interpolation="smoothstep"):
    torch.manual_seed(0)
    if interpolation == "siren":
        scheme, config = SIREN(16, 3), FieldConfig(outputs=1, width=16, depth=1, activation="sine")
    else:
        scheme = MultiResolutionGrid(3, growth(2, 8, 3), table_size=64, interpolation=interpolation)
        torch.nn.init.uniform_(scheme.table, -0.5, 0.5)
        config = FieldConfig(outputs=1, width=16, depth=1, activation="softplus")
    return Field(scheme, config).double()


def test_the_true_distance_has_no_loss_at_all():
    batch = a_batch()
    found = losses.shape_loss(sphere, batch, LossTerms(eikonal=1.0, normals=1.0))
    assert found < 1e-9


@pytest.mark.parametrize(
    ("found", "true", "loss", "slope"),
    [
        (0.03, 0.05, 0.02, -1),
        (0.5, 0.05, 0.45, 1),  # DeepSDF's |clamp(f) - clamp(d)| has no slope here
        (-0.5, 0.05, 0.55, -1),
        (0.5, 0.3, 0.0, 0),  # further away than asked
        (0.02, 0.3, 0.08, -1),
        (-0.5, 0.3, 0.6, -1),  # on the wrong side, beyond c
        (-0.5, -0.3, 0.0, 0),
        (0.5, -0.3, 0.6, 1),
    ],
)
def test_the_cut_distance(found, true, loss, slope):
    f = torch.tensor([found], requires_grad=True)
    value = losses.distance_loss(f, torch.tensor([true]), CLAMP)
    assert value.item() == pytest.approx(loss, abs=1e-6)
    value.backward()
    assert f.grad is not None
    assert f.grad.item() == slope


def test_within_reach_it_is_deep_sdfs():
    torch.manual_seed(0)
    true = (torch.rand(200) - 0.5) * 0.8
    found = (true + 0.05 * torch.randn(200)).clamp(-CLAMP, CLAMP)
    theirs = (found.clamp(-CLAMP, CLAMP) - true.clamp(-CLAMP, CLAMP)).abs().mean()
    assert losses.distance_loss(found, true, CLAMP).item() == pytest.approx(theirs.item(), rel=1e-5)


def test_slopes_lengths_and_angles():
    x = torch.rand(50, 3, dtype=torch.float64)
    tilted = losses.field_gradients(lambda x: 2 * x[:, 0] - x[:, 2], x)
    torch.testing.assert_close(tilted, torch.tensor([[2.0, 0, -1]], dtype=torch.float64).expand(50, 3))
    assert losses.eikonal_loss(tilted).item() == pytest.approx((5**0.5 - 1) ** 2)
    assert not tilted.requires_grad
    n = torch.tensor([[1.0, 0, 0]], dtype=torch.float64).expand(50, 3)
    assert losses.normal_loss(tilted, n).item() == pytest.approx(1 - 2 / 5**0.5)
    assert losses.normal_loss(tilted, tilted / 5**0.5).item() == pytest.approx(0)


def test_a_flat_field_still_has_a_gradient():
    w = torch.zeros((), dtype=torch.float64, requires_grad=True)
    slope = losses.field_gradients(lambda x: w * x.sum(-1), torch.rand(4, 3, dtype=torch.float64), differentiable=True)
    losses.eikonal_loss(slope).backward()
    assert w.grad is not None
    assert torch.isfinite(w.grad)


def test_slopes_are_there_where_gradients_are_off():
    with torch.no_grad():
        assert torch.equal(losses.field_gradients(lambda x: x[:, 1], torch.rand(2, 3)), torch.tensor([[0.0, 1, 0]] * 2))


def test_occupancy_is_high_where_the_field_is_low():
    inside = torch.tensor([True, False])
    sure, wrong = torch.tensor([-9.0, 9.0]), torch.tensor([9.0, -9.0])
    assert losses.occupancy_loss(sure, inside) < 1e-3
    assert losses.occupancy_loss(wrong, inside) > 8
    batch = a_batch()
    found = losses.shape_loss(lambda x: 50 * sphere(x), batch, LossTerms(kind="occupancy"))
    expected = losses.occupancy_loss(50 * batch.known.distance, batch.known.inside)
    torch.testing.assert_close(found, expected)


def test_weights_weigh():
    batch = a_batch()
    double, flat = (lambda x: 2 * sphere(x)), (lambda x: x[:, 0] * 0)
    plain = losses.shape_loss(double, batch, LossTerms())
    torch.testing.assert_close(losses.shape_loss(double, batch, LossTerms(eikonal=0.25)), plain + 0.25)
    torch.testing.assert_close(losses.shape_loss(double, batch, LossTerms(normals=0.5)), plain)
    assert losses.shape_loss(flat, batch, LossTerms(normals=0.5)) > losses.shape_loss(flat, batch, LossTerms()) + 0.4


@pytest.mark.parametrize("interpolation", ["linear", "smoothstep", "siren"])
def test_the_eikonal_terms_gradient_is_that_of_central_differences(interpolation):
    """Derivatives of derivatives, through the encoding, by every kind of parameter."""
    field, batch, terms = a_field(interpolation), a_batch(6), LossTerms(eikonal=1.0, normals=0.5)

    def value():
        return losses.shape_loss(lambda x: field(x)[..., 0], batch, terms)

    value().backward()
    step, checked = 1e-6, 0
    for parameter in field.parameters():
        assert parameter.grad is not None
        flat, grad = parameter.data.view(-1), parameter.grad.reshape(-1)
        for index in grad.abs().topk(min(3, len(grad))).indices.tolist():
            before, ends = flat[index].item(), []
            for sign in (1, -1):
                flat[index] = before + sign * step
                ends.append(value().item())
            flat[index] = before
            assert grad[index].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-8)
            checked += 1
    assert checked >= 12


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"clamp": 0.0}, "clamp must be above 0"),
        ({"eikonal": -1.0}, "weights must not be negative"),
        ({"kind": "occupancy", "eikonal": 0.1}, "the terms eikonal and normals need a signed distance"),
    ],
)
def test_terms_that_mean_nothing_are_refused(terms, says):
    with pytest.raises(ValueError, match=says):
        LossTerms(**terms)


def test_a_pool_feeds_the_loss():
    cube = shapes.place_in_cube("cube", shapes.Mesh(*shapes.cuboid(1, 1, 1)))
    pool = shapes.make_pool(cube, shapes.PoolSizes(uniform=200, near=200, surface=100, held=50))
    batch = shapes.draw_batch(pool, 64, seed=0, step=0)

    def true(x):
        off = (x - 0.5).abs() - 0.4
        return off.clamp(min=0).norm(dim=-1) + off.amax(-1).clamp(max=0)

    assert losses.shape_loss(true, batch, LossTerms(eikonal=1.0)) < 1e-5
    assert losses.shape_loss(lambda x: -true(x), batch, LossTerms()) > 0.04
