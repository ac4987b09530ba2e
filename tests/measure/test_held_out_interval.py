"""Intervals of held-out scores, against the formulas and against other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from posenc.measure.held_out_interval import (
    HeldOut,
    held_out_interval,
    proportion_variance,
    smallest_difference,
    widest_undecided,
)
from posenc.measure.statistics import t_interval

VALUES = [0.61, 0.70, 0.58, 0.66, 0.72]
BY_SEED = HeldOut(items=36, trained=108, split_by_seed=True)
FIXED = HeldOut(items=36, trained=108, split_by_seed=False)


def test_without_held_out_items_it_is_the_t_interval_over_seeds() -> None:
    found, expected = held_out_interval(VALUES), t_interval(VALUES)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_splits_by_seed_take_the_correction_of_nadeau_and_bengio() -> None:
    half = stats.t.ppf(0.975, 4) * math.sqrt(np.var(VALUES, ddof=1) * (1 / 5 + 36 / 108))
    found = held_out_interval(VALUES, BY_SEED)
    assert (found.low, found.high) == pytest.approx((np.mean(VALUES) - half, np.mean(VALUES) + half), rel=1e-9)
    uncorrected = t_interval(VALUES)
    assert found.high - found.low > 1.6 * (uncorrected.high - uncorrected.low)


def test_fixed_items_add_their_variance_to_that_of_the_seeds() -> None:
    seeds, items = np.var(VALUES, ddof=1) / 5, 0.2 / 36
    freedom = (seeds + items) ** 2 / (seeds**2 / 4 + items**2 / 35)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(seeds + items)
    found = held_out_interval(VALUES, FIXED, item_variance=0.2)
    assert (found.low, found.high) == pytest.approx((np.mean(VALUES) - half, np.mean(VALUES) + half), rel=1e-9)


@pytest.mark.parametrize("held_out", [BY_SEED, FIXED])
def test_identical_seeds_have_an_interval_from_the_items_alone(held_out) -> None:
    variance = proportion_variance(1.0, 36)
    found = held_out_interval([1.0] * 5, held_out, item_variance=variance, bounds=(0.0, 1.0))
    half = stats.t.ppf(0.975, 35) * math.sqrt(variance / 36)
    assert (found.low, found.high) == (pytest.approx(1 - half), 1.0)
    assert found.low < 0.96


def test_identical_seeds_without_a_variance_of_the_items_have_no_interval() -> None:
    found = held_out_interval([0.3] * 5, BY_SEED)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert not found.above(0)


def test_one_seed_has_no_interval() -> None:
    assert not held_out_interval([0.3], FIXED, item_variance=0.2).known


def test_an_interval_is_cut_at_the_range_of_the_score() -> None:
    values = [1.0, 0.97, 1.0, 0.94, 1.0]
    assert held_out_interval(values, BY_SEED).high > 1
    assert held_out_interval(values, BY_SEED, bounds=(0.0, 1.0)).high == 1.0


def test_the_interval_for_other_splits_covers_the_true_mean_and_that_over_seeds_does_not() -> None:
    """Errors of two seeds correlate by n_test / (n_test + n_train), as for overlapping training parts."""
    draw, shared = np.random.default_rng(0), 36 / 144
    covered = [0, 0]
    for _ in range(1500):
        errors = math.sqrt(shared) * draw.normal() + math.sqrt(1 - shared) * draw.normal(size=5)
        for at, held_out in enumerate((BY_SEED, None)):
            found = held_out_interval((0.1 * errors).tolist(), held_out)
            covered[at] += found.low < 0 < found.high
    assert covered[0] / 1500 == pytest.approx(0.95, abs=0.02)
    assert covered[1] / 1500 < 0.88


def test_a_difference_of_the_smallest_size_is_found_in_four_of_five_repetitions() -> None:
    draw, found = np.random.default_rng(1), []
    sizes = [smallest_difference((0.1 * draw.normal(size=20)).tolist()) for _ in range(400)]
    size = float(np.mean(sizes))
    for _ in range(1500):
        found.append(held_out_interval((size + 0.1 * draw.normal(size=20)).tolist()).low > 0)
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)


def test_fewer_items_have_a_larger_smallest_difference() -> None:
    few, many = (smallest_difference([0.1, 0.12, 0.08], HeldOut(n, 100, False), item_variance=0.25) for n in (15, 1500))
    assert few > 3 * many
    assert math.isnan(smallest_difference([0.1]))


def test_more_seeds_narrow_the_interval_to_the_width_that_the_items_leave() -> None:
    values = [0.05 + 0.1 * (-1) ** seed for seed in range(4000)]
    for held_out in (BY_SEED, FIXED):
        found = held_out_interval(values, held_out, item_variance=0.3)
        left = widest_undecided(values, held_out, item_variance=0.3)
        assert left == pytest.approx((found.high - found.low) / 2, rel=0.02)
    assert widest_undecided(values) == 0


def test_a_proportion_of_all_items_keeps_a_variance() -> None:
    assert proportion_variance(1.0, 36) == pytest.approx(37 / 38 * 1 / 38)
    assert proportion_variance(0.5, 10_000) == pytest.approx(0.25)
    with pytest.raises(ValueError, match=r"between 0 and 1 and has at least one item; got 1\.2 of 36 items"):
        proportion_variance(1.2, 36)


def test_a_split_without_items_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one held-out and one training item; got 0 and 12"):
        HeldOut(0, 12, split_by_seed=True)
    with pytest.raises(ValueError, match=r"between 0 and 1; got 95\. Use 0\.95"):
        held_out_interval(VALUES, level=95)


@pytest.mark.parametrize("measure", [smallest_difference, widest_undecided])
@pytest.mark.parametrize("level", [95, 0, -1, 1])
def test_a_level_is_a_share(measure, level: float) -> None:
    with pytest.raises(ValueError, match="lies between 0 and 1"):
        measure([0.1, 0.2, 0.4], level=float(level))
