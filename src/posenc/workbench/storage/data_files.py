"""Files of the data of a store's runs, each compared with the digest that was noted when it was first there.

data/*.npy, *.npz, *.msgpack    texts, images, clouds, recordings and the like, as runs read them
data/digests.json               of each of them: size, inode, times, and SHA-256

Further seeds are trained on these files, so a damaged one would mix two data sets under one name. A file is read again
only if its size, inode or times have changed. It is then moved away, and written again from the user's file.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import write_whole

ENDINGS = (".npy", ".npz", ".msgpack")
UNSETTLED_NS = 10 * 10**9
"""A file that changed less than this time ago may still be written by another command, so it is not noted yet."""
DRAWN = "turning-"
"""Start of the names of frames that pages draw; they may be drawn again."""

State = tuple[int, int, int, int]
"""Size, inode, times of modification and of change in nanoseconds."""
Noted = dict[str, tuple[State, str]]
"""Path below the folder of data to its state and SHA-256."""


class DataFiles:
    """Files of the data of a store's runs.

    Args:
        root: Root of the store.

    Attributes:
        damaged: File to what is wrong, for the files that were compared.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.notes = self.folder / "digests.json"
        self.damaged: dict[Path, str] = {}

    def check(self, every: bool = False) -> None:
        """Compare files with their noted digests; ``damaged`` then has those that differ.

        Args:
            every: True to read all files; False for those whose size, inode or times have changed.
        """
        self.damaged = {}
        for name, (state, digest) in self._read_notes().items():
            path = self.folder / name
            if not path.exists() or (not every and _state(path) == state):
                continue
            try:
                if _digest(path) != digest:
                    self.damaged[path] = "it has another content than was written"
            except OSError as error:
                self.damaged[path] = f"it cannot be read ({error.strerror})"

    def note(self) -> None:
        """Note the digests of files that have none yet and are no longer being written.

        Raises:
            OSError: The store cannot be written.
        """
        noted = {name: each for name, each in self._read_notes().items() if (self.folder / name).exists()}
        new = {name: (_state(path), _digest(path)) for name, path in self._files() if name not in noted}
        if new:
            write_whole(self.notes, msgspec.json.encode(noted | new))

    def forget(self, path: Path) -> None:
        """Drop the digest of a file that was moved away, so that it may be written again.

        Args:
            path: The file.

        Raises:
            OSError: The store cannot be written.
        """
        noted = self._read_notes()
        noted.pop(str(path.relative_to(self.folder)), None)
        write_whole(self.notes, msgspec.json.encode(noted))
        self.damaged.pop(path, None)

    def _files(self) -> Iterator[tuple[str, Path]]:
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            hidden = name.startswith((".", DRAWN)) or path.name.startswith(".")
            if path.suffix not in ENDINGS or hidden or not path.is_file():
                continue
            if time.time_ns() - path.stat().st_mtime_ns > UNSETTLED_NS:
                yield name, path

    def _read_notes(self) -> Noted:
        try:
            return msgspec.json.decode(self.notes.read_bytes(), type=Noted)
        except (OSError, msgspec.DecodeError, ValueError):
            return {}


def _state(path: Path) -> State:
    state = path.stat()
    return state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
