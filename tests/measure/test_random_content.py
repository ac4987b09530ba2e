"""Logits and weights over random content, and logits at far positions."""

from __future__ import annotations

import math

import pytest
import torch

from posenc import ALiBi, CoPE, Learned, NoPE, RoPE, Shaw, Sinusoid, SlidingWindow
from posenc.measure.content_spread import mean_attention, spread_by_distance
from posenc.measure.distance_decay import logit_by_distance
from posenc.measure.far_positions import logit_at_far_distances, reads_far_positions, rounding_error


def test_without_an_encoding_no_content_matters() -> None:
    spread = spread_by_distance(NoPE(), 3)
    assert spread.distance.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    torch.testing.assert_close(spread.mean, torch.ones(7, dtype=torch.float64))
    assert float(spread.deviation.max()) == 0


def test_the_mean_over_contents_of_a_rotation_is_the_logit_of_equal_vectors() -> None:
    scheme = RoPE(64).double()
    equal = [row["logit"] for row in logit_by_distance(scheme, 8)]
    spread = spread_by_distance(scheme, 8, draws=2000)
    torch.testing.assert_close(spread.mean, torch.tensor(equal, dtype=torch.float64), rtol=0, atol=0.02)
    assert float(spread.deviation[8]) == pytest.approx(0, abs=1e-6)  # at distance 0 nothing rotates
    assert float(spread.deviation[0]) > 0.05
    rows = spread_by_distance(Sinusoid(64).double(), 8)
    assert float(rows.deviation.max()) < 1e-9  # rows do not depend on content


def test_masked_pairs_have_no_mean() -> None:
    spread = spread_by_distance(SlidingWindow(2), 3)
    assert spread.mean.isnan().tolist() == [True, True, False, False, True, True, True]


def test_weights_are_causal_and_fall_with_a_bias() -> None:
    weights = mean_attention(ALiBi(4), 9)
    torch.testing.assert_close(weights.sum(-1), torch.ones(9, dtype=torch.float64))
    assert float(weights.triu(1).abs().max()) == 0
    last = weights[-1]
    assert (last.diff() > 0).all()
    ratio = float(last[-1] / last[-2])
    assert ratio == pytest.approx(math.exp(0.25), rel=1e-6)  # the first of four slopes


def test_far_distances_are_those_of_near_ones() -> None:
    scheme = RoPE(8).double()
    near = {row["distance"]: row["logit"] for row in logit_by_distance(scheme, 6)}
    far = logit_at_far_distances(scheme, torch.tensor([1.0, 6.0]))
    assert far.tolist() == pytest.approx([near[1], near[6]])
    exact = sum(math.cos(1e6 * 10000 ** (-i / 4)) for i in range(4)) / 4
    assert logit_at_far_distances(scheme, torch.tensor([1e6])).tolist() == pytest.approx([exact], abs=1e-6)


def test_who_reads_far_positions() -> None:
    assert reads_far_positions(RoPE(8))
    assert reads_far_positions(ALiBi(4))
    assert not reads_far_positions(Learned(8, 16))
    assert not reads_far_positions(CoPE(8, 4))
    assert not reads_far_positions(Shaw(8, 4))  # its bias reads queries
    assert not reads_far_positions(SlidingWindow(4))


def test_rounding_errors_do_not_grow_with_the_position() -> None:
    scheme = RoPE(64).double()
    single, half = (rounding_error(scheme, [1, 2**20], dtype) for dtype in (torch.float32, torch.bfloat16))
    assert max(single) < 1e-6
    assert max(half) < 1e-2
    assert min(half) > 100 * max(single)
