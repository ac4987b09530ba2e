"""Tasks' data as files: ``data``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


def data(
    task: Positional[Literal["latin-squares", "fashion-mnist", "recordings", "development-fmri", "hcp"]],
    read: Path | None = None,
    to: Path | None = None,
    train: int = 8000,
    iid: int = 1000,
    ood: int = 300,
    subjects: int = 10,
    drop: bool = False,
    blocks: int | None = None,
    gap: int = 20,
    rule: Literal["authors", "entailment"] = "authors",
    seed: int = 0,
) -> int:
    """Make or download a task's data, or check a file of it that you have.

    Try:

    posenc data latin-squares --to puzzles.npz --train 8100 --seed 3

    posenc data latin-squares --read my_puzzles.csv

    posenc data fashion-mnist

    posenc data recordings --read mine.npz --drop --to whole.npz

    posenc data recordings --read one_long.npz --blocks 10 --gap 20 --to pieces.npz

    posenc data development-fmri --to brains --subjects 20

    posenc data hcp

    Args:
        task: Which task.
        read: What you have, to check and describe: puzzles as CSV in the authors' format, recordings.
        to: Where to save what is made; for what is downloaded a folder, otherwise $POSENC_CACHE or the system's cache.
        train: Training puzzles.
        iid: Held-out puzzles of the same distribution.
        ood: Out-of-distribution puzzles, from which the others are kept away.
        subjects: Subjects of development-fmri, which nilearn fetches.
        drop: Leave the channels of recordings out that are constant or not finite.
        blocks: Cut recordings of one subject into so many pieces, for there is nothing unseen to test with.
        gap: Times that are left out between two pieces.
        rule: What the three classes are.
        seed: The same puzzles from the same seed everywhere.
    """
    if task == "fashion-mnist":
        return _download(read, to)
    if task == "development-fmri":
        return _fetch(read, to, subjects)
    if task == "recordings":
        return _recordings(read, to, drop, blocks, gap)
    if task == "hcp":
        from posenc.tasks import brain

        print(brain.HCP, end="")
        return 0
    return _puzzles(read, to, (train, iid, ood), rule, seed)


def _puzzles(
    read: Path | None, to: Path | None, sizes: tuple[int, int, int], rule: Literal["authors", "entailment"], seed: int
) -> int:
    from posenc.tasks import latin_squares

    if (read is None) == (to is None):
        raise ValueError("say one thing: --to FILE makes puzzles, --read FILE.csv checks those you have.")
    if read is not None:
        puzzles = latin_squares.read_csv(read, rule)
        counts = {f"{kind}-vector": int((puzzles.kind == kind).sum()) for kind in (1, 2, 3)}
        print(f"{read}: {len(puzzles)} puzzles, each with one answer: {counts}, digest {puzzles.digest()[:16]}")
        return 0
    assert to is not None
    made = latin_squares.generate(*sizes, seed=seed, rule=rule)
    latin_squares.save(made, to)
    print(json.dumps(made.manifest, indent=2))
    print(to)
    return 0


def _recordings(path: Path | None, to: Path | None, drop: bool, blocks: int | None, gap: int) -> int:
    from posenc.tasks import recordings

    if path is None:
        raise ValueError("say what to read: posenc data recordings --read FILE")
    found = recordings.read(path, drop=drop)
    if blocks is not None:
        found = recordings.in_blocks(found, blocks, gap)
    times = sorted({each.shape[1] for each in found.series})
    told = {
        "recordings": len(found),
        "subjects": len(set(found.subjects)),
        "channels": len(found.channels),
        "times": times[0] if len(times) == 1 else [times[0], times[-1]],
        "modules": None if found.modules is None else len(set(found.modules)),
        "coordinates": None if found.coordinates is None else found.coordinates.shape[1],
        "left out": list(found.dropped),
    }
    print(json.dumps(told, indent=2))
    if to is not None:
        recordings.write(found, to)
        print(to)
    return 0


def _download(read: Path | None, to: Path | None) -> int:
    from posenc.tasks import images

    if read is not None:
        raise ValueError(
            "fashion-mnist is downloaded; to read a copy that you have, name its folder to a study: --data DIR"
        )
    print(images.fetch(images.FASHION_MNIST, to or images.cache_folder()))
    return 0


def _fetch(read: Path | None, to: Path | None, subjects: int) -> int:
    from posenc.tasks import brain, images

    if read is not None:
        raise ValueError("development-fmri is fetched; to learn from images that you have: posenc run masked DIR")
    print(brain.development_fmri(to or images.cache_folder() / "development-fmri", subjects))
    return 0
