"""Permutation nulls against all permutations, and on tables that know nothing."""

import doctest
import itertools
import math

import pytest
import torch

import posenc.measure.permutation_test as permutation_module
from posenc.measure.distances import token_distances
from posenc.measure.modularity import modularity, pair_auc, similarity
from posenc.measure.permutation_test import permutation_test


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_worked_example() -> None:
    result = doctest.testmod(permutation_module)
    assert (result.failed, result.attempted > 2) == (0, True)


def test_the_null_is_that_of_all_permutations() -> None:
    w, modules = similarity(token_distances(normal(6, 3))), torch.tensor([0, 0, 1, 1, 2, 2])
    everything = torch.tensor(
        [modularity(w, modules[list(order)]) for order in itertools.permutations(range(6))], dtype=torch.float64
    )
    found = permutation_test(lambda own: modularity(w, own), modules, draws=600)
    assert found.found == modularity(w, modules)
    assert found.mean == pytest.approx(float(everything.mean()), abs=0.01)
    assert found.sd == pytest.approx(float(everything.std()), rel=0.1)
    assert found.p == pytest.approx(float((everything >= found.found - 1e-9).double().mean()), abs=0.03)
    assert found.low < found.mean < found.high
    inside = ((everything >= found.low - 1e-9) & (everything <= found.high + 1e-9)).double().mean()
    assert float(inside) >= 0.94
    assert found.z == pytest.approx((found.found - found.mean) / found.sd)
    assert permutation_test(lambda own: modularity(w, own), modules, draws=600) == found
    assert permutation_test(lambda own: modularity(w, own), modules, draws=600, seed=1) != found


def test_p_is_small_for_modules_that_are_there_and_level_for_noise() -> None:
    modules = torch.arange(3).repeat_interleave(5)
    there = token_distances(normal(3, 8)[modules] + 0.3 * normal(15, 8, seed=1))
    found = permutation_test(lambda own: pair_auc(there, own), modules, draws=99)
    assert found.p == pytest.approx(1 / 100)
    assert found.found > found.high
    assert permutation_test(lambda own: 1 - pair_auc(there, own), modules, draws=99, smaller=True).p == pytest.approx(
        1 / 100
    )
    noise = [token_distances(normal(15, 8, seed=seed)) for seed in range(30)]
    p = [permutation_test(lambda own, d=d: pair_auc(d, own), modules, draws=49).p for d in noise]
    assert 0.35 < sum(p) / len(p) < 0.65
    assert sum(each <= 0.1 for each in p) <= 8  # 3 by chance


def test_what_does_not_depend_on_the_tokens_has_no_spread() -> None:
    found = permutation_test(lambda _: 0.5, torch.arange(4), draws=10)
    assert (found.p, found.mean, found.sd, found.low, found.high) == (1, 0.5, 0, 0.5, 0.5)
    assert found.z != found.z


def test_a_null_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got draws=1, level=0.95"):
        permutation_test(lambda _: 0.5, torch.arange(4), draws=1)
    with pytest.raises(ValueError, match=r"got draws=9, level=1"):
        permutation_test(lambda _: 0.5, torch.arange(4), draws=9, level=1.0)


def test_a_measurement_that_is_not_a_number_has_no_p() -> None:
    """Comparisons with nan are false, so nan was the most extreme of all."""
    assert math.isnan(permutation_test(lambda rows: math.nan, torch.arange(6), draws=19).p)


def test_the_unit_of_the_measurement_does_not_change_p() -> None:
    values, groups = torch.randn(12, generator=torch.Generator().manual_seed(0)), torch.arange(12) // 6

    def gap(scale: float) -> float:
        def measured(rows: torch.Tensor) -> float:
            return scale * float(values[rows == 1].mean() - values[rows == 0].mean())

        return permutation_test(measured, groups, draws=99).p

    assert gap(1e-13) == gap(1.0) < 1
