"""The answer of the Latin-square study: each encoding against the best rule that ignores positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posenc.workbench.studies.latin_squares.generalization import Generalization, answer, judge
from posenc.workbench.studies.latin_squares.results import COMMONEST, RAREST


def judged(bar: float = 0.43, **accuracies: Sequence[float]) -> Generalization:
    """label=(accuracy of seed 0, of seed 1, ...)."""
    rows = [
        {"scheme": label, "seed": seed, "metric": "accuracy_ood", "setting": "main", "value": value}
        for label, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    return judge(rows, {COMMONEST: 0.12, RAREST: bar})


def test_encodings_are_sorted_into_groups_by_their_whole_interval() -> None:
    three = judged(good=(0.88, 0.86, 0.87), torn=(0.30, 0.60, 0.45), bad=(0.33, 0.34, 0.33))
    assert (three.above, three.inconclusive, three.below) == (["good"], ["torn"], ["bad"])
    text = answer(three)
    assert text.startswith("1 of 3 encodings: good. An encoding generalizes if its accuracy out of distribution is ")
    assert "is above 0.43, the accuracy of answering the rarest symbol" in text
    assert "Below it: bad. Inconclusive (the 95% interval contains the threshold): torn." in text


def test_the_threshold_is_the_best_rule_without_positions_and_at_least_chance() -> None:
    good = (0.88, 0.86, 0.87)
    assert judged(good=good).above == ["good"]
    assert judged(0.95, good=good).below == ["good"]
    assert judged(0.2, good=good).threshold == 0.25
    assert judge([], {}).threshold == 0.25


def test_a_high_mean_with_a_wide_interval_is_inconclusive() -> None:
    assert judged(lucky=(0.95, 0.40, 0.70)).inconclusive == ["lucky"]


def test_the_best_is_said_against_the_second_by_their_paired_difference() -> None:
    near = answer(judged(a=(0.80, 0.70, 0.75), b=(0.74, 0.78, 0.70), c=(0.33, 0.34, 0.33)))
    assert "Best out of distribution: a or b, not distinguishable. a: accuracy 0.750; difference from b: +0.010" in near
    apart = answer(judged(a=(0.90, 0.91, 0.92), b=(0.74, 0.75, 0.77), c=(0.33, 0.34, 0.33)))
    assert "Best out of distribution: a, accuracy 0.910; difference from the second, b: +0.157 [" in apart


def test_one_seed_has_no_interval() -> None:
    single = judged(a=(0.9,), b=(0.4,))
    assert single.single == ["a", "b"]
    assert answer(single).startswith("Inconclusive for 2 encodings")
    assert "One seed, so no interval: a and b." in answer(single)


def test_a_seed_without_a_number_is_left_out() -> None:
    assert judged(a=(0.9, 0.88, math.nan)).estimates["a"].n == 2


def test_without_a_finished_run_nothing_is_said() -> None:
    assert answer(judged()) == "No answer yet: no run of the main condition has finished."


def test_many_encodings_are_counted() -> None:
    many = answer(judged(**{f"e{number}": (0.9, 0.91, 0.89) for number in range(20)}))
    assert "and 8 more." in many
