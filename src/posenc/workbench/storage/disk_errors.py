"""Errors of the disk that holds a store, as sentences with the remedy."""

from __future__ import annotations

import errno
from pathlib import Path

from posenc.workbench.request_checks import no_folder

FULL = (errno.ENOSPC, errno.EDQUOT)
LOCKED = (errno.EROFS, errno.EACCES, errno.EPERM)
PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN)
"""Errors that a network disk reports while its server is away; EIO also stands for a part of a disk that is broken."""


def disk_sentence(error: OSError, root: Path) -> str:
    """Say what is wrong with the disk of a store, and what to do.

    Args:
        error: The error.
        root: Root of the store.

    Returns:
        The sentences.
    """
    if error.errno in FULL:
        return (
            f"The disk that holds {root} is full; everything stored so far is safe. "
            f"Free some space and run the same command again: it continues from the last checkpoint."
        )
    if error.errno in LOCKED:
        return (
            f"{root} cannot be written to ({error.strerror}); everything stored so far is safe. "
            f"Copy it to a folder that you can write (posenc store merge {root} --out DIR) and give that folder with "
            f"--out, or change its permissions and run the same command again."
        )
    if error.errno in PASSING:
        return (
            f"The disk that holds {root} reports an error ({error.strerror}); everything stored so far is safe. "
            f"Run the same command again once the disk answers: it continues from the last checkpoint."
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return no_folder(root, "--out")
    return f"{root} cannot be used: {error.strerror or error}. Choose another folder with --out."
