"""Sentences of an answer on own data that depend on numbers alone."""

from __future__ import annotations

import re

import pytest

from posenc.workbench.studies.shared import own_data_answer
from posenc.workbench.studies.shared.compared_score import ComparedScore


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (
            (0.2, 0.4),
            "accuracy of 0.200 or more for the pair .* least between seeds, and of 0.400 or more for the pair",
        ),
        (
            (0.2, 1.4),
            "of 0.200 or more for some pairs of variants, and not even the largest possible one for the others",
        ),
        ((1.2, 3.7), "would show no difference in accuracy, not even the largest possible one"),
    ],
)
def test_a_difference_larger_than_possible_is_not_said_to_be_seen(sizes, words) -> None:
    score = ComparedScore(metric="accuracy", name="accuracy")
    assert re.search(words, own_data_answer._smallest_seen(sizes, score))
