"""Reading of recordings: a ``.npz`` file, a folder of tables, or a folder of brain images with their atlas."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from posenc.workbench.data.recording_arrays import array_header, conversion_to_recordings
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.files.user_files import refuse_special
from posenc.workbench.tasks.recordings import npz_file, tables
from posenc.workbench.tasks.recordings.missing_values import Missing, probable_codes, without_missing_values
from posenc.workbench.tasks.recordings.series import Recordings

ACCEPTED_FORMATS = (
    "a .npz with the array 'recordings' (recording, channel, time), a folder with one .csv or .parquet per recording, "
    "or a folder of brain images with their atlas (docs/brain.md)"
)

MANY_CHANNELS = 4
"""Channels per time from which the axes are probably exchanged. 360 regions of a brain at 100 times have 3.6."""


def read_recordings(
    path: Path, *, drop: bool = False, missing: Missing = "refuse", folder: Path | None = None
) -> Recordings:
    """Read recordings from a ``.npz`` file (see ``npz_file``), a folder of tables (see ``tables``) or of brain images.

    Args:
        path: File or folder.
        drop: Drop channels that are constant or not finite from every recording. Without it they raise an error.
        missing: "times" leaves out the times at which a channel has no value, "linear" fills them linearly in time;
            "refuse" treats such channels as ``drop`` says. With ``drop``, "times" drops the channels instead.
        folder: Folder for memory-mapped arrays, for tables that do not fit in memory.

    Raises:
        ValueError: The path is missing, damaged, or holds no recordings.
    """
    from posenc.workbench.tasks import brain  # imported here, because it imports this package

    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no {path}. Recordings are {ACCEPTED_FORMATS}.")
    if path.is_dir() and brain.has_brain_images(path):
        return brain.read_brain_folder(path, drop=drop)
    if path.is_dir():
        return _checked(tables.read_tables(path, folder), "empty these cells", missing, drop=drop)
    if path.suffix == ".npz":
        return _checked(npz_file.read_npz(path), "write nan for it", missing, drop=drop)
    if path.suffix.lower() == ".npy" and (ways := conversion_to_recordings(path, array_header(path).shape)):
        raise ValueError(f"{path} does not name its array, and recordings are {ACCEPTED_FORMATS}. {' '.join(ways)}")
    raise ValueError(f"{path} is not a recording. Recordings are {ACCEPTED_FORMATS}.")


def _checked(recordings: Recordings, fix: str, missing: Missing, *, drop: bool) -> Recordings:
    """Recordings without missing values, with remarks on what looks like an error in the file."""
    whole = without_missing_values(recordings, missing, drop=drop).validated(drop=drop)
    remarks = probable_codes(whole, fix)
    channels, times = len(whole.channels), max(each.shape[1] for each in whole.series)
    if channels > MANY_CHANNELS * times:
        remarks.append(
            f"There are {channels:,} channels and at most {times:,} times. If it is the other way round, exchange the "
            "axes: a recording is (channel, time), and a table has one line per time."
        )
    return dataclasses.replace(whole, remarks=(*whole.remarks, *remarks)) if remarks else whole


def contents_of(path: Path, notes: Path | None = None) -> str:
    """Digest of the contents of a file or folder of recordings.

    Args:
        path: File or folder.
        notes: File with the digests of unchanged files, as in ``contents_digest``.

    Raises:
        ValueError: The path is missing, or is a named pipe, a socket or a device.
    """
    if not path.exists():
        raise ValueError(f"there is no {path}. Recordings are {ACCEPTED_FORMATS}.")
    if not path.is_dir():
        refuse_special(path, "a file of recordings")
    inside = (each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
    return contents_digest(inside if path.is_dir() else (path,), path, notes)
