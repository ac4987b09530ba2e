"""Loss by context: which tokens are told from how many, counted by a stand-in for a model."""

import pytest
import torch

from posenc.measure.loss_by_context import loss_by_context, mean_over_octave


def test_a_context_is_the_number_of_tokens_before() -> None:
    part = torch.arange(60, dtype=torch.int32)
    found = loss_by_context(lambda tokens: (tokens[:, 1:] - tokens[:, :1]).float(), part, reach=16, stride=4)
    assert found.tolist() == list(range(1, 17))  # each token told minus the first of its window is its context


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_each_token_is_told_once_in_every_stride_of_contexts(stride: int) -> None:
    told: list[tuple[int, int]] = []

    def losses(tokens: torch.Tensor) -> torch.Tensor:
        start = int(tokens[0, 0])
        told.extend((token, token - start) for token in tokens[0, 1:].tolist() if token > 16)
        return (tokens[:, 1:] > 16).float()

    found = loss_by_context(losses, torch.arange(60, dtype=torch.int32), reach=16, stride=stride)
    assert found.tolist() == [1.0] * 16, "a token before the first that all contexts tell was counted"
    tokens = range(17, 17 + (60 - 17) // stride * stride)
    for first in range(1, 17, stride):
        contexts = range(first, first + stride)
        assert sorted(token for token, context in told if context in contexts) == list(tokens)


def test_an_octave_is_from_more_than_half_up_to_all() -> None:
    by = torch.arange(1, 17, dtype=torch.float64)
    assert mean_over_octave(by, 16) == pytest.approx(sum(range(9, 17)) / 8)
    assert mean_over_octave(by, 1) == 1


@pytest.mark.parametrize(
    ("reach", "stride", "sentence"), [(16, 5, "divides the reach"), (56, 4, "at least 61; got 60")]
)
def test_what_does_not_fit_is_said_in_a_sentence(reach: int, stride: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        loss_by_context(lambda tokens: tokens[:, 1:].float(), torch.arange(60).int(), reach=reach, stride=stride)


@pytest.mark.parametrize("longest", [0, 9, 100])
def test_an_octave_lies_within_the_measured_contexts(longest: int) -> None:
    assert mean_over_octave(torch.arange(8.0).double(), 8) == 5.5
    with pytest.raises(ValueError, match="contexts of 1 to 8 tokens"):
        mean_over_octave(torch.arange(8.0).double(), longest)


@pytest.mark.parametrize("reach", [0, -2])
def test_a_reach_is_a_token_or_more(reach: int) -> None:
    with pytest.raises(ValueError, match="both from 1"):
        loss_by_context(
            lambda windows: windows[:, 1:].float(), torch.arange(20, dtype=torch.int32), reach=reach, stride=1
        )
