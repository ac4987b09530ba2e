"""Recordings as samples: one time point is one sample, every channel a token with one number.

    x'_ct = (x_ct - mean_c) / sd_c          over the times of each recording, so that 0 is the best constant guess

Source: arXiv 2406.08272, section 3.4 and figures A11 to A13 (masks of 15, 50, 75 and 90 %). Its text does not say how
activity was scaled, nor whether a mask hides an exact share: both are decided here.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from posenc.tasks.recordings.mapping import mapped
from posenc.tasks.recordings.series import ALIKE, TOGETHER, Recordings
from posenc.tasks.room import refuse_beyond

IN_MEMORY = 2**31
"""Bytes up to which frames stay in memory where there is a folder to keep them in."""


@dataclasses.dataclass(frozen=True, eq=False)
class Frames:
    """values: ``(T, N)`` float32, all time points of all recordings, standardised. recording: ``(T,)``, the number of
    the recording that each is of. names: of the recordings."""

    values: Float32[Tensor, "T N"]
    recording: Int64[Tensor, "T"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def channels(self) -> int:
        return self.values.shape[1]

    def drawn(self, each: int, *, seed: int) -> Int64[Tensor, "S"]:
        """``each`` time points of every recording at random, all of one that has fewer; in order."""
        if each < 1:
            raise ValueError(f"at least one time point of each recording is drawn; got each={each}.")
        generator = torch.Generator().manual_seed(seed)
        own = [(self.recording == number).nonzero().flatten() for number in range(len(self.names))]
        parts = [rows[torch.randperm(len(rows), generator=generator)[:each]] for rows in own]
        return torch.cat(parts).sort().values


def frames(recordings: Recordings, *, folder: Path | None = None, limit: int = IN_MEMORY) -> Frames:
    """All time points, standardised channel by channel within each recording.

    folder: where they are kept, and read from in parts, when they take more than ``limit`` bytes.
    Raises ValueError for a channel that does not vary or is not finite, and, without a folder, for too little memory.
    """
    total, channels = recordings.frames, len(recordings.channels)
    needed = 4 * total * channels
    if folder is not None and needed > limit:
        values = mapped(folder, (total, channels), np.dtype(np.float32))
    else:
        refuse_beyond(needed, f"{total:,} frames of {channels} channels", "Name a folder to keep them in: folder=..")
        values = np.empty((total, channels), np.float32)
    lengths = [each.shape[1] for each in recordings.series]
    ends = np.cumsum(lengths)
    for number, each in enumerate(recordings.series):
        mean, sd = _moments(each)
        if not (fine := np.isfinite(sd) & (sd > ALIKE * abs(mean))).all():  # rounding is not what varies
            raise ValueError(
                f"a channel is divided by its standard deviation, and {recordings.channels[int(fine.argmin())]!r} has "
                f"none in {recordings.names[number]!r}. Leave it out: drop=True"
            )
        step = max(1, TOGETHER // channels)
        for start in range(0, lengths[number], step):
            part = each[:, start : start + step].T
            first = ends[number] - lengths[number] + start
            values[first : first + len(part)] = (part - mean) / sd
    recording = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return Frames(torch.from_numpy(values), recording, recordings.names)


def _moments(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every channel, in float64, the channels a few at a time."""
    step = max(1, TOGETHER // series.shape[1])
    mean, sd = np.empty(len(series)), np.empty(len(series))
    for start in range(0, len(series), step):
        part = np.asarray(series[start : start + step], np.float64)
        mean[start : start + step], sd[start : start + step] = part.mean(1), part.std(1)
    return mean, sd


def masks(samples: int, channels: int, rate: float, *, seed: int) -> Bool[Tensor, "S N"]:
    """Which channels of each sample are hidden: exactly ``round(rate N)``, drawn anew for every sample.

    Raises ValueError for a rate that hides none or all.
    """
    hidden = round(rate * channels)
    if not 0 < hidden < channels:
        raise ValueError(
            f"a mask hides at least one of {channels} channels and leaves one; rate={rate:g} hides {hidden}. Use 0.5."
        )
    chance = torch.rand(samples, channels, generator=torch.Generator().manual_seed(seed))
    chosen = chance.topk(hidden, dim=1, sorted=False).indices
    return torch.zeros(samples, channels, dtype=torch.bool).scatter_(1, chosen, True)
