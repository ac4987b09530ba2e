"""The logit by distance, where it is known."""

from __future__ import annotations

import math

import pytest

from posenc import CausalNoPE, Learned, NoPE, RoPE, Sinusoid
from posenc.measure.decay import logit_by_distance


def test_nope_sees_no_distance() -> None:
    assert [row["logit"] for row in logit_by_distance(NoPE(), 3)] == pytest.approx([1.0] * 7)


@pytest.mark.parametrize("scheme", [RoPE(8), Sinusoid(8)])
def test_rotary_and_sinusoid_share_the_mean_of_cosines(scheme) -> None:
    theta = [10000 ** (-i / 4) for i in range(4)]
    for row in logit_by_distance(scheme, 5):
        assert row["logit"] == pytest.approx(sum(math.cos(row["distance"] * t) for t in theta) / 4, abs=1e-6)


def test_a_masked_pair_has_no_logit() -> None:
    found = {row["distance"]: row["logit"] for row in logit_by_distance(CausalNoPE(), 2)}
    assert found == {-2: pytest.approx(1), -1: pytest.approx(1), 0: pytest.approx(1), 1: None, 2: None}


def test_a_table_too_short_says_so() -> None:
    with pytest.raises(ValueError, match="position 8 was asked for"):
        logit_by_distance(Learned(4, max_len=8), 4)
