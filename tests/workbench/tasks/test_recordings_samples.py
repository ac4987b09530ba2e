"""Recordings as samples: standardised frames, those that are drawn, and what masks hide."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench.tasks.recordings import Recordings, random_masks, standardized_frames

NUMBERS = np.random.default_rng(0).normal(size=(3, 4, 50)).astype(np.float32)


def made(**other) -> Recordings:
    return Recordings(**{"series": tuple(NUMBERS), "names": ("a", "b", "c"), **other})


def test_frames_are_standardised_within_each_recording(tmp_path: Path, monkeypatch) -> None:
    some = Recordings((3 * NUMBERS[0] + 7, NUMBERS[1, :, :30] * 1e-3), ("a", "b"))
    found = standardized_frames(some)
    assert found.values.shape == (80, 4)
    assert found.values.dtype == torch.float32
    assert found.recording.tolist() == [0] * 50 + [1] * 30
    for part, numbers in ((slice(0, 50), some.series[0]), (slice(50, 80), some.series[1])):
        numbers = numbers.astype(np.float64)
        expected = (numbers - numbers.mean(1, keepdims=True)) / numbers.std(1, keepdims=True)
        np.testing.assert_allclose(found.values[part].numpy().T, expected, atol=1e-5)
    monkeypatch.setattr("posenc.workbench.tasks.recordings.samples.CHUNK_VALUES", 60)  # in parts, on disk
    kept = standardized_frames(some, folder=tmp_path / "kept", limit=100)
    torch.testing.assert_close(kept.values, found.values)
    assert isinstance(standardized_frames(some, folder=tmp_path).values, torch.Tensor)
    monkeypatch.setattr("posenc.workbench.memory.free_memory", lambda: 100)
    with pytest.raises(ValueError, match=r"80 frames of 4 channels needs .* Name a folder"):
        standardized_frames(some)
    assert len(standardized_frames(some, folder=tmp_path / "kept", limit=100)) == 80


@pytest.mark.parametrize("level", [2.0, 0.1])  # the second has a mean that is not itself
def test_frames_of_a_channel_that_does_not_vary_are_refused(level) -> None:
    numbers = NUMBERS.astype(np.float64)
    numbers[1, 3] = level
    with pytest.raises(ValueError, match=r"'channel 4' has none in 'b'. Leave it out: drop=True"):
        standardized_frames(made(series=tuple(numbers)))


def test_frames_are_drawn_from_every_recording() -> None:
    found = standardized_frames(Recordings((NUMBERS[0], NUMBERS[1, :, :8]), ("a", "b")))
    at = found.sample(10, seed=0)
    assert torch.bincount(found.recording[at]).tolist() == [10, 8]
    assert at.tolist() == sorted(set(at.tolist()))
    assert found.sample(10, seed=1).tolist() != at.tolist() == found.sample(10, seed=0).tolist()
    with pytest.raises(ValueError, match=r"each=0"):
        found.sample(0, seed=0)


@pytest.mark.parametrize("rate", [0.15, 0.5, 0.75, 0.9])
def test_masks_hide_an_exact_share_of_every_sample_and_each_channel_alike(rate) -> None:
    found = random_masks(2000, 24, rate, seed=0)
    hidden = round(rate * 24)
    assert found.sum(1).unique().tolist() == [hidden]
    spread = math.sqrt(rate * (1 - rate) / 2000)
    assert float((found.double().mean(0) - hidden / 24).abs().max()) < 5 * spread
    assert not torch.equal(random_masks(2000, 24, rate, seed=1), found)
    assert torch.equal(random_masks(2000, 24, rate, seed=0), found)


def test_a_mask_that_hides_none_or_all_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate=0.01 hides 0"):
        random_masks(3, 24, 0.01, seed=0)
    with pytest.raises(ValueError, match=r"rate=0.99 hides 24"):
        random_masks(3, 24, 0.99, seed=0)
