"""Distances along a rolled-up sheet, and the grid that they unroll to."""

import pytest
import torch

from posenc.measure.distances import multidimensional_scaling
from posenc.measure.isomap import geodesic_distances, isomap
from posenc.positions import grid
from posenc.schemes.sinusoid import Sinusoid

scipy = pytest.importorskip("scipy")


def test_along_a_circle_the_way_is_along_it():
    angle = torch.arange(12, dtype=torch.float64) * 0.4  # not quite closed
    points = torch.stack([angle.cos(), angle.sin()], 1)
    step = float((points[1] - points[0]).norm())
    away = geodesic_distances(points, neighbors=2)
    assert float(away[1, 10]) == pytest.approx(9 * step)  # an end is joined to the last but one too
    line = isomap(points, axes=1, neighbors=2)[:, 0]
    torch.testing.assert_close(line.diff().abs(), line.diff().abs().mean().expand(11), rtol=0.3, atol=0)
    assert bool((line.diff().sign() == line.diff().sign()[0]).all())


def test_the_sinusoid_of_a_grid_unrolls_to_it_better_along_itself():
    pos, scheme = grid(7, 7), Sinusoid(32, axes=2)
    table = scheme.embed(scheme.prepare(pos)).double()
    truth = pos.coords.double()
    assert multidimensional_scaling(isomap(table), truth).residual < 0.15
    assert multidimensional_scaling(isomap(table), truth).residual < multidimensional_scaling(table, truth).residual


def test_parts_that_do_not_touch_are_joined_and_equal_rows_are_near():
    table = torch.tensor([[0.0], [0.1], [0.1], [9.0], [9.1]], dtype=torch.float64)
    away = geodesic_distances(table, neighbors=1)
    assert bool(away.isfinite().all())
    assert float(away[1, 2]) < 1e-9
    assert float(away[0, 4]) == pytest.approx(9.1, rel=0.1)
    assert isomap(table, axes=3).shape == (5, 3)
    with pytest.raises(ValueError, match="5 tokens have 1 to 4 neighbors each; got neighbors=5"):
        geodesic_distances(table, neighbors=5)
    with pytest.raises(ValueError, match="at least one axis"):
        isomap(table, axes=0)


def test_the_order_of_tokens_does_not_matter_on_a_grid() -> None:
    cells = grid(4, 4).coords.double()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    assert torch.equal(geodesic_distances(cells[order]), geodesic_distances(cells)[order][:, order])


def test_an_axis_without_variation_is_zero() -> None:
    line = torch.arange(8, dtype=torch.float64)[:, None]
    assert not bool(isomap(line, axes=2, neighbors=2)[:, 1].any())
    with pytest.raises(ValueError, match="two or more; got a table of one row"):
        isomap(line[:1])
