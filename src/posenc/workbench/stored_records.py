"""Records of the data of a store's runs, each kept once.

data/record-KEY.json     the record, and the paths under which its data were read on this machine
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.atomic_files import write_whole
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.old_records import read_names, record_of_settings

SETTING = "dataset"
"""Setting of a run with the key of the record of its data. It is outside the identity, which other settings decide."""


class KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
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
        self._kept: dict[str, KeptRecord] = {}

    def add(self, record: DatasetRecord, path: Path | None = None) -> str:
        """Keep a record, once for each key. A record with another name replaces the one that is kept.

        Args:
            record: The record.
            path: File or folder that was read; None for generated data.

        Returns:
            The key, for the setting "dataset" of the runs.
        """
        kept, where = self._read(record.key), () if path is None else (str(path.resolve()),)
        paths = (*(each for each in (kept.paths if kept else ()) if each not in where), *where)
        new = KeptRecord(record=record, paths=paths)
        if new != kept:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(record.key), msgspec.json.encode(new))
            self._kept[record.key] = new
        return record.key

    def get(self, key: str) -> DatasetRecord | None:
        """Return a record by its key.

        Args:
            key: The key.

        Returns:
            The record; None if the store lacks it.
        """
        kept = self._read(key)
        return None if kept is None else kept.record

    def paths(self, key: str) -> tuple[str, ...]:
        """Return the paths at which the data of a record were read on this machine, the newest last.

        Args:
            key: The key.

        Returns:
            The paths; empty if none is known.
        """
        kept = self._read(key)
        return () if kept is None else kept.paths

    def of(self, settings: Mapping[str, Any]) -> DatasetRecord | None:
        """Return the record that the settings of a run name; if they name none, the record that they describe.

        Args:
            settings: The settings.

        Returns:
            The record; None for a study whose runs have none.
        """
        key = settings.get(SETTING)
        kept = self.get(key) if isinstance(key, str) else None
        described = None if kept else record_of_settings(settings, self._names)
        return kept or (described and (self.get(described.key) or described))

    @cached_property
    def _names(self) -> dict[str, str]:
        return read_names(self._root)

    def _read(self, key: str) -> KeptRecord | None:
        if key not in self._kept:
            try:
                self._kept[key] = msgspec.json.decode(self._path(key).read_bytes(), type=KeptRecord)
            except (OSError, msgspec.DecodeError):
                return None
        return self._kept[key]

    def _path(self, key: str) -> Path:
        return self.folder / f"record-{key}.json"
