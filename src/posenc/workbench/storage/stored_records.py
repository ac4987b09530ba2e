"""Records of the data of a store's runs, each stored once.

data/record-KEY.json     the record with its checksum, and the paths under which its data were read on this machine

A record whose checksum or key is wrong is left out and named, because it would describe other data than the runs had.
Records of an early version have no checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.old_records import read_names, record_of_settings

SETTING = "dataset"
"""Setting of a run with the key of the record of its data. It is outside the identity, which other settings decide."""


class RecordFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file of a record. Field names are stored.

    Attributes:
        record: The record.
        paths: Absolute paths at which the data were read, the newest last; empty for data without a file.
        checksum: Digest of the record; "" in old stores.
    """

    record: DatasetRecord
    paths: tuple[str, ...] = ()
    checksum: str = ""


class StoredRecords:
    """Records of the data of a store's runs.

    Args:
        root: Root of the store.

    Attributes:
        damaged: File of a record to what is wrong, for the files that were read.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
        self.damaged: dict[Path, str] = {}
        self._root = root
        self._files: dict[str, RecordFile] = {}

    def add(self, record: DatasetRecord, path: Path | None = None) -> str:
        """Keep a record, once for each key. A record with another name replaces the one that is stored.

        Args:
            record: The record.
            path: File or folder that was read; None for generated data.

        Returns:
            The key, for the setting "dataset" of the runs.
        """
        stored, where = self._read(record.key), () if path is None else (str(path.resolve()),)
        paths = (*(each for each in (stored.paths if stored else ()) if each not in where), *where)
        new = RecordFile(record=record, paths=paths, checksum=_checksum(record))
        if new != stored:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(record.key), msgspec.json.encode(new))
            self._files[record.key] = new
            self.damaged.pop(self._path(record.key), None)
        return record.key

    def get(self, key: str) -> DatasetRecord | None:
        """Return a record by its key.

        Args:
            key: The key.

        Returns:
            The record; None if the store lacks it.
        """
        stored = self._read(key)
        return None if stored is None else stored.record

    def paths(self, key: str) -> tuple[str, ...]:
        """Return the paths at which the data of a record were read on this machine, the newest last.

        Args:
            key: The key.

        Returns:
            The paths; empty if none is known.
        """
        stored = self._read(key)
        return () if stored is None else stored.paths

    def of(self, settings: Mapping[str, Any]) -> DatasetRecord | None:
        """Return the record that the settings of a run name; if they name none, the record that they describe.

        Args:
            settings: The settings.

        Returns:
            The record; None for a study whose runs have none.
        """
        key = settings.get(SETTING)
        stored = self.get(key) if isinstance(key, str) else None
        described = None if stored else record_of_settings(settings, self._names)
        return stored or (described and (self.get(described.key) or described))

    def verify_all(self) -> None:
        """Read all files; ``damaged`` then has those that are not what was written."""
        self._files, self.damaged = {}, {}
        for path in sorted(self.folder.glob("record-*.json")):
            self._read(path.stem.removeprefix("record-"))

    @cached_property
    def _names(self) -> dict[str, str]:
        return read_names(self._root)

    def _read(self, key: str) -> RecordFile | None:
        path = self._path(key)
        if key in self._files or path in self.damaged:
            return self._files.get(key)
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=RecordFile)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, ValueError, RecursionError):
            self.damaged[path] = "it cannot be read as a record of data"
            return None
        if stored.record.key != key or stored.checksum not in ("", _checksum(stored.record)):
            self.damaged[path] = "it has another content than was written"
            return None
        self._files[key] = stored
        return stored

    def _path(self, key: str) -> Path:
        return self.folder / f"record-{key}.json"


def _checksum(record: DatasetRecord) -> str:
    return hashlib.sha256(msgspec.json.encode(record, order="sorted")).hexdigest()
