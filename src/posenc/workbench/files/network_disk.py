"""Network disks: whether a folder lies on one, and the folder of this user and machine for files that may be deleted.

Locks of the operating system and SQLite are unsafe on a network disk: NFS may grant one lock to two machines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NETWORK = frozenset(
    (
        *(
            "9p",
            "afs",
            "beegfs",
            "ceph",
            "cifs",
            "davfs",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "nfs",
            "nfs4",
        ),
        *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs"),
        *("fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.s3fs", "fuse.sshfs"),
    )
)
"""Types of file systems that several machines may use at once, as Linux names them."""
MOUNTS = Path("/proc/self/mountinfo")


def is_network_disk(path: Path) -> bool:
    """Return True if a folder lies on a network disk. Only Linux says so; on other systems every disk counts as local.

    Args:
        path: The folder.

    Returns:
        True for a file system of ``NETWORK``.
    """
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return file_system(os.path.realpath(path), lines) in NETWORK


def file_system(path: str, mounts: list[str]) -> str:
    """Type of the file system that holds a path.

    Args:
        path: Absolute path without links.
        mounts: Lines of ``/proc/self/mountinfo``. Of two mounts on one folder the later one counts.

    Returns:
        The type, such as "nfs4"; "" if no mount holds the path.
    """
    longest, kind = -1, ""
    for line in mounts:
        before, separator, after = line.partition(" - ")
        words = before.split(" ")
        if not separator or len(words) < 5:
            continue
        folder = words[4].encode().decode("unicode_escape")  # A space is written as \040.
        inside = path == folder or path.startswith(folder.rstrip("/") + "/")
        if inside and len(folder) >= longest:
            longest, kind = len(folder), after.split(" ")[0]
    return kind


def cache_folder() -> Path:
    """Folder of posenc for files of this user that may be deleted. It is not made.

    Returns:
        The folder, such as ``~/.cache/posenc``.
    """
    places = {"darwin": ("Library", "Caches"), "win32": ("AppData", "Local")}
    return Path.home().joinpath(*places.get(sys.platform, (".cache",)), "posenc")
