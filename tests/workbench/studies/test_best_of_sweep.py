"""Whether a value chosen before a sweep is the best of the sweep, and which variant is best."""

import pytest

from posenc.workbench.studies.shared.best_of_sweep import judge_choice
from posenc.workbench.studies.shared.best_variant import best_variant

CLEAR = {1.0: {0: 20.0, 1: 20.1, 2: 19.9}, 2.0: {0: 21.0, 1: 21.1, 2: 20.9}, 4.0: {0: 20.9, 1: 21.4, 2: 20.8}}


@pytest.mark.parametrize(
    ("chosen", "higher", "told"),
    [
        (4.0, True, ", the best of this sweep too"),
        (1.0, False, ", the best of this sweep too"),
        (1.0, True, ", not the best of this sweep: 4 is"),
        (2.0, True, ", not distinguishable from 4, which has the best mean of this sweep"),
        (2.0, False, ", not the best of this sweep: 1 is"),
        (8.0, True, ""),
    ],
)
def test_a_choice_is_judged_by_the_seeds_of_a_sweep(chosen: float, higher: bool, told: str) -> None:
    assert judge_choice(CLEAR, chosen, higher=higher) == told


def test_one_seed_distinguishes_nothing() -> None:
    assert judge_choice({1.0: {0: 1.0}, 2.0: {0: 2.0}}, 1.0, higher=True).startswith(", not distinguishable from 2")
    assert judge_choice({1.0: {0: 1.0}, 2.0: {1: 2.0}}, 1.0, higher=True).startswith(", not distinguishable from 2")
    assert judge_choice({}, 1.0, higher=True) == ""


def test_the_best_variant_is_compared_with_the_second() -> None:
    values = {"a": {0: 10.0, 1: 10.2, 2: 9.9}, "b": {0: 8.0, 1: 8.3, 2: 7.9}, "none": {0: 1.0, 1: 1.0, 2: 1.0}}
    answer = best_variant(values, metric="PSNR", unit="dB")
    assert answer.startswith("Best: a, PSNR 10.03 dB; difference from the second, b: +1.97 dB [1.")
    assert answer.endswith("(3 seeds). Without an encoding: 1.00 dB.")
    lower = best_variant(values, metric="error", unit="mm", higher=False, where="on held-out pixels")
    assert lower.startswith("Best on held-out pixels: none, error 1.00 mm; difference from the second, b: −7.07 mm [")


def test_variants_that_cannot_be_told_apart_are_both_named() -> None:
    close = {"a": {0: 10.0, 1: 9.0, 2: 11.0}, "b": {0: 9.5, 1: 10.0, 2: 9.0}}
    answer = best_variant(close, metric="PSNR", unit="dB")
    assert answer.startswith("Best: a or b, cannot be told apart. a: PSNR 10.00 dB; difference from b: +0.50 dB [−")
    one_seed = best_variant({"a": {0: 10.0}, "b": {0: 9.5}}, metric="PSNR", unit="dB")
    assert one_seed.startswith("Best: a or b, cannot be told apart.")
    assert "[one seed, no interval]" in one_seed
    assert "no seed in common" in best_variant({"a": {0: 10.0}, "b": {1: 9.5}}, metric="PSNR", unit="dB")
    assert "a is the only variant with results" in best_variant({"a": {0: 10.0}}, metric="PSNR", unit="dB")
    assert best_variant({}, metric="PSNR", unit="dB") == ""
