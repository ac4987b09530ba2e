"""Compaction of a store: the files of many finished runs move into few archives, while other processes use the store.

1. The files of intact runs are compared with their digests, written to archives under ``partial/``, synced, and read
   back and compared again.
2. The folder of the archives is renamed into ``compacted/``. From here on each run is there twice, with equal content.
3. The folder of each run is moved to ``partial/`` and deleted, with its lock and its journal.

A process that is killed leaves one of these states, and each of them is a whole store; the next compaction cleans up.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from posenc.workbench.files.atomic_files import sync_folder
from posenc.workbench.storage.compacted_runs import ARRAYS, COMPACTED, RUNS
from posenc.workbench.storage.compacted_tables import write_tables
from posenc.workbench.storage.identity import DIGITS
from posenc.workbench.storage.run_files import RECORD_FILE, FolderFiles, PackedFiles
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import ARRAYS as ARRAY_FILE
from posenc.workbench.storage.stored import WEIGHTS as WEIGHT_FILE
from posenc.workbench.storage.stored import DamagedRunError, Record, StoreError

LEASE = "compact"
JOURNAL = "journal.jsonl"
MOVED = ".compacted"
RUNS_PER_PACK = 5000
PACK_BYTES = 2**31
"""Largest number of runs and bytes of a pack; a single run may be larger."""
LARGE_FILES = (ARRAY_FILE, WEIGHT_FILE)


class CompactionCounts(NamedTuple):
    """Counts of a compaction.

    Attributes:
        runs: Number of runs that were packed.
        packs: Number of packs that were made.
        folders: Number of runs that stay in folders of their own: damaged ones, several results of one run, and runs of
            early versions without checksums.
    """

    runs: int
    packs: int
    folders: int


class Freed(NamedTuple):
    """Counts of removed checkpoints and locks.

    Attributes:
        checkpoints: Number of folders with checkpoints of finished runs.
        locks: Number of locks of finished runs.
        size: Bytes of the checkpoints.
    """

    checkpoints: int
    locks: int
    size: int


def compact(store: Store) -> CompactionCounts:
    """Move the files of finished runs into archives. Nothing is lost if the process is killed at any moment.

    Args:
        store: The store.

    Returns:
        The counts.

    Raises:
        StoreError: Another process compacts the store, or the disk is full or read-only.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store
        >>> from posenc.workbench.storage.compaction import compact
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store = Store(tempfile.mkdtemp())
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> compact(store)
        CompactionCounts(runs=1, packs=1, folders=0)
        >>> store.read(spec.identity).metrics
        {'loss': 0.5}
    """
    with store.lease(LEASE) as mine:
        if not mine:
            raise StoreError(f"Another process compacts {store.root}. Wait until it has ended.")
        try:
            _clean_up(store)
            runs = packs = 0
            for batch in _batches(store):
                packed = _pack(store, batch)
                runs, packs = runs + len(packed), packs + bool(packed)
                for name, content in packed.items():
                    _remove_folder(store, name, content)
                sync_folder(store.folders.folder)
            return CompactionCounts(runs, packs, len(store.folders.folder_names()))
        except OSError as error:
            raise store.trouble(error) from error


def remove_leftovers(store: Store) -> Freed:
    """Remove checkpoints and locks of finished runs. Unfinished runs keep theirs.

    Args:
        store: The store.

    Returns:
        The counts of removed checkpoints and locks.

    Raises:
        StoreError: The store cannot be written.
    """
    checkpoints = locks = size = 0
    try:
        work = {path.name: path for path in _entries(store.root / "work")}
        held = {path.name.partition(".")[0]: path for path in _entries(store.root / "locks")}
        finished = store.finished_among({*work, *held})
        for name in sorted(finished & work.keys()):
            with store.lease(name) as mine:
                if mine:
                    size += sum(path.lstat().st_size for path in work[name].rglob("*"))
                    shutil.rmtree(work[name])
                    checkpoints += 1
        for path in _entries(store.root / "locks"):
            if path.name.partition(".")[0] in finished:
                _remove_lock(path)
                locks += 1
    except OSError as error:
        raise store.trouble(error) from error
    return Freed(checkpoints, locks, size)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _clean_up(store: Store) -> None:
    """Finish what a killed compaction left: folders that were moved, and folders of runs that are in a pack."""
    for path in _entries(store.root / "partial"):
        name = path.name.partition(".")[0]
        if path.name.endswith(MOVED):
            if store.folders.is_intact(name):
                shutil.rmtree(path, ignore_errors=True)
            elif not (store.folders.folder / name).exists():
                path.rename(store.folders.folder / name)
    for name in store.folders.packed_names():
        content = store.folders.packed_content(name, RECORD_FILE)
        if content is not None and (store.folders.folder / name).is_dir():
            _remove_folder(store, name, content)


def _batches(store: Store) -> Iterator[list[tuple[str, Record]]]:
    """Runs that can be packed, in groups of one pack each."""
    names = sorted(store.folders.folder_names())
    several = {name.partition(".")[0] for name in names if "." in name}
    batch, size = list[tuple[str, Record]](), 0
    for name in names:
        record = store.folders.record(name) if len(name) == DIGITS and name not in several else None
        if record is None or not record.checksum:
            continue
        if batch and (len(batch) == RUNS_PER_PACK or size + sum(record.files.values()) > PACK_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((name, record))
        size += sum(record.files.values())
    if batch:
        yield batch


def _pack(store: Store, batch: Iterable[tuple[str, Record]]) -> dict[str, bytes]:
    """Write a pack; name to the content of ``unit.json`` of each run in it."""
    partial = store.root / "partial" / f"{LEASE}.{uuid4().hex}"
    partial.mkdir(parents=True)
    try:
        packed = dict[str, bytes]()
        with zipfile.ZipFile(partial / RUNS, "w") as runs, zipfile.ZipFile(partial / ARRAYS, "w") as arrays:
            for name, record in batch:
                try:
                    contents = _contents(store, name, record)
                except DamagedRunError:
                    continue  # It stays where it is, and posenc store verify names it.
                packed[name] = contents[RECORD_FILE]
                for file, content in contents.items():
                    archive = arrays if file in LARGE_FILES else runs
                    method = zipfile.ZIP_STORED if file in LARGE_FILES else zipfile.ZIP_DEFLATED
                    archive.writestr(zipfile.ZipInfo(f"{name}/{file}"), content, method)
        if packed:
            write_tables(partial, partial / RUNS)
            _sync(partial)
            _compare(store, partial, packed.keys())
            digest = hashlib.sha256(b"".join(packed.values())).hexdigest()[:DIGITS]
            target = store.root / COMPACTED / digest
            target.parent.mkdir(exist_ok=True)
            for name in packed:
                store.folders.leave_pack(name)  # of an earlier result, which the folder has replaced
            if target.exists():  # The same runs were packed, and then put back by hand.
                target = target.with_name(f"{digest}-{uuid4().hex[:8]}")
            partial.rename(target)
            sync_folder(target.parent)
        return packed
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _contents(store: Store, name: str, record: Record) -> dict[str, bytes]:
    """Contents of the files of a run, compared with their digests, and its journal."""
    files = FolderFiles(str(store.folders.folder / name))
    contents = {file: files.content(file)[0] for file in (RECORD_FILE, *record.files)}
    for file, digest in record.digests.items():
        if hashlib.sha256(contents[file]).hexdigest() != digest:
            raise DamagedRunError(f"{file} has another content than was stored")
    journal = store.root / "journal" / f"{name}.jsonl"
    return contents | ({JOURNAL: journal.read_bytes()} if journal.is_file() else {})


def _compare(store: Store, pack: Path, names: Iterable[str]) -> None:
    """Read a new pack back, and compare every file with its digest."""
    places = dict(store.folders.compacted.places_in(pack))
    for name in names:
        files = PackedFiles(pack, places[name])
        record = store.folders.record(name)
        for file, digest in record.digests.items() if record else ():
            if files.digest(file) != digest:
                raise StoreError(f"{pack.name}: {name}/{file} was not written as it was read. Is the disk damaged?")


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


def _remove_folder(store: Store, name: str, content: bytes) -> None:
    """Remove the folder of a run that is in a pack, with its lock and journal, unless it was replaced meanwhile."""
    folder, moved = store.folders.folder / name, store.root / "partial" / f"{name}.{uuid4().hex}{MOVED}"
    try:
        folder.rename(moved)
    except FileNotFoundError:
        return
    try:
        same = (moved / RECORD_FILE).read_bytes() == content
    except OSError:
        same = False
    if not same:
        moved.rename(folder)
        return
    shutil.rmtree(moved)
    (store.root / "journal" / f"{name}.jsonl").unlink(missing_ok=True)
    for lock in (store.root / "locks" / f"{name}.lock", store.root / "locks" / name):
        _remove_lock(lock)


def _remove_lock(path: Path) -> None:
    """Remove the lock of a finished run. Whoever gets a lock asks first if the run is finished."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
