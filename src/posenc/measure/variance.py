"""Whether several groups have one mean: the F-test of a one-way analysis of variance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class FTest(NamedTuple):
    """f: variance between groups over that within. p: of so large a one if all means are equal. between, within: its
    degrees of freedom."""

    f: float
    p: float
    between: int
    within: int


def f_test(groups: Mapping[str, Sequence[float]]) -> FTest:
    """``F = [sum_g n_g (m_g - m)^2 / (k - 1)] / [sum_gi (x_gi - m_g)^2 / (n - k)]`` of k groups with n values in all.

    A large p does not show that means are equal, least of all with few values: ask ``inference.equivalence``. f and p
    are nan where no value differs from its group's mean. Raises ValueError for fewer than two groups, one without
    values, as many groups as values, and values that are not finite.
    """
    sizes = {name: len(values) for name, values in groups.items()}
    n, k = sum(sizes.values()), len(groups)
    if k < 2 or min(sizes.values()) < 1 or n <= k:
        raise ValueError(
            f"an F-test compares two groups or more of two values or more; got {sizes}. Run more seeds, or leave the "
            "empty groups out."
        )
    if not all(math.isfinite(value) for values in groups.values() for value in values):
        raise ValueError("an F-test is of finite values; leave diverged seeds out and say so beside it.")
    means = {name: math.fsum(values) / len(values) for name, values in groups.items()}
    mean = math.fsum(math.fsum(values) for values in groups.values()) / n
    among = math.fsum(sizes[name] * (means[name] - mean) ** 2 for name in groups) / (k - 1)
    inside = math.fsum((value - means[name]) ** 2 for name, values in groups.items() for value in values) / (n - k)
    if not inside:
        return FTest(math.nan, math.nan, k - 1, n - k)
    from scipy.stats import f as distribution

    return FTest(among / inside, float(distribution.sf(among / inside, k - 1, n - k)), k - 1, n - k)
