"""Compacted runs: the files of many finished runs in two archives, which ``posenc store compact`` makes.

    compacted/PACK/runs.zip          NAME/unit.json, metrics.jsonl, curves.jsonl and journal.jsonl of each run
    compacted/PACK/arrays.zip        NAME/arrays.safetensors and weights.safetensors of each run
    compacted/PACK/metrics.parquet   all metrics as one table, a copy for other programs (with DuckDB)
    compacted/PACK/curves.parquet    all learning curves as one table, a copy for other programs (with DuckDB)
    compacted/PACK/without.json      names of runs that have left: replaced, or set aside as damaged

An archive holds the files of a run byte by byte, so every stored digest stays valid, and ``unzip`` into ``units/``
restores the folders. An archive never changes; the folder PACK appears by one rename. If the directory of an archive
is damaged, the members are found by their own headers.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.run_files import HEADER, SIGNATURE, Place, Places, State, packed_states

COMPACTED = "compacted"
RUNS, ARRAYS, WITHOUT = "runs.zip", "arrays.zip", "without.json"
ARCHIVES = (RUNS, ARRAYS)
TABLES = ("metrics.parquet", "curves.parquet")


class CompactedRuns:
    """Folders of compacted runs of a store.

    Args:
        root: Root of the store.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / COMPACTED

    def time(self) -> int:
        """Time at which a pack was last added or changed in ns; 0 without packs."""
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def signatures(self) -> dict[str, bytes]:
        """Name of each pack to the states of its archives; equal bytes mean that nothing has changed."""
        try:
            names = sorted(entry.name for entry in self.folder.iterdir() if not entry.name.startswith("."))
        except OSError:
            return {}
        return {name: packed_states(map(_state, self._files(name))) for name in names}

    def places(self, pack: str) -> Iterator[tuple[str, Places]]:
        """Find the files of the runs of a pack.

        Args:
            pack: Name of the pack.

        Yields:
            Name of a run, and its files. Runs that have left are not among them.
        """
        left = self.left(pack)
        yield from ((name, places) for name, places in self.places_in(self.folder / pack) if name not in left)

    def places_in(self, folder: Path) -> Iterator[tuple[str, Places]]:
        """Find the files of all runs in the archives of a folder.

        Args:
            folder: The folder.

        Yields:
            Name of a run, and its files.
        """
        runs: dict[str, Places] = {}
        for archive in ARCHIVES:
            for member, place in _members(folder / archive):
                name, _, file = member.partition("/")
                runs.setdefault(name, {})[file] = place
        yield from runs.items()

    def left(self, pack: str) -> set[str]:
        """Names of the runs that have left a pack."""
        try:
            return set(msgspec.json.decode((self.folder / pack / WITHOUT).read_bytes(), type=list[str]))
        except (OSError, msgspec.MsgspecError, ValueError):
            return set()

    def leave_out(self, pack: str, names: Iterable[str]) -> None:
        """Note that runs have left a pack. Its archives are not changed.

        Args:
            pack: Name of the pack.
            names: Names of the runs.

        Raises:
            OSError: The store cannot be written.
        """
        write_whole(self.folder / pack / WITHOUT, msgspec.json.encode(sorted(self.left(pack) | set(names))))
        os.utime(self.folder)  # so that other processes notice it by the time of one folder

    def _files(self, pack: str) -> list[Path]:
        return [self.folder / pack / name for name in (*ARCHIVES, WITHOUT)]


def _state(path: Path) -> State:
    try:
        state = path.stat()
    except OSError:
        return State(0, 0, 0, 0)
    return State(state.st_ctime_ns, state.st_mtime_ns, state.st_size, state.st_ino)


def _members(path: Path) -> Iterator[tuple[str, Place]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for each in archive.infolist():
                place = Place(path.name, each.header_offset, each.compress_size, each.file_size, each.compress_type)
                yield each.filename, place
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        yield from _scanned(path)


def _scanned(path: Path) -> Iterator[tuple[str, Place]]:
    """Members of an archive whose directory is damaged, by their own headers, which state the sizes."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    at = content.find(SIGNATURE)
    while at >= 0:
        head = content[at : at + HEADER.size]
        if len(head) < HEADER.size:
            return
        _, length, extra = HEADER.unpack(head)
        method, packed, size = (int.from_bytes(head[a:b], "little") for a, b in ((8, 10), (18, 22), (22, 26)))
        name = content[at + HEADER.size : at + HEADER.size + length].decode(errors="replace")
        yield name, Place(path.name, at, packed, size, method)
        at = content.find(SIGNATURE, at + HEADER.size + length + extra + packed)
