"""Packs: files with finished results, without weights, small enough to commit; merging of packs and stores.

    STUDY-PRESET.pack      lines of JSON, compressed with xz: a header, then one line per run

A pack holds metrics, curves and small arrays of each run with its specification, labels, timing and provenance. A run
that is merged from a pack counts as finished; a panel that needs its weights shows a note instead.
"""

from __future__ import annotations

import base64
import lzma
import math
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from posenc.version import __version__
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.output_files import write_outputs
from posenc.workbench.files.user_files import read_bytes
from posenc.workbench.request_checks import no_pack
from posenc.workbench.runs import Row, RunResult, RunSpec
from posenc.workbench.storage.run_copies import copy_runs
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import LABELS, WEIGHTS, Labels, Stored, StoreError
from posenc.workbench.variant_labels import relabeled

if TYPE_CHECKING:
    import numpy as np

ENDING = ".pack"
FORMAT = 1
ARRAY_BYTES = 4096
"""Largest array in a pack, in bytes before compression, if nothing else is asked."""
FILE_BYTES = 1_000_000
"""Largest pack in bytes; further runs are written to ``STUDY-PRESET-2.pack`` and so on."""
CONTENT_BYTES = 64 * 2**20
"""Largest content of a pack in bytes after decompression. A larger file is refused, because ``pack`` writes none."""
NO_WEIGHTS = "packs hold no weights"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a pack."""

    format: int
    made_by: str
    study: str
    preset: str


class PackedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pack.

    Attributes:
        spec: Specification of the run.
        labels: Labels under which it is stored.
        timing: Seconds, device and the like.
        provenance: Command, commit, versions and machine. An absolute path in the command keeps its last part.
        metrics: Metrics by name; None for nan.
        curves: Tables of columns; each holds consecutive points of a curve that have the same columns.
        arrays: Name to dtype, shape and content in base64.
        left_out: Name of each array or file that is not in the pack, and the reason.
        record: Record of the data of the run; None for a run without one, and in packs of earlier versions.
        code: Module to digest, for the source files that made the result; empty in packs of earlier versions.
    """

    spec: RunSpec
    labels: list[Labels]
    timing: Row
    provenance: Row
    metrics: dict[str, float | None]
    curves: list[dict[str, list[Any]]]
    arrays: dict[str, tuple[str, list[int], str]]
    left_out: dict[str, str]
    record: DatasetRecord | None = None
    code: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Raise ValueError for a run that could not be merged."""
        if any(len({len(column) for column in table.values()}) > 1 for table in self.curves):
            raise ValueError("columns of a curve have unequal lengths")
        for packed in self.arrays.values():
            _array(*packed)
        _ = self.spec.identity


class MergeCounts(NamedTuple):
    """Counts of a merge.

    Attributes:
        new: Number of runs that the store did not have.
        same: Number of runs that the store had with an equal result.
        different: Names of the runs that the store had with another result; both results are kept.

    Example:
        >>> from posenc.workbench import MergeCounts
        >>> print(MergeCounts(new=3))
        3 new, 0 stored already, 0 with another result.
    """

    new: int = 0
    same: int = 0
    different: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.new} new, {self.same} stored already, {len(self.different)} with another result."]
        lines += [f"  {each}: both results are kept." for each in self.different]
        return "\n".join(lines)


def pack(
    store: Store,
    folder: Path,
    study: str | None = None,
    preset: str | None = None,
    *,
    array_bytes: int | None = None,
    force: bool = False,
) -> list[Path]:
    """Write the finished runs of a store as packs, without weights. A run of two presets is in the packs of both.

    Args:
        store: The store.
        folder: Folder of the packs, with one or more files for each study and preset; made if it does not exist.
        study: Only this study; None for all.
        preset: Only this preset; None for all.
        array_bytes: Largest array that is written, in bytes before compression. Default: 4096. A panel whose array is
            left out is not drawn from the pack.
        force: True to replace packs that exist.

    Returns:
        The files, sorted.

    Raises:
        StoreError: The store has no finished run of that study and preset.
        ValueError: A pack exists, without ``force``, the folder cannot be written, or ``array_bytes`` is negative.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from posenc.workbench import RunResult, RunSpec, Store, merge, pack
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store = Store(tempfile.mkdtemp())
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> files = pack(store, Path(tempfile.mkdtemp()))
        >>> [file.name for file in files]
        ['toy-quick.pack']
        >>> print(merge(Store(tempfile.mkdtemp()), files[0]))
        1 new, 0 stored already, 0 with another result.
    """
    largest = ARRAY_BYTES if array_bytes is None else array_bytes
    if largest < 0:
        raise ValueError(f"array_bytes is a number of bytes, at least 0; got {largest}.")
    groups: dict[tuple[str, str], list[Stored]] = {}
    for stored in sorted(store.everything(), key=lambda s: (*s.spec.labels.values(), s.name)):
        presets = dict.fromkeys(labels["preset"] for labels in store.labels_of(stored))
        for each in presets if study in (None, stored.spec.study) else ():
            if preset in (None, each):
                groups.setdefault((stored.spec.study, each), []).append(stored)
    if not groups:
        raise StoreError(f"There is nothing to pack: {store.root} has no finished run of that study and preset.")
    files = [file for group, runs in sorted(groups.items()) for file in _packs(store, folder, group, runs, largest)]
    return write_outputs(((path, partial(_write, data)) for path, data in files), force=force, option="DIR:")


def merge(store: Store, source: Path) -> MergeCounts:
    """Copy the runs of a pack, of a folder of packs or of another store into a store.

    A run that the store has with an equal result is not copied. If the results differ, both are kept, and ``posenc
    results`` shows both. A run that came from a pack receives its weights and large arrays from a store or a pack that
    has them.

    Args:
        store: Receives the runs.
        source: A pack, a folder of packs, or the folder of another store.

    Returns:
        Number of new and equal runs, and the runs whose results differ.

    Raises:
        StoreError: ``source`` is neither a pack nor a store, or a pack is damaged. Then nothing is merged.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from posenc.workbench import RunResult, RunSpec, Store, merge
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> ours, other = Store(tempfile.mkdtemp()), Store(tempfile.mkdtemp())
        >>> other.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> print(merge(ours, other.root))
        1 new, 0 stored already, 0 with another result.
    """
    if source.is_dir() and (source / "format.json").exists():
        other = Store(source, create=False)
        _copy_data(source / "code", store.root / "code")
        merged = _merge_store(store, other)
        _copy_data(source / "data", store.root / "data")
        return merged
    files = sorted(source.glob(f"*{ENDING}")) if source.is_dir() else [source]
    if not files or not files[0].exists():
        raise StoreError(f"{source} holds neither a store nor packs. Make packs: posenc store pack {source}")
    for file in files[1:]:
        read(file)  # so that a damaged pack is refused before any pack is merged
    merged = MergeCounts()
    for file in files:
        runs = read(file)[1]
        for record in {run.record.key: run.record for run in runs if run.record is not None}.values():
            if store.records.get(record.key) is None:
                store.records.add(record)
        more = _merge(store, [(_Unpacked(run), run.labels) for run in runs])
        merged = MergeCounts(merged.new + more.new, merged.same + more.same, merged.different + more.different)
    return merged


def refuse_absent(source: Path) -> None:
    """Raise an error for a source of a merge that does not exist, before a store is made.

    Args:
        source: A pack, a folder of packs or a store.

    Raises:
        StoreError: It does not exist.
    """
    if not source.exists():
        raise StoreError(no_pack(source))


def _portable(provenance: Row) -> Row:
    """Provenance without the paths of one machine: an absolute path in the command keeps its last part."""
    command = provenance.get("command")
    if not isinstance(command, str):
        return provenance
    try:
        words = shlex.split(command)
    except ValueError:  # quotes that do not match
        words = command.split()
    return {**provenance, "command": shlex.join(map(_last_part, words))}


def _last_part(word: str) -> str:
    """A word of a command, with ``/a/b/c`` replaced by ``c``, also after ``=``."""
    flag, equals, value = word.partition("=")
    if word.startswith("/"):
        return Path(word).name
    return f"{flag}={Path(value).name}" if equals and value.startswith("/") else word


def read(path: Path) -> tuple[Header, list[PackedRun]]:
    """Read a pack.

    Args:
        path: The file.

    Returns:
        The header and the runs.

    Raises:
        StoreError: The file is not a pack, it is damaged, or a newer posenc wrote it.
    """
    try:
        decompressor = lzma.LZMADecompressor(memlimit=2**28)
        content = decompressor.decompress(read_bytes(path, wanted="a pack"), CONTENT_BYTES)
        if not decompressor.eof:
            raise ValueError(f"it ends early or holds more than {CONTENT_BYTES:,} bytes")
        first, *lines = content.splitlines()
        header = msgspec.json.decode(first, type=Header)
        if header.format not in range(1, FORMAT + 1):
            raise StoreError(
                f"{path} has format {header.format}; update posenc to read it, if it is newer than {FORMAT}: "
                "pip install -U posenc"
            )
        return header, [msgspec.json.decode(line, type=PackedRun) for line in lines]
    except (OSError, lzma.LZMAError, ValueError, EOFError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path} cannot be read as a pack ({error}). Make it again: posenc store pack OUT") from None


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _packs(
    store: Store, folder: Path, group: tuple[str, str], runs: Sequence[Stored], largest: int
) -> Iterator[tuple[Path, bytes]]:
    """Names and contents of the packs of one study and preset, as many as their size needs."""
    study, preset = group
    head = msgspec.json.encode(Header(format=FORMAT, made_by=f"posenc {__version__}", study=study, preset=preset))
    left, number = [msgspec.json.encode(_packed(store, stored, largest)) for stored in runs], 1
    while left:
        sizes = accumulate((len(line) + 1 for line in left), initial=len(head) + 1)
        take, data = max(1, sum(size < CONTENT_BYTES for size in sizes) - 1), b""
        while not data or (len(data) > FILE_BYTES and take > 1):
            take = take if not data else max(1, int(take * 0.9 * FILE_BYTES / len(data)))
            data = lzma.compress(b"\n".join([head, *left[:take]]) + b"\n", preset=9)
        label = preset.replace("/", "_")
        yield folder / (f"{study}-{label}{'' if number == 1 else f'-{number}'}{ENDING}"), data
        left, number = left[take:], number + 1


def _packed(store: Store, stored: Stored, largest: int) -> PackedRun:
    small, left_out = {}, {WEIGHTS: NO_WEIGHTS} | stored.left_out
    for name, array in sorted(stored.arrays.items()):
        if array.nbytes <= largest:
            small[name] = (str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode())
        else:
            left_out[name] = f"{array.dtype} {list(array.shape)} is larger than {largest} bytes"
    points = [{name: value for name, value in row.items() if name not in (*LABELS, "unit")} for row in stored.curves]
    tables = ((names, list(some)) for names, some in groupby(points, key=tuple))
    return PackedRun(
        spec=stored.spec,
        labels=msgspec.convert(store.labels_of(stored), list[Labels]),
        timing=stored.timing,
        provenance=_portable(stored.provenance),
        metrics={name: _json(value) for name, value in stored.metrics.items()},
        curves=[{name: [_json(point[name]) for point in some] for name in names} for names, some in tables],
        arrays=small,
        left_out=left_out,
        record=store.record_of(stored.spec),
        code=store.code.get(stored.code),
    )


def _json(value: Any) -> Any:
    """Replace nan by None, because JSON has no nan; the files of a store do the same."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Unpacked:
    """A run of a pack, with the attributes of ``Stored`` that a merge reads."""

    def __init__(self, run: PackedRun) -> None:
        self.spec, self.timing, self.provenance, self.digests_of_code = run.spec, run.timing, run.provenance, run.code
        self.left_out = {WEIGHTS: NO_WEIGHTS} | run.left_out
        self.metrics = {name: math.nan if value is None else value for name, value in run.metrics.items()}
        self.curves: list[Row] = [
            {name: _number(name, value) for name, value in zip(table, values, strict=True)}
            for table in run.curves
            for values in zip(*table.values(), strict=True)
        ]
        self.arrays = {name: _array(*packed) for name, packed in run.arrays.items()}
        self.has_weights, self.weights = False, dict[str, Any]()


def _number(name: str, value: Any) -> Any:
    return math.nan if name == "value" and value is None else value


def _array(dtype: str, shape: list[int], data: str) -> np.ndarray:
    import numpy as np

    if np.dtype(dtype).kind not in "biuf":
        raise ValueError(f"an array has the type {dtype}")
    return np.frombuffer(base64.b64decode(data), dtype=np.dtype(dtype)).reshape(shape).copy()


def _merge(store: Store, runs: Iterable[tuple[Any, Sequence[Mapping[str, Any]]]]) -> MergeCounts:
    new, same, different = 0, 0, list[str]()
    for run, labels in runs:
        copies = store.copies(run.spec.identity)
        equal = next((copy for copy in copies if _equal(run, copy)), None)
        if equal is None or _has_more(run, equal):
            points = [{n: v for n, v in row.items() if n not in (*LABELS, "unit")} for row in run.curves]
            weights = run.weights if run.has_weights else {}
            result = RunResult(metrics=run.metrics, curves=points, arrays=run.arrays, weights=weights)
            code = run.digests_of_code if isinstance(run, _Unpacked) else store.code.get(run.code)
            origin, options = run.provenance, {"left_out": run.left_out, "replaces": equal, "code": code}
            store.add(relabeled(run.spec), result, run.timing, origin, **options)
        same += equal is not None
        new += not copies
        if copies and equal is None:
            different.append(f"{run.spec.study}, {run.spec.variant}, seed {run.spec.seed}")
        store.note_labels(relabeled(run.spec.labeled(each)) for each in labels)
    return MergeCounts(new, same, tuple(different))


def _merge_store(store: Store, other: Store) -> MergeCounts:
    """Merge a store: new runs as copies of their files, and those that are stored already one by one."""
    names = other.folders.names()
    present = store.finished_among(name.partition(".")[0] for name in names)
    new, rest = list[Stored](), list[Stored]()
    for stored in filter(None, map(other.stored, names)):
        plain = stored.folder.name == stored.identity and not (store.root / "units" / stored.identity).exists()
        (new if plain and stored.identity not in present else rest).append(stored)
    copied, left = copy_runs(store, other, new)
    not_copied = {stored.folder.name for stored in left}
    for stored in new:
        further = other.labels_of(stored)[1:] if stored.folder.name not in not_copied else []
        store.note_labels(stored.spec.labeled(labels) for labels in further)
    merged = _merge(store, ((each, other.labels_of(each)) for each in (*rest, *left)))
    return MergeCounts(copied + merged.new, merged.same, merged.different)


def _has_more(run: Any, stored: Stored) -> bool:
    """True if a result has all that an equal one has, and more."""
    return _contents(run) > _contents(stored) or set(run.left_out) < set(stored.left_out)


def _contents(run: Any) -> set[tuple[str, str]]:
    """Kinds and names of what a result has."""
    named = {("metric", name) for name in run.metrics} | {("array", name) for name in run.arrays}
    return named | ({("weights", "")} if run.has_weights else set())


def _left_out(run: Any) -> set[tuple[str, str]]:
    """Kinds and names of what a pack left out of a result."""
    return {("weights", "") if name == WEIGHTS else ("array", name) for name in run.left_out}


def _equal(run: Any, stored: Stored) -> bool:
    """Return True if two results are equal where both have something, and one has all that the other has."""

    def points(rows: Iterable[Row]) -> list[bytes]:
        plain = ({n: _json(v) for n, v in row.items() if n not in (*LABELS, "unit")} for row in rows)
        return [msgspec.json.encode(row, order="sorted") for row in plain]

    if isinstance(run, Stored) and run.digests and run.digests == stored.digests:
        return True
    metrics = [{name: _json(value) for name, value in each.metrics.items()} for each in (run, stored)]
    own, other = _contents(run) - _left_out(stored), _contents(stored) - _left_out(run)
    if not (own <= other or own >= other):  # a later version may store more of the same run
        return False
    both = run.arrays.keys() & stored.arrays.keys()
    alike = all(_same_array(run.arrays[name], stored.arrays[name]) for name in both)
    shared = metrics[0].keys() & metrics[1].keys()
    same = alike and all(metrics[0][name] == metrics[1][name] for name in shared)
    if not same or points(run.curves) != points(stored.curves):
        return False
    return not (run.has_weights and stored.has_weights) or _same_weights(run.weights, stored.weights)


def _same_array(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _same_weights(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def _copy_data(source: Path, target: Path) -> None:
    """Copy the data files that a store keeps for its runs, if the other store does not have them."""
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        other = target / path.relative_to(source)
        if path.is_file() and not other.exists():
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, other)
