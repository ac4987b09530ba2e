"""Least-squares means of variants whose seeds differ, such as when one run failed or has not finished."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from posenc.measure.statistics import mean

Seed = TypeVar("Seed", bound=Hashable)


def connected_by_seeds(values: Mapping[str, Mapping[Seed, float]]) -> bool:
    """Check whether a chain of shared seeds connects all variants, so that their means can be compared.

    Args:
        values: Variant to seed to value.

    Returns:
        True for none or one variant, too.

    Example:
        >>> connected_by_seeds({"a": {0: 0.9}, "b": {0: 0.8, 1: 0.7}, "c": {1: 0.6}})
        True
        >>> connected_by_seeds({"a": {0: 0.9}, "b": {1: 0.8}})
        False
    """
    groups: list[set[Seed]] = []
    for seeds in values.values():
        apart = [group for group in groups if group.isdisjoint(seeds)]
        groups = [*apart, set(seeds).union(*(group for group in groups if not group.isdisjoint(seeds)))]
    return len(groups) <= 1


def least_squares_means(values: Mapping[str, Mapping[Seed, float]]) -> dict[str, float]:
    """Compute means of variants as if each had all seeds, by the additive model x_vs = m_v + e_s with Σ e_s = 0.

    Seeds differ, for example in the test items that they draw. The plain mean of a variant that lacks a hard seed is
    too high; its paired differences are not. With equal seeds these are the plain means.

    Args:
        values: Variant to seed to finite value, at least one for each variant.

    Returns:
        Variant to its mean, in the same order. Where no chain of shared seeds connects all variants, plain means.

    Raises:
        ValueError: A variant has no value, or one that is not finite.

    Example:
        >>> means = least_squares_means({"a": {0: 0.90, 1: 0.92}, "b": {0: 0.95, 1: 0.97, 2: 0.60}})
        >>> {variant: round(value, 3) for variant, value in means.items()}
        {'a': 0.79, 'b': 0.84}
    """
    plain = {variant: mean(list(seeds.values())) for variant, seeds in values.items()}
    numbers = {seed: number for number, seed in enumerate(dict.fromkeys(s for seeds in values.values() for s in seeds))}
    if all(len(seeds) == len(numbers) for seeds in values.values()) or not connected_by_seeds(values):
        return plain
    rows, targets = [], []
    for number, seeds in enumerate(values.values()):
        for seed, value in seeds.items():
            row = np.zeros(len(values) + len(numbers))
            row[[number, len(values) + numbers[seed]]] = 1
            rows.append(row)
            targets.append(value)
    rows.append(np.concatenate([np.zeros(len(values)), np.ones(len(numbers))]))
    targets.append(0.0)
    solution = np.linalg.lstsq(np.stack(rows), np.array(targets), rcond=None)[0]
    return dict(zip(values, solution[: len(values)].tolist(), strict=True))
