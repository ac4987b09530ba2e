"""Neighbours and places found in a table, against loops and against tables that have the grid or nothing of it."""

import pytest
import torch

from posenc import Sinusoid, grid
from posenc.measure.distances import token_distances
from posenc.measure.neighbor_recall import disparity_permutation_test, neighbor_recall, true_neighbors
from posenc.measure.permutation_test import permutation_test
from posenc.measure.procrustes import same_line_auc

SHAPE = (7, 7)
CHANCE = (4 * 4 + 20 * 9 + 25 * 16) / 48 / (4 * 2 + 20 * 3 + 25 * 4)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def places() -> torch.Tensor:
    """The cells of the grid in a secret order."""
    return grid(*SHAPE).coords.double()[torch.randperm(49, generator=torch.Generator().manual_seed(0))]


def test_neighbours_on_a_grid_share_an_edge() -> None:
    found = true_neighbors(places())
    assert int(found.sum()) == 168
    assert torch.equal(found, torch.cdist(places(), places(), p=1) == 1)
    assert torch.equal(true_neighbors(found | torch.eye(49, dtype=torch.bool)), found)


def test_a_table_that_has_the_grid_finds_every_neighbour() -> None:
    truth = places()
    for table in (truth, 0.01 * truth @ normal(2, 20) + 5, torch.cat([truth, 0.05 * normal(49, 9)], 1)):
        assert neighbor_recall(table, truth).found == 1
    scheme = Sinusoid(64, axes=2)
    pos = grid(*SHAPE)
    assert neighbor_recall(scheme.embed(scheme.prepare(pos)), pos.coords).found > 0.9


def test_the_share_found_is_counted_in_a_loop() -> None:
    truth, table = places(), normal(49, 6, seed=3) + torch.cat([places()] * 3, 1)
    true, d = true_neighbors(truth), token_distances(table)
    hits = 0
    for i in range(49):
        others = sorted((j for j in range(49) if j != i), key=lambda j: float(d[i, j]))
        hits += sum(bool(true[i, j]) for j in others[: int(true[i].sum())])
    found = neighbor_recall(table, truth)
    assert found.found == pytest.approx(hits / 168)
    assert 0.2 < found.found < 0.9
    assert found == neighbor_recall(table, true)


def test_chance_is_what_random_tables_and_permutations_find() -> None:
    truth = places()
    drawn = [neighbor_recall(normal(49, 64, seed=seed), truth) for seed in range(40)]
    assert all(each.chance == pytest.approx(CHANCE) for each in drawn)
    assert sum(each.found for each in drawn) / 40 == pytest.approx(CHANCE, abs=0.01)
    table = truth @ normal(2, 8)
    null = permutation_test(lambda own: neighbor_recall(table, own).found, truth, draws=100)
    assert null.mean == pytest.approx(CHANCE, abs=0.01)
    assert null.p < 0.01


def test_rows_equally_near_share_the_places_that_are_left() -> None:
    found = neighbor_recall(torch.zeros(49, 5), places())
    assert found.found == pytest.approx(CHANCE)
    line = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    two = torch.tensor(
        [[0.0], [0.0], [1.0], [1.0]]
    )  # each middle token sees one neighbour, and two rows tie for the other
    assert neighbor_recall(two, line).found == pytest.approx((1 + 1.5 + 1.5 + 1) / 6)


def test_a_token_without_neighbours_does_not_count() -> None:
    true = torch.zeros(4, 4, dtype=torch.bool)
    true[0, 1] = true[1, 0] = True
    found = neighbor_recall(torch.tensor([[0.0], [1.0], [0.1], [9.0]]), true)
    assert found == (0, pytest.approx(1 / 3))


def test_the_residual_tells_a_grid_from_a_folded_one_and_from_noise() -> None:
    truth = places()
    turned = truth @ torch.linalg.qr(normal(20, 20)).Q[:2]
    whole = disparity_permutation_test(3 * turned + 7, truth, draws=50)
    assert whole.found == pytest.approx(0, abs=1e-9)
    assert whole.p == pytest.approx(1 / 51)
    assert 0.9 < whole.mean < 1
    folded = torch.stack([truth[:, 0], (truth[:, 1] - 3).abs(), 0.05 * truth[:, 1]], 1)
    assert 0.3 < disparity_permutation_test(folded, truth, draws=50).found < 0.8
    noise = [disparity_permutation_test(normal(49, 20, seed=seed), truth, draws=50).p for seed in range(10)]
    assert sum(noise) / 10 > 0.25


def test_truths_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="one row per token: 8 are needed; got 49"):
        neighbor_recall(normal(8, 3), places())
    with pytest.raises(ValueError, match=r"neighbors of all tokens form a boolean matrix \(N, N\); got \(4, 5\)"):
        neighbor_recall(normal(4, 3), torch.ones(4, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match="no two tokens are neighbors"):
        neighbor_recall(normal(4, 3), torch.eye(4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"The reference holds the true place of every token"):
        disparity_permutation_test(normal(8, 3), places())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_errors_break_no_ties(dtype: torch.dtype) -> None:
    """Rows at equal distance, before and after a rotation."""
    turn = torch.linalg.qr(normal(16, 16)).Q
    cells = grid(4, 4).coords
    for table in (torch.eye(16).double(), turn.to(dtype)):
        found, chance = neighbor_recall(table, cells)
        assert found == pytest.approx(chance, abs=1e-12)
        if table.dtype == torch.float64:
            assert same_line_auc(table @ turn.T, (4, 4)) == 0.5


def test_one_token_has_no_neighbor() -> None:
    assert not bool(true_neighbors(torch.zeros(1, 2)).any())
    with pytest.raises(ValueError, match="no two tokens are neighbors"):
        neighbor_recall(torch.ones(1, 3), torch.zeros(1, 2))
