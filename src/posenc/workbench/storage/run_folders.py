"""Runs of a store by name: folders, and compacted runs. Each is checked when it is read; a damaged one hides no other.

    units/NAME                 folder of a run; NAME is the identity, or ``ID.2`` for a second result of it
    compacted/PACK             archives of compacted runs (``compacted_runs``); a folder of the same name comes first
    damaged/NAME               a damaged run that was set aside, with ``reason.json``
    replaced/NAME              a run that was trained again with other code, with ``reason.json``

A read compares the folder's name with the identity, the sizes of all files with the stored ones, and the digests of
``unit.json``, metrics and curves. What was compared is not read again while the states of the files (times of change
and modification, size, inode) are the same; the index (``run_index``) remembers them for the next process. Arrays and
weights may be large: their digests are compared when they are read, and by ``posenc store verify``. Nothing is moved by
a read, because another program may be copying files into the store.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import sync_folder, write_whole
from posenc.workbench.files.file_digests import UNSETTLED_NS
from posenc.workbench.provenance import now
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.compacted_runs import CompactedRuns
from posenc.workbench.storage.identity import DIGITS
from posenc.workbench.storage.run_files import (
    RECORD_FILE,
    Checked,
    FolderFiles,
    FolderStates,
    PackedFiles,
    RunFiles,
    is_folder,
    is_unchanged,
    signature,
)
from posenc.workbench.storage.run_index import FEW, DamagedIndexError, Indexed, RunIndex, RunRow, head_of
from posenc.workbench.storage.stored import CURVES, METRICS, Damage, DamagedRunError, Labels, Record, is_checksum_right

UNITS, DAMAGED, REPLACED = "units", "damaged", "replaced"
SMALL_FILES = (METRICS, CURVES)
"""Files whose digests are compared by every read."""
RECORD = msgspec.json.Decoder(Record)
OF_TABLES = 3
"""Number of first names of a run whose states tables compare: its folder, ``unit.json`` and the metrics."""
MANY = 4096
"""Number of records that are kept in memory."""


class RunFolders:
    """Runs of a store by name.

    Args:
        root: Root of the store.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / UNITS
        self.damaged: dict[str, Damage] = {}
        self.compacted, self.index = CompactedRuns(root), RunIndex(root)
        self._signatures: dict[str, tuple[str, bytes]] = {}
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._refused: dict[str, tuple[bytes, Damage]] = {}
        self._packs_seen = (-1, -1)

    # -- one run -------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Names of all runs, damaged ones too; hidden files and folders are left out."""
        folders = self.folder_names()  # First, because a run that leaves its folder is in a pack by then.
        self._sync_packs()
        return list(dict.fromkeys((*folders, *(self.index.packed_names() if self._packs_seen[0] else ()))))

    def files(self, name: str) -> RunFiles | None:
        """Return the files of a run.

        Args:
            name: Name of the run.

        Returns:
            The files: in its folder; otherwise in a pack; None if there is no such run.
        """
        folder = f"{self.folder}/{name}"
        for _ in range(2):
            if is_folder(folder):
                return FolderFiles(folder)
            if (packed := self._packed(name)) is not None:
                return packed
        return None  # Asked twice, because a run may move from its folder into a pack between the two questions.

    def is_intact(self, name: str) -> bool:
        """Return True if a run is what was stored. Files that did not change since they were compared are not read.

        Args:
            name: Name of the run.

        Returns:
            False if there is no such run, or if it is damaged, which ``damaged`` then has.
        """
        known = self._signatures.get(name) or self.index.signature(name)
        if known is not None and known[1] and is_unchanged(f"{self.folder}/{name}", *known):
            self._signatures[name] = known
            return True
        return self.record(name) is not None

    def record(self, name: str) -> Record | None:
        """Return the record of a run after comparing it with the files, which are read again only if they changed.

        Args:
            name: Name of the run.

        Returns:
            The record; None if there is no such run, or if it is damaged, which ``damaged`` then has.

        Raises:
            OSError: The process cannot read files, for example because too many are open.
        """
        known, files = self._signatures.get(name), self.files(name)
        if files is None:
            self._forget(name)
            return None
        with suppress(DamagedRunError):
            if known is not None and name in self._records and signature(files, known[0].split()) == known[1]:
                return self._records[name]
        checked = self._checked(name, files)
        if checked is None:
            return None
        self._signatures[name] = checked.files, checked.signature
        self._records[name] = checked.record
        if len(self._records) > MANY:
            self._records.popitem(last=False)
        return checked.record

    def verify(self, name: str, files: Collection[str] | None = None) -> Damage | None:
        """Compare large files of a run with their stored digests. A damaged run is left out from then on.

        Args:
            name: Name of the run.
            files: Names of the files; None for all.

        Returns:
            The damage; None for a run that is what was stored.
        """
        record, place = self.record(name), self.files(name)
        for file, digest in record.digests.items() if record and place else ():
            if file in SMALL_FILES or (files is not None and file not in files):
                continue
            try:
                if place is not None and place.digest(file) != digest:
                    raise DamagedRunError(f"{file} has another content than was stored")
            except DamagedRunError as error:
                assert place is not None
                self.damaged[name] = Damage(name=name, reason=str(error), **_labels(place, self.root, name))
                self._refused[name] = self._signatures[name][1], self.damaged[name]
                self._signatures.pop(name)
                break
        return self.damaged.get(name)

    def verify_all(self) -> int:
        """Compare every file of every run with its stored digest; ``damaged`` then has the damaged runs.

        Returns:
            Number of runs that are what was stored.
        """
        return sum(self.verify(name) is None for name in self.names() if self.files(name) is not None)

    def set_aside(self, name: str, place: str, reason: str) -> Path:
        """Move a run out of the results, with the reason. Nothing is deleted.

        Args:
            name: Name of the run.
            place: ``damaged`` or ``replaced``.
            reason: Why, in one sentence.

        Returns:
            The folder that holds the run now.

        Raises:
            OSError: The store cannot be written.
        """
        target, number = self.root / place / name, 1
        target.parent.mkdir(parents=True, exist_ok=True)
        while target.exists():
            number += 1
            target = self.root / place / f"{name}-{number}"
        packed = None if (self.folder / name).exists() else self._packed(name)
        if packed is None:
            (self.folder / name).rename(target)
        else:
            _unpack(packed, target)
        write_whole(target / "reason.json", msgspec.json.encode({"reason": reason, "at": now()}))
        if self.folder.is_dir():
            sync_folder(self.folder)
        if packed is not None:
            self.leave_pack(name)
        self._forget(name)
        self._close_gap(name)
        return target

    # -- all runs ------------------------------------------------------------------------------------------------

    def sync(
        self,
        study: str | None = None,
        preset: str | None = None,
        keys: Collection[str] | None = None,
        complete: bool = False,
    ) -> None:
        """Bring the index to the state of the files: new and changed runs are compared with their digests.

        New and absent runs are noticed in the whole store. Of the named runs in folders of their own, the noted states
        are compared with those of the folder and of the files that the index has copied: ``unit.json`` and metrics. The
        folder tells that a file is missing or was replaced. A file that was changed in its place is noticed where it is
        read, or here if ``complete``. Of compacted runs the states of the archives are compared.

        Args:
            study: Compare only the files of this study; None for all.
            preset: Compare only the files of this preset; None for all.
            keys: Compare only the files of these identities, and of names of the first layout; None for all.
            complete: Compare every file of a run.
        """
        names = self.folder_names()  # First, because a run that leaves its folder is in a pack by then.
        if len(names) > FEW or self.compacted.time():
            self.index.persist()
        self._sync_packs(every=True)
        present, new = set(names), set(names)
        changed, gone = set[str](), set[str]()
        compared = FolderStates(self.folder, None if complete else OF_TABLES)
        for name, files, states in self.index.signatures(study, preset):
            if name not in present:
                gone.add(name)
                continue
            new.discard(name)
            # States that were too new to be noted for other processes are those that this object has noted.
            noted = self._signatures.get(name) if files and not states else (files, states)
            if noted is None or name in self._refused or name in self.damaged:
                changed.add(name)
            elif files and (keys is None or name.partition(".")[0] in keys):
                changed |= set() if compared.is_unchanged(name, *noted) else {name}
        if gone:
            self.index.remove(gone)
            for name in gone:
                self._forget(name)
        if (new or changed) and not self._index([name for name in names if name in new or name in changed]):
            self._sync_packs(every=True)

    def rows(
        self, study: str | None = None, preset: str | None = None, identities: Collection[str] | None = None
    ) -> list[RunRow]:
        """Return the rows of the index, after ``sync``.

        Args:
            study: Only this study; None for all. Of runs with further labels, name their identities.
            preset: Only this preset; None for all.
            identities: Only these identities, and names of folders of the first layout; None for all.

        Returns:
            The rows, one for each intact run.
        """
        for _ in range(3):
            opened, by_name = self.index.opened, dict[str, RunRow]()
            try:
                found = self.index.rows_named(identities) if identities is not None else self.index.rows(study, preset)
                for row in found:
                    if row.head and row.name not in self.damaged and (not row.pack or row.name not in by_name):
                        by_name[row.name] = row
            except DamagedIndexError:
                self.index.reset()
            else:
                if self.index.opened == opened:  # Otherwise the index was lost while it was read.
                    return list(by_name.values())
            self.sync()
        return []

    def _index(self, names: Iterable[str]) -> bool:
        """Compare runs with their digests, and write them to the index; False if one has left its folder meanwhile."""
        rows, wrong, stayed = list[tuple[Indexed, RunSpec]](), list[str](), True
        for name in names:
            files = FolderFiles(f"{self.folder}/{name}")
            checked = self._checked(name, files)
            there = is_folder(files.place)
            if checked is not None and there:
                newest = max(max(state.changed, state.modified) for state in checked.states)
                settled = time.time_ns() - newest > UNSETTLED_NS
                rows.append(_row(name, checked, signature=checked.signature if settled else b""))
                if not settled:
                    self._signatures[name] = checked.files, checked.signature
            else:
                wrong.append(name)
            stayed = stayed and there
        self.index.put(rows)
        self.index.remove(wrong)
        return stayed

    def _checked(self, name: str, files: RunFiles) -> Checked | None:
        """Compare a run with its digests; None for a damaged run, which ``damaged`` then has."""
        try:
            checked = _check(files, name)
            if name in self._refused and self._refused[name][0] == checked.signature:
                raise DamagedRunError(self._refused[name][1].reason)
            self._refuse_equal_copy(name, checked.record)
        except DamagedRunError as error:
            self._forget(name)
            if isinstance(files, FolderFiles) and not is_folder(files.place):
                elsewhere = self.files(name)  # It has just been compacted, or set aside by another process.
                return None if elsewhere is None else self._checked(name, elsewhere)
            self.damaged[name] = Damage(name=name, reason=str(error), **_labels(files, self.root, name))
            return None
        self.damaged.pop(name, None)
        return checked

    def _sync_packs(self, every: bool = False) -> None:
        """Bring the rows of packs to the state of the archives; unless ``every``, only if a pack came or left."""
        changed = self.compacted.time()
        if not every and self._packs_seen == (changed, self.index.opened):
            return
        if changed:
            self.index.persist()
        present, known = self.compacted.signatures(), self.index.packs()
        for pack in known.keys() - present.keys():
            self.index.put_pack(pack, None)
        for pack, states in present.items():
            if known.get(pack) == states:
                continue
            rows, right = list[tuple[Indexed, RunSpec | None]](), True
            for name, places in self.compacted.places(pack):
                checked = self._checked(name, PackedFiles(self.compacted.folder / pack, places))
                encoded = msgspec.json.encode(places)
                if checked is not None:
                    rows.append(_row(name, checked, pack=pack, places=encoded))
                    continue
                right = False
                rows.append((Indexed(name, pack, "", b"", encoded, b"", "", 0, "", b""), None))
                if (self.folder / name).is_dir():  # A good result has come in its place.
                    self.damaged.pop(name, None)
            self.index.put_pack(pack, states if right else b"", rows)  # A pack with damage is read by every process.
        self._packs_seen = changed, self.index.opened

    def packed_names(self) -> list[str]:
        """Names of the compacted runs."""
        self._sync_packs(every=True)
        return self.index.packed_names() if self._packs_seen[0] else []

    def packed_content(self, name: str, file: str) -> bytes | None:
        """Content of a file of a compacted run.

        Args:
            name: Name of the run.
            file: Name of the file.

        Returns:
            The content; None if no pack has the run, or if the file is damaged.
        """
        packed = self._packed(name)
        with suppress(DamagedRunError):
            return None if packed is None else packed.content(file)[0]
        return None

    def leave_pack(self, name: str) -> None:
        """Note that a run has left its pack, because another result has taken its place.

        Args:
            name: Name of the run.

        Raises:
            OSError: The store cannot be written.
        """
        if (packed := self._packed(name)) is not None:
            self.compacted.leave_out(packed.folder.name, [name])

    def _packed(self, name: str) -> PackedFiles | None:
        while True:
            self._sync_packs()
            packed = self.index.packed(name) if self._packs_seen[0] else None
            if self._packs_seen[1] == self.index.opened:  # Otherwise the index was lost, and is made again.
                break
        return None if packed is None else PackedFiles(self.compacted.folder / packed[0], packed[1])

    def folder_names(self) -> list[str]:
        """Names of the runs in folders of their own."""
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in entries if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _forget(self, name: str) -> None:
        self.damaged.pop(name, None)
        self._signatures.pop(name, None)
        self._records.pop(name, None)

    def _close_gap(self, name: str) -> None:
        """Rename ``ID.3`` to ``ID.2`` after ``ID.2`` was moved, because copies are numbered without a gap."""
        identity, _, number = name.partition(".")
        copy = int(number) if number.isdecimal() else 0
        while copy >= 2 and (later := self.folder / f"{identity}.{copy + 1}").exists():
            later.rename(self.folder / f"{identity}.{copy}")
            self._forget(later.name)
            copy += 1

    def _refuse_equal_copy(self, name: str, record: Record) -> None:
        """Raise DamagedRunError for ``ID.2`` with the files of ``ID``: a copy made by hand, no second result."""
        identity, _, number = name.partition(".")
        for copy in range(1, int(number)) if number.isdecimal() else ():
            earlier = self.record(identity if copy == 1 else f"{identity}.{copy}")
            if earlier is not None and record.digests and earlier.digests == record.digests:
                raise DamagedRunError(f"it has the same files as {identity if copy == 1 else f'{identity}.{copy}'}")


def _check(files: RunFiles, name: str) -> Checked:
    around = [files.state(name) for name in files.around]  # First: what is added from now on changes it.
    content, first = files.content(RECORD_FILE)
    try:
        record = RECORD.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        zeros = "holds nothing but zeros" if content else "is empty"
        said = zeros if not content.strip(b"\0") else "cannot be read as a record"
        raise DamagedRunError(f"unit.json {said}") from None
    _refuse_other_identity(name, record, content)
    states, metrics = [*around, first], b""
    names = [*files.around, RECORD_FILE, *sorted(record.files, key=lambda file: file != METRICS)]
    for file in names[len(states) :]:
        size = record.files[file]
        small = file in SMALL_FILES
        content, state = files.content(file) if small else (b"", files.state(file))
        if state.size != size:
            raise DamagedRunError(f"{file} has {state.size:,} bytes, and {size:,} were stored")
        if small:
            _refuse_other_content(file, content, record.digests.get(file))
        metrics = content if file == METRICS else metrics
        states.append(state)
    return Checked(tuple(names), tuple(states), record, metrics)


def _row(
    name: str, checked: Checked, *, signature: bytes = b"", pack: str = "", places: bytes = b""
) -> tuple[Indexed, RunSpec]:
    """Row of the index for a run, and its specification."""
    record = checked.record
    metrics = {row["metric"]: row["value"] for row in msgspec.json.Decoder().decode_lines(checked.metrics)}
    row = Indexed(
        name=name,
        pack=pack,
        files=checked.files,
        signature=signature,
        places=places,
        head=head_of(record.spec),
        seed=str(record.spec.seed),
        settings=0,
        code=record.code,
        metrics=msgspec.json.encode(metrics),
    )
    return row, record.spec


def _unpack(files: PackedFiles, target: Path) -> None:
    """Write the files of a compacted run into a folder. A damaged file is left out."""
    target.mkdir(parents=True)
    for file in files.places:
        with suppress(DamagedRunError):
            write_whole(target / file, files.content(file)[0])


def _refuse_other_identity(name: str, record: Record, content: bytes) -> None:
    """Compare ``unit.json`` with its checksum, and the name of the folder with the identity."""
    if record.checksum and not is_checksum_right(content, record.checksum):
        raise DamagedRunError("unit.json has another content than was stored")
    folder = name.partition(".")[0]
    if record.key != folder:
        raise DamagedRunError(f"its folder is named {name}, and it holds the run {record.key}")
    if record.checksum or len(folder) != DIGITS:
        return  # intact as written; or of the first layout, whose keys follow from other things than settings
    try:
        identity = record.spec.identity
    except ValueError:
        identity = ""
    if identity != folder:
        raise DamagedRunError("the settings in unit.json are not those of its identity")


def _refuse_other_content(file: str, content: bytes, digest: str | None) -> None:
    if digest is not None:
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedRunError(f"{file} has another content than was stored")
        return
    try:  # a store of an early version, without digests
        rows = msgspec.json.Decoder(list[dict[str, object]]).decode(b"[" + b",".join(content.splitlines()) + b"]")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise DamagedRunError(f"{file} cannot be read") from None
    if file == METRICS and not all({"metric", "value"} <= row.keys() for row in rows):
        raise DamagedRunError(f"{file} has a row without a metric")


def _labels(files: RunFiles, root: Path, name: str) -> dict[str, str]:
    """Study, run and command of a damaged run, from whichever of its files can be read."""
    command, labels = "", None
    try:
        record = RECORD.decode(files.content(RECORD_FILE)[0])
        labels, command = record.spec.labels, str(record.provenance.get("command") or "")
    except (DamagedRunError, msgspec.MsgspecError, ValueError, RecursionError):
        labels = next(_labels_in_rows(files, root, name), None)
    if labels is None:
        return {"study": "", "preset": "", "run": "", "command": command}
    condition = "" if labels["setting"] == "main" else f", {labels['setting']}"
    run = f"{labels['study']}, {labels['scheme']}{condition}, seed {labels['seed']}"
    return {"study": labels["study"], "preset": labels["preset"], "run": run, "command": command}


def _labels_in_rows(files: RunFiles, root: Path, name: str) -> Iterator[Labels]:
    beside = FolderFiles(f"{root}/labels")
    places = ((files, METRICS), (files, CURVES), (beside, f"{name.partition('.')[0]}.jsonl"))
    for place, file in places:
        try:
            yield msgspec.json.decode(place.content(file)[0].partition(b"\n")[0], type=Labels)
        except (DamagedRunError, msgspec.MsgspecError, ValueError, RecursionError):
            continue
