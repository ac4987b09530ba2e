"""The store of results: append only, crash safe, one folder per finished unit of work.

    format.json                     which format this is
    units/KEY/unit.json             the unit's configuration, provenance, timing and the sizes of its files
    units/KEY/metrics.jsonl         one row per metric:  study preset setting scheme seed metric value unit
    units/KEY/curves.jsonl          one row per point of a curve, same labels
    units/KEY/arrays.safetensors    e.g. right or wrong for every puzzle
    units/KEY/weights.safetensors   the trained model
    work/KEY/  locks/  journal/  partial/     what is under way; may be deleted when nothing runs

A unit is in the store completely or not at all: its folder is written under `partial/`, synced and renamed. KEY is a
hash of what decides the result, so copying one store's files over another's merges them (`cp -r a/. b/`).
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

import msgspec

from posenc import provenance
from posenc.training.checkpoint import sync_folder, write_whole
from posenc.unit import Outcome, Row, Unit
from posenc.version import __version__

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["Outcome", "Record", "Store", "StoreError", "Stored", "Unit"]

FORMAT = 1


class StoreError(ValueError):
    """The store cannot be read or written; the message is one sentence with the fix."""


class Record(msgspec.Struct):
    """The contents of `unit.json`."""

    unit: Unit
    key: str
    files: dict[str, int]
    timing: Row
    provenance: Row
    digests: dict[str, str] = {}
    """sha256 of each file, where the store is new enough to have them."""


class Stored:
    """A finished unit as the store holds it; each part is read when it is asked for."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.unit = folder, record.unit
        self.key, self.timing, self.provenance = record.key, record.timing, record.provenance
        self.digests = record.digests

    @cached_property
    def metrics(self) -> dict[str, float]:
        return {row["metric"]: row["value"] for row in read_rows(self.folder / "metrics.jsonl")}

    @cached_property
    def curves(self) -> list[Row]:
        return read_rows(self.folder / "curves.jsonl")

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        from safetensors.numpy import load

        return load(self._verified("arrays.safetensors"))

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        from safetensors.torch import load

        return load(self._verified("weights.safetensors"))

    def _verified(self, name: str) -> bytes:
        """A file's content. Errors: StoreError if it is not what was stored."""
        content = (self.folder / name).read_bytes()
        if name in self.digests and hashlib.sha256(content).hexdigest() != self.digests[name]:
            raise StoreError(
                f"{self.folder / name} is not what was stored: its checksum differs, so it was changed or damaged. "
                f"Train the unit anew: rm -r {self.folder}, and run the same command again."
            )
        return content


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSON-lines file; a `value` that JSON could not hold (null) is nan."""
    rows = msgspec.json.Decoder().decode_lines(path.read_bytes())
    for row in rows:
        if "value" in row and row["value"] is None:
            row["value"] = math.nan
    return rows


class Store:
    """The results under `root`. Opening writes nothing into a store that is there, so a read-only one can be read.

    `create=False` refuses a folder without a store instead of making one.
    Errors: StoreError for a newer format, a folder that is none, or one that cannot be made.
    """

    def __init__(self, root: Path | str, create: bool = True) -> None:
        self.root = Path(root)
        marker = self.root / "format.json"
        with self._sentences():
            if not marker.exists():
                if not create:
                    raise StoreError(f"There are no results in {self.root}. Make some first: posenc run --help")
                self.root.mkdir(parents=True, exist_ok=True)
                write_whole(marker, msgspec.json.encode({"format": FORMAT, "made_by": f"posenc {__version__}"}))
            content = marker.read_bytes()
        try:
            found = int(msgspec.json.decode(content)["format"])
        except (msgspec.DecodeError, TypeError, KeyError, ValueError):
            raise StoreError(
                f"{marker} is damaged: it should read {{'format': {FORMAT}}}. Restore it by hand."
            ) from None
        if found > FORMAT:
            raise StoreError(
                f"The store in {self.root} has format {found}, and posenc {__version__} reads up to {FORMAT}. "
                f"Update posenc (pip install --upgrade posenc), or choose another folder with --out."
            )

    # -- what is under way ---------------------------------------------------------------------------------------

    def finished(self, key: str) -> bool:
        """Whether the unit is in the store, whole."""
        return self._record(key) is not None

    def workdir(self, key: str) -> Path:
        """The folder where the unit keeps its checkpoint until it is finished; made if absent."""
        with self._sentences():
            return self._folder("work", key)

    @contextmanager
    def lease(self, key: str) -> Iterator[bool]:
        """True inside if this process now owns the unit; False if another live process does.

        The operating system takes the lock back when the owner dies, however it dies.
        """
        from filelock import FileLock, Timeout

        with self._sentences():
            lock = FileLock(self._folder("locks") / f"{key}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                lock = None
            except NotImplementedError as error:
                raise StoreError(f"{self.root} is on a file system without locks; choose another --out.") from error
        if lock is None:
            yield False
            return
        try:
            for leftover in (self.root / "partial").glob(f"{key}.*"):
                shutil.rmtree(leftover, ignore_errors=True)
            yield True
        finally:
            lock.release()

    def note(self, key: str, event: str) -> int:
        """Appends `event` to the unit's journal; returns how often it stands there. For audits, not for results."""
        with self._sentences():
            path = self._folder("journal") / f"{key}.jsonl"
            with path.open("ab") as file:
                line = {"event": event, "at": provenance.now(), "pid": os.getpid()}
                file.write(msgspec.json.encode(line) + b"\n")
            return sum(f'"{event}"'.encode() in line for line in path.read_bytes().splitlines())

    def ensure_writable(self) -> None:
        """Writes and removes a small file. Errors: StoreError, before any work is lost to a full or read-only disk."""
        with self._sentences():
            probe = self._folder("partial") / f"probe.{uuid4().hex}"
            write_whole(probe, bytes(1 << 16))
            probe.unlink()

    def finish(self, unit: Unit, outcome: Outcome, timing: Row, origin: Row | None = None) -> None:
        """Puts the unit into the store at once, then removes its `workdir`; a unit that is there already stays.

        `timing` holds seconds, device and the like; `origin` is `provenance.gather()` unless given.
        Errors: StoreError if the disk is full or read-only; what was stored before and the checkpoint stay.
        """
        key = unit.key
        origin = origin or provenance.gather(timing.get("device", "cpu"))
        with self._sentences():
            partial = self._folder("partial", f"{key}.{uuid4().hex}")
            try:
                self._write(partial, unit, outcome, timing | {"finished_at": provenance.now()}, origin)
                self._commit(partial, key)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(self.root / "work" / key, ignore_errors=True)

    def _write(self, folder: Path, unit: Unit, outcome: Outcome, timing: Row, origin: Row) -> None:
        import numpy as np
        from safetensors.numpy import save as save_arrays
        from safetensors.torch import save as save_weights

        labels, key = unit.labels, unit.key
        metrics = [labels | {"metric": m, "value": float(v), "unit": key} for m, v in sorted(outcome.metrics.items())]
        arrays = {name: np.array(array, order="C") for name, array in outcome.arrays.items()}
        weights = {name: w.detach().cpu().contiguous().clone() for name, w in outcome.weights.items()}
        files = {
            "metrics.jsonl": msgspec.json.Encoder().encode_lines(metrics),
            "curves.jsonl": msgspec.json.Encoder().encode_lines([labels | c | {"unit": key} for c in outcome.curves]),
            "arrays.safetensors": save_arrays(arrays),
            "weights.safetensors": save_weights(weights),
        }
        sizes = {name: len(data) for name, data in files.items()}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        record = Record(unit=unit, key=key, files=sizes, timing=timing, provenance=origin, digests=digests)
        for name, data in [*files.items(), ("unit.json", msgspec.json.encode(record))]:
            write_whole(folder / name, data)

    def _commit(self, partial: Path, key: str) -> None:
        target = self._folder("units") / key
        if target.exists() and not self.finished(key):
            # Half a unit can only come from a copy that was interrupted: out of the way with it.
            target.rename(partial.with_name(f"{key}.{uuid4().hex}.torn"))
        try:
            partial.rename(target)
        except OSError:
            if not self.finished(key):
                raise
        sync_folder(target.parent)

    def trouble(self, error: OSError) -> StoreError:
        """A disk's error as one sentence about this store."""
        return StoreError(_sentence(error, self.root))

    # -- what is finished ----------------------------------------------------------------------------------------

    def units(self) -> list[Unit]:
        """Every finished unit, sorted by study, preset, setting, scheme and seed."""
        return [stored.unit for stored in self._stored()]

    def read(self, key: str) -> Stored:
        """A finished unit. Errors: StoreError if it is not in the store."""
        record = self._record(key)
        if record is None:
            raise StoreError(f"Unit {key} is not in {self.root}. See which are: posenc results --out {self.root}")
        return Stored(self.root / "units" / key, record)

    def weights(self, key: str) -> dict[str, torch.Tensor]:
        return self.read(key).weights

    def arrays(self, key: str) -> dict[str, np.ndarray]:
        return self.read(key).arrays

    def results(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """One row per unit and metric: study, preset, setting, scheme, seed, metric, value, unit.

        Sorted by the labels, the unit and the metric; nothing depends on when, where or in which order it was done.
        """
        return [row for s in self._stored(study, preset, keys) for row in read_rows(s.folder / "metrics.jsonl")]

    def curves(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """One row per point: study, preset, setting, scheme, seed, what the curve's rows hold, unit."""
        return [row for s in self._stored(study, preset, keys) for row in s.curves]

    def timings(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """One row per unit: its labels, seconds, finished_at, attempts, and commit, versions, machine, device."""
        rows = []
        for stored in self._stored(study, preset, keys):
            origin = stored.provenance
            flat = {name: origin.get(name) for name in ("command", "commit", "dirty", "device")}
            flat |= origin.get("versions", {}) | origin.get("machine", {})
            rows.append(stored.unit.labels | flat | stored.timing | {"unit": stored.key})
        return rows

    def export(
        self,
        path: Path | str,
        format: Literal["csv", "parquet", "latex"],
        study: str | None = None,
        preset: str | None = None,
        keys: Collection[str] | None = None,
    ) -> None:
        """Writes `results(study, preset, keys)` to `path`: temporary name first, then renamed. See `posenc.export`.

        Errors: StoreError if nothing is finished or `path` cannot be written; ValueError for an unknown format.
        """
        from posenc.export import encode

        rows = self.results(study, preset, keys)
        if not rows:
            raise StoreError(f"There is nothing to export: {self.root} has no finished unit of that study and preset.")
        data = encode(rows, format)
        try:
            write_whole(Path(path), data)
        except OSError as error:
            raise StoreError(_sentence(error, Path(path))) from error

    # -- files ---------------------------------------------------------------------------------------------------

    def _stored(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Stored]:
        folder = self.root / "units"
        if keys is None:
            keys = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        found = []
        for key in set(keys):
            record = self._record(key)
            if record and study in (None, record.unit.study) and preset in (None, record.unit.preset):
                found.append(Stored(folder / key, record))
        return sorted(found, key=lambda s: (*s.unit.labels.values(), s.key))

    def _record(self, key: str) -> Record | None:
        folder = self.root / "units" / key
        try:
            record = msgspec.json.decode((folder / "unit.json").read_bytes(), type=Record)
            whole = all((folder / name).stat().st_size == size for name, size in record.files.items())
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None
        return record if whole else None

    def _folder(self, *names: str) -> Path:
        folder = self.root.joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self.trouble(error) from error


FULL = (errno.ENOSPC, errno.EDQUOT)
LOCKED = (errno.EROFS, errno.EACCES, errno.EPERM)


def _sentence(error: OSError, root: Path) -> str:
    if error.errno in FULL:
        return (
            f"The disk that holds {root} is full; everything stored so far is safe. "
            f"Free some space and run the same command again: it continues from the last checkpoint."
        )
    if error.errno in LOCKED:
        return (
            f"{root} cannot be written to ({error.strerror}); everything stored so far is safe. "
            f"Choose another folder with --out, or change its permissions and run the same command again."
        )
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{root} (or a folder on the way to it) is a file, and a folder is needed. Choose another with --out."
    return f"{root} cannot be used: {error.strerror or error}. Choose another folder with --out."
