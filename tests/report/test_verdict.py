"""The verdict follows the numbers: changed numbers change the sentences, and a broken expectation is said."""

import math

from posenc.report.verdict import judge


def rows_of(**scores):
    """scheme=(score of seed 0, of seed 1, ...); underscores stand for hyphens."""
    return [
        {"scheme": name.replace("_", "-"), "seed": seed, "metric": "score", "setting": "main", "value": value}
        for name, seeds in scores.items()
        for seed, value in enumerate(seeds)
    ]


def judged(rows, expected=(), bar=0.43):
    return judge(rows, metric="score", bar=bar, bar_name="a rule without positions", expected=expected)


def group(verdict, word):
    return [name for finding in verdict.schemes if finding.word == word for name, _ in finding.entries]


def test_schemes_are_sorted_into_groups_by_their_whole_interval():
    verdict = judged(rows_of(good=(0.88, 0.86, 0.87), torn=(0.30, 0.60, 0.45), bad=(0.33, 0.34, 0.33)))
    assert group(verdict, "Generalise") == ["good"]
    assert group(verdict, "Cannot be told") == ["torn"]
    assert group(verdict, "Do not generalise") == ["bad"]
    assert verdict.headline.startswith("1 of 3 encodings generalises; for 1 it cannot be told.")


def test_the_same_scheme_changes_group_with_the_bar():
    rows = rows_of(good=(0.88, 0.86, 0.87))
    assert group(judged(rows), "Generalise") == ["good"]
    assert group(judged(rows, bar=0.95), "Do not generalise") == ["good"]


def test_a_high_mean_with_a_wide_interval_does_not_generalise_for_sure():
    assert group(judged(rows_of(lucky=(0.95, 0.40, 0.70))), "Cannot be told") == ["lucky"]


def test_expected_difference_is_shown_then_reversed_when_the_numbers_are():
    high, low = (0.88, 0.86, 0.87), (0.48, 0.50, 0.49)
    shown = judged(rows_of(a=high, b=low), [("a", "b")])
    assert shown.differences[0].word == "Shown"
    assert "a is ahead of b by +0.38" in shown.differences[0].text
    assert shown.expectations == "Every expected difference shows (1 of 1)."
    turned = judged(rows_of(a=low, b=high), [("a", "b")])
    assert turned.differences[0].word == "Reversed"
    assert "expected order does not hold" in turned.differences[0].text
    assert turned.expectations == "0 of 1 expected difference show; 1 came out the other way round."
    assert turned.headline.split(". ")[1].startswith("b has the highest mean")


def test_a_small_difference_cannot_be_told_and_says_which_way_it_leans():
    verdict = judged(rows_of(a=(0.80, 0.70, 0.75), b=(0.74, 0.78, 0.76)), [("a", "b"), ("b", "a")])
    against, along = verdict.differences
    assert against.word == along.word == "Cannot be told"
    assert "leans against the expectation" in against.text
    assert "leans" not in along.text


def test_the_leader_is_not_called_ahead_of_what_it_cannot_be_told_from():
    near = judged(rows_of(a=(0.80, 0.70, 0.75), b=(0.74, 0.78, 0.70), c=(0.33, 0.34, 0.33))).headline
    assert "cannot be told from b." in near
    apart = judged(rows_of(a=(0.90, 0.91, 0.92), b=(0.74, 0.75, 0.76), c=(0.33, 0.34, 0.33))).headline
    assert "ahead of each of the 2 others" in apart
    assert "cannot be told" not in apart


def test_no_p_value_with_few_seeds_and_one_with_five():
    few = judged(rows_of(a=(0.88, 0.86, 0.87, 0.9), b=(0.48, 0.50, 0.49, 0.5)), [("a", "b")])
    assert not any("p =" in line or "p <" in line for line in few.sentences)
    many = judged(rows_of(a=(0.88, 0.86, 0.87, 0.9, 0.85), b=(0.48, 0.50, 0.49, 0.5, 0.49)), [("a", "b")])
    assert "paired t-test, p < 0.001, 5 seeds" in many.differences[0].text


def test_one_seed_gives_no_verdict():
    verdict = judged(rows_of(a=(0.9,), b=(0.4,)), [("a", "b")])
    assert group(verdict, "One seed only") == ["a", "b"]
    assert verdict.differences[0].word == "Cannot be told"
    assert verdict.headline.startswith("None of 2 encodings generalises; for 2 it cannot be told.")


def test_unmeasured_pairs_and_diverged_seeds_are_named():
    verdict = judged(rows_of(a=(0.9, 0.88, math.nan)), [("a", "b")])
    assert verdict.differences[0].word == "Not measured"
    assert "b has no finished seed" in verdict.differences[0].text
    assert any("a seed 2" in line for line in verdict.limits)


def test_nothing_finished_says_so():
    assert "no unit has finished" in judged([], [("a", "b")]).headline


def test_every_verdict_states_what_the_intervals_cover():
    verdict = judged(rows_of(a=(0.9, 0.8, 0.85), b=(0.4, 0.5)))
    assert "2 to 3 seeds per encoding" in verdict.limits[0]
    assert "not other data, sizes or training recipes" in verdict.limits[0]
