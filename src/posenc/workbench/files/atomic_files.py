"""Atomic writes of the project's own files: a reader finds the old content or the new one, never a part of it.

``posenc.workbench.files.output_files`` writes files that a user names, and never replaces one unasked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Context manager that yields a temporary path in the same folder; on success that file replaces ``path``.

    On an error the temporary file is removed and ``path`` is unchanged.

    Args:
        path: File to write. Its folder exists.
        durable: True to synchronize the temporary file with the disk before the rename, and the folder after it, so
            that a power failure cannot lose it. False for files that are cheap to write again, such as pages.

    Yields:
        The temporary path; it ends with the suffix of ``path``, which some writers need.

    Raises:
        OSError: The disk is full, read-only, or the like.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        if durable:
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Write bytes to a file atomically.

    Args:
        path: File to write. If writing fails, it is unchanged.
        data: The new content.

    Raises:
        OSError: The disk is full, read-only, or the like. The temporary file is removed.
    """
    with replaced_file(path) as partial:
        partial.write_bytes(data)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable against power failure, by fsync. Windows cannot do this; it does nothing."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
