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
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from posenc.workbench.storage.disk_errors import PASSING
from posenc.workbench.storage.stored import DamagedRunError, Record

OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP)
"""Errors that concern one file. Any other error, such as too many open files, concerns the process."""
ATTEMPTS, PAUSE_SECONDS = 3, 0.3
"""Number of times that a file is read if its disk reports an error that may pass, and the time between two of them."""
RECORD_FILE = "unit.json"
FOLDER = "."
"""Name of the folder of a run among its files. Its state changes if a file in it is added, removed or replaced."""
HEADER = struct.Struct("<4s22xHH")
"""Local header of a member of a zip archive: signature, length of the name, length of the extra field."""
SIGNATURE = b"PK\x03\x04"
STORED, DEFLATED = 0, 8
Answer = TypeVar("Answer")


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


class Checked(NamedTuple):
    """A record that was compared with its files, names and states of the files then, and the content of the metrics."""

    names: Sequence[str]
    states: Sequence[State]
    record: Record
    metrics: bytes

    @property
    def signature(self) -> bytes:
        """States as bytes."""
        return packed_states(self.states)

    @property
    def files(self) -> str:
        """Names of the files, joined by spaces."""
        return " ".join(self.names)


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

    @property
    def around(self) -> tuple[str, ...]:
        """Name of the folder itself, whose state counts too; none for files in an archive."""
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
        self.around = (FOLDER,)

    def content(self, file: str) -> tuple[bytes, State]:
        """Content of a regular file, and its state. A named pipe or a device in its place is not read."""
        return _read(file, lambda: self._content(file))

    def state(self, file: str) -> State:
        """State of a file."""
        path = f"{self.place}/{file}"
        state = _read(file, lambda: os.stat(path))  # noqa: PTH116 - of every file at every read, where a Path is slow
        return State(state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)

    def digest(self, file: str) -> str:
        """SHA-256 of a file."""
        return _read(file, lambda: self._digest(file))

    def _content(self, file: str) -> tuple[bytes, State]:
        descriptor = os.open(f"{self.place}/{file}", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise DamagedRunError(f"{file} is not a regular file")
            content = os.read(descriptor, state.st_size)
            while part := os.read(descriptor, 1 << 20) if len(content) < state.st_size else b"":
                content += part
            return content, State(state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)
        finally:
            os.close(descriptor)

    def _digest(self, file: str) -> str:
        with Path(self.place, file).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


class PackedFiles:
    """Files of a compacted run.

    Args:
        folder: Folder of the archives.
        places: Name to place, for each file of the run.
    """

    def __init__(self, folder: Path, places: Mapping[str, Place]) -> None:
        self.folder, self.places = folder, places
        self.place, self.around = str(folder), ()

    def content(self, file: str) -> tuple[bytes, State]:
        """Content of a file, and its state."""
        place = self._place(file)
        try:
            packed = _read(file, lambda: self._member(place))
            if len(packed) != place.packed or place.method not in (STORED, DEFLATED):
                raise ValueError
            content = packed if place.method == STORED else zlib.decompressobj(-15).decompress(packed, place.size + 1)
        except DamagedRunError:
            raise
        except (struct.error, zlib.error, ValueError):
            raise DamagedRunError(f"{file} cannot be read from {place.archive}") from None
        return content, State(0, 0, len(content), 0)

    def state(self, file: str) -> State:
        """State of a file: its size. The archive has the times."""
        return State(0, 0, self._place(file).size, 0)

    def digest(self, file: str) -> str:
        """SHA-256 of a file."""
        return hashlib.sha256(self.content(file)[0]).hexdigest()

    def _member(self, place: Place) -> bytes:
        """Content of a member as the archive holds it; empty if it is not there."""
        with (self.folder / place.archive).open("rb") as archive:
            archive.seek(place.offset)
            signature, name, extra = HEADER.unpack(archive.read(HEADER.size))
            archive.seek(name + extra, os.SEEK_CUR)
            return archive.read(place.packed) if signature == SIGNATURE else b""

    def _place(self, file: str) -> Place:
        if file not in self.places:
            raise DamagedRunError(f"{file} is missing")
        return self.places[file]


def is_folder(path: str) -> bool:
    """Return True for a folder. Unlike ``os.path.isdir``, an error of the disk does not count as "no folder".

    Args:
        path: The path.

    Returns:
        True for a folder; False if there is nothing, or a file.

    Raises:
        OSError: The disk does not tell it.
    """
    try:
        return stat.S_ISDIR(_patiently(lambda: os.stat(path)).st_mode)  # noqa: PTH116 - as fast as in ``state``
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read(file: str, read: Callable[[], Answer]) -> Answer:
    """Call a function that reads a file; an error of the file is its damage."""
    try:
        return _patiently(read)
    except OSError as error:
        raise damage_of(file, error) from None


def _patiently(read: Callable[[], Answer]) -> Answer:
    """Call a function, and again a little later after an error that a network disk may get over."""
    for _ in range(ATTEMPTS - 1):
        try:
            return read()
        except OSError as error:
            if error.errno not in PASSING:
                raise
        time.sleep(PAUSE_SECONDS)
    return read()


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


class FolderStates:
    """Comparison of the states of the files of many folders with earlier ones.

    Args:
        root: Folder of the folders.
        first: Number of names of each that are compared, in their order; None for all files, without the folder itself,
            which tells nothing more.
    """

    def __init__(self, root: Path, first: int | None) -> None:
        self.root, self.first = str(root), first
        self._parts: dict[str, tuple[list[str], Callable[..., bytes]]] = {}

    def is_unchanged(self, folder: str, names: str, states: bytes) -> bool:
        """Return True if no compared file of a folder has changed.

        Args:
            folder: Name of the folder.
            names: Names of the files, joined by spaces.
            states: Their states, as ``signature`` returned them.

        Returns:
            True if none has.
        """
        known = self._parts.get(names)
        if known is None:
            every = names.split(" ")
            chosen = every[: self.first] if self.first else every[every[0] == FOLDER :]
            known = [f"/{name}" for name in chosen], struct.Struct("<" + STATE_FORMAT * len(chosen)).pack
            self._parts[names] = known
        stat, place, now = os.stat, f"{self.root}/{folder}", list[int]()
        parts, pack = known
        try:
            for part in parts:
                state = stat(place + part)
                now += (state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)
        except OSError:
            return False
        packed = pack(*now)
        return (states[: len(packed)] if self.first else states[-len(packed) :]) == packed


def packed_states(states: Iterable[State]) -> bytes:
    """States as bytes.

    Args:
        states: The states.

    Returns:
        32 bytes for each state.
    """
    return b"".join(_STATE.pack(*state) for state in states)


STATE_FORMAT = "qqqQ"
"""Times of change and modification, size and inode of a file."""
_STATE = struct.Struct(f"<{STATE_FORMAT}")
