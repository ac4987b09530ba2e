"""Index of a store's runs in SQLite: labels, metrics, and the states of the files that they were read from.

    index.sqlite     beside the runs; in the cache of the user if the store lies on a network disk or is read-only

The files of the runs are the truth. The index holds copies of what was read and compared with its digests; a row counts
only while the states of its files (time of change, time of modification, size and inode) are those under which it was
read, and each row has a checksum of its own. So the file may be deleted at any time and is made again by the next
reader. Writers of runs never touch it. A store of few runs has none: its index is in memory.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from posenc.workbench.files.network_disk import cache_folder, is_network_disk
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.run_files import Places

FILE = "index.sqlite"
VERSION = 2
FEW = 256
"""Number of runs up to which the index is in memory: reading the files is as fast."""
BUSY_SECONDS = 10.0
BATCH = 500
PAGE = 4096
"""Number of rows that are in memory at a time while all are read."""
TABLES = """
CREATE TABLE IF NOT EXISTS runs (name TEXT, pack TEXT, files TEXT, signature BLOB, places BLOB, study TEXT,
    preset TEXT, head BLOB, seed TEXT, settings INTEGER, code TEXT, metrics BLOB, checksum INTEGER,
    PRIMARY KEY (name, pack));
CREATE INDEX IF NOT EXISTS by_study ON runs (study, preset);
CREATE INDEX IF NOT EXISTS by_pack ON runs (pack) WHERE pack != '';
CREATE TABLE IF NOT EXISTS settings (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, content BLOB);
CREATE TABLE IF NOT EXISTS packs (name TEXT PRIMARY KEY, signature BLOB);
CREATE TABLE IF NOT EXISTS labels (identity TEXT PRIMARY KEY, signature BLOB, lines BLOB) WITHOUT ROWID;
"""
Answer = TypeVar("Answer")


class DamagedIndexError(Exception):
    """Raised if a row of the index is not what was written. The index is then made again."""


class Head(msgspec.Struct, array_like=True, frozen=True):
    """Specification of a run without its settings and its seed: many runs share it."""

    study: str
    preset: str
    condition: str
    variant: str
    procedure: str
    version: int
    entry: str
    parents: dict[str, str]


class Indexed(NamedTuple):
    """Row of the index.

    Attributes:
        name: Name of the run's folder.
        pack: Name of its pack; "" for a run in a folder of its own.
        files: Names of its files, joined by spaces.
        signature: States of its files, in the order of the names; of a compacted run, empty.
        places: Places of its files in the pack; empty for a run in a folder of its own.
        head: Specification without settings and seed, as JSON.
        seed: Seed, as text: a seed may be larger than an integer of SQLite.
        settings: Number of the settings.
        code: Key of the code.
        metrics: Metrics as JSON.
        checksum: Checksum of the row.
    """

    name: str
    pack: str
    files: str
    signature: bytes
    places: bytes
    head: bytes
    seed: str
    settings: int
    code: str
    metrics: bytes
    checksum: int = 0


class RunRow(NamedTuple):
    """Columns of a row of the index that a selection of runs reads, as ``Indexed`` has them.

    Attributes:
        name: Name of the run's folder.
        pack: Name of its pack; "" for a run in a folder of its own.
        head: Specification without settings and seed, as JSON; empty for a damaged run.
        seed: Seed, as text.
        settings: Number of the settings.
        code: Key of the code.
        metrics: Metrics as JSON.
        checksum: Checksum of the row.
    """

    name: str
    pack: str
    head: bytes
    seed: str
    settings: int
    code: str
    metrics: bytes
    checksum: int


class RunIndex:
    """Index of the runs of a store. An error of SQLite makes it empty and in memory; it never ends a command.

    Args:
        root: Root of the store.

    Attributes:
        opened: Number of times that the index was opened. A greater number means that an index in memory is lost.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.opened = 0
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._persistent = False
        self._settings: dict[int, dict[str, Any]] = {}

    @property
    def path(self) -> Path:
        """File of the index."""
        if is_network_disk(self.root) or not os.access(self.root, os.W_OK):
            digest = hashlib.sha256(os.path.realpath(self.root).encode()).hexdigest()[:24]
            return cache_folder() / "stores" / f"{digest}.sqlite"
        return self.root / FILE

    def persist(self) -> None:
        """Keep the index in its file from now on. What it has in memory is copied by the next reader of the files."""
        with self._lock:
            if not self._persistent:
                self.close()
                self._persistent = True

    def reset(self) -> None:
        """Remove what the index has; the next reader of the files makes it again."""
        with self._lock:
            path = self.path
            self.close()
            if self._persistent:
                remove_index(path)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None
            self._settings = {}

    # -- reading -------------------------------------------------------------------------------------------------

    def signatures(self, study: str | None = None, preset: str | None = None) -> Iterator[tuple[str, str, bytes]]:
        """Iterate over the runs in folders of their own, a part of them in memory at a time.

        Args:
            study: Only this study has names and states of files; None for all.
            preset: Only this preset has names and states of files; None for all.

        Yields:
            Name of a run, names of its files, and their states. Further runs follow, without names and states.
        """
        where, values = _condition(study, preset)
        yield from self._paged("name, files, signature", f"pack = '' AND {where}", values)
        if values:
            yield from ((name, "", b"") for (name,) in self._all("SELECT name FROM runs WHERE pack = ''"))

    def signature(self, name: str) -> tuple[str, bytes] | None:
        """Names and states of the files of one run in a folder of its own; None if the index lacks it."""
        rows = self._all("SELECT files, signature FROM runs WHERE name = ? AND pack = ''", (name,))
        return rows[0] if rows else None

    def packed(self, name: str) -> tuple[str, Places] | None:
        """Pack and places of the files of a compacted run; None if the index lacks it."""
        rows = self._all("SELECT pack, places FROM runs WHERE name = ? AND pack != ''", (name,))
        return (rows[0][0], decoded_places(rows[0][1])) if rows else None

    def packed_names(self) -> list[str]:
        """Names of all compacted runs."""
        return [row[0] for row in self._all("SELECT name FROM runs WHERE pack != ''")]

    def names(self) -> list[str]:
        """Names of all intact runs, those in two places twice."""
        return [row[0] for row in self._all("SELECT name FROM runs WHERE head != x''")]

    def packs(self) -> dict[str, bytes]:
        """Name of each pack to the states of its archives."""
        return dict(self._all("SELECT name, signature FROM packs"))

    def rows(self, study: str | None = None, preset: str | None = None) -> Iterator[RunRow]:
        """Rows of a study and preset by their own labels.

        Args:
            study: Only this study; None for all.
            preset: Only this preset; None for all.

        Yields:
            The rows.

        Raises:
            DamagedIndexError: A row is not what was written.
        """
        yield from _right(self._paged(_COLUMNS, *_condition(study, preset)))

    def rows_named(self, identities: Iterable[str]) -> Iterator[RunRow]:
        """Rows of runs and of their copies.

        Args:
            identities: Identities, or names of folders of the first layout.

        Yields:
            The rows.

        Raises:
            DamagedIndexError: A row is not what was written.
        """
        every = list(identities)
        for first in range(0, len(every), BATCH):
            some = every[first : first + BATCH]
            yield from self._named(f"name IN ({', '.join('?' * len(some))})", *some)
        if len(every) > BATCH:
            wanted = set(every)
            copies = [row[0] for row in self._all("SELECT name FROM runs WHERE instr(name, '.')")]
            copies = [name for name in copies if name.partition(".")[0] in wanted]
        else:
            query = "SELECT name FROM runs WHERE name > ? AND name < ?"
            copies = [row[0] for each in every for row in self._all(query, (f"{each}.", f"{each}/"))]
        for name in copies:
            yield from self._named("name = ?", name)

    def settings(self, number: int) -> dict[str, Any]:
        """Settings of runs by their number. Runs of equal settings share them: do not change them.

        Args:
            number: The number.

        Returns:
            The settings.

        Raises:
            DamagedIndexError: They are not what was written.
        """
        if number not in self._settings:
            rows = self._all("SELECT content, digest FROM settings WHERE id = ?", (number,))
            if not rows or _digest(rows[0][0]) != rows[0][1]:
                raise DamagedIndexError
            self._settings[number] = msgspec.json.decode(rows[0][0], type=dict[str, Any])
        return self._settings[number]

    def labels(self) -> dict[str, tuple[bytes, bytes]]:
        """Identity to the state of its file of further labels and their lines, for files without damage."""
        return {name: (state, lines) for name, state, lines in self._all("SELECT * FROM labels")}

    # -- writing -------------------------------------------------------------------------------------------------

    def put(self, rows: Iterable[tuple[Indexed, RunSpec]]) -> None:
        """Add or replace rows.

        Args:
            rows: Rows whose number of settings is not yet known, each with its specification.
        """
        with self._lock:
            self._write(lambda database: _put(database, rows))

    def remove(self, names: Iterable[str]) -> None:
        """Remove runs in folders of their own by name."""
        every = [(name,) for name in names]
        self._write(lambda database: database.executemany("DELETE FROM runs WHERE name = ? AND pack = ''", every))

    def put_pack(self, pack: str, states: bytes | None, rows: Iterable[tuple[Indexed, RunSpec | None]] = ()) -> None:
        """Replace the rows of a pack.

        Args:
            pack: Name of the pack.
            states: States of its archives; None if it is gone.
            rows: Its runs; of a damaged one only name and places, without a specification.
        """

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM runs WHERE pack = ?", (pack,))
            database.execute("DELETE FROM packs WHERE name = ?", (pack,))
            if states is not None:
                _put(database, rows)
                database.execute("INSERT INTO packs VALUES (?, ?)", (pack, states))

        self._write(write)

    def put_labels(self, changed: Iterable[tuple[str, bytes, bytes]], gone: Iterable[str]) -> None:
        """Replace and remove further labels.

        Args:
            changed: Identity, state of the file and lines.
            gone: Identities without a file.
        """

        def write(database: sqlite3.Connection) -> None:
            database.executemany("DELETE FROM labels WHERE identity = ?", [(each,) for each in gone])
            database.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", list(changed))

        self._write(write)

    # -- SQLite --------------------------------------------------------------------------------------------------

    def _named(self, where: str, *names: str) -> Iterator[RunRow]:
        return _right(self._all(f"SELECT {_COLUMNS} FROM runs WHERE {where}", names))

    def _paged(self, columns: str, where: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Columns of the rows of a condition in the order of their numbers, some thousand in memory at a time."""
        query = f"SELECT {columns}, rowid FROM runs WHERE {where} AND rowid > ? ORDER BY rowid LIMIT {PAGE}"
        last = 0
        while rows := self._all(query, (*values, last)):
            last = rows[-1][-1]
            yield from (row[:-1] for row in rows)

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        return self._with(lambda database: database.execute(query, values).fetchall(), list)

    def _write(self, work: Callable[[sqlite3.Connection], object]) -> None:
        def write(database: sqlite3.Connection) -> None:
            with database:  # one transaction
                database.execute("BEGIN IMMEDIATE")
                work(database)

        self._with(write, lambda: None)

    def _with(self, work: Callable[[sqlite3.Connection], Answer], otherwise: Callable[[], Answer]) -> Answer:
        """Call a function with the connection. A damaged or unusable file is replaced by an index in memory."""
        with self._lock:
            for _ in range(2):
                try:
                    return work(self._open())
                except sqlite3.Error as error:
                    path, broken = self.path, type(error) is sqlite3.DatabaseError
                    self.close()
                    if broken and self._persistent:
                        remove_index(path)
                    else:
                        self._persistent = False
            return otherwise()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None or self._process != os.getpid():
            self._process, where = os.getpid(), ":memory:"
            self.opened += 1
            if self._persistent:
                path = self.path
                with suppress(OSError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                where = str(path)
            connection = sqlite3.connect(where, BUSY_SECONDS, check_same_thread=False, isolation_level=None)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                connection.close()
                raise sqlite3.DatabaseError(f"version {version}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(TABLES)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            self._connection = connection
        return self._connection


def remove_index(path: Path) -> None:
    """Remove a file of an index.

    Args:
        path: The file.
    """
    for ending in ("", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + ending).unlink()


def decoded_places(places: bytes) -> Places:
    """Places of the files of a compacted run, from the form that a row has.

    Args:
        places: The form in the index.

    Returns:
        The places.
    """
    return msgspec.json.decode(places, type=Places)


def spec_of(head: Head, seed: int, settings: dict[str, Any]) -> RunSpec:
    """Specification of a run from the parts that the index has.

    Args:
        head: Specification without settings and seed.
        seed: The seed.
        settings: The settings.

    Returns:
        The specification, under its stored labels.
    """
    return RunSpec(
        study=head.study,
        variant=head.variant,
        seed=seed,
        preset=head.preset,
        condition=head.condition,
        procedure=head.procedure,
        version=head.version,
        entry=head.entry,
        parents=head.parents,
        settings=settings,
    )


def head_of(spec: RunSpec) -> bytes:
    """Specification of a run without settings and seed, as JSON.

    Args:
        spec: The run.

    Returns:
        The JSON of a ``Head``.
    """
    labels = (spec.study, spec.preset, spec.condition, spec.variant)
    return msgspec.json.encode(Head(*labels, spec.procedure, spec.version, spec.entry, dict(spec.parents)))


_COLUMNS = ", ".join(RunRow._fields)


def _condition(study: str | None, preset: str | None) -> tuple[str, tuple[str, ...]]:
    """Condition of SQL on study and preset, and its values."""
    chosen = {name: value for name, value in (("study", study), ("preset", preset)) if value is not None}
    return " AND ".join(f"{name} = ?" for name in chosen) or "1", tuple(chosen.values())


def _put(database: sqlite3.Connection, rows: Iterable[tuple[Indexed, RunSpec | None]]) -> None:
    numbers = dict[bytes, int]()
    for indexed, spec in rows:
        content = msgspec.json.encode(spec.settings if spec else {})
        if content not in numbers:
            digest = _digest(content)
            database.execute("INSERT OR IGNORE INTO settings (digest, content) VALUES (?, ?)", (digest, content))
            numbers[content] = database.execute("SELECT id FROM settings WHERE digest = ?", (digest,)).fetchone()[0]
        row = indexed._replace(settings=numbers[content])
        labels = (spec.study, spec.preset) if spec else ("", "")
        checksum = _checksum(row.name, row.head, row.seed, row.settings, row.code, row.metrics)
        values = (*row[:5], *labels, *row[5:-1], checksum)
        database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def _right(rows: Iterable[tuple[Any, ...]]) -> Iterator[RunRow]:
    """Rows whose checksums are compared; DamagedIndexError for one that is not what was written."""
    for row in map(RunRow._make, rows):
        name, _, head, seed, settings, code, metrics, checksum = row
        if _checksum(name, head, seed, settings, code, metrics) != checksum:
            raise DamagedIndexError
        yield row


def _checksum(name: str, head: bytes, seed: str, settings: int, code: str, metrics: bytes) -> int:
    return crc32(metrics, crc32(head, crc32(f"{name} {seed} {settings} {code}".encode())))


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:16]
