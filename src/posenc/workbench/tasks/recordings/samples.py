"""Samples for masked prediction: one time point is one sample, and every channel is a token with one number.

    x'_ct = (x_ct - mean_c) / sd_c          over the times of each recording, so that 0 is the best constant prediction

The paper states neither how activity was scaled nor whether a mask hides an exact share of the channels. Here channels
are standardized, and the share is exact.

References:
    arXiv 2406.08272, section 3.4 and figures A11 to A13 (masks of 15, 50, 75 and 90 %).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from posenc.workbench.memory import require_memory
from posenc.workbench.tasks.recordings.memory_map import memory_mapped_zeros
from posenc.workbench.tasks.recordings.series import CHUNK_VALUES, CONSTANT_TOLERANCE, Recordings

MEMORY_LIMIT = 2**31
"""Bytes up to which frames stay in memory, where there is a folder to write them to."""


@dataclasses.dataclass(frozen=True, eq=False)
class Frames:
    """Standardized time points of all recordings.

    Attributes:
        values: ``(T, N)`` float32.
        recording: ``(T,)``: number of the recording of each time point.
        names: Names of the recordings.
    """

    values: Float32[Tensor, "T N"]
    recording: Int64[Tensor, "T"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.values.shape[1]

    def sample(self, each: int, *, seed: int) -> Int64[Tensor, "S"]:
        """Draw ``each`` random time points of every recording, or all of a shorter one; indices in order."""
        if each < 1:
            raise ValueError(f"at least one time point of each recording is drawn; got each={each}.")
        generator = torch.Generator().manual_seed(seed)
        by_recording = [(self.recording == number).nonzero().flatten() for number in range(len(self.names))]
        parts = [rows[torch.randperm(len(rows), generator=generator)[:each]] for rows in by_recording]
        return torch.cat(parts).sort().values


def standardized_frames(recordings: Recordings, *, folder: Path | None = None, limit: int = MEMORY_LIMIT) -> Frames:
    """All time points of all recordings, with each channel standardized within each recording.

    Args:
        recordings: The recordings.
        folder: Folder for a memory-mapped array, used when the frames take more than ``limit`` bytes.
        limit: Bytes up to which frames stay in memory.

    Raises:
        ValueError: A channel is constant or not finite, or, without a folder, the memory is too small.
    """
    total, channels = recordings.frames, len(recordings.channels)
    needed = 4 * total * channels
    if folder is not None and needed > limit:
        values = memory_mapped_zeros(folder, (total, channels), np.dtype(np.float32))
    else:
        require_memory(needed, f"{total:,} frames of {channels} channels", "Name a folder to write them to: folder=..")
        values = np.empty((total, channels), np.float32)
    lengths = [each.shape[1] for each in recordings.series]
    ends = np.cumsum(lengths)
    for number, each in enumerate(recordings.series):
        mean, sd = _moments(each)
        varies = np.isfinite(sd) & (sd > CONSTANT_TOLERANCE * abs(mean))  # rounding errors are not variation
        if not varies.all():
            channel = recordings.channels[int(varies.argmin())]
            raise ValueError(
                f"a channel is divided by its standard deviation, and {channel!r} has none in "
                f"{recordings.names[number]!r}. Leave it out: drop=True"
            )
        step = max(1, CHUNK_VALUES // channels)
        for start in range(0, lengths[number], step):
            part = each[:, start : start + step].T
            first = ends[number] - lengths[number] + start
            values[first : first + len(part)] = (part - mean) / sd
    recording = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return Frames(torch.from_numpy(values), recording, recordings.names)


def _moments(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every channel in float64, a few channels at a time."""
    step = max(1, CHUNK_VALUES // series.shape[1])
    mean, sd = np.empty(len(series)), np.empty(len(series))
    for start in range(0, len(series), step):
        part = np.asarray(series[start : start + step], np.float64)
        mean[start : start + step], sd[start : start + step] = part.mean(1), part.std(1)
    return mean, sd


def random_masks(samples: int, channels: int, rate: float, *, seed: int) -> Bool[Tensor, "S N"]:
    """Random masks that hide exactly ``round(rate N)`` channels of each sample.

    Returns:
        ``(S, N)``, True for hidden channels.

    Raises:
        ValueError: ``rate`` would hide no channel, or all channels.
    """
    hidden = round(rate * channels)
    if not 0 < hidden < channels:
        raise ValueError(
            f"a mask hides at least one of {channels} channels and leaves one; rate={rate:g} hides {hidden}. Use 0.5."
        )
    noise = torch.rand(samples, channels, generator=torch.Generator().manual_seed(seed))
    chosen = noise.topk(hidden, dim=1, sorted=False).indices
    return torch.zeros(samples, channels, dtype=torch.bool).scatter_(1, chosen, True)
