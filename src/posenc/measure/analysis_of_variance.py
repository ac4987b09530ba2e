"""One-way analysis of variance: the F-test for equal means of several groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ROUNDING = 1e-24
"""Share of the sum of squares that is a rounding error."""


class FTest(NamedTuple):
    """Result of an F-test.

    Attributes:
        f: variance between groups divided by variance within groups.
        p: probability of an F at least as large if all means are equal.
        between: degrees of freedom between groups.
        within: degrees of freedom within groups.
    """

    f: float
    p: float
    between: int
    within: int


def f_test(groups: Mapping[str, Sequence[float]]) -> FTest:
    """Run the F-test of a one-way analysis of variance for k groups with n values in total.

        F = [sum_g n_g (m_g - m)^2 / (k - 1)] / [sum_gi (x_gi - m_g)^2 / (n - k)]

    A large p-value does not show that means are equal, least of all with few values. For that use
    ``inference.equivalence``.

    Args:
        groups: name -> values of the group.

    Returns:
        F, its p-value and its degrees of freedom. F and p are nan if no value differs from its group's mean.

    Raises:
        ValueError: fewer than two groups, a group without values, as many groups as values, or a value that is not
            finite.
    """
    sizes = {name: len(values) for name, values in groups.items()}
    n, k = sum(sizes.values()), len(groups)
    if k < 2 or min(sizes.values()) < 1 or n <= k:
        raise ValueError(
            f"an F-test compares two groups or more of two values or more; got {sizes}. Run more seeds, or leave the "
            "empty groups out."
        )
    if not all(math.isfinite(value) for values in groups.values() for value in values):
        raise ValueError("an F-test needs finite values. Leave diverged seeds out, and report that you did.")
    means = {name: math.fsum(values) / len(values) for name, values in groups.items()}
    mean = math.fsum(math.fsum(values) for values in groups.values()) / n
    between = math.fsum(sizes[name] * (means[name] - mean) ** 2 for name in groups) / (k - 1)
    within = math.fsum((value - means[name]) ** 2 for name, values in groups.items() for value in values) / (n - k)
    if within * (n - k) <= ROUNDING * math.fsum(value**2 for values in groups.values() for value in values):
        return FTest(math.nan, math.nan, k - 1, n - k)
    from scipy.stats import f as distribution

    return FTest(between / within, float(distribution.sf(between / within, k - 1, n - k)), k - 1, n - k)
