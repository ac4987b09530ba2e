"""The rule that states a difference between two models, case by case."""

from __future__ import annotations

import math

import pytest

from posenc.measure.budget_comparison import Scores, ScoreScale, compare_budgets
from posenc.measure.held_out_interval import HeldOut, proportion_variance
from posenc.measure.statistics import paired_difference

ACCURACY = ScoreScale(
    chance=0.5,
    bounds=(0.0, 1.0),
    held_out=HeldOut(200, 800, split_by_seed=True),
    item_variance=proportion_variance,
)


def around(center: float, shifts: tuple[float, ...] = (-0.01, 0.0, 0.01)) -> dict[int, float]:
    return {seed: center + shift for seed, shift in enumerate(shifts)}


OTHER = (0.008, -0.012, 0.002)
"""Shifts that differ from those of ``around``, so that a paired difference varies."""


def model(half: float, full: float, shifts: tuple[float, ...] = (-0.01, 0.0, 0.01), *, control: bool = False) -> Scores:
    return Scores(around(full, shifts), around(half, shifts), control)


def test_a_lasting_difference_is_stated() -> None:
    found = compare_budgets(model(0.90, 0.92), model(0.80, 0.82, OTHER), ACCURACY)
    assert (found.stated, found.reason) == (True, None)
    assert found.difference.mean == pytest.approx(0.1, abs=0.01)
    assert found.projected == pytest.approx(0.1, abs=0.01)


def test_the_other_order_has_the_other_sign() -> None:
    a, b = model(0.90, 0.92), model(0.80, 0.85, OTHER)
    one, other = compare_budgets(a, b, ACCURACY), compare_budgets(b, a, ACCURACY)
    assert (one.difference.mean, one.projected) == pytest.approx((-other.difference.mean, -other.projected))
    assert one.reason == other.reason


def test_a_lead_that_the_last_doubling_halved_is_not_stated() -> None:
    """The page said that the variant that starts fastest is best; the other two reached 1.000 later."""
    assert compare_budgets(model(0.90, 0.944), model(0.70, 0.80, OTHER), ACCURACY).stated
    found = compare_budgets(model(0.90, 0.944), model(0.58, 0.80, OTHER), ACCURACY)
    assert found.difference.above(0)
    assert found.projected < 0
    assert found.reason == "still changing"


def test_a_difference_far_below_what_both_still_gain_is_not_stated() -> None:
    """On 10,000 images an order after 4 epochs, whose interval excluded 0 at both budgets, was reversed after 16."""
    near = (-0.009, 0.0, 0.009)
    found = compare_budgets(model(0.75, 0.800), model(0.765, 0.813, near), ACCURACY)
    assert found.difference.below(0)
    assert found.projected < 0
    assert found.reason == "still learning"
    assert compare_budgets(model(0.75, 0.800), model(0.765, 0.825, near), ACCURACY).stated, "more than a third of 0.05"
    assert compare_budgets(model(0.80, 0.800), model(0.815, 0.813, near), ACCURACY).stated, "they gain no more"
    scale = ScoreScale(higher=False)
    assert compare_budgets(model(0.25, 0.200), model(0.235, 0.187, near), scale).reason == "still learning"


def test_a_model_at_chance_has_no_verdict_unless_it_is_a_control() -> None:
    fast = model(0.80, 0.944)
    assert compare_budgets(fast, model(0.50, 0.51, OTHER), ACCURACY).reason == "at chance"
    assert compare_budgets(fast, model(0.50, 0.60, OTHER), ACCURACY).reason == "at chance", "it started after B/2"
    found = compare_budgets(fast, model(0.50, 0.51, OTHER, control=True), ACCURACY)
    assert found.stated
    assert found.projected == pytest.approx(0.944 - 0.51 + 0.144, abs=0.01), "the control's own change is taken as 0"
    late = model(0.50, 0.90)
    assert compare_budgets(late, model(0.50, 0.51, OTHER, control=True), ACCURACY).stated
    assert compare_budgets(model(0.5, 0.505), model(0.50, 0.51, OTHER, control=True), ACCURACY).reason == "at chance"


def test_a_control_that_learns_is_judged_as_any_other() -> None:
    found = compare_budgets(model(0.93, 0.944), model(0.58, 0.80, OTHER, control=True), ACCURACY)
    assert found.reason == "still changing"


def test_without_chance_no_model_is_at_chance() -> None:
    scale = ScoreScale(higher=True)
    assert compare_budgets(model(0.80, 0.944), model(0.50, 0.51, OTHER), scale).stated


def test_lower_scores_can_be_better() -> None:
    scale = ScoreScale(higher=False, chance=3.2)
    a, b = model(2.2, 2.0), model(2.7, 2.5, OTHER)
    found = compare_budgets(a, b, scale)
    assert found.stated
    assert found.difference.below(0)
    assert compare_budgets(a, model(3.3, 3.1, OTHER), scale).reason == "at chance"


def test_an_interval_with_zero_is_not_stated() -> None:
    found = compare_budgets(model(0.90, 0.91), model(0.90, 0.91, OTHER), ACCURACY)
    assert found.reason == "interval contains 0"
    assert found.smallest > 0.02


def test_without_half_budget_runs_nothing_is_stated() -> None:
    found = compare_budgets(Scores(around(0.9)), Scores(around(0.6, OTHER)), ACCURACY)
    assert (found.reason, found.half) == ("no half budget", None)
    assert math.isnan(found.projected)


def test_half_budget_runs_count_on_the_seeds_that_both_have() -> None:
    a, b = model(0.8, 0.9), model(0.6, 0.65, OTHER)
    found = compare_budgets(Scores(a.full, {0: 0.8}), Scores(b.full, {1: 0.6, 2: 0.6}), ACCURACY)
    assert found.reason == "no half budget"


def test_runs_at_half_the_budget_count_on_the_seeds_of_the_full_one() -> None:
    """The difference at B was of five seeds and that at B/2 of one, so that they were no change of one another."""
    a, b = model(0.8, 0.9), model(0.6, 0.65, OTHER)
    seed = min(a.full.keys() & b.full.keys())
    found = compare_budgets(Scores(a.full, {seed: 0.8, 99: 0.8}), Scores(b.full, {seed: 0.6, 99: 0.6}), ACCURACY)
    assert found.reason == "no half budget"
    assert found.half is not None
    assert found.half.n == 1
    assert found.projected == pytest.approx(2 * (a.full[seed] - b.full[seed]) - 0.2)


def test_one_seed_is_not_stated() -> None:
    assert compare_budgets(Scores({0: 0.9}, {0: 0.9}), Scores({0: 0.5}, {0: 0.5})).reason == "no interval"
    with pytest.raises(ValueError, match=r"seeds that both sides have; got \[0\] and \[1\]"):
        compare_budgets(Scores({0: 0.9}), Scores({1: 0.5}))


def test_identical_seeds_are_judged_by_their_items() -> None:
    """Three seeds with the same answers to 15 photographs are not proof of a difference of one photograph."""
    same = (0.0, 0.0, 0.0)
    few = ScoreScale(
        bounds=(0.0, 1.0), held_out=HeldOut(15, 60, split_by_seed=False), item_variance=proportion_variance
    )
    a, b = model(14 / 15, 15 / 15, same), model(13 / 15, 14 / 15, same)
    assert paired_difference(a.full, b.full).above(0), "the interval over seeds has width 0"
    assert compare_budgets(a, b, few).reason == "interval contains 0"


def test_a_difference_of_accuracies_is_cut_at_one() -> None:
    wide = {0: 1.0, 1: 0.7, 2: 1.0}
    found = compare_budgets(Scores(wide, wide), Scores(around(0.05), around(0.05)), ACCURACY)
    assert found.difference.high <= 1.0
