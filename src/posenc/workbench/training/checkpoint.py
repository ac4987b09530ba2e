"""Atomic checkpoints: if the process is killed at any moment, the file is complete, either the old or the new one."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from posenc.workbench.files.atomic_files import write_whole


class CheckpointError(ValueError):
    """Raised for a checkpoint that cannot be read. The message names the file and the remedy.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from posenc.workbench import CheckpointError
        >>> from posenc.workbench.training import checkpoint
        >>> path = Path(tempfile.mkdtemp()) / "checkpoint.pt"
        >>> _ = path.write_bytes(b"no checkpoint")
        >>> try:
        ...     checkpoint.load(path)
        ... except CheckpointError as error:
        ...     print("Delete it and the run starts again" in str(error))
        True
    """


def save(path: Path, state: dict[str, Any]) -> None:
    """Save a state atomically.

    Args:
        path: file to write.
        state: tensors, numbers, strings, and dicts or lists of them.

    Raises:
        OSError: an error of the disk. The previous checkpoint is unchanged.
    """
    import torch

    # Serialized in memory first, because torch turns the OSError of a full disk into a RuntimeError without its number.
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_whole(path, buffer.getbuffer())


def load(path: Path) -> dict[str, Any] | None:
    """Load a saved state, with tensors on the CPU. Temporary files of interrupted writes are removed.

    Only the process that owns the folder may call it.

    Args:
        path: file to read.

    Returns:
        The state, or None if there is no file.

    Raises:
        CheckpointError: the file is damaged (checksums are verified), or holds something else than a plain state.
    """
    import torch

    for leftover in path.parent.glob(f".{path.name}.*.partial*"):
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
            f"The checkpoint {path} is damaged ({reason}). Delete it and the run starts again: rm {path}"
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(
            f"The checkpoint {path} holds a {type(state).__name__}, not a state. Delete it: rm {path}"
        )
    return state
