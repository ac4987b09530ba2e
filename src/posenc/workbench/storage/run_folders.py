"""Folders of a store's runs. Each is checked when it is read: a damaged one is named, and never hides another.

    units/NAME                 folder of a run; NAME is the identity, or ``ID.2`` for a second result of it
    damaged/NAME               a damaged run that was set aside, with ``reason.json``
    replaced/NAME              a run that was trained again with other code, with ``reason.json``

A read compares the folder's name with the identity, the sizes of all files with the stored ones, and the digests of
``unit.json``, metrics and curves. Arrays and weights may be large: their digests are compared when they are read, and
by ``posenc store verify``. Nothing is moved by a read, because another program may be copying files into the store.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from posenc.workbench.files.atomic_files import sync_folder, write_whole
from posenc.workbench.provenance import now
from posenc.workbench.storage.identity import DIGITS
from posenc.workbench.storage.stored import CURVES, METRICS, Damage, DamagedRunError, Labels, Record, is_checksum_right

UNITS, DAMAGED, REPLACED = "units", "damaged", "replaced"
SMALL_FILES = (METRICS, CURVES)
"""Files whose digests are compared by every read."""
OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP)
"""Errors that concern one file. Any other error, such as too many open files, concerns the process."""
RECORD = msgspec.json.Decoder(Record)
Signature = tuple[tuple[int, int, int], ...]
"""Modification time, size and inode of ``unit.json`` and of each file of a run."""


class Checked(NamedTuple):
    """A record that was compared with its files, and the state of the files then."""

    signature: Signature
    record: Record


class RunFolders:
    """Folders of a store's runs.

    Args:
        root: Root of the store.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / UNITS
        self.damaged: dict[str, Damage] = {}
        self._checked: dict[str, Checked] = {}
        self._refused: dict[str, tuple[Signature, Damage]] = {}

    def names(self) -> list[str]:
        """Names of all folders, damaged ones too; hidden files and folders are left out."""
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in entries if not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def record(self, name: str) -> Record | None:
        """Return the record of a run after comparing it with the files, which are read again only if they changed.

        Args:
            name: Name of the folder.

        Returns:
            The record; None if there is no such folder, or if the run is damaged, which ``damaged`` then has.

        Raises:
            OSError: The process cannot read files, for example because too many are open.
        """
        known, folder = self._checked.get(name), f"{self.folder}/{name}"
        try:
            if known is not None and known.signature == _signature(folder, known.record):
                return known.record
            checked = _check(folder, name)
            if name in self._refused and self._refused[name][0] == checked.signature:
                raise DamagedRunError(self._refused[name][1].reason)
            self._refuse_equal_copy(name, checked.record)
        except DamagedRunError as error:
            self._checked.pop(name, None)
            self.damaged.pop(name, None)
            if Path(folder).is_dir():
                self.damaged[name] = Damage(name=name, reason=str(error), **_labels(folder, self.root, name))
            return None
        self.damaged.pop(name, None)
        self._checked[name] = checked
        return checked.record

    def verify(self, name: str, files: Collection[str] | None = None) -> Damage | None:
        """Compare large files of a run with their stored digests. A damaged run is left out from then on.

        Args:
            name: Name of the folder.
            files: Names of the files; None for all.

        Returns:
            The damage; None for a run that is what was stored.
        """
        record, folder = self.record(name), f"{self.folder}/{name}"
        for file, digest in record.digests.items() if record else ():
            if file in SMALL_FILES or (files is not None and file not in files):
                continue
            try:
                if _digest_of_file(f"{folder}/{file}") != digest:
                    raise DamagedRunError(f"{file} has another content than was stored")
            except DamagedRunError as error:
                self.damaged[name] = Damage(name=name, reason=str(error), **_labels(folder, self.root, name))
                self._refused[name] = self._checked.pop(name).signature, self.damaged[name]
                break
        return self.damaged.get(name)

    def verify_all(self) -> int:
        """Compare every file of every run with its stored digest; ``damaged`` then has the damaged runs.

        Returns:
            Number of runs that are what was stored.
        """
        names = [name for name in self.names() if (self.folder / name).is_dir()]
        return sum(self.verify(name) is None for name in names)

    def set_aside(self, name: str, place: str, reason: str) -> Path:
        """Move the folder of a run out of the results, with the reason. Nothing is deleted.

        Args:
            name: Name of the folder.
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
        (self.folder / name).rename(target)
        write_whole(target / "reason.json", msgspec.json.encode({"reason": reason, "at": now()}))
        sync_folder(self.folder)
        self.damaged.pop(name, None)
        self._checked.pop(name, None)
        self._close_gap(name)
        return target

    def _close_gap(self, name: str) -> None:
        """Rename ``ID.3`` to ``ID.2`` after ``ID.2`` was moved, because copies are numbered without a gap."""
        identity, _, number = name.partition(".")
        copy = int(number) if number.isdecimal() else 0
        while copy >= 2 and (later := self.folder / f"{identity}.{copy + 1}").exists():
            later.rename(self.folder / f"{identity}.{copy}")
            self._checked.pop(later.name, None)
            copy += 1

    def _refuse_equal_copy(self, name: str, record: Record) -> None:
        """Raise DamagedRunError for ``ID.2`` with the files of ``ID``: a copy made by hand, no second result."""
        identity, _, number = name.partition(".")
        for copy in range(1, int(number)) if number.isdecimal() else ():
            earlier = self.record(identity if copy == 1 else f"{identity}.{copy}")
            if earlier is not None and record.digests and earlier.digests == record.digests:
                raise DamagedRunError(f"it has the same files as {identity if copy == 1 else f'{identity}.{copy}'}")


def _check(folder: str, name: str) -> Checked:
    content, first = _content(folder, "unit.json")
    try:
        record = RECORD.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        said = "holds nothing but zeros" if not content.strip(b"\0") else "cannot be read as a record"
        raise DamagedRunError(f"unit.json {said}") from None
    _refuse_other_identity(name, record, content)
    states = [first]
    for file, size in record.files.items():
        if file in SMALL_FILES:
            content, state = _content(folder, file)
        else:
            content, state = b"", _state(folder, file)
        if state[1] != size:
            raise DamagedRunError(f"{file} has {state[1]:,} bytes, and {size:,} were stored")
        if file in SMALL_FILES:
            _refuse_other_content(file, content, record.digests.get(file))
        states.append(state)
    return Checked(tuple(states), record)


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


def _content(folder: str, file: str) -> tuple[bytes, tuple[int, int, int]]:
    """Content of a small regular file, and its state. A named pipe or a device in its place is not read."""
    descriptor = -1
    try:
        descriptor = os.open(f"{folder}/{file}", os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise DamagedRunError(f"{file} is not a regular file")
        content = os.read(descriptor, state.st_size)
        while part := os.read(descriptor, 1 << 20) if len(content) < state.st_size else b"":
            content += part
        return content, (state.st_mtime_ns, state.st_size, state.st_ino)
    except OSError as error:
        raise _damage(file, error) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _state(folder: str, file: str) -> tuple[int, int, int]:
    try:
        state = os.stat(f"{folder}/{file}")  # noqa: PTH116 - of every file at every read, where a Path is slow
    except OSError as error:
        raise _damage(file, error) from None
    return state.st_mtime_ns, state.st_size, state.st_ino


def _damage(file: str, error: OSError) -> Exception:
    """The damage of a file that cannot be opened; the error itself if it concerns the process."""
    if error.errno == errno.ENOENT:
        return DamagedRunError(f"{file} is missing")
    return DamagedRunError(f"{file} cannot be read ({error.strerror})") if error.errno in OF_THE_FILE else error


def _signature(folder: str, record: Record) -> Signature:
    return tuple(_state(folder, file) for file in ("unit.json", *record.files))


def _digest_of_file(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _damage(Path(path).name, error) from None


def _labels(folder: str, root: Path, name: str) -> dict[str, str]:
    """Study, run and command of a damaged run, from whichever of its files can be read."""
    command, labels = "", None
    try:
        record = RECORD.decode(_content(folder, "unit.json")[0])
        labels, command = record.spec.labels, str(record.provenance.get("command") or "")
    except (DamagedRunError, msgspec.MsgspecError, ValueError, RecursionError):
        labels = next(_labels_in_rows(folder, root, name), None)
    if labels is None:
        return {"study": "", "preset": "", "run": "", "command": command}
    condition = "" if labels["setting"] == "main" else f", {labels['setting']}"
    run = f"{labels['study']}, {labels['scheme']}{condition}, seed {labels['seed']}"
    return {"study": labels["study"], "preset": labels["preset"], "run": run, "command": command}


def _labels_in_rows(folder: str, root: Path, name: str) -> Iterator[Labels]:
    places: Sequence[tuple[str, str]] = (
        (folder, METRICS),
        (folder, CURVES),
        (f"{root}/labels", f"{name.partition('.')[0]}.jsonl"),
    )
    for place, file in places:
        try:
            yield msgspec.json.decode(_content(place, file)[0].partition(b"\n")[0], type=Labels)
        except (DamagedRunError, msgspec.MsgspecError, ValueError, RecursionError):
            continue
