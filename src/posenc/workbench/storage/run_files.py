"""Files of one stored run: in a folder of its own, or inside the archives of compacted runs.

A reader asks for the content, the state or the digest of a file, and gets a ``DamagedRunError`` with the reason for a
file that is missing or cannot be read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from posenc.workbench.storage.stored import DamagedRunError

OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP)
"""Errors that concern one file. Any other error, such as too many open files, concerns the process."""
RECORD_FILE = "unit.json"
HEADER = struct.Struct("<4s22xHH")
"""Local header of a member of a zip archive: signature, length of the name, length of the extra field."""
SIGNATURE = b"PK\x03\x04"
STORED, DEFLATED = 0, 8


class State(NamedTuple):
    """State of a file. If all four are as before, the content is as before.

    Attributes:
        changed: Time of the last change of the content or of the entry in ns, which no program can set.
        modified: Time of modification in ns.
        size: Size in bytes.
        inode: Number of the file on its disk.
    """

    changed: int
    modified: int
    size: int
    inode: int


class Place(NamedTuple):
    """Place of a file inside an archive.

    Attributes:
        archive: Name of the archive.
        offset: Offset of its local header in bytes.
        packed: Size in the archive in bytes.
        size: Size of the file in bytes.
        method: 0 for a stored, 8 for a deflated member.
    """

    archive: str
    offset: int
    packed: int
    size: int
    method: int


Places = dict[str, Place]


class RunFiles(Protocol):
    """Files of one run."""

    @property
    def place(self) -> str:
        """Folder or archive that holds them."""
        ...

    def content(self, file: str) -> tuple[bytes, State]:
        """Content and state of a file; DamagedRunError if it is missing or cannot be read."""
        ...

    def state(self, file: str) -> State:
        """State of a file; DamagedRunError if it is missing."""
        ...

    def digest(self, file: str) -> str:
        """SHA-256 of a file; DamagedRunError if it is missing or cannot be read."""
        ...


class FolderFiles:
    """Files of a run in a folder of its own.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str) -> None:
        self.place = folder

    def content(self, file: str) -> tuple[bytes, State]:
        """Content of a regular file, and its state. A named pipe or a device in its place is not read."""
        descriptor = -1
        try:
            descriptor = os.open(f"{self.place}/{file}", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise DamagedRunError(f"{file} is not a regular file")
            content = os.read(descriptor, state.st_size)
            while part := os.read(descriptor, 1 << 20) if len(content) < state.st_size else b"":
                content += part
            return content, State(state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)
        except OSError as error:
            raise damage_of(file, error) from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def state(self, file: str) -> State:
        """State of a file."""
        try:
            state = os.stat(f"{self.place}/{file}")  # noqa: PTH116 - of every file at every read, where a Path is slow
        except OSError as error:
            raise damage_of(file, error) from None
        return State(state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)

    def digest(self, file: str) -> str:
        """SHA-256 of a file."""
        try:
            with Path(self.place, file).open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise damage_of(file, error) from None


class PackedFiles:
    """Files of a compacted run.

    Args:
        folder: Folder of the archives.
        places: Name to place, for each file of the run.
    """

    def __init__(self, folder: Path, places: Mapping[str, Place]) -> None:
        self.folder, self.places = folder, places
        self.place = str(folder)

    def content(self, file: str) -> tuple[bytes, State]:
        """Content of a file, and its state."""
        place = self._place(file)
        try:
            with (self.folder / place.archive).open("rb") as archive:
                archive.seek(place.offset)
                signature, name, extra = HEADER.unpack(archive.read(HEADER.size))
                archive.seek(name + extra, os.SEEK_CUR)
                packed = archive.read(place.packed) if signature == SIGNATURE else b""
            if len(packed) != place.packed or place.method not in (STORED, DEFLATED):
                raise ValueError
            content = packed if place.method == STORED else zlib.decompressobj(-15).decompress(packed, place.size + 1)
        except OSError as error:
            raise damage_of(file, error) from None
        except (struct.error, zlib.error, ValueError):
            raise DamagedRunError(f"{file} cannot be read from {place.archive}") from None
        return content, State(0, 0, len(content), 0)

    def state(self, file: str) -> State:
        """State of a file: its size. The archive has the times."""
        return State(0, 0, self._place(file).size, 0)

    def digest(self, file: str) -> str:
        """SHA-256 of a file."""
        return hashlib.sha256(self.content(file)[0]).hexdigest()

    def _place(self, file: str) -> Place:
        if file not in self.places:
            raise DamagedRunError(f"{file} is missing")
        return self.places[file]


def damage_of(file: str, error: OSError) -> Exception:
    """The damage of a file that cannot be opened; the error itself if it concerns the process.

    Args:
        file: Name of the file.
        error: The error.

    Returns:
        A DamagedRunError, or ``error``.
    """
    if error.errno == errno.ENOENT:
        return DamagedRunError(f"{file} is missing")
    return DamagedRunError(f"{file} cannot be read ({error.strerror})") if error.errno in OF_THE_FILE else error


def signature(files: RunFiles, names: Iterable[str]) -> bytes:
    """States of files as bytes. Equal bytes mean that no file has changed.

    Args:
        files: The files.
        names: Names of the files.

    Returns:
        32 bytes for each file.

    Raises:
        DamagedRunError: A file is missing.
    """
    return packed_states(map(files.state, names))


def is_unchanged(folder: str, names: str, states: bytes) -> bool:
    """Compare the states of the files of a folder with earlier ones, without an object for each state.

    Args:
        folder: The folder.
        names: Names of the files, joined by spaces.
        states: Their states, as ``signature`` returned them.

    Returns:
        True if no file has changed.
    """
    stat, pack = os.stat, _STATE.pack
    try:
        now = [stat(f"{folder}/{name}") for name in names.split(" ")]
    except OSError:
        return False
    return states == b"".join([pack(s.st_ctime_ns, s.st_mtime_ns, s.st_size, s.st_ino) for s in now])


def packed_states(states: Iterable[State]) -> bytes:
    """States as bytes.

    Args:
        states: The states.

    Returns:
        32 bytes for each state.
    """
    return b"".join(_STATE.pack(*state) for state in states)


_STATE = struct.Struct("<qqqQ")
