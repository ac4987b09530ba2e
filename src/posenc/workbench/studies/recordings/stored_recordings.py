"""Recordings in a store: standardized once, split by subject, and read by every worker.

data/recordings-DIGEST/about.json     record: names, modules, coordinates, split
data/recordings-DIGEST/*.npy          standardized time points for training and testing
data/recordings-of-HASH               digest of the recordings of a file or a simulation with this hash
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch

from posenc.positions import Positions, graph, sequence
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens
from posenc.workbench.studies.shared.hidden_tokens.variants import EIGENVECTORS
from posenc.workbench.tasks.recordings import Frames, Recordings, split, standardized_frames
from posenc.workbench.training.checkpoint import write_whole

CHUNK_VALUES = 2**24
"""Values that are written or digested at once."""
NEAREST = 6
"""Channels that each channel is joined to in the graph of their coordinates."""


class RecordingsRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of recordings in a store, without their values. The stored names are constants.

    Attributes:
        channels: Names of the channels.
        modules: Module of each channel, or None.
        coordinates: Coordinates of each channel, or None.
        train: Names of the training recordings.
        train_lengths: Time points of each training recording.
        test: Names of the test recordings.
        note: Sentence on channels that were left out; empty if there are none.
        simulated: True if they are simulated; None in records that were written before this field existed.
    """

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None
    coordinates: list[list[float]] | None
    train: tuple[str, ...]
    train_lengths: tuple[int, ...] = msgspec.field(name="lengths")
    test: tuple[str, ...]
    note: str
    simulated: bool | None = None


class Protocol(NamedTuple):
    """Share of the subjects held out, time points of each test recording, seed of the split."""

    held_out: float
    test_frames: int
    seed: int


def store(
    root: Path, source: str, read: Callable[[], Recordings], protocol: Protocol, *, simulated: bool | None = None
) -> str:
    """Put recordings into a store, unless it already has them, and return their digest.

    Args:
        root: Root of the store.
        source: Text that identifies the recordings of ``read``; recordings of a listed source are not read again.
        read: Reads or simulates the recordings.
        protocol: Split of the recordings.
        simulated: True if they are simulated.

    Raises:
        ValueError: All recordings are of one subject, or ``read`` raises it.
    """
    known = listed_digest(root, source, protocol)
    if known and (folder_of(root, known) / "about.json").exists():
        return known
    recordings = read()
    digest = _digest(recordings, protocol)
    if not (folder_of(root, digest) / "about.json").exists():
        _write_recordings(root, folder_of(root, digest), recordings, protocol, simulated)
    write_whole(_listing_path(root, source, protocol), digest.encode())
    return digest


def listed_digest(root: Path, source: str, protocol: Protocol) -> str:
    """Digest that a store lists for this source; "" if it lists none."""
    path = _listing_path(root, source, protocol)
    return path.read_text() if path.exists() else ""


def _listing_path(root: Path, source: str, protocol: Protocol) -> Path:
    identifier = hashlib.sha256(repr((source, *protocol)).encode()).hexdigest()[:16]
    return root / "data" / f"recordings-of-{identifier}"


def _write_recordings(
    root: Path, folder: Path, recordings: Recordings, protocol: Protocol, simulated: bool | None
) -> None:
    parts = split(recordings, held=protocol.held_out, seed=protocol.seed)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = (standardized_frames(part, folder=root / "data") for part in (parts.train, parts.test))
    sample = test.sample(protocol.test_frames, seed=protocol.seed)
    _write_array(folder / "train.npy", train.values, range(0, len(train)))
    _write_array(folder / "test.npy", test.values, sample)
    np.save(folder / "whose.npy", test.recording[sample].numpy())
    record = RecordingsRecord(
        channels=recordings.channels,
        modules=recordings.modules,
        coordinates=None if recordings.coordinates is None else recordings.coordinates.tolist(),
        train=train.names,
        train_lengths=tuple(torch.bincount(train.recording, minlength=len(train.names)).tolist()),
        test=test.names,
        note=recordings.note,
        simulated=simulated,
    )
    write_whole(folder / "about.json", msgspec.json.encode(record))  # Written last, when all other files exist.


def folder_of(root: Path, digest: str) -> Path:
    """Folder of recordings in a store."""
    return root / "data" / f"recordings-{digest}"


def record_of(root: Path, digest: str) -> RecordingsRecord:
    """The record of recordings. Raises ValueError if the store no longer has it."""
    record = stored_record(root, digest)
    if record is None:
        raise ValueError(
            f"the recordings of this study are no longer in {folder_of(root, digest)}. Run the same command again with "
            "the file."
        )
    return record


def stored_record(root: Path, digest: str) -> RecordingsRecord | None:
    """The record of recordings; None if the store lacks it, such as a store made from packs."""
    try:
        return msgspec.json.decode((folder_of(root, digest) / "about.json").read_bytes(), type=RecordingsRecord)
    except OSError:
        return None


def parts_of(record: RecordingsRecord) -> tuple[Part, ...]:
    """Training and test recordings with their counts."""
    training = {"recordings": len(record.train), "time points": sum(record.train_lengths)}
    return (Part(name="training", counts=training), Part(name="test", counts={"recordings": len(record.test)}))


def dataset_record(record: RecordingsRecord, digest: str, name: str) -> DatasetRecord:
    """Record of a user's recordings, for pages and tables.

    Args:
        record: Record of the stored recordings.
        digest: Digest of the contents of the user's files.
        name: Name of the file or folder.
    """
    given = [word for word, value in (("modules", record.modules), ("coordinates", record.coordinates)) if value]
    return DatasetRecord(
        kind="recordings",
        name=name,
        digest=digest,
        parts=parts_of(record),
        options={
            "channels": len(record.channels),
            "given": " and ".join(given) or "neither modules nor coordinates",
            "split": "by subject",
            "values": "each channel of a recording has mean 0 and standard deviation 1",
        },
        left_out=(record.note,) if record.note else (),
        own=True,
    )


def read_tokens(root: Path, digest: str) -> Tokens:
    """The tokens of stored recordings; training samples are read from disk as they are needed."""
    folder, record = folder_of(root, digest), record_of(root, digest)
    # Copy on write: torch requires writable memory, and the file stays unchanged.
    values = torch.from_numpy(np.load(folder / "train.npy", mmap_mode="c"))
    recording_of = torch.from_numpy(np.load(folder / "whose.npy"))
    recording = torch.repeat_interleave(torch.arange(len(record.train)), torch.tensor(record.train_lengths))
    coordinates = None if record.coordinates is None else torch.tensor(record.coordinates, dtype=torch.float64)
    return Tokens(
        values[..., None],
        torch.from_numpy(np.load(folder / "test.npy"))[..., None],
        recording_of,
        record.test,
        record.channels,
        views(len(record.channels), coordinates),
        modules=record.modules,
        coordinates=coordinates,
        frames=Frames(values, recording, record.train),
    )


def views(count: int, coordinates: torch.Tensor | None) -> dict[str, Positions]:
    """Position views of the channels.

    ``index``: their order. With coordinates also ``places``: the coordinates in units of the median distance to the
    nearest channel, and ``graph``: smooth eigenvectors of the graph that joins nearest channels.
    """
    views = {"index": sequence(count)}
    if coordinates is None:
        return views
    distances = torch.cdist(coordinates, coordinates).fill_diagonal_(torch.inf)
    unit = float(distances.min(1).values.median()) or float(distances[distances.isfinite()].median()) or 1.0
    views["places"] = Positions(((coordinates - coordinates.mean(0)) / unit).float())
    nearest = distances.topk(min(NEAREST, count - 1), dim=1, largest=False).indices
    edges = torch.stack([torch.arange(count)[:, None].expand_as(nearest), nearest], -1).flatten(0, 1)
    if count > EIGENVECTORS:
        views["graph"] = graph(edges, nodes=count, axes=EIGENVECTORS)
    return views


def _write_array(path: Path, values: torch.Tensor, rows: Sequence[int] | torch.Tensor) -> None:
    """Write some rows of an array to a file, a chunk at a time."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial.npy")
    out = np.lib.format.open_memmap(partial, "w+", np.float32, (len(rows), values.shape[1]))
    step = max(1, CHUNK_VALUES // values.shape[1])
    for start in range(0, len(rows), step):
        chunk = rows[start : start + step]
        out[start : start + step] = values[torch.as_tensor(chunk)].numpy()
    out.flush()
    partial.replace(path)


def _digest(recordings: Recordings, protocol: Protocol) -> str:
    """Digest of everything that decides the stored values."""
    digest = hashlib.sha256(repr(tuple(protocol)).encode())
    for names in (recordings.channels, recordings.names, recordings.subjects, recordings.modules):
        digest.update(repr(names).encode())
    digest.update(b"" if recordings.coordinates is None else np.ascontiguousarray(recordings.coordinates).tobytes())
    for series in recordings.series:
        step = max(1, CHUNK_VALUES // len(series))
        for start in range(0, series.shape[1], step):
            digest.update(np.ascontiguousarray(series[:, start : start + step]).tobytes())
    return digest.hexdigest()[:16]
