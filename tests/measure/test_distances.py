"""Distances between tokens, and what they unroll to."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import spatial, stats

from posenc import grid
from posenc.measure.distances import multidimensional_scaling, token_distances


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turn(size: int, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(stats.ortho_group.rvs(size, random_state=seed))


def test_distances_by_hand() -> None:
    rows = torch.tensor([[3.0, 4], [0, 1], [-3, -4], [0, 0]])
    found = {how: token_distances(rows, how) for how in ("euclidean", "norm_only", "sign", "cosine_similarity")}
    assert found["euclidean"][0].tolist() == pytest.approx([0, math.sqrt(18), 10, 5])
    assert found["norm_only"][0].tolist() == pytest.approx([0, 4, 0, 5])
    assert found["sign"][0].tolist() == pytest.approx([0, math.sqrt(18), 0, 5])
    assert found["sign"][1].tolist() == pytest.approx([math.sqrt(18), 0, math.sqrt(18), 1])
    assert found["cosine_similarity"][0].tolist() == pytest.approx([1, 0.8, -1, 0])
    for matrix in found.values():
        assert (matrix.shape, matrix.dtype) == ((4, 4), torch.float64)
        torch.testing.assert_close(matrix, matrix.T)


def test_euclidean_is_scipy_s_and_no_turn_changes_it() -> None:
    rows = normal(40, 7)
    expected = torch.as_tensor(spatial.distance_matrix(rows, rows))
    torch.testing.assert_close(token_distances(rows), expected)
    torch.testing.assert_close(token_distances(rows @ turn(7) + 3), expected)
    torch.testing.assert_close(
        token_distances(rows, "cosine_similarity"), torch.as_tensor(1 - spatial.distance.cdist(rows, rows, "cosine"))
    )


def test_the_literal_readings_are_procrustes_of_two_vectors() -> None:
    a, b = normal(5), normal(5, seed=1)
    rows = torch.stack([a, b])
    whole = [float((a @ turn(5, seed) - b).norm()) for seed in range(300)]
    assert float(token_distances(rows, "norm_only")[0, 1]) <= min(whole)
    # |a| turned onto b's direction
    assert float(token_distances(rows, "norm_only")[0, 1]) == pytest.approx(float((a.norm() / b.norm() * b - b).norm()))
    assert float(token_distances(rows, "sign")[0, 1]) == pytest.approx(min(float((s * a - b).norm()) for s in (1, -1)))


def test_gradients_and_half_precision_do_not_matter() -> None:
    rows = normal(6, 3).half().requires_grad_()
    found = token_distances(rows)
    assert (found.requires_grad, found.dtype) == (False, torch.float64)


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
def test_an_unknown_distance_is_refused() -> None:
    unknown: Any = "manhattan"
    with pytest.raises(ValueError, match="how='manhattan'"):
        token_distances(normal(3, 3), unknown)


# unrolled ----------------------------------------------------------------------------------------------------------


def test_a_turned_grid_unrolls_to_the_grid() -> None:
    truth = grid(4, 5).coords.double()
    rows = torch.cat([truth, torch.zeros(20, 10, dtype=torch.float64)], 1) @ turn(12) * 0.3 + 5
    points, residual = multidimensional_scaling(rows, truth)
    torch.testing.assert_close(points, truth)
    assert residual == pytest.approx(0, abs=1e-12)
    mirrored, residual = multidimensional_scaling(-rows, truth)
    torch.testing.assert_close(mirrored, truth)


def test_points_keep_the_distances_that_a_plane_can_hold() -> None:
    rows = torch.cat([normal(9, 2), torch.zeros(9, 4, dtype=torch.float64)], 1) @ turn(6)
    points, residual = multidimensional_scaling(rows)
    torch.testing.assert_close(token_distances(points), token_distances(rows))
    assert residual == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(points.mean(0), torch.zeros(2, dtype=torch.float64))


def test_what_the_axes_leave_out_is_the_residual() -> None:
    rows = normal(12, 6)
    squared = token_distances(rows).square()
    centring = torch.eye(12, dtype=torch.float64) - 1 / 12
    values = torch.linalg.eigvalsh(-0.5 * centring @ squared @ centring).flip(0)  # Torgerson's double centring
    for axes in (1, 2, 4):
        points, residual = multidimensional_scaling(rows, axes=axes)
        assert points.shape == (12, axes)
        assert residual == pytest.approx(float(1 - values[:axes].sum() / values.sum()))
        torch.testing.assert_close(points.T @ points, torch.diag(values[:axes]))
    assert bool((points.gather(0, points.abs().argmax(0, keepdim=True)) > 0).all())
    torch.testing.assert_close(multidimensional_scaling(-rows, axes=4).points, points)


def test_the_residual_onto_places_is_the_disparity_of_points_and_places() -> None:
    truth, rows = grid(4, 4).coords.double(), normal(16, 30)
    points, residual = multidimensional_scaling(rows, truth)
    expected = spatial.procrustes(truth.numpy(), multidimensional_scaling(rows).points.numpy())[2]
    assert residual == pytest.approx(expected)
    assert 0.5 < residual < 1
    explained = (truth - points).square().sum() / (truth - truth.mean(0)).square().sum()
    assert residual == pytest.approx(float(explained))


def test_tables_too_small_for_their_axes_do_not_crash() -> None:
    points, residual = multidimensional_scaling(torch.tensor([[1.0, 2, 3], [3.0, 2, 3]]))
    assert points.abs().tolist() == [[1, 0], [1, 0]]
    assert residual == pytest.approx(0)
    for alike in (torch.zeros(16, 3), torch.full((16, 3), 0.1)):
        assert multidimensional_scaling(alike).residual == 0
        points, residual = multidimensional_scaling(alike, grid(4, 4).coords)
        assert residual == pytest.approx(1)
        torch.testing.assert_close(points, torch.full((16, 2), 1.5, dtype=torch.float64))


def test_unusable_places_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(16, 2\) here; got \(16, 3\). Pass pos.coords, and axes=3"):
        multidimensional_scaling(normal(16, 5), normal(16, 3))
    with pytest.raises(ValueError, match="every token at one place"):
        multidimensional_scaling(normal(16, 5), torch.ones(16, 2))
    with pytest.raises(ValueError, match="axes=0"):
        multidimensional_scaling(normal(16, 5), axes=0)
