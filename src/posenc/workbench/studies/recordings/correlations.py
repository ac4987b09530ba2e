"""Correlations between the channels of stored recordings: of all, of the training part of a seed, of its test part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posenc.workbench.studies.recordings.stored_recordings import RecordingsRecord, folder_of, subject_parts, unit_of

CHUNK_FRAMES = 2**16
"""Number of time points that are summed at a time."""


@dataclass(frozen=True, eq=False)
class ChannelCorrelations:
    """Correlations between channels, summed over recordings.

    Attributes:
        record: Record of the recordings.
        products: ``(R, N, N)``: sums over the time points of each recording of products of standardized channels.
        lengths: Time points of each recording ``(R,)``.
        tested: Correlations ``(N, N)`` of the test recordings if they are the same for every seed; None if the seed
            decides which recordings are tested.
    """

    record: RecordingsRecord
    products: Tensor
    lengths: Tensor
    tested: Tensor | None

    @cached_property
    def recordings_of(self) -> Mapping[str, list[int]]:
        """Recording or subject to the numbers of its recordings."""
        named = self.record.train if unit_of(self.record) != "subjects" else self.record.subjects
        found = dict[str, list[int]]()
        for number, name in enumerate(named or self.record.train):
            found.setdefault(name, []).append(number)
        return found

    @property
    def units(self) -> list[str]:
        """Names of the recordings, or of the subjects if some have several recordings."""
        return list(self.recordings_of)

    def of(self, units: Collection[str]) -> Tensor:
        """Correlations ``(N, N)`` over all time points of some recordings or subjects."""
        return self._of_numbers([number for unit in units for number in self.recordings_of[unit]])

    def training(self, seed: int) -> list[str]:
        """The recordings or subjects that the models of a seed are trained on."""
        if self.tested is not None:
            return self.units
        train = set(subject_parts(self.record, seed).train)
        return [unit for unit, numbers in self.recordings_of.items() if train.issuperset(numbers)]

    def trained_on(self, seed: int, unit: str) -> bool:
        """True if the models of a seed are trained on a recording or subject."""
        return unit in self.training(seed)

    def held_out(self, seed: int) -> Tensor:
        """Correlations ``(N, N)`` of the test recordings of a seed."""
        return self._of_numbers(subject_parts(self.record, seed).test) if self.tested is None else self.tested

    def _of_numbers(self, numbers: Collection[int]) -> Tensor:
        chosen = torch.tensor(list(numbers))
        return self.products[chosen].sum(0) / float(self.lengths[chosen].sum())


def read_correlations(root: Path, digest: str, record: RecordingsRecord, *, own: bool) -> ChannelCorrelations | None:
    """Read the correlations of stored recordings.

    Args:
        root: Root of the store.
        digest: Digest of the recordings.
        record: Their record.
        own: True if the seed of a run decides which recordings are tested.

    Returns:
        The correlations; None if the store lacks the time points.
    """
    try:
        values = np.load(folder_of(root, digest) / "train.npy", mmap_mode="r")
        test = None if own else np.load(folder_of(root, digest) / "test.npy")
    except OSError:
        return None
    lengths = torch.tensor(record.train_lengths)
    ends = lengths.cumsum(0).tolist()
    parts = [_products(values[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
    return ChannelCorrelations(
        record, torch.stack(parts), lengths.double(), None if test is None else _products(test) / len(test)
    )


def _products(values: np.ndarray) -> Tensor:
    """Sum over time points of the products of two channels ``(N, N)``."""
    total = np.zeros((values.shape[1],) * 2)
    for start in range(0, len(values), CHUNK_FRAMES):
        part = np.asarray(values[start : start + CHUNK_FRAMES], np.float64)
        total += part.T @ part
    return torch.from_numpy(total)
