"""Checkpoints that survive a kill at any moment: the file at `path` is always a whole one, the old or the new."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any


class CheckpointError(ValueError):
    """A checkpoint that cannot be read; the message says which file and what to do."""


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """`path` holds `data`, all of it, or is as it was before: temporary name, fsync, rename, fsync of the folder.

    Errors: OSError (disk full, read-only, ...), after the temporary file has been removed.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` outlive a power cut (where the system can: not on Windows)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes `state` (tensors, numbers, strings and dicts or lists of them) so that a kill never leaves a torn file.

    Errors: OSError of the disk, unchanged; the checkpoint that was there stays.
    """
    import torch

    # Into memory first: torch turns the OSError of a full disk into a RuntimeError without its number.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_whole(path, buffer.getbuffer())


def load(path: Path) -> dict[str, Any] | None:
    """The state saved at `path`, or None if none was. Leftovers of a write that was killed are removed.

    The one owner of the folder calls it. Tensors arrive on the CPU.

    Errors: CheckpointError if the file is there but damaged (checksums are verified) or holds more than plain state.
    """
    import torch

    for leftover in path.parent.glob(f".{path.name}.*.partial"):
        leftover.unlink(missing_ok=True)
    if not path.exists():
        return None
    data = path.read_bytes()
    try:
        # torch.load does not compare the archive's checksums, so a flipped bit would pass silently.
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"checksum of {damaged}")
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise CheckpointError(
            f"The checkpoint {path} is damaged ({reason}). Delete it and the unit starts anew: rm {path}"
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(
            f"The checkpoint {path} holds a {type(state).__name__}, not a state. Delete it: rm {path}"
        )
    return state
