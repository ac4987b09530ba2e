"""Train, validation and test parts of labeled items: drawn by a seed, class by class.

The number of items of a class in each part depends on the size of the class alone, so every seed has parts of the same
sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Parts(NamedTuple):
    """Item numbers of each part, sorted."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def split_by_class(labels: np.ndarray, *, test: float, validation: float, seed: int) -> Parts:
    """Draw the parts of labeled items at random, class by class.

    Each class keeps one item for training. Of two items the second is for testing, of three the third is for
    validation: a small class has a share that is larger than asked for.

    Args:
        labels: Class numbers ``(N,)``.
        test: Share of each class for testing; 0 for none.
        validation: Share of each class for validation; 0 for none.
        seed: Seed of the draw.

    Returns:
        The parts.

    Raises:
        ValueError: The shares leave nothing for training.
    """
    if min(test, validation) < 0 or test + validation >= 0.9:
        raise ValueError(f"shares for testing and validation add up to less than 0.9; got {test:g} and {validation:g}.")
    rng = np.random.Generator(np.random.Philox(key=seed))
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for number in np.unique(labels):
        items = rng.permutation(np.flatnonzero(labels == number))
        tested = _count(test, len(items), most=len(items) - 1)
        validated = _count(validation, len(items), most=len(items) - 1 - tested)
        cuts = len(items) - tested - validated, len(items) - tested
        for part, some in zip(parts, np.split(items, cuts), strict=True):
            part.append(some)
    return Parts(*(np.sort(np.concatenate(part)) for part in parts))


def _count(share: float, items: int, most: int) -> int:
    """Number of items of a share, at least one if it fits."""
    return min(max(1, round(share * items)), most) if share else 0
