"""Records of the data of a store's runs, each stored once.

data/record-KEY.json     the record, and the paths under which its data were read on this machine
"""

from __future__ import annotations

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
    """

    record: DatasetRecord
    paths: tuple[str, ...] = ()


class StoredRecords:
    """Records of the data of a store's runs.

    Args:
        root: Root of the store.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "data"
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
        new = RecordFile(record=record, paths=paths)
        if new != stored:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(record.key), msgspec.json.encode(new))
            self._files[record.key] = new
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

    @cached_property
    def _names(self) -> dict[str, str]:
        return read_names(self._root)

    def _read(self, key: str) -> RecordFile | None:
        if key not in self._files:
            try:
                self._files[key] = msgspec.json.decode(self._path(key).read_bytes(), type=RecordFile)
            except (OSError, msgspec.DecodeError):
                return None
        return self._files[key]

    def _path(self, key: str) -> Path:
        return self.folder / f"record-{key}.json"
