"""Intervals, tests and correlations against other libraries, printed values and hand examples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from posenc.measure import inference
from posenc.measure.statistics import paired_difference, t_interval

SIGMAS = [0.1 * i for i in range(1, 21)]
ACCURACIES = [
    *(0.925, 0.956, 0.946, 0.929, 0.946, 0.929, 0.926, 0.916, 0.896, 0.894),
    *(0.835, 0.756, 0.702, 0.654, 0.616, 0.582, 0.480, 0.378, 0.406, 0.377),
]
"""arXiv 2406.08272, table A2, sigma = .1 .. 2."""


def answers(seeds: int, puzzles: int, *, of_seed: float, of_puzzle: float, draw: int = 0) -> dict[int, np.ndarray]:
    """0/1 answers whose chance of being right varies by seed and by puzzle."""
    generator = np.random.default_rng(draw)
    chance = 0.6 + of_seed * generator.standard_normal((seeds, 1)) + of_puzzle * generator.standard_normal(puzzles)
    return dict(enumerate((generator.random((seeds, puzzles)) < chance).astype(float)))


# accuracy ----------------------------------------------------------------------------------------------------------


def test_nine_seeds_take_student_s_t_and_ten_the_bootstrap() -> None:
    right = answers(10, 50, of_seed=0.1, of_puzzle=0.2)
    nine = {seed: right[seed] for seed in range(9)}
    assert inference.accuracy_interval(nine) == t_interval([row.mean() for row in nine.values()])
    assert inference.accuracy_interval(right) == inference.hierarchical_bootstrap(right)
    assert inference.accuracy_interval(right) != t_interval([row.mean() for row in right.values()])


def test_one_seed_has_an_accuracy_and_no_interval() -> None:
    found = inference.accuracy_interval({3: np.array([1, 1, 0, 1])})
    assert (found.mean, found.n, found.known) == (0.75, 1, False)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_bootstrap_finds_the_spread_that_crossed_effects_have(level) -> None:
    # value = 0.3 a_s + 0.2 b_i exactly: resampling rows and columns gives Var = var_a / S + var_b / N, nearly normal
    generator = np.random.default_rng(1)
    a, b = 0.3 * generator.standard_normal(40), 0.2 * generator.standard_normal(60)
    right = {seed: value + b for seed, value in enumerate(a)}
    found = inference.hierarchical_bootstrap(right, level=level)
    spread = math.sqrt(a.var() / len(a) + b.var() / len(b))
    reach = stats.norm.ppf((1 + level) / 2) * spread
    assert found.mean == pytest.approx(a.mean() + b.mean())
    assert found.sd == pytest.approx(a.std(ddof=1))
    assert (found.high - found.low) / 2 == pytest.approx(reach, rel=0.06)
    assert (found.high + found.low) / 2 == pytest.approx(found.mean, abs=0.1 * spread)


def test_puzzles_are_resampled_for_all_seeds_together() -> None:
    # every seed the same: were puzzles drawn anew for each seed, the spread would be sqrt(40) times smaller
    row = np.arange(100) % 2 == 0
    found = inference.hierarchical_bootstrap(dict.fromkeys(range(40), row.astype(float)))
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.5 / 10, rel=0.08)
    assert found.sd == 0


def test_a_paired_difference_is_of_the_same_seeds_and_puzzles() -> None:
    a = answers(12, 200, of_seed=0.2, of_puzzle=0.3)
    b = {seed: row.copy() for seed, row in a.items()}
    for row in b.values():
        row[:20] = 1 - row[:20]
    found = inference.hierarchical_bootstrap(a, against=b)
    alone = inference.hierarchical_bootstrap(a)
    expected = np.mean([row[:20].sum() - (1 - row[:20]).sum() for row in a.values()]) / 200
    assert found.mean == pytest.approx(expected)
    assert found.high - found.low < 0.6 * (alone.high - alone.low)
    same = inference.hierarchical_bootstrap(a, against=a)
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_a_paired_difference_takes_the_seeds_that_both_have() -> None:
    a = {0: np.array([1.0, 0]), 1: np.array([1.0, 1]), 5: np.array([0.0, 0])}
    b = {1: np.array([0.0, 1]), 0: np.array([0.0, 0]), 6: np.array([1.0, 1])}
    found = inference.hierarchical_bootstrap(a, against=b)
    assert (found.n, found.mean) == (2, 0.5)


def test_a_bootstrap_is_repeatable_and_its_seed_matters() -> None:
    right = answers(10, 50, of_seed=0.1, of_puzzle=0.2)
    assert inference.hierarchical_bootstrap(right) == inference.hierarchical_bootstrap(right)
    assert inference.hierarchical_bootstrap(right, seed=1) != inference.hierarchical_bootstrap(right)
    assert inference.accuracy_interval(right, seed=1) == inference.hierarchical_bootstrap(right, seed=1)


def test_the_bootstrap_covers_other_seeds_and_other_puzzles() -> None:
    hits = 0
    for draw in range(100):
        generator = np.random.default_rng(draw)
        table = 0.3 * generator.standard_normal((12, 1)) + 0.5 * generator.standard_normal(80)
        table = table + generator.standard_normal((12, 80))
        found = inference.hierarchical_bootstrap(dict(enumerate(table)), draws=300)
        hits += found.low <= 0 <= found.high
    assert 86 <= hits <= 100  # 95 expected, sd 2.2; a t-interval over these seeds alone covers fewer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inference.accuracy_interval({}), "at least one seed"),
        (lambda: inference.accuracy_interval({0: np.array([0.5, 1])}), r"right \(1\) or wrong \(0\)"),
        (lambda: inference.accuracy_interval({0: np.ones(3), 1: np.ones(4)}), r"shapes \(3,\) and \(4,\)"),
        (lambda: inference.accuracy_interval({0: np.ones((2, 2))}), r"shapes \(2, 2\)"),
        (lambda: inference.accuracy_interval({0: np.ones(0)}), r"shapes \(0,\)"),
        (lambda: inference.hierarchical_bootstrap({0: np.array([math.nan])}), "finite"),
        (lambda: inference.hierarchical_bootstrap({0: np.ones(3)}, draws=9), "draws=9"),
        (lambda: inference.hierarchical_bootstrap({0: np.ones(3)}, level=95), "between 0 and 1"),
        (lambda: inference.hierarchical_bootstrap({0: np.ones(3)}, against={1: np.ones(3)}), "same seeds"),
        (
            lambda: inference.hierarchical_bootstrap({0: np.ones(3)}, against={0: np.ones(4)}),
            "same puzzles; got 3 and 4",
        ),
    ],
)
def test_unusable_answers_are_refused_in_a_sentence(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# many tests, equivalence -------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    # sorted .005 .01 .03 .04: times 4, 3, 2, 1 is .02 .03 .06 .04, then never falling: .02 .03 .06 .06
    found = inference.holm({"c": 0.03, "a": 0.01, "d": 0.04, "b": 0.005})
    assert list(found) == ["c", "a", "d", "b"]
    assert found == pytest.approx({"b": 0.02, "a": 0.03, "c": 0.06, "d": 0.06})
    assert inference.holm({"only": 0.04}) == pytest.approx({"only": 0.04})
    assert inference.holm({"a": 0.6, "b": 0.7}) == pytest.approx({"a": 1, "b": 1})
    assert inference.holm({}) == {}


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_holm_refuses_what_is_no_probability(bad) -> None:
    with pytest.raises(ValueError, match="broken has"):
        inference.holm({"fine": 0.5, "broken": bad})


A = dict(enumerate([0.91, 0.88, 0.95, 0.90, 0.93, 0.89]))
B = dict(enumerate([0.90, 0.89, 0.93, 0.91, 0.93, 0.87]))


@pytest.mark.parametrize("margin", [0.005, 0.016, 0.017, 0.05])
def test_equivalence_is_two_one_sided_paired_tests(margin) -> None:
    found = inference.equivalence(A, B, margin)
    ours, theirs = np.array(list(A.values())), np.array(list(B.values()))
    above = stats.ttest_rel(ours, theirs - margin, alternative="greater").pvalue
    below = stats.ttest_rel(ours, theirs + margin, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below))
    assert found.shown == (found.p < 0.05)
    assert found.estimate == paired_difference(A, B, level=0.9)


def test_some_of_those_margins_are_shown_and_some_are_not() -> None:
    assert [inference.equivalence(A, B, margin).shown for margin in (0.005, 0.05)] == [False, True]


def test_alpha_sets_the_interval_of_an_equivalence() -> None:
    strict = inference.equivalence(A, B, 0.02, alpha=0.01)
    assert strict.estimate.level == pytest.approx(0.98)
    assert not strict.shown
    assert inference.equivalence(A, B, 0.02).shown
    assert inference.equivalence_interval(A, B, 0.01) == strict.estimate


def test_equal_differences_are_equivalent_or_not_without_a_spread() -> None:
    shifted = {seed: value - 0.25 for seed, value in dict.fromkeys(range(5), 0.75).items()}
    flat = dict.fromkeys(range(5), 0.75)
    assert [inference.equivalence(flat, shifted, m).p for m in (0.2, 0.3)] == [1, 0]
    assert [inference.equivalence(flat, shifted, m).shown for m in (0.2, 0.3)] == [False, True]


def test_few_seeds_have_an_interval_and_no_p() -> None:
    a, b = {0: 1.0, 1: 3.0, 2: 5.0}, {0: 0.0, 1: 1.0, 9: 0.0}
    found = inference.equivalence_interval(a, b)
    # differences 1, 2: mean 1.5, sd / sqrt(2) = 0.5; printed tables: t(0.95, 1) = 6.3138
    assert (found.n, found.high) == (2, pytest.approx(1.5 + 0.5 * 6.3138, abs=1e-4))
    with pytest.raises(ValueError, match="at least 5 shared seeds to mean much; got 2"):
        inference.equivalence(a, b, 0.1)
    with pytest.raises(ValueError, match="margin above 0"):
        inference.equivalence(A, B, 0.0)
    with pytest.raises(ValueError, match=r"alpha=0\.5"):
        inference.equivalence_interval(A, B, 0.5)


# rank correlation --------------------------------------------------------------------------------------------------


def test_the_interval_is_bonett_and_wright_s() -> None:
    # the example of ci.spear in Bonett's R package statpsych, with its printed result
    y = [21, 4, 9, 12, 35, 18, 10, 22, 24, 1, 6, 8, 13, 16, 19]
    x = [67, 28, 30, 28, 52, 40, 25, 37, 44, 10, 14, 20, 28, 40, 51]
    found = inference.spearman(x, y)
    assert (found.rho, found.low, found.high) == pytest.approx((0.8699639, 0.5840951, 0.9638297), abs=1e-7)
    assert (found.n, found.p) == (15, pytest.approx(stats.spearmanr(x, y).pvalue))


def test_accuracy_falls_with_sigma_in_the_published_table() -> None:
    found = inference.spearman(SIGMAS, ACCURACIES)
    assert found.rho == pytest.approx(-0.963, abs=5e-4)  # ties: .946, .929
    assert found.rho == pytest.approx(stats.spearmanr(SIGMAS, ACCURACIES).statistic)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]),
        ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]),
        ([1, 2, 2, 4, 5], [1, 3, 2, 2, 9]),
        ([1, 2, 3, 4], [2, 1, 4, 3]),
    ],
)
def test_few_points_are_tested_over_all_their_orders(x, y) -> None:
    def rho(order) -> float:
        return float(stats.spearmanr(x, order).statistic)

    drawn = np.array([rho(order) for order in itertools.permutations(y)])
    here = rho(y)
    tails = [(drawn >= here - 1e-12).mean(), (drawn <= here + 1e-12).mean()]
    assert inference.spearman(x, y).p == pytest.approx(min(1, 2 * min(tails)))


def test_a_perfect_correlation_of_few_points_is_not_taken_for_certain() -> None:
    four = inference.spearman([1, 2, 3, 4], [10, 20, 30, 40])
    # the nearest rho below 1 is .8; atanh .8 = 1.0986, half = 1.95996 sqrt(1.32 / 1) = 2.2518
    assert (four.rho, four.high) == (1, 1)
    assert four.low == pytest.approx(math.tanh(1.09861 - 2.25184), abs=1e-4)
    assert four.p == pytest.approx(2 / 24)
    down = inference.spearman([1, 2, 3, 4], [4, 3, 2, 1])
    assert (down.rho, down.low, down.high) == (-1, -1, pytest.approx(-four.low))
    nine = inference.spearman(range(9), range(9))
    assert nine.p == pytest.approx(2 / math.factorial(9))


@pytest.mark.parametrize("n", [2, 3])
def test_up_to_three_points_have_no_interval(n) -> None:
    found = inference.spearman(list(range(n)), list(range(n)))
    assert (found.rho, found.n) == (1, n)
    assert found.p == pytest.approx(2 / math.factorial(n))
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_a_side_without_variation_has_no_correlation() -> None:
    for found in (
        inference.spearman([1, 1, 1, 1, 1], [1, 2, 3, 4, 5]),
        inference.spearman([0.1] * 12, list(range(12))),
        inference.partial_spearman([1, 2, 3, 4, 5], [0.3] * 5, [2, 1, 4, 3, 5]),
        inference.partial_spearman([1, 2, 3, 4, 5], [2, 1, 4, 5, 3], [10, 20, 30, 40, 50]),
        inference.partial_spearman([1, 2, 3, 4, 5], [2, 1, 4, 5, 3], [4, 2, 1, 0, -3]),
    ):
        assert all(math.isnan(value) for value in (found.rho, found.p, found.low, found.high))


def test_a_partial_correlation_is_the_formula_s() -> None:
    generator = np.random.default_rng(0)
    given = generator.standard_normal(15)
    x, y = given + generator.standard_normal(15), given + generator.standard_normal(15)
    found = inference.partial_spearman(x.tolist(), y.tolist(), given.tolist())
    r_xy, r_xg, r_yg = (stats.spearmanr(*pair).statistic for pair in ((x, y), (x, given), (y, given)))
    rho = (r_xy - r_xg * r_yg) / math.sqrt((1 - r_xg**2) * (1 - r_yg**2))
    t = rho * math.sqrt(12 / (1 - rho**2))
    half = 1.959964 * math.sqrt((1 + rho**2 / 2) / 11)
    assert found.rho == pytest.approx(rho)
    assert abs(found.rho) < abs(r_xy) - 0.1
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), 12))
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half))
    )


def test_a_given_without_variation_takes_nothing_away() -> None:
    x, y = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]
    assert inference.partial_spearman(x, y, [7] * 6).rho == pytest.approx(inference.spearman(x, y).rho)


def test_partial_correlations_of_three_and_four_points_have_no_interval() -> None:
    four = inference.partial_spearman([1, 2, 3, 4], [2, 1, 4, 3], [1, 3, 2, 4])
    assert math.isfinite(four.rho)
    assert math.isfinite(four.p)
    assert math.isnan(four.low)
    assert math.isnan(inference.partial_spearman([1, 2, 3], [2, 1, 3], [1, 3, 2]).p)


def test_the_level_widens_a_correlation_s_interval() -> None:
    wide, narrow = (inference.spearman(SIGMAS, ACCURACIES, level) for level in (0.99, 0.8))
    assert wide.low < narrow.low < narrow.rho < narrow.high < wide.high


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inference.spearman([1, 2], [1, 2, 3]), "one length, at least 2; got 2, 3"),
        (lambda: inference.spearman([1], [1]), "got 1, 1"),
        (lambda: inference.partial_spearman([1, 2], [1, 2], [1, 2]), "at least 3"),
        (lambda: inference.spearman([1, math.nan], [1, 2]), "x has others"),
        (lambda: inference.spearman([1, 2], [1, 2], level=2), "between 0 and 1"),
    ],
)
def test_unusable_points_are_refused_in_a_sentence(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# published numbers -------------------------------------------------------------------------------------------------


def test_a_published_mean_is_met_within_two_standard_errors() -> None:
    found = inference.compare_with_published([0.90, 0.94, 0.98], 0.956, 0.039, 15)
    # mean .94: difference -.016; bound 2 * .039 * sqrt(1/3 + 1/15) = .04933
    assert found.difference == pytest.approx(-0.016)
    assert found.in_sd == pytest.approx(-0.016 / 0.039)
    assert found.bound == pytest.approx(0.049331, abs=1e-6)
    assert found.within
    # Welch by hand: s = .04, se^2 = .0016 / 3 + .001521 / 15
    a, b = 0.0016 / 3, 0.039**2 / 15
    freedom = (a + b) ** 2 / (a * a / 2 + b * b / 14)
    assert found.p == pytest.approx(2 * stats.t.sf(0.016 / math.sqrt(a + b), freedom))
    assert not inference.compare_with_published([0.80, 0.84, 0.88], 0.956, 0.039, 15).within


def test_a_test_by_their_spread_asks_nothing_of_ours() -> None:
    wide, narrow = (
        inference.compare_with_published(seeds, 0.9, 0.05, 15) for seeds in ([0.7, 0.8, 0.9], [0.79, 0.8, 0.81])
    )
    # t = -.1 / (.05 sqrt(1/3 + 1/15)) = -3.162 with 14 degrees of freedom: p = .0069
    assert wide.p_theirs == pytest.approx(narrow.p_theirs) == pytest.approx(0.0069, abs=1e-4)
    assert narrow.p < wide.p
    assert math.isnan(inference.compare_with_published([0.5], 0.4, 0.0, 15).p_theirs)
    assert math.isnan(inference.compare_with_published([0.5], 0.4, 0.1, 1).p_theirs)


def test_single_seeds_and_no_spread_do_not_crash() -> None:
    one = inference.compare_with_published([0.5], 0.4, 0.1, 15)
    assert one.in_sd == pytest.approx(1)
    assert one.bound == pytest.approx(0.2 * math.sqrt(16 / 15))
    assert one.within
    assert math.isnan(one.p)
    assert math.isnan(inference.compare_with_published([0.5, 0.6], 0.4, 0.1, 1).p)
    same = inference.compare_with_published([1.0, 1.0], 1.0, 0.0, 15)
    assert (same.difference, same.in_sd, same.bound, same.within, same.p) == (0, 0, 0, True, 1)
    apart = inference.compare_with_published([0.5, 0.5], 1.0, 0.0, 15)
    assert (apart.in_sd, apart.within, apart.p) == (-math.inf, False, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inference.compare_with_published([], 1.0, 0.1, 3), "at least one value"),
        (lambda: inference.compare_with_published([1.0], math.nan, 0.1, 3), "published result"),
        (lambda: inference.compare_with_published([1.0], 1.0, -0.1, 3), "published result"),
        (lambda: inference.compare_with_published([1.0], 1.0, 0.1, 0), "published result"),
    ],
)
def test_unusable_published_numbers_are_refused(call, message) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_perfect_partial_correlation_of_few_points_is_not_taken_for_certain() -> None:
    assert inference.partial_spearman([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [2, 5, 1, 3, 4]).p == pytest.approx(2 / 120)
