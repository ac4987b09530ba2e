"""Whether what was chosen beforehand is the best of a sweep."""

import pytest

from posenc.studies.beforehand import standing

CLEAR = {1.0: {0: 20.0, 1: 20.1, 2: 19.9}, 2.0: {0: 21.0, 1: 21.1, 2: 20.9}, 4.0: {0: 20.9, 1: 21.4, 2: 20.8}}


@pytest.mark.parametrize(
    ("chosen", "higher", "told"),
    [
        (4.0, True, ", the best of this sweep too"),
        (1.0, False, ", the best of this sweep too"),
        (1.0, True, ", not the best of this sweep: 4 is"),
        (2.0, True, ", not told apart from 4, which has the best mean of this sweep"),
        (2.0, False, ", not the best of this sweep: 1 is"),
        (8.0, True, ""),
    ],
)
def test_a_choice_is_judged_by_the_seeds_of_a_sweep(chosen: float, higher: bool, told: str) -> None:
    assert standing(CLEAR, chosen, higher=higher) == told


def test_one_seed_tells_nothing_apart() -> None:
    assert standing({1.0: {0: 1.0}, 2.0: {0: 2.0}}, 1.0, higher=True).startswith(", not told apart from 2")
    assert standing({1.0: {0: 1.0}, 2.0: {1: 2.0}}, 1.0, higher=True).startswith(", not told apart from 2")
    assert standing({}, 1.0, higher=True) == ""
