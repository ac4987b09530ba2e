"""Digest of the contents of files. A file that did not change since it was last read is not read again.

A file counts as unchanged if its path, size, inode, and times of modification and of change are those under which its
digest was noted. No program sets the time of change, so an edit is noticed even if a tool restores the other times.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from posenc.workbench.dataset_record import DIGITS
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.files.user_files import open_file

UNSETTLED_NS = 2 * 10**9
"""A file that changed less than this time ago may change again within one tick of its clock, so it is not noted."""

Noted = dict[str, tuple[int, int, int, int, str]]
"""Path to size, inode, times of modification and of change in nanoseconds, and SHA-256."""


def contents_digest(files: Iterable[Path], base: Path, notes: Path | None = None) -> str:
    """Digest of the contents of files and of their paths below a folder.

    Args:
        files: The files.
        base: Folder that the paths are relative to. The file itself for a single file, whose name then does not count.
        notes: File with the digests of unchanged files; None to read every file.

    Returns:
        16 hexadecimal digits.

    Raises:
        OSError: A file is missing.
        UserFileError: It is no regular file, or cannot be read.
    """
    noted, digest, known = _read_notes(notes), hashlib.sha256(), 0
    fresh: Noted = {}
    for relative, path in sorted((os.fsencode(os.path.relpath(path, base)), path) for path in files):
        stat, where = path.stat(), str(path.absolute())
        state = (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
        before = noted.get(where)
        if before is not None and tuple(before[:4]) == state:
            content, known = before[4], known + 1
        else:
            with open_file(path, "a file of data") as file:
                content = hashlib.file_digest(cast(io.BufferedReader, file), "sha256").hexdigest()
            if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) > UNSETTLED_NS:
                fresh[where] = (*state, content)
        digest.update(relative + b"\0" + content.encode() + b"\n")
    if notes is not None and fresh:
        with suppress(OSError):  # without write access files are read each time
            notes.parent.mkdir(parents=True, exist_ok=True)
            write_whole(notes, msgspec.json.encode(_read_notes(notes) | fresh))
    return digest.hexdigest()[:DIGITS]


def _read_notes(path: Path | None) -> Noted:
    if path is None:
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=Noted)
    except (OSError, msgspec.DecodeError):
        return {}
