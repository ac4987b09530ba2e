"""Means over unequal seeds: equal to plain means for equal seeds, and to the truth of an additive model."""

import pytest

from posenc.measure.least_squares_means import connected_by_seeds, least_squares_means


def test_equal_seeds_give_plain_means() -> None:
    assert least_squares_means({"a": {0: 1.0, 1: 2.0}, "b": {1: 5.0, 0: 4.0}}) == {"a": 1.5, "b": 4.5}


def test_means_of_an_additive_model_do_not_depend_on_missing_seeds() -> None:
    """Seeds with effects -3, 0, 1, 2 on three variants, of which two seeds of one and one of another are missing."""
    effects, truth = (-3.0, 0.0, 1.0, 2.0), {"a": 0.9, "b": 1.4, "c": -2.0}
    whole = {name: {seed: mean + effect for seed, effect in enumerate(effects)} for name, mean in truth.items()}
    for missing in ({"a": [0, 3]}, {"b": [0], "c": [1, 2]}):
        part = {
            name: {s: x for s, x in seeds.items() if s not in missing.get(name, ())} for name, seeds in whole.items()
        }
        assert least_squares_means(part) == pytest.approx(truth)


def test_without_shared_seeds_the_means_are_plain() -> None:
    assert least_squares_means({"a": {0: 1.0}, "b": {1: 3.0, 2: 5.0}}) == {"a": 1.0, "b": 4.0}


def test_variants_are_connected_through_others() -> None:
    chain = {"a": {0: 1.0}, "b": {2: 1.0}, "c": {1: 1.0, 2: 1.0}, "d": {0: 1.0, 1: 1.0}}
    assert connected_by_seeds(chain)
    assert not connected_by_seeds({label: seeds for label, seeds in chain.items() if label != "d"})
    assert connected_by_seeds({})
