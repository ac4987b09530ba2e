"""Recordings by their place: a ``.npz`` file, a folder of tables, or a folder of brain images with their atlas."""

from __future__ import annotations

from pathlib import Path

from posenc.tasks.recordings import archive, tables
from posenc.tasks.recordings.series import Recordings

WHAT = (
    "a .npz with the array 'recordings' (recording, channel, time), a folder of .csv or .parquet, one a recording, or "
    "a folder of brain images with their atlas (docs/brain.md)"
)


def read(path: Path, *, drop: bool = False, folder: Path | None = None) -> Recordings:
    """The recordings of a ``.npz`` file (see ``archive``), a folder of tables (see ``tables``) or of brain images.

    drop: leave channels that are constant or not finite out of every recording, where they are otherwise refused.
    folder: where tables that do not fit in memory are kept as arrays, to be read from there in parts.

    Raises ValueError, in a sentence, for what is missing, damaged, or no recording.
    """
    from posenc.tasks import brain  # which makes recordings, and so reads this package

    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no {path}. Recordings are {WHAT}.")
    if path.is_dir() and brain.is_brain(path):
        return brain.read(path, drop=drop)
    if path.is_dir():
        return tables.read(path, folder).checked(drop=drop)
    if path.suffix == ".npz":
        return archive.read(path).checked(drop=drop)
    raise ValueError(f"{path} is no recording: it is {WHAT}.")
