"""Parts of labeled items: drawn by a seed, with every class in each part where it is large enough."""

import numpy as np
import pytest

from posenc.workbench.tasks.class_split import split_by_class


def counts(sizes: list[int], test: float, validation: float, seed: int = 0) -> list[list[int]]:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts = split_by_class(labels, test=test, validation=validation, seed=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels))), "each item is in one part"
    return [np.bincount(labels[part], minlength=len(sizes)).tolist() for part in parts]


def test_each_class_is_divided_by_itself() -> None:
    assert counts([100, 20, 10], test=0.2, validation=0.1) == [[70, 14, 7], [10, 2, 1], [20, 4, 2]]


def test_a_class_of_three_has_one_item_in_each_part_and_one_of_one_is_for_training() -> None:
    train, validation, test = counts([3, 2, 1], test=0.2, validation=0.15)
    assert (train, validation, test) == ([1, 1, 1], [1, 0, 0], [1, 1, 0])


def test_without_a_test_share_a_class_of_two_has_one_for_validation() -> None:
    assert counts([10, 2, 1], test=0.0, validation=0.2) == [[8, 1, 1], [2, 1, 0], [0, 0, 0]]


def test_seeds_draw_other_items_and_as_many() -> None:
    labels = np.repeat(np.arange(3), 12)
    first, again, other = (split_by_class(labels, test=0.2, validation=0.15, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)
    assert [len(part) for part in first] == [len(part) for part in other]


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"add up to less than 0\.9; got 0\.5 and 0\.5"):
        split_by_class(np.zeros(4, int), test=0.5, validation=0.5, seed=0)
