"""Recordings in a store: standardized once, split by subject, and read by every worker.

data/recordings-DIGEST/about.json     record: names, modules, coordinates, split
data/recordings-DIGEST/*.npy          standardized time points for training and testing
data/recordings-of-HASH               digest of the recordings of a file or a simulation with this hash
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from posenc.graph_data.builders import graph
from posenc.measure.distances import token_distances
from posenc.positions import Positions, sequence
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.atomic_files import replaced_file, write_whole
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens
from posenc.workbench.studies.shared.hidden_tokens.variants import EIGENVECTORS
from posenc.workbench.tasks.equal_items import TRAINING, equal_items_note
from posenc.workbench.tasks.recordings import Frames, Recordings, one_subject, split, standardized_frames

CHUNK_VALUES = 2**24
"""Values that are written or digested at once."""
NEAREST = 6
"""Channels that each channel is joined to in the graph of their coordinates."""
TEST_SUBJECTS, VALIDATION_SUBJECTS = 0.3, 0.15
"""Shares of the subjects for testing and for validation, where both depend on the seed."""
TRAINED_TIME, VALIDATED_TIME = 0.75, 0.8
"""End of the training part and start of the validation part of a recording, where two subjects leave none for it."""
VALIDATION_FRAMES = 2048
"""Largest number of time points for validation."""


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
        subjects: Subject of each training recording, where the seed of a run decides which of them are for training.
        blocks: Number of blocks that each recording of a single subject was cut into; None for whole recordings.
    """

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None
    coordinates: list[list[float]] | None
    train: tuple[str, ...]
    train_lengths: tuple[int, ...] = msgspec.field(name="lengths")
    test: tuple[str, ...]
    note: str
    simulated: bool | None = None
    subjects: tuple[str, ...] | None = None
    blocks: int | None = None


class Protocol(NamedTuple):
    """Share of the subjects held out, time points of each test recording, seed of the split.

    With a share of 0 all recordings are kept whole, and the seed of a run decides which are held out.
    """

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
    if (whole := protocol.held_out == 0) and len(set(recordings.subjects)) == 1:
        raise ValueError(one_subject(recordings.subjects[0]))
    folder.mkdir(parents=True, exist_ok=True)
    if whole:
        train, tested = standardized_frames(recordings, folder=root / "data"), ()
    else:
        parts = split(recordings, held=protocol.held_out, seed=protocol.seed)
        train, test = (standardized_frames(part, folder=root / "data") for part in (parts.train, parts.test))
        sample, tested = test.sample(protocol.test_frames, seed=protocol.seed), test.names
        _write_array(folder / "test.npy", test.values, sample)
        np.save(folder / "whose.npy", test.recording[sample].numpy())
    _write_array(folder / "train.npy", train.values, range(0, len(train)))
    record = RecordingsRecord(
        channels=recordings.channels,
        modules=recordings.modules,
        coordinates=None if recordings.coordinates is None else recordings.coordinates.tolist(),
        train=train.names,
        train_lengths=tuple(torch.bincount(train.recording, minlength=len(train.names)).tolist()),
        test=tested,
        note=recordings.note,
        simulated=simulated,
        subjects=recordings.subjects if whole else None,
        blocks=recordings.blocks,
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


def unit_of(record: RecordingsRecord) -> str:
    """Unit that is held out: recordings, blocks of one recording, or subjects with several recordings."""
    if record.blocks:
        return "blocks"
    return "recordings" if len(set(record.subjects or ())) == len(record.train) else "subjects"


def parts_of(record: RecordingsRecord) -> tuple[Part, ...]:
    """Training, validation and test recordings with their counts."""
    if record.subjects is not None:
        counts, unit = subject_parts(record, seed=0).counts, unit_of(record)
        names = {"train": "training", "validation": "validation", "test": "test"}
        return tuple(Part(name=names[name], counts={unit: count}) for name, count in counts.items() if count)
    training = {"recordings": len(record.train), "time points": sum(record.train_lengths)}
    return (Part(name="training", counts=training), Part(name="test", counts={"recordings": len(record.test)}))


def equal_recordings_note(root: Path, digest: str) -> str:
    """Sentence on recordings of different subjects that are equal; "" without such recordings.

    Args:
        root: Root of the store.
        digest: Digest of recordings that are kept whole.
    """
    folder, record = folder_of(root, digest), record_of(root, digest)
    if record.subjects is None or not (folder / "train.npy").exists():
        return ""
    values = np.load(folder / "train.npy", mmap_mode="r")
    ends = np.cumsum(record.train_lengths)
    places = [slice(int(end) - length, int(end)) for end, length in zip(ends, record.train_lengths, strict=True)]
    keys = [b"%d " % (at.stop - at.start) + values[at][[0, -1]].tobytes() for at in places]
    alike = Counter(keys)
    keys = [key + _digest_of_rows(values[at]) if alike[key] > 1 else key for key, at in zip(keys, places, strict=True)]
    subjects = Counter(key for key, _ in set(zip(keys, record.subjects, strict=True)))
    apart = [key if subjects[key] > 1 else b"%d" % number for number, key in enumerate(keys)]
    return equal_items_note({TRAINING: apart}, "blocks" if record.blocks else "recordings", drawn=True)


def _digest_of_rows(values: np.ndarray) -> bytes:
    digest, step = hashlib.blake2b(digest_size=16), max(1, CHUNK_VALUES // values.shape[1])
    for start in range(0, len(values), step):
        digest.update(np.ascontiguousarray(values[start : start + step]).data)
    return digest.digest()


def dataset_record(
    root: Path, record: RecordingsRecord, digests: tuple[str, str], name: str, reading: Mapping[str, Any] | None = None
) -> DatasetRecord:
    """Record of a user's recordings, for pages and tables.

    Args:
        root: Root of the store.
        record: Record of the stored recordings.
        digests: Digest of the stored recordings, and that of the contents of the user's files.
        name: Name of the file or folder.
        reading: Flags of the command that changed what was read, such as ``{"fill": "linear"}``.
    """
    given = [word for word, value in (("modules", record.modules), ("coordinates", record.coordinates)) if value]
    whole = {"recordings": len(record.train), "time points": sum(record.train_lengths)}
    drawn = f"by {'block' if record.blocks else 'subject'}, drawn by the seed of a run"
    if record.subjects is not None and not subject_parts(record, seed=0).counts["validation"]:
        drawn += "; the ends of the training recordings choose the step"
    return DatasetRecord(
        kind="recordings",
        name=name,
        digest=digests[1],
        parts=parts_of(record),
        options={
            "channels": len(record.channels),
            "given": " and ".join(given) or "neither modules nor coordinates",
            **(whole if record.subjects is not None else {}),
            "split": "by subject" if record.subjects is None else drawn,
            "values": "each channel of a recording has mean 0 and standard deviation 1",
            **(reading or {}),
        },
        left_out=tuple(filter(None, (record.note, equal_recordings_note(root, digests[0])))),
        own=True,
    )


def read_tokens(root: Path, digest: str) -> Tokens:
    """The tokens of stored recordings; training samples are read from disk as they are needed."""
    folder, record = folder_of(root, digest), record_of(root, digest)
    test, recording_of = (torch.from_numpy(np.load(folder / name)) for name in ("test.npy", "whose.npy"))
    return _tokens(folder, record, test, recording_of, record.test)


def read_parts(root: Path, digest: str, seed: int, test_frames: int) -> Tokens:
    """The tokens of a user's recordings, with the training, validation and test parts of a seed.

    Args:
        root: Root of the store.
        digest: Digest of recordings that are kept whole.
        seed: Seed of the run.
        test_frames: Largest number of time points of each test recording.
    """
    folder, record = folder_of(root, digest), record_of(root, digest)
    parts = subject_parts(record, seed)
    lengths = torch.tensor(record.train_lengths)
    starts = lengths.cumsum(0) - lengths
    rows = {"train": list[torch.Tensor](), "validation": list[torch.Tensor]()}
    if parts.validation:
        for name in rows:
            rows[name] = [torch.arange(int(lengths[each])) + starts[each] for each in getattr(parts, name)]
    else:  # too few subjects: the end of each training recording
        for each in parts.train:
            first, last = (int(share * lengths[each]) for share in (TRAINED_TIME, VALIDATED_TIME))
            rows["train"].append(torch.arange(first) + starts[each])
            rows["validation"].append(torch.arange(last, int(lengths[each])) + starts[each])
    generator = torch.Generator().manual_seed(seed)
    tested = [torch.randperm(int(lengths[each]), generator=generator)[:test_frames] for each in parts.test]
    test = torch.cat([some.sort().values + starts[each] for some, each in zip(tested, parts.test, strict=True)])
    recording_of = torch.cat([torch.full((len(some),), number) for number, some in enumerate(tested)])
    pool = _frames(folder, record)
    names = tuple(record.train[each] for each in parts.test)
    validation = torch.cat(rows["validation"])
    sample = validation[torch.randperm(len(validation), generator=generator)[:VALIDATION_FRAMES].sort().values]
    return dataclasses.replace(
        _tokens(folder, record, pool.values[test], recording_of, names),
        rows=torch.cat(rows["train"]),
        validation=pool.values[sample][..., None],
        tested=torch.tensor(parts.test),
    )


class SubjectParts(NamedTuple):
    """Numbers of the recordings of each part, and the number of subjects of each part."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]
    counts: dict[str, int]


def subject_parts(record: RecordingsRecord, seed: int) -> SubjectParts:
    """Divide recordings by subject, at random: about a third for testing, and some of the others for validation."""
    of_recording = record.subjects or record.train
    subjects = sorted(set(of_recording))
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(subjects))
    test = min(max(round(TEST_SUBJECTS * len(subjects)), 1), len(subjects) - 1)
    validation = min(max(round(VALIDATION_SUBJECTS * len(subjects)), 1), len(subjects) - 1 - test)
    parts = {"test": order[:test], "validation": order[test : test + validation], "train": order[test + validation :]}
    numbers = {
        name: tuple(n for n, subject in enumerate(of_recording) if subjects.index(subject) in some)
        for name, some in parts.items()
    }
    return SubjectParts(**numbers, counts={name: len(parts[name]) for name in ("train", "validation", "test")})


class Arrangement(NamedTuple):
    """Number of channels, their coordinates, and the views of their positions."""

    channels: int
    coordinates: torch.Tensor | None
    views: dict[str, Positions]


def arrangement(root: Path, digest: str) -> Arrangement:
    """The positions of the channels of stored recordings."""
    return _arrangement(record_of(root, digest))


def _arrangement(record: RecordingsRecord) -> Arrangement:
    coordinates = None if record.coordinates is None else torch.tensor(record.coordinates, dtype=torch.float64)
    return Arrangement(len(record.channels), coordinates, views(len(record.channels), coordinates))


def _frames(folder: Path, record: RecordingsRecord) -> Frames:
    # Copy on write: torch requires writable memory, and the file stays unchanged.
    values = torch.from_numpy(np.load(folder / "train.npy", mmap_mode="c"))
    recording = torch.repeat_interleave(torch.arange(len(record.train)), torch.tensor(record.train_lengths))
    return Frames(values, recording, record.train)


def _tokens(
    folder: Path, record: RecordingsRecord, test: torch.Tensor, recording_of: torch.Tensor, tested: tuple[str, ...]
) -> Tokens:
    frames = _frames(folder, record)
    places = _arrangement(record)
    return Tokens(
        frames.values[..., None],
        test[..., None],
        recording_of,
        tested,
        record.channels,
        places.views,
        modules=record.modules,
        coordinates=places.coordinates,
        frames=frames,
    )


def views(count: int, coordinates: torch.Tensor | None) -> dict[str, Positions]:
    """Position views of the channels.

    ``index``: their order. With coordinates also ``places``: the coordinates in units of the median distance to the
    nearest channel, and ``graph``: smooth eigenvectors of the graph that joins nearest channels.
    """
    views = {"index": sequence(count)}
    if coordinates is None:
        return views
    distances = token_distances(coordinates).fill_diagonal_(torch.inf)
    unit = float(distances.min(1).values.median()) or float(distances[distances.isfinite()].median()) or 1.0
    views["places"] = Positions(((coordinates - coordinates.mean(0)) / unit).float())
    nearest = distances.topk(min(NEAREST, count - 1), dim=1, largest=False).indices
    edges = torch.stack([torch.arange(count)[:, None].expand_as(nearest), nearest], -1).flatten(0, 1)
    if count > EIGENVECTORS:
        views["graph"] = graph(edges, nodes=count, axes=EIGENVECTORS, ties="keep")
    return views


def _write_array(path: Path, values: torch.Tensor, rows: Sequence[int] | torch.Tensor) -> None:
    """Write some rows of an array to a file, a chunk at a time."""
    step = max(1, CHUNK_VALUES // values.shape[1])
    with replaced_file(path) as partial:
        out = np.lib.format.open_memmap(partial, "w+", np.float32, (len(rows), values.shape[1]))
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            out[start : start + step] = values[torch.as_tensor(chunk)].numpy()
        out.flush()


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
