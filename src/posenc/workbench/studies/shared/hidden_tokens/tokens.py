"""Tokens of a study of hidden tokens: training and test samples, masks, and the known arrangement of the tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.workbench.tasks.recordings import Frames, baselines, random_masks

MASK_SEED = 2024
"""Seed of the test masks. Every variant, seed and baseline is tested with the same masks."""
MASKS = 100
"""Number of different test masks; the test samples use them in turn."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """Samples of tokens, with the positions, modules and neighbors of the tokens.

    Attributes:
        train: Training samples ``(S, N, F)``.
        test: Test samples ``(S', N, F)``.
        recording_of: ``(S',)`` number of the recording of each test sample.
        recordings: Names of the test recordings.
        channels: Names of the tokens.
        views: Positions of the tokens by the name of the view.
        modules: Module of each token, or None.
        neighbors: ``(N, N)`` True for tokens that are neighbors, or None.
        coordinates: ``(N, axes)`` true positions, or None.
        frames: The training samples as frames of recordings, where they come from recordings.
        rows: Rows of ``train`` and ``frames`` that are for training; None for all.
        validation: Validation samples ``(S'', N, F)``, where some choose the step of the training.
        tested: Numbers of the test recordings among all recordings, where they depend on a seed.
    """

    train: Tensor
    test: Tensor
    recording_of: Tensor
    recordings: tuple[str, ...]
    channels: tuple[str, ...]
    views: Mapping[str, Positions]
    modules: tuple[str, ...] | None = None
    neighbors: Tensor | None = None
    coordinates: Tensor | None = None
    frames: Frames | None = None
    rows: Tensor | None = None
    validation: Tensor | None = None
    tested: Tensor | None = None

    @property
    def count(self) -> int:
        """Number of tokens of a sample, N."""
        return self.train.shape[1]

    def draw_train(self, count: int, generator: torch.Generator) -> Tensor:
        """Numbers ``(count,)`` of random training samples."""
        if self.rows is None:
            return torch.randint(len(self.train), (count,), generator=generator)
        return self.rows[torch.randint(len(self.rows), (count,), generator=generator)]

    def test_masks(self, rate: float) -> Tensor:
        """Masks ``(S', N)`` of the test samples, True for hidden tokens. rate: share of hidden tokens."""
        return self.masks(len(self.test), rate)

    def masks(self, samples: int, rate: float) -> Tensor:
        """Masks ``(samples, N)`` of held-out samples, True for hidden tokens. rate: share of hidden tokens."""
        masks = random_masks(min(MASKS, samples), self.count, rate, seed=MASK_SEED)
        return masks[torch.arange(samples) % len(masks)]

    def mean_by_recording(self, errors: Tensor) -> np.ndarray:
        """Mean of the errors ``(S',)`` of the test samples of each recording."""
        count = len(self.recordings)
        total = torch.zeros(count, dtype=torch.float64).index_add_(0, self.recording_of, errors.double())
        return (total / torch.bincount(self.recording_of, minlength=count)).numpy()

    def baseline_errors(self, rate: float, penalty: float | None = None) -> dict[str, np.ndarray]:
        """Error of each baseline on each recording, under the test masks.

        A baseline treats each of the F values of a token as one channel and subtracts its mean over the training
        samples.
        """
        train, test = self.frames, self.test
        if train is not None and self.rows is not None:
            names, recording = train.recording[self.rows].unique(return_inverse=True)
            train = Frames(train.values[self.rows], recording, tuple(train.names[each] for each in names.tolist()))
        if train is None:
            mean = self.train.mean(0)
            single = torch.zeros(len(self.train), dtype=torch.long)
            train, test = Frames((self.train - mean).flatten(1), single, ("training",)), test - mean
        frames = Frames(test.flatten(1), self.recording_of, self.recordings)
        hidden = self.test_masks(rate).repeat_interleave(self.test.shape[2], 1)
        coordinates = None if self.coordinates is None or self.test.shape[2] > 1 else self.coordinates.numpy()
        return baselines(train, frames, hidden, penalty=penalty, coordinates=coordinates)


def draw_hidden(samples: int, tokens: int, rate: float, generator: torch.Generator) -> Tensor:
    """Draw the hidden tokens of training samples.

    Args:
        samples: Number of samples.
        tokens: Number of tokens of a sample.
        rate: Share of hidden tokens.
        generator: Random generator.

    Returns:
        Indices ``(samples, round(rate tokens))``.
    """
    return torch.rand(samples, tokens, generator=generator).topk(round(rate * tokens), sorted=False).indices


def hidden_indices(hidden: Tensor) -> Tensor:
    """Indices of the hidden tokens of masks.

    Args:
        hidden: Masks ``(S, N)``, each with M hidden tokens.

    Returns:
        Indices ``(S, M)``.
    """
    return hidden.nonzero()[:, 1].view(len(hidden), -1)
