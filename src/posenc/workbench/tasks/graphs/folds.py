"""Five folds of labeled items: the test part of seed s is fold s modulo 5, so that five seeds test every item once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.tasks.class_split import Parts, split_by_class

FOLDS = 5
VALIDATION_SHARE = 0.15
"""Share of the items of a class outside the test part that chooses the step of the training."""


def fold_parts(labels: NDArray[np.int64], seed: int) -> Parts:
    """Divide items into the parts of a seed.

    Args:
        labels: Class number ``(M,)`` of each item; all 0 without classes. Each class has a fifth of its items in each
            fold, as nearly as possible.
        seed: Seed of the run. Seeds 0 to 4 have the five folds of one order, seeds 5 to 9 those of another one.

    Returns:
        The parts.
    """
    again, fold = divmod(seed, FOLDS)
    draw = np.random.Generator(np.random.Philox(key=again))
    shuffled = draw.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    of_item = np.empty(len(labels), np.int64)
    of_item[order] = np.arange(len(labels)) % FOLDS
    rest = np.flatnonzero(of_item != fold)
    parts = split_by_class(labels[rest], test=0.0, validation=VALIDATION_SHARE, seed=seed)
    return Parts(rest[parts.train], rest[parts.validation], np.flatnonzero(of_item == fold))
