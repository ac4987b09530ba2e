"""The logit by distance, where it is known."""

from __future__ import annotations

import math

import pytest

from posenc import SCPE, CausalNoPE, HashGrid, Learned, NoPE, RoPE, Sinusoid, SphericalHarmonics
from posenc.measure.distance_decay import logit_by_distance, logit_on_plane, plane_positions, reachable_distance


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


def test_angles_are_no_numbers_of_tokens() -> None:
    """A range of one turn either way, in radians: steps of whole radians would show 13 places of the globe."""
    scheme = SphericalHarmonics(2)
    rows = logit_by_distance(scheme, reachable_distance(scheme, 24))
    assert len(rows) == 49
    assert [row["distance"] for row in rows[24:27]] == pytest.approx([0, 6.2832 / 24, 6.2832 / 12])
    legendre = [(1 + 3 * c + 5 * (3 * c * c - 1) / 2) / 9 for c in (math.cos(row["distance"]) for row in rows)]
    assert [row["logit"] for row in rows] == pytest.approx(legendre)
    assert len(logit_on_plane(scheme, reachable_distance(scheme, 12))) == 25


def test_a_plane_is_places_around_the_middle() -> None:
    found = plane_positions(SCPE(28), 2)
    assert found.coords[0].tolist() == [0, 0]
    assert found.coords[-1].tolist() == [4, 4]
    assert plane_positions(HashGrid(2, 8), 1).coords[:, 1].tolist() == pytest.approx([0, 0.5, 1] * 3)


def test_a_table_too_short_says_so() -> None:
    with pytest.raises(ValueError, match="position 8 was asked for"):
        logit_by_distance(Learned(4, max_len=8), 4)


def test_a_head_and_a_distance_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="heads 0 to 0; got head=7"):
        logit_by_distance(RoPE(8), 4, head=7)
    for distances in (0, -1):
        with pytest.raises(ValueError, match=f"one step or more; got distances={distances}"):
            logit_by_distance(RoPE(8), distances)
