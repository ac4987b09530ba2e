"""Missing values of recordings: leave out the times that have some, fill them linearly, or drop their channels.

A value that is not finite counts as missing. Every time point is a sample of its own, so leaving out a few of them
changes nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.missing_codes import CODES, code_sentences
from posenc.workbench.memory import require_memory
from posenc.workbench.tasks.recordings.series import CHUNK_VALUES, FILLED, Recordings

Missing = Literal["refuse", "times", "linear"]
"""Treatment of missing values: an error, leave out their times, or fill them linearly in time."""
NAMED = 3
"""Channels with a probable code that are named; the others are counted."""
LEAST_PRESENT = 0.5
"""Least share of the times that a recording keeps, and of the values that a filled channel has."""


def without_missing_values(recordings: Recordings, missing: Missing, *, drop: bool = False) -> Recordings:
    """Treat the missing values of recordings.

    Args:
        recordings: The recordings.
        missing: "times" leaves out, of each recording, the times at which a channel has no value. "linear" fills them
            linearly in time, and before the first value and after the last one with that value. "refuse" changes
            nothing.
        drop: With "times": change nothing, since channels with missing values are dropped instead. With "linear":
            change nothing in channels with too few values to fill, which are dropped instead.

    Returns:
        The recordings, with a sentence in ``remarks`` on what was left out or filled.

    Raises:
        ValueError: Fewer than half of the times of a recording, or of the values of a channel, would be left.
    """
    if missing == "refuse" or (missing == "times" and drop):
        return recordings
    absent = [_absent(each) for each in recordings.series]
    if not any(each is not None for each in absent):
        return recordings
    copied = sum(each.nbytes for each, gaps in zip(recordings.series, absent, strict=True) if gaps is not None)
    require_memory(copied, "a copy of recordings with missing values", "Correct the values in the file instead.")
    if missing == "times":
        return _without_times(recordings, absent)
    return _filled(recordings, absent, drop)


def probable_codes(recordings: Recordings, fix: str) -> list[str]:
    """Name the channels with a number, such as -9999, that probably stands for a missing value.

    Args:
        recordings: The recordings.
        fix: What to do with these values, as "empty these cells".

    Returns:
        Sentences for up to ``NAMED`` channels, and one with the number of the others.
    """
    extremes = [[reduce(each, axis=1) for each in recordings.series] for reduce in (np.fmin.reduce, np.fmax.reduce)]
    low, high = (each.reduce(parts) for each, parts in zip((np.fmin, np.fmax), extremes, strict=True))
    sentences = list[str]()
    for channel, (least, most) in enumerate(zip(low, high, strict=True)):
        if {abs(float(least)), abs(float(most))} & {*CODES}:
            values = np.concatenate([each[channel] for each in recordings.series])
            sentences += code_sentences({recordings.channels[channel]: values}, "time points")
    more = len(sentences) - NAMED
    shown = [sentence.replace("empty these cells", fix) for sentence in sentences[:NAMED]]
    return [*shown, f"The same holds for {count_of(more, 'more channels')}."] if more > 0 else shown


def _absent(series: np.ndarray) -> np.ndarray | None:
    """True for values that are missing ``(channel, time)``; None if there are none."""
    if series.dtype.kind != "f":
        return None
    step = max(1, CHUNK_VALUES // series.shape[1])  # a memory-mapped recording need not fit in memory
    parts = (series[start : start + step] for start in range(0, len(series), step))
    return None if all(np.isfinite(part).all() for part in parts) else ~np.isfinite(series)


def _without_times(recordings: Recordings, absent: Sequence[np.ndarray | None]) -> Recordings:
    """Recordings without the times at which a channel has no value."""
    series, left_out = list(recordings.series), dict[str, int]()
    worst = np.zeros(len(recordings.channels), int)
    for number, (name, gaps) in enumerate(zip(recordings.names, absent, strict=True)):
        if gaps is None:
            continue
        times = np.logical_and.reduce(~gaps, axis=0)
        if times.sum() < max(2, LEAST_PRESENT * len(times)):
            most = int(gaps.sum(1).max())
            fill = "Fill the gaps with --fill linear, or leave" if most <= LEAST_PRESENT * len(times) else "Leave"
            raise ValueError(
                f"only {times.sum()} of {len(times)} times of recording {name!r} have a value in every channel; "
                f"{recordings.channels[int(gaps.sum(1).argmax())]!r} lacks the most, {most}. {fill} out the channels "
                "that have some with --drop."
            )
        series[number] = recordings.series[number][:, times]
        left_out[name] = int((~times).sum())
        worst += gaps.sum(1)
    total, recorded = sum(left_out.values()), recordings.frames
    where = f"recording {next(iter(left_out))!r}" if len(left_out) == 1 else f"{len(left_out)} recordings"
    remark = (
        f"Left out: {total:,} of {recorded:,} times, in {where}, because a channel has no value there (most often "
        f"{recordings.channels[int(worst.argmax())]!r}). --fill linear fills them instead."
    )
    return dataclasses.replace(recordings, series=tuple(series), remarks=(*recordings.remarks, remark))


def _filled(recordings: Recordings, absent: Sequence[np.ndarray | None], drop: bool) -> Recordings:
    """Recordings whose missing values are filled linearly in time."""
    series, filled = list(recordings.series), 0
    for number, (name, gaps) in enumerate(zip(recordings.names, absent, strict=True)):
        if gaps is None:
            continue
        whole = np.array(recordings.series[number], np.float64)
        times = np.arange(whole.shape[1])
        for channel in np.flatnonzero(gaps.any(1)):
            present = ~gaps[channel]
            if present.sum() >= max(2, LEAST_PRESENT * len(times)):
                whole[channel] = np.interp(times, times[present], whole[channel, present])
                filled += int(gaps[channel].sum())
            elif not drop:
                raise ValueError(
                    f"{recordings.channels[channel]!r} has a value at only {present.sum()} of {len(times)} times of "
                    f"recording {name!r}, too few to fill the others. Leave the channel out: --fill linear --drop"
                )
        series[number] = whole
    values = recordings.frames * len(recordings.channels)
    remark = f"{FILLED}: {filled:,} of {values:,} values, which were missing."
    remarks = (*recordings.remarks, remark) if filled else recordings.remarks
    return dataclasses.replace(recordings, series=tuple(series), remarks=remarks)
