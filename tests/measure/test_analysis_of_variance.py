"""The F-test against scipy's and by hand, and what it refuses."""

import math

import pytest

from posenc.measure.analysis_of_variance import f_test


def test_f_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    groups = {"a": [1.0, 2.0, 4.0], "b": [2.5, 3.5], "c": [0.0, 1.0, 1.5, 1.0]}
    found, wanted = f_test(groups), stats.f_oneway(*groups.values())
    assert found.f == pytest.approx(wanted.statistic, rel=1e-12)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-12)
    assert (found.between, found.within) == (2, 6)


def test_f_by_hand_and_without_spread():
    assert f_test({"a": [0.0, 2.0], "b": [2.0, 4.0]}).f == pytest.approx(2.0)  # 4 / 1 over (2 + 2) / 2
    assert math.isnan(f_test({"a": [1.0, 1.0], "b": [2.0, 2.0]}).f)


@pytest.mark.parametrize("groups", [{"a": [1.0, 2.0]}, {"a": [1.0], "b": [2.0]}, {"a": [1.0, 2.0], "b": []}])
def test_too_few_values_are_refused(groups):
    with pytest.raises(ValueError, match="compares two groups or more of two values or more; got"):
        f_test(groups)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="Leave diverged seeds out"):
        f_test({"a": [1.0, math.nan], "b": [2.0, 1.0]})


def test_rounding_errors_are_no_spread():
    """0.844 six times and eleven times gave F = 15, p = 0.0015."""
    assert math.isnan(f_test({"a": [0.844] * 6, "b": [0.844] * 11}).p)
