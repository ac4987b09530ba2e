"""Which recordings are learned from and which are kept to test with: never frames of one recording on both sides.

Neighbouring times are alike, and so are two recordings of one person. A model that has seen either side of a moment, or
the person, is tested on what it knows. So subjects are held out whole. A single recording is cut into blocks with
a gap between them, which is the most that it allows, and says nothing of other recordings.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from posenc.tasks.recordings.series import Recordings


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Recordings to learn from, and others to test with."""

    train: Recordings
    test: Recordings


def split(recordings: Recordings, *, held: float = 0.3, seed: int, blocks: int | None = None, gap: int = 0) -> Split:
    """About ``held`` of the subjects to test with, drawn by the seed: one at least, and never all.

    blocks, gap: where all is of one subject, cut every recording into so many pieces, leave ``gap`` times out between
    two, and draw from the pieces.

    Raises ValueError for a single subject without blocks, blocks without a gap or where there are several subjects,
    and pieces that would have fewer than two times.
    """
    if not 0 < held < 1:
        raise ValueError(f"held is the share of subjects to test with, between 0 and 1; got {held:g}. Use 0.3.")
    subjects = sorted(set(recordings.subjects))
    if blocks is not None:
        recordings = in_blocks(recordings, blocks, gap)
        subjects = sorted(recordings.subjects)
    elif len(subjects) < 2:
        raise ValueError(
            f"all is of one subject, {subjects[0]!r}, so that nothing unseen is left to test with. Add recordings of "
            "others, or cut it into pieces with a gap between, blocks=10, gap=20: posenc data recordings "
            "--read FILE --blocks 10 --gap 20 --to PIECES.npz"
        )
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(subjects))
    count = min(max(round(held * len(subjects)), 1), len(subjects) - 1)
    kept_out = {subjects[number] for number in order[:count]}
    out = [number for number, subject in enumerate(recordings.subjects) if subject in kept_out]
    return Split(recordings.take(np.setdiff1d(np.arange(len(recordings)), out).tolist()), recordings.take(out))


def in_blocks(recordings: Recordings, blocks: int, gap: int) -> Recordings:
    """Recordings of one subject in so many pieces of equal length each, ``gap`` times left out between two; a piece is
    then a subject of its own. Raises ValueError for several subjects, too few times, and no gap."""
    if len(whose := set(recordings.subjects)) > 1:
        raise ValueError(
            f"blocks are for recordings of one subject; these are of {len(whose)}, which are held out whole. Leave "
            "blocks out."
        )
    shortest = min(each.shape[1] for each in recordings.series)
    if blocks < 2 or gap < 1:
        raise ValueError(
            f"there are two blocks or more and a gap between them, for neighbouring times are alike; got "
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
    return dataclasses.replace(recordings, series=tuple(series), names=tuple(names), subjects=tuple(names))
