"""Copies of many runs from one store to another, byte by byte, with one synchronization of the disk for each group."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from posenc.workbench.files.atomic_files import sync_folder
from posenc.workbench.storage.run_files import RECORD_FILE
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import DamagedRunError, Stored

GROUP = 1000
"""Runs of a group."""


def copy_runs(target: Store, source: Store, runs: Iterable[Stored]) -> tuple[int, list[Stored]]:
    """Copy runs that the target does not have. Each appears in it as a whole, by one rename.

    Args:
        target: Receives the runs.
        source: Has them.
        runs: The runs.

    Returns:
        Number of runs that were copied; and the runs that were not, because a file changed meanwhile or another process
        stored them.

    Raises:
        StoreError: The disk is full or read-only. No run is there in part.
    """
    copied, left, group = 0, list[Stored](), list[Stored]()
    for run in runs:
        group.append(run)
        if len(group) == GROUP:
            copied += _copy_group(target, source, group, left)
            group = []
    return copied + _copy_group(target, source, group, left), left


def _copy_group(target: Store, source: Store, runs: Iterable[Stored], left: list[Stored]) -> int:
    partials = list[tuple[Stored, Path]]()
    units = target.root / "units"
    try:
        units.mkdir(exist_ok=True)
        (target.root / "partial").mkdir(exist_ok=True)
        for run in runs:
            partial = target.root / "partial" / f"{run.folder.name}.{uuid4().hex}"
            partial.mkdir()
            partials.append((run, partial))
            try:
                _copy(source, run, partial)
            except DamagedRunError:
                left.append(run)
                partials.pop()
                shutil.rmtree(partial, ignore_errors=True)
        _sync([partial for _, partial in partials])
        count = 0
        for run, partial in partials:
            try:
                partial.rename(units / run.folder.name)
                count += 1
            except OSError:
                if not (units / run.folder.name).exists():
                    raise
                left.append(run)
        sync_folder(units)
        return count
    except OSError as error:
        raise target.trouble(error) from error
    finally:
        for _, partial in partials:
            shutil.rmtree(partial, ignore_errors=True)


def _copy(source: Store, run: Stored, folder: Path) -> None:
    files = source.folders.files(run.folder.name)
    if files is None:
        raise DamagedRunError("the run has left the store")
    for file in (*run.files, RECORD_FILE):
        content = files.content(file)[0]
        if file in run.files and len(content) != run.files[file]:
            raise DamagedRunError(f"{file} has changed")
        (folder / file).write_bytes(content)


def _sync(folders: Iterable[Path]) -> None:
    """Make new files durable. Linux writes everything before ``sync`` returns; elsewhere each file is synchronized."""
    if sys.platform == "linux":
        os.sync()
        return
    for folder in folders:
        for path in folder.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
