"""Whether a value chosen before a sweep is the best of the sweep, and which variant is best."""

from types import SimpleNamespace
from typing import cast

import pytest

from posenc.measure.budget_comparison import Scores as BudgetScores
from posenc.measure.budget_comparison import ScoreScale
from posenc.workbench.studies.shared.best_of_sweep import judge_choice
from posenc.workbench.studies.shared.best_variant import best_variant
from posenc.workbench.studies.shared.compared_score import ComparedScore, ComparedVariants
from posenc.workbench.studies.shared.own_data_answer import best_sentence
from posenc.workbench.studies.shared.page_data import PageData

CLEAR = {1.0: {0: 20.0, 1: 20.1, 2: 19.9}, 2.0: {0: 21.0, 1: 21.1, 2: 20.9}, 4.0: {0: 20.9, 1: 21.4, 2: 20.8}}


@pytest.mark.parametrize(
    ("chosen", "higher", "told"),
    [
        (4.0, True, ", which has the best mean of this sweep and is not distinguishable from 2"),
        (1.0, False, ", the best of this sweep too"),
        (1.0, True, ", not the best of this sweep: 4 is better"),
        (2.0, True, ", not distinguishable from 4, which has the best mean of this sweep"),
        (2.0, False, ", not the best of this sweep: 1 is better"),
        (8.0, True, ""),
    ],
)
def test_a_choice_is_judged_by_the_seeds_of_a_sweep(chosen: float, higher: bool, told: str) -> None:
    assert judge_choice(CLEAR, chosen, higher=higher) == told


def test_one_seed_distinguishes_nothing() -> None:
    assert judge_choice({1.0: {0: 1.0}, 2.0: {0: 2.0}}, 1.0, higher=True).startswith(", not distinguishable from 2")
    assert judge_choice({1.0: {0: 1.0}, 2.0: {1: 2.0}}, 1.0, higher=True).startswith(", not distinguishable from 2")
    assert judge_choice({}, 1.0, higher=True) == ""
    assert judge_choice({1.0: {0: 1.0, 1: 1.1}}, 1.0, higher=True) == ""


def test_the_best_variant_is_compared_with_the_second() -> None:
    values = {"a": {0: 10.0, 1: 10.2, 2: 9.9}, "b": {0: 8.0, 1: 8.3, 2: 7.9}, "none": {0: 1.0, 1: 1.0, 2: 1.0}}
    answer = best_variant(values, metric="PSNR", unit="dB")
    assert answer.startswith("Best: a, PSNR 10.03 dB; difference from the second, b: +1.97 dB [1.")
    assert answer.endswith("(3 seeds). Without an encoding: 1.00 dB [1.00,\xa01.00].")
    lower = best_variant(values, metric="error", unit="mm", higher=False, where="on held-out pixels")
    assert lower.startswith("Best on held-out pixels: none, error 1.00 mm; difference from the second, b: −7.07 mm [")


def test_variants_that_cannot_be_told_apart_are_both_named() -> None:
    close = {"a": {0: 10.0, 1: 9.0, 2: 11.0}, "b": {0: 9.5, 1: 10.0, 2: 9.0}}
    answer = best_variant(close, metric="PSNR", unit="dB")
    assert answer.startswith("Best: a or b, not distinguishable. a: PSNR 10.00 dB; difference from b: +0.50 dB [−")


def test_one_seed_or_one_variant_is_never_called_the_best() -> None:
    one_seed = best_variant({"a": {0: 10.0}, "b": {0: 9.5}}, metric="PSNR", unit="dB")
    assert one_seed == "Best: inconclusive from one seed. Highest mean: a, PSNR 10.00 dB; second: b, PSNR 9.50 dB."
    tied = best_variant({"a": {0: 0.5}, "b": {0: 0.5}, "c": {0: 0.4}}, metric="accuracy", unit="")
    assert tied == "Best: inconclusive from one seed. Highest mean: a and b alike, accuracy 0.50."
    assert "without a seed in common" in best_variant({"a": {0: 10.0}, "b": {1: 9.5}}, metric="PSNR", unit="dB")
    assert "a is the only trained variant with results" in best_variant(
        {"a": {0: 10.0, 1: 11.0}}, metric="PSNR", unit="dB"
    )
    assert best_variant({}, metric="PSNR", unit="dB") == ""


def test_every_variant_that_may_be_the_best_is_named() -> None:
    values = {"a": {0: 10.0, 1: 9.0}, "b": {0: 9.9, 1: 9.05}, "c": {0: 9.5, 1: 9.0}, "far": {0: 1.0, 1: 0.1}}
    answer = best_variant(values, metric="PSNR", unit="dB")
    assert answer.startswith("Best: any of a, b, c, not distinguishable. a: PSNR 9.50 dB; difference from b: +0.02 dB")
    assert "far" not in answer
    many = best_variant({f"v{n}": {0: 1.0 + n, 1: 2.0 - n} for n in range(20)}, metric="PSNR", unit="dB")
    assert " and 8 more, not distinguishable" in many
    # the second is worse for sure; the third has other seeds, so nothing says whether it is the best
    apart = {"a": {0: 10.0, 1: 10.1}, "b": {0: 9.0, 1: 9.11}, "c": {7: 5.0}}
    answer = best_variant(apart, metric="PSNR", unit="dB")
    assert answer.startswith("Best of those compared: a, PSNR 10.05 dB; difference from the second, b: +1.0")
    assert answer.endswith("Not compared with a, for want of two common seeds: c.")
    answer = best_variant({**values, "once": {0: 0.3}}, metric="PSNR", unit="dB")
    assert answer.startswith("Best: any of a, b, c, not distinguishable. ")
    assert "Not compared with a, for want of two common seeds: once." in answer


def test_a_reference_is_compared_with_every_variant_before_it_is_called_better_than_all() -> None:
    losses = {"rope": {0: 2.10, 1: 2.11, 2: 2.10}, "alibi": {0: 1.70, 1: 2.85, 2: 1.80}}
    bigram = {"the bigram": {0: 2.00, 1: 2.01, 2: 2.00}}
    answer = best_variant(losses, metric="loss", unit="", higher=False, digits=3, references=bigram)
    assert "the bigram: 2.003, better than rope (difference" in answer


def test_a_mean_that_is_adjusted_for_missing_seeds_says_so() -> None:
    values = {"a": {0: 0.9, 1: 0.92, 2: 0.3}, "b": {0: 0.8, 1: 0.81, 2: 0.2}, "none": {0: 0.5, 1: 0.51}}
    answer = best_variant(values, metric="accuracy", unit="", digits=3)
    # none at seed 2, by its distance from a and b at seeds 0 and 1: 0.505 - 0.8575 + 0.25
    assert "Without an encoding: 0.302. Means are estimated as if all had the same seeds." in answer
    whole = {**values, "none": {0: 0.5, 1: 0.51, 2: 0.1}}
    assert "estimated" not in best_variant(whole, metric="accuracy", unit="", digits=3)


def test_references_take_part_under_their_name() -> None:
    losses = {"sinusoid": {0: 3.04, 1: 3.06}, "rope": {0: 3.2, 1: 3.2201}}
    answer = best_variant(
        losses, metric="loss", unit="nats", higher=False, digits=3, references={"the bigram": {0: 2.48, 1: 2.48}}
    )
    assert answer.startswith("Best: sinusoid, loss 3.050 nats; difference from the second, rope: −0.160 nats")
    assert "For reference, the bigram: 2.480 nats, better than every variant (difference −0.570 nats [" in answer
    worse = best_variant(losses, metric="loss", unit="", higher=False, references={"unigram": {0: 4.0, 1: 4.0}})
    assert "For reference, unigram: 4.00, worse than sinusoid (difference +0.95 [" in worse
    alone = best_variant({}, metric="loss", unit="nats", where="here", references={"the bigram": {0: 2.5}})
    assert alone == "No encoding has results here. For reference: the bigram, loss 2.50 nats."


def test_a_difference_of_accuracies_stays_within_its_range() -> None:
    answer = best_variant({"a": {0: 0.9, 1: 0.2}, "b": {0: 0.1, 1: 0.3}}, metric="accuracy", unit="", bounds=(0, 1))
    assert "[−1.00,\xa01.00] (2 seeds)" in answer


def test_a_variant_without_the_hard_seeds_is_not_the_best() -> None:
    """It had the higher mean, and was named with a difference that said that it is worse."""
    values = {"a": {0: 0.900, 1: 0.911, 2: 0.921}, "b": {0: 0.950, 1: 0.960, 2: 0.970, 3: 0.60, 4: 0.61}}
    answer = best_variant(values, metric="accuracy", unit="", digits=3)
    assert answer.startswith("Best: b, accuracy 0.818; difference from the second, a: +0.049")
    half = {label: {seed: value - 0.01 for seed, value in seeds.items()} for label, seeds in values.items()}
    scores = {label: BudgetScores(values[label], half[label]) for label in ("a", "b")}  # by their plain means
    variants = ComparedVariants(ComparedScore(metric="accuracy", name="accuracy"), scores, (), ScoreScale(chance=0.1))
    data = cast(PageData, SimpleNamespace(budget=lambda condition: ""))
    sentence = best_sentence(data, variants)
    assert "a is not shown to be better than b (worse in the seeds of both)" in sentence
    assert sentence.endswith("their means are estimated as if all had the same seeds.")
    scores["c"] = BudgetScores({9: 0.99}, {9: 0.9})
    sentence = best_sentence(data, ComparedVariants(variants.score, scores, (), variants.scale))
    assert sentence.endswith("so the means of all cannot be compared: run the same seeds.")


def test_two_seeds_that_differ_equally_decide_nothing() -> None:
    answer = best_variant({"a": {0: 0.5, 1: 0.5}, "b": {0: 0.4, 1: 0.4}}, metric="accuracy", unit="")
    assert answer.startswith("Best: inconclusive from seeds that all differ equally. Highest mean: a")
