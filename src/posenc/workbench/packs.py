"""Packs: finished results without weights, in files small enough to commit; and the merging of packs and stores.

    STUDY-PRESET.pack      lines of JSON, compressed with xz: a header, then one line per run

A pack holds metrics, curves and small arrays of each run with its specification, labels, timing and provenance. A run
that is merged from a pack counts as finished; a panel that needs its weights says so.
"""

from __future__ import annotations

import base64
import lzma
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from posenc.version import __version__
from posenc.workbench.runs import Row, RunResult, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.stored import LABELS, WEIGHTS, Labels, Stored, StoreError
from posenc.workbench.training.checkpoint import write_whole

if TYPE_CHECKING:
    import numpy as np

ENDING = ".pack"
FORMAT = 1
ARRAY_BYTES = 4096
"""Largest array that a pack carries, in bytes before compression."""
FILE_BYTES = 1_000_000
"""Largest pack; more runs go into further files, ``STUDY-PRESET-2.pack`` and so on."""
CONTENT_BYTES = 64 * 2**20
"""Largest content of one pack after decompression: more is refused, as no pack of this program holds it."""
NO_WEIGHTS = "packs hold no weights"


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a pack."""

    format: int
    made_by: str
    study: str
    preset: str


class PackedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pack. ``curves`` holds one table of columns for consecutive points that have the same columns.

    arrays: dtype, shape and content in base64. left_out: name of each array or file that is not in the pack, and why.
    """

    spec: RunSpec
    labels: list[Labels]
    timing: Row
    provenance: Row
    metrics: dict[str, float | None]
    curves: list[dict[str, list[Any]]]
    arrays: dict[str, tuple[str, list[int], str]]
    left_out: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse, when a pack is read, what could not be merged."""
        if any(len({len(column) for column in table.values()}) > 1 for table in self.curves):
            raise ValueError("columns of a curve have unequal lengths")
        for packed in self.arrays.values():
            _array(*packed)
        _ = self.spec.identity


class Merged(NamedTuple):
    """Counts of a merge: runs that were new, runs that were stored already, runs whose result differs."""

    new: int = 0
    same: int = 0
    different: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.new} new, {self.same} stored already, {len(self.different)} with another result."]
        lines += [f"  {each}: both results are kept." for each in self.different]
        return "\n".join(lines)


def pack(store: Store, folder: Path, study: str | None = None, preset: str | None = None) -> list[Path]:
    """Write the finished runs of a store as packs, without weights. A run of two presets is in the packs of both.

    Args:
        store: The store.
        folder: Receives one or more files for each study and preset; made if absent.
        study: Only this study.
        preset: Only this preset.

    Returns:
        The files, sorted.

    Raises:
        StoreError: The store has no finished run of that study and preset.
    """
    groups: dict[tuple[str, str], list[Stored]] = {}
    for stored in sorted(store.everything(), key=lambda s: (*s.spec.labels.values(), s.name)):
        presets = dict.fromkeys(labels["preset"] for labels in store.labels_of(stored))
        for each in presets if study in (None, stored.spec.study) else ():
            if preset in (None, each):
                groups.setdefault((stored.spec.study, each), []).append(stored)
    if not groups:
        raise StoreError(f"There is nothing to pack: {store.root} has no finished run of that study and preset.")
    folder.mkdir(parents=True, exist_ok=True)
    return [path for group, runs in sorted(groups.items()) for path in _write(store, folder, *group, runs)]


def merge(store: Store, source: Path) -> Merged:
    """Bring the runs of a pack, of a folder of packs or of another store into a store.

    The same identity with an equal result is one run. With an unequal result both are kept; ``posenc results`` shows
    them side by side. A run that came from a pack gets its weights and large arrays from a store that has them.

    Raises:
        StoreError: There is neither pack nor store, or a pack cannot be read; then nothing is merged.
    """
    if source.is_dir() and (source / "format.json").exists():
        other = Store(source, create=False)
        merged = _merge(store, ((each, other.labels_of(each)) for each in other.everything()))
        _copy_data(source / "data", store.root / "data")
        return merged
    files = sorted(source.glob(f"*{ENDING}")) if source.is_dir() else [source]
    if not files or not files[0].exists():
        raise StoreError(f"{source} holds neither a store nor packs. Make packs: posenc store pack {source}")
    for file in files[1:]:
        read(file)  # so that a damaged pack is refused before the first is merged
    merged = Merged()
    for file in files:
        more = _merge(store, [(_Unpacked(run), run.labels) for run in read(file)[1]])
        merged = Merged(merged.new + more.new, merged.same + more.same, merged.different + more.different)
    return merged


def read(path: Path) -> tuple[Header, list[PackedRun]]:
    """Header and runs of a pack.

    Raises:
        StoreError: It is not a pack, it is damaged, or a newer posenc wrote it.
    """
    try:
        decompressor = lzma.LZMADecompressor(memlimit=2**28)
        content = decompressor.decompress(path.read_bytes(), CONTENT_BYTES)
        if not decompressor.eof:
            raise ValueError(f"it ends early or holds more than {CONTENT_BYTES:,} bytes")
        first, *lines = content.splitlines()
        header = msgspec.json.decode(first, type=Header)
        if header.format > FORMAT:
            raise StoreError(f"{path} has format {header.format}; update posenc to read it: pip install -U posenc")
        return header, [msgspec.json.decode(line, type=PackedRun) for line in lines]
    except (OSError, lzma.LZMAError, ValueError, EOFError) as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path} cannot be read as a pack ({error}). Make it again: posenc store pack OUT") from None


def _write(store: Store, folder: Path, study: str, preset: str, runs: Sequence[Stored]) -> Iterator[Path]:
    """Write the runs of one study and preset into as many files as their size asks for."""
    head = msgspec.json.encode(Header(format=FORMAT, made_by=f"posenc {__version__}", study=study, preset=preset))
    left, number = [msgspec.json.encode(_packed(store, stored)) for stored in runs], 1
    while left:
        sizes = accumulate((len(line) + 1 for line in left), initial=len(head) + 1)
        take, data = max(1, sum(size < CONTENT_BYTES for size in sizes) - 1), b""
        while not data or (len(data) > FILE_BYTES and take > 1):
            take = take if not data else max(1, int(take * 0.9 * FILE_BYTES / len(data)))
            data = lzma.compress(b"\n".join([head, *left[:take]]) + b"\n", preset=9)
        path = folder / (f"{study}-{preset}{'' if number == 1 else f'-{number}'}{ENDING}")
        write_whole(path, data)
        yield path
        left, number = left[take:], number + 1


def _packed(store: Store, stored: Stored) -> PackedRun:
    small, left_out = {}, {WEIGHTS: NO_WEIGHTS} | stored.left_out
    for name, array in sorted(stored.arrays.items()):
        if array.nbytes <= ARRAY_BYTES:
            small[name] = (str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode())
        else:
            left_out[name] = f"{array.dtype} {list(array.shape)} is larger than {ARRAY_BYTES} bytes"
    points = [{name: value for name, value in row.items() if name not in (*LABELS, "unit")} for row in stored.curves]
    tables = ((names, list(some)) for names, some in groupby(points, key=tuple))
    return PackedRun(
        spec=stored.spec,
        labels=msgspec.convert(store.labels_of(stored), list[Labels]),
        timing=stored.timing,
        provenance=stored.provenance,
        metrics={name: _json(value) for name, value in stored.metrics.items()},
        curves=[{name: [_json(point[name]) for point in some] for name in names} for names, some in tables],
        arrays=small,
        left_out=left_out,
    )


def _json(value: Any) -> Any:
    """JSON has no nan: null stands for it, as in the files of a store."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Unpacked:
    """A packed run with the parts of a stored one that a merge reads."""

    def __init__(self, run: PackedRun) -> None:
        self.spec, self.timing, self.provenance = run.spec, run.timing, run.provenance
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


def _merge(store: Store, runs: Iterable[tuple[Any, Sequence[Mapping[str, Any]]]]) -> Merged:
    new, same, different = 0, 0, list[str]()
    for run, labels in runs:
        copies = store.copies(run.spec.identity)
        equal = next((copy for copy in copies if _equal(run, copy)), None)
        if equal is None or (run.has_weights and not equal.has_weights):
            points = [{n: v for n, v in row.items() if n not in (*LABELS, "unit")} for row in run.curves]
            weights = run.weights if run.has_weights else {}
            result = RunResult(metrics=run.metrics, curves=points, arrays=run.arrays, weights=weights)
            store.add(run.spec, result, run.timing, run.provenance, left_out=run.left_out, replaces=equal)
        same += equal is not None
        new += not copies
        if copies and equal is None:
            different.append(f"{run.spec.study}, {run.spec.variant}, seed {run.spec.seed}")
        store.note_labels(run.spec.labeled(each) for each in labels)
    return Merged(new, same, tuple(different))


def _equal(run: Any, stored: Stored) -> bool:
    """Whether two results are the same: metrics, curves, and the arrays that both have."""

    def points(rows: Iterable[Row]) -> list[bytes]:
        plain = ({n: _json(v) for n, v in row.items() if n not in (*LABELS, "unit")} for row in rows)
        return [msgspec.json.encode(row, order="sorted") for row in plain]

    metrics = [{name: _json(value) for name, value in each.metrics.items()} for each in (run, stored)]
    both = run.arrays.keys() & stored.arrays.keys()
    alike = all(run.arrays[name].tobytes() == stored.arrays[name].tobytes() for name in both)
    return metrics[0] == metrics[1] and points(run.curves) == points(stored.curves) and alike


def _copy_data(source: Path, target: Path) -> None:
    """Copy data files that a store keeps for its workers, where the other store lacks them."""
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        other = target / path.relative_to(source)
        if path.is_file() and not other.exists():
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, other)
