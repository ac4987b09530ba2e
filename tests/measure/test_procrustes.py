"""Distances from a reference against scipy's, the closed form's own minimum, and numbers of arXiv 2406.08272."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import linalg, spatial, stats

from posenc import Sinusoid, grid, sequence
from posenc.measure.procrustes import additive_r2, aligned, alignment, procrustes_distance, same_line_auc
from posenc.positions import Positions

DIM, SHAPE = 160, (4, 4)


def table(scheme: Sinusoid, pos: Positions) -> torch.Tensor:
    return scheme.embed(scheme.prepare(pos)).double()


def sin1d() -> torch.Tensor:
    return table(Sinusoid(DIM), sequence(16))


def sin2d() -> torch.Tensor:
    return table(Sinusoid(DIM, axes=2), grid(*SHAPE))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turn(size: int, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(stats.ortho_group.rvs(size, random_state=seed))


def test_the_two_sinusoids_stand_apart_as_published() -> None:
    one, two = sin1d(), sin2d()
    cosine = float((one * two).sum() / (one.norm() * two.norm()))
    assert cosine == pytest.approx(0.72456, abs=5e-6)  # 0.72 in the paper, fig. A9
    assert float((one - two).norm()) == pytest.approx(26.554, abs=5e-4)
    assert procrustes_distance(one, two) == pytest.approx(13.173, abs=5e-4)


@pytest.mark.parametrize(
    ("sigma", "distance"),
    [(0.1, 34.2), (0.2, 33.6), (0.3, 33.5), (0.5, 35.6), (0.7, 40.0), (1, 50.7), (1.3, 62.8), (1.5, 71.3), (2, 94.1)],
)
def test_a_random_table_s_distance_is_that_of_its_sigma(sigma, distance) -> None:
    drawn = [procrustes_distance(sigma * normal(16, DIM, seed=seed), sin2d()) for seed in range(60)]
    assert sum(drawn) / len(drawn) == pytest.approx(distance, rel=0.01)


@pytest.mark.parametrize("shape", [(16, 40), (16, 16), (40, 7)])
def test_the_closed_form_is_the_distance_after_the_best_turn(shape) -> None:
    p, q = normal(*shape), normal(*shape, seed=1)
    found = procrustes_distance(p, q)
    turned = aligned(p, q)
    assert float((turned - q).norm()) == pytest.approx(found)
    rotation, _ = linalg.orthogonal_procrustes(p.numpy(), q.numpy())
    assert float((p @ torch.as_tensor(rotation) - q).norm()) == pytest.approx(found)
    torch.testing.assert_close(turned @ turned.T, p @ p.T)
    for seed in range(5):
        assert float((p @ turn(shape[1], seed) - q).norm()) > found


def test_a_turned_table_is_at_no_distance_and_a_shifted_one_is_not() -> None:
    p = normal(16, 20)
    assert procrustes_distance(p @ turn(20), p) == pytest.approx(0, abs=1e-6)
    torch.testing.assert_close(aligned(p @ turn(20), p), p)
    assert procrustes_distance(p + 1, p) > 5
    assert procrustes_distance(2 * p, p) == pytest.approx(float(p.norm()))


@pytest.mark.parametrize("shape", [(16, 40), (16, 16), (40, 7)])
def test_disparity_is_scipy_s(shape) -> None:
    p, q = normal(*shape) + 3, 0.2 * normal(*shape, seed=1) - 1
    found = alignment(p, q)
    assert found["disparity"] == pytest.approx(spatial.procrustes(q.numpy(), p.numpy())[2])
    assert alignment(7 * p @ turn(shape[1]) - 2, q)["disparity"] == pytest.approx(found["disparity"])


def test_an_alignment_s_other_columns() -> None:
    p, q, start = normal(16, 24) + 1, normal(16, 24, seed=1), 0.1 * normal(16, 24, seed=2)
    found = alignment(p, q, initial=start)
    assert found["norm"] == pytest.approx(float(p.norm()))
    assert found["distance"] == procrustes_distance(p, q)
    assert found["unit_distance"] == pytest.approx(procrustes_distance(p / p.norm(), q / q.norm()))
    assert found["distance_initial"] == procrustes_distance(start, q)
    assert found["disparity_initial"] == pytest.approx(spatial.procrustes(q.numpy(), start.numpy())[2])
    assert found["relative"] == pytest.approx(found["distance"] / found["distance_initial"])
    assert set(alignment(p, q)) == set(found) - {"distance_initial", "disparity_initial", "relative"}


@pytest.mark.full
def test_the_null_is_what_random_tables_of_that_norm_give() -> None:
    q = sin2d()
    p = 0.5 * normal(16, DIM, seed=99)
    found = alignment(p, q, draws=40)
    drawn = [normal(16, DIM, seed=seed) for seed in range(100, 140)]
    drawn = [each * (p.norm() / each.norm()) for each in drawn]
    distances = torch.tensor([procrustes_distance(each, q) for each in drawn])
    disparities = torch.tensor([spatial.procrustes(q.numpy(), each.numpy())[2] for each in drawn])
    assert found["null_distance"] == pytest.approx(float(distances.mean()), rel=5e-3)
    assert found["null_disparity"] == pytest.approx(float(disparities.mean()), abs=4e-3)
    for name, values in (("distance", distances), ("disparity", disparities)):
        assert float(values.std()) / 1.7 < found[f"null_{name}_sd"] < 1.7 * float(values.std())
    assert found["z"] == pytest.approx((found["disparity"] - found["null_disparity"]) / found["null_disparity_sd"])
    assert abs(found["z"]) < 3.5
    assert alignment(sin1d(), q)["z"] < -8
    assert found == alignment(p, q, draws=40)
    assert alignment(p, q, seed=1)["null_distance"] != alignment(p, q)["null_distance"]


def test_the_distance_of_a_random_table_is_its_size_and_the_disparity_is_not() -> None:
    small, large = (alignment(sigma * normal(16, DIM), sin2d()) for sigma in (0.3, 2.0))
    assert large["distance"] > 2.5 * small["distance"]
    assert large["disparity"] == pytest.approx(small["disparity"])
    assert large["null_distance"] == pytest.approx(large["distance"], rel=0.02)


@pytest.mark.parametrize("rows", [torch.zeros(6, 4), torch.full((6, 4), 0.1)])
def test_rows_that_are_all_alike_have_no_disparity(rows) -> None:
    found = alignment(normal(6, 4), normal(6, 4, seed=1), initial=rows)
    assert math.isnan(found["disparity_initial"])
    assert math.isfinite(found["relative"])
    alone = alignment(rows, normal(6, 4))
    assert math.isnan(alone["disparity"])
    assert math.isfinite(alone["distance"])


def test_tables_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one shape; got \(4, 6\) and \(4, 8\)"):
        procrustes_distance(normal(4, 6), normal(4, 8))
    with pytest.raises(ValueError, match="one row of real numbers per token"):
        aligned(normal(2, 4, 6), normal(2, 4, 6))
    with pytest.raises(ValueError, match="Did training diverge"):
        procrustes_distance(normal(4, 6) / 0, normal(4, 6))
    with pytest.raises(ValueError, match="draws=1"):
        alignment(normal(4, 6), normal(4, 6), draws=1)


# on a grid ---------------------------------------------------------------------------------------------------------


def test_two_dimensional_sinusoids_are_additive_and_one_dimensional_ones_are_not() -> None:
    assert additive_r2(sin2d(), SHAPE) == pytest.approx(1)
    assert 0.6 < additive_r2(sin1d(), SHAPE) < 0.999


def test_additive_r2_is_that_of_a_regression_on_rows_and_columns() -> None:
    p, shape = normal(15, 7), (3, 5)
    design = torch.zeros(15, 8, dtype=torch.float64)
    design[range(15), [n // 5 for n in range(15)]] = 1
    design[range(15), [3 + n % 5 for n in range(15)]] = 1
    fitted = design @ torch.linalg.lstsq(design, p, driver="gelsd").solution
    expected = 1 - float((p - fitted).square().sum() / (p - p.mean(0)).square().sum())
    assert additive_r2(p, shape) == pytest.approx(expected)
    assert additive_r2(p, (5, 3)) < expected - 0.01


def test_random_tables_explain_what_their_degrees_of_freedom_do() -> None:
    drawn = [additive_r2(normal(16, DIM, seed=seed), SHAPE) for seed in range(10)]
    assert sum(drawn) / 10 == pytest.approx(6 / 15, abs=0.01)
    assert additive_r2(normal(16, 3), (16,)) == pytest.approx(1)
    assert math.isnan(additive_r2(torch.full((16, 3), 0.1), SHAPE))


def test_same_line_auc_counts_pairs() -> None:
    p = normal(12, 2)
    shape = (3, 4)
    lines, others = [], []
    for a in range(12):
        for b in range(a):
            distance = float((p[a] - p[b]).norm())
            (lines if (a // 4 == b // 4) != (a % 4 == b % 4) else others).append(distance)
    wins = sum((far > near) + 0.5 * (far == near) for near in lines for far in others)
    assert same_line_auc(p, shape) == pytest.approx(wins / len(lines) / len(others))
    assert (len(lines), len(others)) == (3 * 6 + 4 * 3, 36)


def test_same_line_auc_at_its_ends() -> None:
    lines = torch.cat([torch.eye(4).repeat_interleave(4, 0), torch.eye(4).repeat(4, 1)], 1)
    assert same_line_auc(lines, SHAPE) == 1
    assert same_line_auc(torch.ones(16, 3), SHAPE) == 0.5
    drawn = [same_line_auc(normal(16, DIM, seed=seed), SHAPE) for seed in range(20)]
    assert sum(drawn) / 20 == pytest.approx(0.5, abs=0.05)
    # in three dimensions, cells of one line differ along one axis alone; two of one plane do not count
    corners = grid(2, 2, 2).coords.double()
    assert same_line_auc(corners, (2, 2, 2)) == 1


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"A grid of shape \(4, 5\) has 20 tokens; the table has 16"):
        additive_r2(normal(16, 3), (4, 5))
    with pytest.raises(ValueError, match=r"two axes longer than 1; got shape \(16, 1\)"):
        same_line_auc(normal(16, 3), (16, 1))


@pytest.mark.parametrize("shape", [(16, 8), (6, 20)])
def test_a_small_distance_has_its_digits(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    q, e = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    for size in (1e-3, 1e-8, 1e-10):
        near = procrustes_distance(q + size * e, q)
        assert near == pytest.approx(float((aligned(q + size * e, q) - q).norm()), rel=1e-4)
        assert 0 < near <= size * float(e.norm())


def test_a_rotated_reference_has_no_distance_to_divide_by() -> None:
    q = torch.randn(16, 8, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64)).Q
    found = alignment(torch.randn(16, 8), q, initial=q @ turn)
    assert found["distance_initial"] < 1e-12
    assert math.isnan(found["relative"])
    with pytest.raises(ValueError, match="A grid of shape"):
        additive_r2(torch.ones(4, 2), (-2, -2))
