"""Estimates over seeds against values worked out by hand and from printed tables of Student's t."""

import math

import pytest

from posenc.measure.statistics import mean, paired_difference, paired_p_value, sd, t_interval

pytestmark = pytest.mark.bare


def test_mean_and_sd_of_three_values():
    # (2, 4, 9): mean 5, squared deviations 9 + 1 + 16 = 26, 26 / 2 = 13.
    assert mean([2, 4, 9]) == 5
    assert sd([2, 4, 9]) == pytest.approx(math.sqrt(13))


def test_t_interval_of_three_values_uses_two_degrees_of_freedom():
    estimate = t_interval([1.0, 2.0, 3.0])
    # Printed tables: t(0.975, 2) = 4.3027; s = 1.
    assert estimate.high - estimate.mean == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    assert estimate.mean - estimate.low == pytest.approx(4.3027 / math.sqrt(3), abs=1e-4)
    assert (estimate.mean, estimate.sd, estimate.n) == (2.0, 1.0, 3)


def test_an_interval_is_cut_at_the_bounds_of_its_quantity():
    values = [0.9, 0.99, 0.96]  # mean 0.95, t(0.975, 2) = 4.3027: ± 0.1138
    free, share = t_interval(values), t_interval(values, bounds=(0, 1))
    assert free.high == pytest.approx(0.95 + 0.1138, abs=1e-4)
    assert (share.low, share.high, share.mean) == (free.low, 1.0, free.mean)
    assert t_interval([1.0, 1.0, 1.0], bounds=(0, 1)).high == 1.0
    assert math.isnan(t_interval([0.5], bounds=(0, 1)).high)


def test_a_paired_difference_is_cut_at_the_range_of_its_quantity():
    a, b = {0: 0.9, 1: 0.2}, {0: 0.1, 1: 0.3}
    assert paired_difference(a, b).high > 1
    cut = paired_difference(a, b, bounds=(0, 1))
    assert (cut.low, cut.high) == (-1, 1)
    assert paired_difference(a, b, bounds=(0, math.inf)) == paired_difference(a, b)


def test_a_bound_that_values_lie_beyond_is_ignored():
    percent = t_interval([90.0, 99.0, 96.0], bounds=(0, 1))
    assert percent == t_interval([90.0, 99.0, 96.0])
    rounded = t_interval([-1e-16, 0.3, 0.2], bounds=(0, 1))
    assert rounded.low == 0


def test_level_widens_the_interval():
    # Printed tables: t(0.95, 2) = 2.9200, t(0.995, 2) = 9.9248.
    narrow, wide = t_interval([1, 2, 3], level=0.90), t_interval([1, 2, 3], level=0.99)
    assert narrow.high - 2 == pytest.approx(2.9200 / math.sqrt(3), abs=1e-4)
    assert wide.high - 2 == pytest.approx(9.9248 / math.sqrt(3), abs=1e-4)


def test_single_seed_has_a_mean_and_no_interval():
    estimate = t_interval([0.7])
    assert estimate.mean == 0.7
    assert not estimate.known
    assert math.isnan(estimate.low)
    assert not estimate.above(0)
    assert not estimate.below(1)


def test_above_and_below_need_the_whole_interval():
    estimate = t_interval([1.0, 2.0, 3.0])  # [-0.48, 4.48]
    assert estimate.above(-0.5)
    assert not estimate.above(0)
    assert estimate.below(4.5)
    assert not estimate.below(4)


def test_pairing_removes_what_the_seed_shares():
    a = {0: 0.10, 1: 0.50, 2: 0.90}
    b = {seed: value - 0.05 + 0.01 * (seed - 1) for seed, value in a.items()}
    paired = paired_difference(a, b)
    # Differences 0.06, 0.05, 0.04: mean 0.05, SD 0.01.
    assert paired.mean == pytest.approx(0.05)
    assert paired.sd == pytest.approx(0.01)
    assert paired.above(0)
    assert not t_interval(list(a.values())).above(mean(list(b.values())))


def test_pairing_uses_only_the_shared_seeds():
    paired = paired_difference({0: 1.0, 1: 2.0, 7: 100.0}, {1: 1.5, 0: 0.0, 8: -100.0})
    assert paired.n == 2
    assert paired.mean == pytest.approx(0.75)


def test_paired_p_value_of_five_seeds():
    a, b = dict(enumerate([1.0, 2, 3, 4, 5])), dict.fromkeys(range(5), 0.0)
    # t = 3 / (1.5811 / √5) = 4.2426 with 4 degrees of freedom; the closed form of that cdf gives p = 0.01324.
    assert paired_p_value(a, b) == pytest.approx(0.01324, abs=1e-5)


def test_no_p_value_below_five_seeds():
    a, b = dict(enumerate([1.0, 2, 3, 4])), dict.fromkeys(range(4), 0.0)
    with pytest.raises(ValueError, match="at least 5 shared seeds"):
        paired_p_value(a, b)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean([]), "at least one value"),
        (lambda: t_interval([0.1, math.nan]), "finite"),
        (lambda: t_interval([0.1, 0.2], level=95), "between 0 and 1"),
        (lambda: paired_difference({0: 1.0}, {1: 1.0}), "same seeds"),
    ],
)
def test_bad_input_is_one_sentence_with_the_fix(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_two_equal_seeds_have_no_interval():
    """They gave one of width 0, from which claims and predictions were judged."""
    assert not t_interval([0.1, 0.1]).known
    assert not paired_difference({0: 0.3, 1: 0.1 + 0.2}, {0: 0.2, 1: 0.2}).known
    assert t_interval([0.1, 0.1, 0.1]).low == pytest.approx(0.1)


def test_rounding_errors_are_no_p_value():
    seeds = range(5)
    assert paired_p_value(dict.fromkeys(seeds, 0.1 + 0.2), dict.fromkeys(seeds, 0.3)) == 1.0
