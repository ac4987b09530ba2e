"""Train and test splits of recordings, by subject or by blocks with gaps.

Neighboring times are similar, and so are two recordings of one person. A split between them would test a model on known
data, so whole subjects are held out. A single recording is cut into blocks with gaps between them. That is the
strictest test that a single recording allows, and it does not measure generalization to other recordings.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from posenc.workbench.tasks.recordings.series import Recordings

BLOCKS, FEWEST_BLOCKS = 10, 4
"""Blocks of the recordings of one subject together, and the fewest of a short recording."""
BLOCK_TIMES, LARGEST_GAP, GAP_SHARE = 50, 20, 0.01
"""Times of a block that is long enough, largest gap between blocks, and its share of the times of a recording."""
FEWEST_TIMES = 10
"""Times of the shortest block that is cut without being asked for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Training and test recordings."""

    train: Recordings
    test: Recordings


def split(recordings: Recordings, *, held: float = 0.3, seed: int, blocks: int | None = None, gap: int = 0) -> Split:
    """Hold out about ``held`` of the subjects for testing, at least one and never all.

    Args:
        recordings: The recordings.
        held: Share of the subjects to hold out.
        seed: Seed of the choice.
        blocks: Number of blocks to cut each recording into, where all are of one subject; the blocks are then split.
        gap: Number of times left out between two blocks.

    Raises:
        ValueError: There is a single subject without blocks, blocks without a gap, blocks with several subjects, or a
            block would have fewer than two times.
    """
    if not 0 < held < 1:
        raise ValueError(f"held is the share of subjects to test with, between 0 and 1; got {held:g}. Use 0.3.")
    subjects = sorted(set(recordings.subjects))
    if blocks is not None:
        recordings = cut_into_blocks(recordings, blocks, gap)
        subjects = sorted(recordings.subjects)
    elif len(subjects) < 2:
        raise ValueError(one_subject(subjects[0]))
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(subjects))
    count = min(max(round(held * len(subjects)), 1), len(subjects) - 1)
    held_out = {subjects[number] for number in order[:count]}
    out = [number for number, subject in enumerate(recordings.subjects) if subject in held_out]
    return Split(recordings.take(np.setdiff1d(np.arange(len(recordings)), out).tolist()), recordings.take(out))


def one_subject(subject: str) -> str:
    """Error message on recordings of one subject."""
    return (
        f"all recordings are of one subject, {subject!r}, so that none is left to test with. Add recordings of other "
        "subjects, or cut it into blocks with a gap between them, blocks=10, gap=20: posenc data recordings --read "
        "FILE --blocks 10 --gap 20 --to PIECES.npz"
    )


def cut_into_blocks(recordings: Recordings, blocks: int, gap: int) -> Recordings:
    """Cut recordings of one subject into blocks of equal length, each with a subject name of its own.

    Args:
        recordings: The recordings.
        blocks: Number of blocks of each recording.
        gap: Number of times left out between two blocks.

    Raises:
        ValueError: There are several subjects, too few times, or no gap.
    """
    if len(subjects := set(recordings.subjects)) > 1:
        raise ValueError(
            f"blocks are for recordings of one subject; these are of {len(subjects)}, which are held out whole. Leave "
            "blocks out."
        )
    shortest = min(each.shape[1] for each in recordings.series)
    if blocks < 2 or gap < 1:
        raise ValueError(
            f"a split needs two blocks or more and a gap between them, because neighboring times are similar; got "
            f"blocks={blocks}, gap={gap}. Use blocks=10, gap=20."
        )
    if (shortest - gap * (blocks - 1)) // blocks < 2:
        raise ValueError(
            f"{blocks} blocks with a gap of {gap} need {blocks * (gap + 2) - gap} times or more; a recording has "
            f"{shortest}. Ask for fewer blocks or a smaller gap."
        )
    series, names = [], []
    for name, each in zip(recordings.names, recordings.series, strict=True):
        length = (each.shape[1] - gap * (blocks - 1)) // blocks
        for number in range(blocks):
            start = number * (length + gap)
            series.append(each[:, start : start + length])
            names.append(f"block {number + 1} of {name}")
    return dataclasses.replace(
        recordings, series=tuple(series), names=tuple(names), subjects=tuple(names), blocks=blocks
    )


def cut_one_subject(recordings: Recordings, blocks: int | None = None) -> Recordings:
    """Cut recordings of one subject into blocks, so that some can be held out, and say so in ``remarks``.

    Args:
        recordings: The recordings.
        blocks: Number of blocks of each recording. Default: 10 blocks of all recordings together, fewer if they would
            have fewer than 50 times, but at least 4. The gap between two blocks is 1% of the times, at most 20.

    Returns:
        The blocks.

    Raises:
        ValueError: There are several subjects, or too few times.
    """
    times = min(each.shape[1] for each in recordings.series)
    if blocks is None:
        blocks = max(min(math.ceil(BLOCKS / len(recordings)), times // BLOCK_TIMES), FEWEST_BLOCKS)
        if times // blocks < FEWEST_TIMES:
            raise ValueError(
                f"the only recording has {times} times, and {blocks} blocks of at least {FEWEST_TIMES} are needed to "
                "train on some and test on others. Give a longer recording, or further ones of other subjects."
            )
    gap = max(1, min(LARGEST_GAP, int(GAP_SHARE * times)))
    cut = cut_into_blocks(recordings, blocks, gap)
    lengths = f"{cut.series[0].shape[1]:,} times with gaps of {gap}"
    what, about = "The only recording is", "recording"
    if len(recordings) > 1:
        what, about = f"All {len(recordings)} recordings are of one subject. Each is", "subject"
    remark = (
        f"{what} cut into {blocks} blocks of {lengths}, and whole blocks are held out: the results are about this "
        f"{about} alone. --blocks chooses another number."
    )
    return dataclasses.replace(cut, remarks=(*cut.remarks, remark))
