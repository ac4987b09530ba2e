"""Store of results: append-only and crash-safe, with one folder for each finished run.

    format.json                     version of this layout
    units/ID/unit.json              specification, provenance, timing, sizes and digests of the run's files, its own
                                    checksum, and the key of the code that made it
    units/ID/metrics.jsonl          one row per metric:  study preset setting scheme seed metric value unit
    units/ID/curves.jsonl           one row per point of a curve, same labels
    units/ID/arrays.safetensors     e.g. right or wrong for every puzzle
    units/ID/weights.safetensors    the trained model; absent in runs that came from a pack
    compacted/PACK/                 files of many finished runs in archives (``compacted_runs``)
    index.sqlite                    labels, metrics, states of files (``run_index``); it may be deleted
    labels/ID.jsonl                 further labels (preset, condition, variant) of the run (``further_labels``)
    data/record-KEY.json            record of the data of runs (``stored_records``)
    data/*.npy, *.npz, *.msgpack    data as runs read them, with their digests (``data_files``)
    code/KEY.json                   digests of the source files that made runs (``stored_code``)
    damaged/ID/  replaced/ID/       runs that were set aside, with ``reason.json`` (``run_folders``)
    aliases.json                    keys of the first layout and their identities (``old_stores``)
    work/ID/  locks/  journal/  partial/     unfinished runs; may be deleted while nothing runs

A run is stored completely or not at all: its folder is written under `partial/`, synced and renamed. ID is the identity
of the run, so copying the files of one store over those of another merges them; ``posenc store merge`` also compares
them. A result that differs from the one stored under the same identity is stored as ``ID.2``. A file under ``units/``
never changes once it is there, so a reader may keep what it read until the file's times, size or inode change.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from posenc.workbench import provenance
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.atomic_files import sync_folder, write_whole
from posenc.workbench.runs import Row, RunResult, RunSpec
from posenc.workbench.storage.data_files import DataFiles
from posenc.workbench.storage.disk_errors import disk_sentence
from posenc.workbench.storage.further_labels import FurtherLabels
from posenc.workbench.storage.leases import heartbeat_lock, system_lock, uses_heartbeat
from posenc.workbench.storage.old_stores import identities_of, old_key, old_keys, read_aliases, upgraded, write_aliases
from posenc.workbench.storage.run_files import is_folder
from posenc.workbench.storage.run_folders import DAMAGED, REPLACED, RunFolders
from posenc.workbench.storage.run_index import FEW
from posenc.workbench.storage.run_selection import SelectedRun, select
from posenc.workbench.storage.run_writer import write_run
from posenc.workbench.storage.store_format import format_content, refuse_format
from posenc.workbench.storage.stored import ARRAYS, Damage, DamagedRunError, Labels, Record, Stored, StoreError
from posenc.workbench.storage.stored_code import StoredCode
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.variant_labels import current_label, relabeled

if TYPE_CHECKING:
    import numpy as np
    import torch

    from posenc.workbench.tables.export import Format

__all__ = ["Record", "Store", "StoreError", "Stored"]


class Store:
    """Store of results in a folder. Several processes may use it at once; a read-only folder can be read.

    Rows are dictionaries with the columns "study", "preset", "setting" (the condition), "scheme" (the variant) and
    "seed", which are the labels of a run, and further columns.

    Args:
        root: The folder.
        create: True to make a store if the folder has none.

    Raises:
        StoreError: The format is newer than this posenc, the folder cannot be used, or it has no store and ``create``
            is False.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store
        >>> store = Store(tempfile.mkdtemp())
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> [(row["scheme"], row["seed"], row["metric"], row["value"]) for row in store.results(study="toy")]
        [('rope', 0, 'loss', 0.5)]
    """

    def __init__(self, root: Path | str, create: bool = True) -> None:
        self.root = Path(root)
        self._origins: dict[str, Row] = {}
        with self._sentences():
            content = format_content(self.root, create)
        refuse_format(self.root, content)

    # -- unfinished runs -----------------------------------------------------------------------------------------

    def finished(self, identity: str) -> bool:
        """Return True if the run is stored completely.

        Args:
            identity: Identity of the run.

        Returns:
            True if the run is stored completely.
        """
        return any(map(self.folders.is_intact, self._names(identity)))

    def finished_among(self, identities: Iterable[str]) -> set[str]:
        """Find the runs that are stored completely. For many runs this is faster than asking for each.

        Args:
            identities: Identities of the runs.

        Returns:
            Those that are finished.
        """
        every = set(identities)
        if len(every) <= FEW:
            return set(filter(self.finished, every))
        self.folders.sync(complete=True)
        intact = {name.partition(".")[0] for name in self.folders.index.names() if name not in self.folders.damaged}
        intact |= {identity for key, identity in self._identities.items() if key in intact}
        return every & intact

    def workdir(self, spec: RunSpec) -> Path:
        """Return the folder of a run's checkpoint, which is removed when the run is finished.

        The folder is made if it does not exist. A checkpoint of a store of the first layout is moved to it.

        Args:
            spec: The run.

        Returns:
            The folder.
        """
        with self._sentences():
            target = self.root / "work" / spec.identity
            before = old_key(spec)
            if before is not None and not target.exists() and (self.root / "work" / before).is_dir():
                (self.root / "work" / before).rename(target)
            return self._folder("work", spec.identity)

    @contextmanager
    def lease(self, key: str) -> Iterator[bool]:
        """Lock a run inside a context. The lock ends if this process dies (``leases``).

        Args:
            key: Identity of the run.

        Yields:
            True if this process holds the lock, False if another live process does.

        Raises:
            StoreError: The file system has no locks.
        """
        with ExitStack() as held:
            try:
                with self._sentences():
                    lock = heartbeat_lock if uses_heartbeat(self.root) else system_lock
                    mine = held.enter_context(lock(self._folder("locks"), key))
            except NotImplementedError as error:
                raise StoreError(f"{self.root} is on a file system without locks; choose another --out.") from error
            for leftover in (self.root / "partial").glob(f"{key}.*") if mine else ():
                shutil.rmtree(leftover, ignore_errors=True)
            yield mine

    def note(self, key: str, event: str) -> int:
        """Append an event to the journal of a run, for audits.

        Args:
            key: Identity of the run.
            event: Name of the event, such as "started".

        Returns:
            Number of times that the journal has this event.
        """
        with self._sentences():
            path = self._folder("journal") / f"{key}.jsonl"
            with path.open("ab") as file:
                line = {"event": event, "at": provenance.now(), "pid": os.getpid()}
                file.write(msgspec.json.encode(line) + b"\n")
            return sum(f'"{event}"'.encode() in line for line in path.read_bytes().splitlines())

    def ensure_writable(self) -> None:
        """Write and remove a small file, so that a full or read-only disk is noticed before any run starts.

        Raises:
            StoreError: The disk is full or read-only.
        """
        with self._sentences():
            probe = self._folder("partial") / f"probe.{uuid4().hex}"
            write_whole(probe, bytes(1 << 16))
            probe.unlink()

    def finish(
        self,
        spec: RunSpec,
        result: RunResult,
        timing: Row,
        origin: Row | None = None,
        code: Mapping[str, str] | None = None,
    ) -> None:
        """Store a result atomically, then remove the run's ``workdir``. A stored result of the run is not replaced.

        Args:
            spec: The run.
            result: Its result.
            timing: Seconds, device, number of attempts and the like.
            origin: Provenance; None for that of this process.
            code: Module to digest, for the source files that made the result; None if they are not known.

        Raises:
            StoreError: The disk is full or read-only. Earlier results and the checkpoint remain.
        """
        if not self.finished(spec.identity):
            finished = timing | {"finished_at": provenance.now()}
            self.add(spec, result, finished, origin or self._origin(timing.get("device", "cpu")), code=code)
        shutil.rmtree(self.root / "work" / spec.identity, ignore_errors=True)

    def _origin(self, device: str) -> Row:
        """Provenance of this process. What it takes to ask git and the packages, 40 ms, is spent once."""
        self._origins[device] = self._origins.get(device) or provenance.gather(device)
        return self._origins[device] | {"date": provenance.now()}

    def add(
        self,
        spec: RunSpec,
        result: RunResult,
        timing: Row,
        origin: Row,
        *,
        left_out: dict[str, str] | None = None,
        replaces: Stored | None = None,
        code: Mapping[str, str] | None = None,
    ) -> None:
        """Store a result atomically as a further copy of its run: ``units/ID``, ``units/ID.2``, and so on.

        Args:
            spec: The run.
            result: Its result.
            timing: Seconds, device, number of attempts and the like.
            origin: Provenance.
            left_out: File or array that the result lacks, and the reason.
            replaces: A stored copy with an equal but less complete result, which is replaced; None to keep all copies.
            code: Module to digest, for the source files that made the result; None if they are not known.
        """
        name = replaces.folder.name if replaces else self._free_name(spec.identity)
        with self._sentences():
            partial = self._folder("partial", f"{name}.{uuid4().hex}")
            try:
                key = self.code.add(code or {})
                record = Record(spec=spec, key=spec.identity, files={}, timing=timing, provenance=origin, code=key)
                record.left_out = left_out or {}
                write_run(partial, record, result)
                self._commit(partial, name, replace=replaces is not None)
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    def _commit(self, partial: Path, name: str, replace: bool) -> None:
        target, former = self._folder("units") / name, partial.with_name(f"{name}.{uuid4().hex}.former")
        if target.exists() and self._record(name) is None:
            damage = self.folders.damaged.get(name)
            self.folders.set_aside(name, DAMAGED, damage.reason if damage else "it is no folder")
        elif target.exists() and replace:
            target.rename(former)
        try:
            partial.rename(target)
        except OSError:
            if self._record(name) is None:
                raise
        sync_folder(target.parent)
        self.folders.leave_pack(name)
        shutil.rmtree(former, ignore_errors=True)

    def note_labels(self, specs: Iterable[RunSpec]) -> None:
        """Add the labels of finished runs that are stored under other labels.

        Args:
            specs: The runs, with the labels to add.
        """
        for spec in specs:
            copies = self.copies(spec.identity)
            if not copies or any(spec.labels in self.labels_of(copy) for copy in copies):
                continue
            with suppress(StoreError), self._sentences():
                self.further_labels.add(spec.identity, msgspec.convert(spec.labels, Labels))

    def labels_of(self, stored: Stored) -> list[Row]:
        """Return all labels of a stored run.

        Args:
            stored: The run.

        Returns:
            The labels under which it was stored, then those added by ``note_labels``.
        """
        every = [stored.spec.labels]
        with self._sentences():
            further = self.further_labels.of(stored.identity)
        for each in further:
            labels = Row(each) | {"scheme": current_label(each["study"], each["scheme"])}
            every += [] if labels in every else [labels]
        return every

    def trouble(self, error: OSError) -> StoreError:
        """Turn an error of the disk into a StoreError with the remedy.

        Args:
            error: The error.

        Returns:
            The StoreError.
        """
        return StoreError(disk_sentence(error, self.root))

    # -- finished runs -------------------------------------------------------------------------------------------

    def specs(self, study: str | None = None, preset: str | None = None) -> list[RunSpec]:
        """Return the specifications of all finished runs, under each of their labels.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.

        Returns:
            The specifications, sorted by study, preset, condition, variant and seed.
        """
        return _distinct(run.spec for run in self.selected(study, preset))

    def selected(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[SelectedRun]:
        """Select finished runs under their labels, without reading their files.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.
            keys: Only the runs with these identities; None for all.

        Returns:
            The runs, each once under each of its labels, sorted by the labels and the identity.
        """
        return select(self.folders, self.further_labels, self._identities, study, preset, keys)

    def read(self, identity: str) -> Stored:
        """Return a finished run.

        Args:
            identity: Identity of the run.

        Returns:
            The run; the first copy if several results are stored.

        Raises:
            DamagedRunError: Its files are not what was stored.
            StoreError: It is not in the store.
        """
        stored = next(self._copies(identity), None)
        if stored is None and identity in self.folders.damaged:
            raise DamagedRunError(
                f"{self.folders.damaged[identity]}. Train it again: the posenc run command that made it"
            )
        if stored is None:
            raise StoreError(f"Run {identity} is not in {self.root}. List them: posenc results --out {self.root}")
        return stored

    def copies(self, identity: str) -> list[Stored]:
        """Return all results that are stored under an identity.

        Args:
            identity: Identity of the run.

        Returns:
            The stored runs; more than one if merged stores had different results.
        """
        return list(self._copies(identity))

    def weights(self, identity: str) -> dict[str, torch.Tensor]:
        """Return the weights of a finished run.

        Args:
            identity: Identity of the run.

        Returns:
            ``state_dict`` of the trained model, on the CPU.

        Raises:
            StoreError: The run is not stored, has no weights, or is damaged.
        """
        return self.read(identity).weights

    def arrays(self, identity: str) -> dict[str, np.ndarray]:
        """Return the arrays of a finished run.

        Args:
            identity: Identity of the run.

        Returns:
            Arrays by name.

        Raises:
            StoreError: The run is not stored or is damaged.
        """
        return self.read(identity).arrays

    def rows_of(self, specs: Iterable[RunSpec]) -> list[Row]:
        """Return one row per run and metric, under the labels of the specifications.

        Args:
            specs: The runs; unfinished ones are left out.

        Returns:
            Rows with the columns of ``results``, sorted by the labels.
        """
        return [row | self._data(stored) for stored, labels in self._stored_of(specs) for row in stored.rows(labels)]

    def curve_rows_of(self, specs: Iterable[RunSpec]) -> list[Row]:
        """Return one row per run and point of a learning curve, under the labels of the specifications.

        Args:
            specs: The runs; unfinished ones are left out.

        Returns:
            Rows with the labels, the columns of the curve and "unit" (the identity), sorted by the labels.
        """
        return [row for stored, labels in self._stored_of(specs) for row in stored.curve_rows(labels)]

    def results(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """Return one row per finished run and metric.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.
            keys: Only the runs with these identities; None for all.

        Returns:
            Rows with the columns "study", "preset", "setting", "scheme", "seed", "metric", "value", "unit" (the
            identity), "data" (the name of the data), "digest" (of their contents) and "code" (the key of the source
            files), sorted by the labels, the identity and the metric. The order of execution has no influence.
        """
        return list(self.rows_of_selected(self.selected(study, preset, keys)))

    def rows_of_selected(self, runs: Iterable[SelectedRun], metrics: Collection[str] | None = None) -> Iterator[Row]:
        """Iterate over the rows of selected runs, so that not all of them are in memory at once.

        Args:
            runs: Runs that ``selected`` returned.
            metrics: Only these metrics; None for all.

        Yields:
            Rows with the columns of ``results``.
        """
        for run, data in self.with_data(runs):
            first, last = run.labels, {"unit": run.name, **data, "code": run.code}
            for metric, value in run.metrics.items():
                if metrics is None or metric in metrics:
                    yield {**first, "metric": metric, "value": value, **last}

    def with_data(self, runs: Iterable[SelectedRun]) -> Iterator[tuple[SelectedRun, Row]]:
        """Iterate over selected runs and the columns "data" and "digest" of their rows.

        Args:
            runs: Runs that ``selected`` returned.

        Yields:
            Each run and the columns; empty texts where no record names its data.
        """
        known = dict[int, Row]()
        for run in runs:
            data = None if run.has_parents else known.get(run.row.settings)
            if data is None:
                data = self._data_of(run.spec)
                if not run.has_parents:
                    known[run.row.settings] = data
            yield run, data

    @cached_property
    def records(self) -> StoredRecords:
        """Records of the data of the runs."""
        return StoredRecords(self.root)

    def record_of(self, spec: RunSpec) -> DatasetRecord | None:
        """Return the record of the data of a run; of a measuring run, that of the runs that it measures.

        Args:
            spec: The run. The stored run of its identity comes first: it names the data that it was trained on.

        Returns:
            The record; None for a run without one.
        """
        stored = next(self._copies(spec.identity), None)
        return (stored and self.record_named_by(stored.spec)) or self.record_named_by(spec)

    def curves(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """Return one row per finished run and point of a learning curve.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.
            keys: Only the runs with these identities; None for all.

        Returns:
            Rows with the labels, the columns of the curve and "unit" (the identity).
        """
        return [row for stored, labels in self._stored(study, preset, keys) for row in stored.curve_rows(labels)]

    def timings(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> list[Row]:
        """Return one row per finished run with its time and provenance.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.
            keys: Only the runs with these identities; None for all.

        Returns:
            Rows with the labels, "seconds", "finished_at", "attempts", "commit", "device", versions, machine, "unit".
        """
        rows = []
        for stored, labels in self._stored(study, preset, keys):
            origin = stored.provenance
            flat = {name: origin.get(name) for name in ("command", "commit", "dirty", "device")}
            flat |= origin.get("versions", {}) | origin.get("machine", {})
            rows.append(labels | flat | stored.timing | {"unit": stored.name})
        return rows

    def export(
        self,
        path: Path | str,
        format: Format,
        study: str | None = None,
        preset: str | None = None,
        keys: Collection[str] | None = None,
        metrics: Collection[str] = (),
        force: bool = False,
    ) -> None:
        """Write the rows of ``results`` to a file atomically.

        Args:
            path: The file.
            format: "csv"; "parquet", which needs DuckDB; or "latex", a table of means and intervals.
            study: Only this study; None for all.
            preset: Only this preset; None for all.
            keys: Only the runs with these identities; None for all.
            metrics: Only these metrics; empty for all.
            force: True to replace a file that exists. A link or a device is never replaced.

        Raises:
            StoreError: No such run is finished.
            ValueError: The format is unknown, DuckDB is not installed, or the file exists or cannot be written.
        """
        rows = self.rows_of_selected(self.selected(study, preset, keys))
        self.write_rows(rows, path, format, metrics=metrics, force=force)

    def write_rows(
        self, rows: Iterable[Row], path: Path | str, format: Format, metrics: Collection[str] = (), force: bool = False
    ) -> None:
        """Write some rows of ``results`` to a file atomically, as they come.

        Args:
            rows: The rows.
            path: The file.
            format: "csv"; "parquet", which needs DuckDB; or "latex", a table of means with intervals.
            metrics: Only these metrics; empty for all.
            force: True to replace a file that exists. A link or a device is never replaced.

        Raises:
            StoreError: There are no rows.
            ValueError: The format is unknown, DuckDB is not installed, or the file exists or cannot be written.
        """
        from posenc.workbench.tables.export import export_rows

        if not export_rows(rows, path, format, metrics, force):
            raise StoreError(f"There is nothing to export: {self.root} has no finished run of that study and preset.")

    # -- what is wrong -------------------------------------------------------------------------------------------

    def damaged(self) -> list[Damage]:
        """Return the damaged runs that this object has met while it read; ``verify`` reads every file of every run.

        Returns:
            The damaged runs, sorted by name.
        """
        return [damage for _, damage in sorted(self.folders.damaged.items())]

    def damaged_files(self) -> list[tuple[Path, str]]:
        """Return the damaged files outside the folders of runs that this object has met while it read.

        Returns:
            Files of labels, data, records of data and digests of code, each with what is wrong, sorted by path.
        """
        parts = (self.further_labels, self.data_files, self.records, self.code)
        return sorted(item for part in parts for item in part.damaged.items())

    def verify_arrays(self, specs: Iterable[RunSpec]) -> None:
        """Compare the arrays of runs with their stored digests, so that a page leaves damaged runs out.

        Args:
            specs: The runs.
        """
        with self._sentences():
            for identity in dict.fromkeys(spec.identity for spec in specs):
                for copy in self.copies(identity):
                    self.folders.verify(copy.folder.name, (ARRAYS,))

    def verify(self) -> tuple[int, list[Damage]]:
        """Compare every file of every run with its stored digest.

        Returns:
            Number of runs that are what was stored, and the damaged runs.
        """
        with self._sentences():
            self.folders = RunFolders(self.root)  # Nothing is kept of earlier reads.
            for files in (self.further_labels, self.records, self.code):
                files.verify_all()
            self.data_files.check(every=True)
            return self.folders.verify_all(), self.damaged()

    def set_aside(self, name: str, reason: str, *, replaced: bool = False) -> Path:
        """Move a run out of the results, with the reason, so that the same request trains it again.

        Args:
            name: Name of the run: its identity, with the number of the copy if there are several.
            reason: Why, in one sentence.
            replaced: True for a good run that is trained again; False for a damaged one.

        Returns:
            The folder that holds the run now.

        Raises:
            StoreError: The store cannot be written.
        """
        with self._sentences():
            return self.folders.set_aside(name, REPLACED if replaced else DAMAGED, reason)

    @cached_property
    def folders(self) -> RunFolders:
        """Folders of the runs, each checked when it is read."""
        return RunFolders(self.root)

    @cached_property
    def further_labels(self) -> FurtherLabels:
        """Further labels of the runs."""
        return FurtherLabels(self.root)

    @cached_property
    def data_files(self) -> DataFiles:
        """Files of the data of the runs."""
        return DataFiles(self.root)

    @cached_property
    def code(self) -> StoredCode:
        """Code that made the results, and the present code."""
        return StoredCode(self.root)

    # -- files ---------------------------------------------------------------------------------------------------

    def everything(self) -> Iterator[Stored]:
        """Iterate over all stored runs.

        Yields:
            Every copy of every finished run, in no particular order.
        """
        yield from filter(None, map(self.stored, self.folders.names()))

    def stored(self, name: str) -> Stored | None:
        """Return a stored run by the name of its folder.

        Args:
            name: Name of the folder, such as "1f..9a.2".

        Returns:
            The run; None if there is none, or if it is damaged.
        """
        record = self._record(name)
        return None if record is None else Stored(self.root / "units" / name, record, partial(self._content, name))

    def _content(self, name: str, file: str) -> bytes:
        files = self.folders.files(name)
        if files is None:
            raise DamagedRunError(f"{file} is missing")
        return files.content(file)[0]

    @cached_property
    def _identities(self) -> dict[str, str]:
        """Key of the first layout to identity, from the alias file; missing keys are added to the file."""
        old, path = old_keys(self.folders.folder_names()), self.root / "aliases.json"
        known = read_aliases(path) if old else {}
        if any(key not in known for key in old):
            records = {key: record for key in old if (record := self.folders.record(key)) is not None}
            before, known = known, identities_of({key: record.spec for key, record in records.items()})
            if known != before:
                write_aliases(path, known)
        return known

    @cached_property
    def _old_folders(self) -> dict[str, list[str]]:
        """Identity to its folders of the first layout."""
        folders: dict[str, list[str]] = {}
        for key, identity in sorted(self._identities.items()):
            folders.setdefault(identity, []).append(key)
        return folders

    def _free_name(self, identity: str) -> str:
        if not self.finished(identity):
            return identity
        copy = 2
        while self._record(f"{identity}.{copy}") is not None:
            copy += 1
        return f"{identity}.{copy}"

    def _copies(self, identity: str) -> Iterator[Stored]:
        yield from filter(None, map(self.stored, self._names(identity)))

    def _names(self, identity: str) -> list[str]:
        """Names that the results of a run may have: the identity, keys of the first layout, and copies.

        A store with an index was listed when that was made, and has an alias file if it holds such keys. Then it is not
        listed again, so that the time to add a run does not grow with the store.
        """
        listed = (self.root / "aliases.json").exists() or not self.folders.index.path.exists()
        names, copy = [identity, *(self._old_folders.get(identity, ()) if listed else ())], 2
        while is_folder(f"{self.root}/units/{identity}.{copy}"):
            names.append(f"{identity}.{copy}")
            copy += 1
        return names

    def _stored(
        self, study: str | None = None, preset: str | None = None, keys: Collection[str] | None = None
    ) -> Iterator[tuple[Stored, Row]]:
        for run in self.selected(study, preset, keys):
            if stored := self.stored(run.row.name):
                yield stored, run.labels

    def _stored_of(self, specs: Iterable[RunSpec]) -> list[tuple[Stored, Row]]:
        """One copy of each finished run; the copy that was stored under the run's labels, if there is one."""
        stored = []
        for spec in _distinct(specs):
            copies = self.copies(spec.identity)
            own = [copy for copy in copies if copy.spec.labels == spec.labels]
            stored += [(spec.labels, (own or copies)[0])] if copies else []
        return [(copy, labels) for labels, copy in sorted(stored, key=_by_labels)]

    def _record(self, name: str) -> Record | None:
        record = self.folders.record(name)
        if record is not None and not record.spec.procedure:
            record.spec = upgraded(record.spec, self._identities)
        if record is not None:
            record.spec = relabeled(record.spec)
        return record

    def _data(self, stored: Stored) -> Row:
        """Columns of a row on the data and the code of its run; empty where they are not recorded."""
        return self._data_of(stored.spec) | {"code": stored.code}

    def _data_of(self, spec: RunSpec) -> Row:
        record = self.record_named_by(spec)
        return {"data": record.name, "digest": record.digest} if record else {"data": "", "digest": ""}

    def record_named_by(self, spec: RunSpec) -> DatasetRecord | None:
        """Record that a specification names, or that a run names whose result it reads.

        Args:
            spec: The specification.

        Returns:
            The record; None without one.
        """
        parents = (parent.spec for key in spec.parents.values() for parent in self._copies(key))
        return self.records.of(spec.settings) or next(filter(None, map(self.record_named_by, parents)), None)

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


def _distinct(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Runs that differ in identity or labels, each once."""
    return list({(spec.identity, *spec.labels.values()): spec for spec in specs}.values())


def _by_labels(labeled: tuple[Row, Stored]) -> tuple[object, ...]:
    labels, stored = labeled
    return (*labels.values(), stored.name)
