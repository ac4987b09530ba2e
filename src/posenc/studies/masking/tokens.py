"""What a model of a masked study is shown: samples of tokens, some of them to be hidden, and what is known of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.tasks.recordings import Frames, baselines, masks

MASK_SEED = 2024
"""Of the masks that everything is tested with: the same for every row, seed and baseline."""
MASKS = 100
"""Masks that the samples of a test share in turn."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """train: samples ``(S, N, F)``. test: samples that nothing is learned from. whose: ``(S',)`` the number of the
    recording that each test sample is of. recordings, channels: their names. views: name -> where the tokens stand.
    modules: each channel's, or None. neighbours: ``(N, N)`` which truly are, or None. places: ``(N, axes)``, or None.
    frames: the training samples as frames of recordings, where they are that.
    """

    train: Tensor
    test: Tensor
    whose: Tensor
    recordings: tuple[str, ...]
    channels: tuple[str, ...]
    views: Mapping[str, Positions]
    modules: tuple[str, ...] | None = None
    neighbours: Tensor | None = None
    places: Tensor | None = None
    frames: Frames | None = None

    @property
    def count(self) -> int:
        return self.train.shape[1]

    def hidden(self, rate: float) -> Tensor:
        """Which tokens of each test sample are hidden at a rate, ``(S', N)``."""
        few = masks(min(MASKS, len(self.test)), self.count, rate, seed=MASK_SEED)
        return few[torch.arange(len(self.test)) % len(few)]

    def by_recording(self, wrong: Tensor) -> np.ndarray:
        """The mean of one number a test sample, for each recording."""
        total = torch.zeros(len(self.recordings), dtype=torch.float64).index_add_(0, self.whose, wrong.double())
        return (total / torch.bincount(self.whose, minlength=len(self.recordings))).numpy()

    def baseline(self, rate: float, penalty: float | None = None) -> dict[str, np.ndarray]:
        """Name -> error of each recording without a network, under the same masks. Every number of a token is a
        channel of its own there, less its mean over the training samples."""
        train, test = self.frames, self.test
        if train is None:
            mean = self.train.mean(0)
            alone = torch.zeros(len(self.train), dtype=torch.long)
            train, test = Frames((self.train - mean).flatten(1), alone, ("training",)), test - mean
        asked = Frames(test.flatten(1), self.whose, self.recordings)
        hidden = self.hidden(rate).repeat_interleave(self.test.shape[2], 1)
        places = None if self.places is None or self.test.shape[2] > 1 else self.places.numpy()
        return baselines(train, asked, hidden, penalty=penalty, coordinates=places)


def drawn_hidden(samples: int, tokens: int, rate: float, generator: torch.Generator) -> Tensor:
    """The numbers of the hidden tokens of samples to train on, ``(samples, round(rate tokens))``."""
    return torch.rand(samples, tokens, generator=generator).topk(round(rate * tokens), sorted=False).indices


def listed(hidden: Tensor) -> Tensor:
    """The numbers of the hidden tokens ``(S, M)`` of a mask ``(S, N)`` that hides as many in every sample."""
    return hidden.nonzero()[:, 1].view(len(hidden), -1)
