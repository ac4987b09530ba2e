"""Image data of a study that classifies: the files stay where they are, and the store has a record of them.

data/images-DIGEST.json     where the images are, their names, counts and shapes, and which could not be read
data/samples-DIGEST.npy     a few held-out images, where a page shows them

A worker reads the images from their place, if the contents of the files are still those of the record.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from posenc.workbench.data import readers
from posenc.workbench.data.reading_options import NO_OPTIONS, ReadingOptions
from posenc.workbench.dataset_record import digest_of
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.files.file_digests import contents_digest
from posenc.workbench.storage.old_records import SAMPLE_DIGESTS
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks.images import LOCATIONS, Splits, image_record, load_images, source_files, split
from posenc.workbench.tasks.images.image_decoder import WHITE, Square

SAMPLED, CHUNK = 1000, 2048
"""Images of each split whose pixels were in the digests of earlier versions, and images that are digested at once."""


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entry "pictures" of the settings of a run. Field names are stored.

    Attributes:
        name: Name of the data set.
        digest: Digest of labels and pixels; of a user's data set, digest of its files and of the reader's options.
        classes: Number of classes.
        shape: Shape ``(C, H, W)`` of an image.
        train: Number of training images.
        test: Number of held-out images.
    """

    name: str
    digest: str
    classes: int
    shape: tuple[int, int, int]
    train: int
    test: int

    @property
    def bytes(self) -> int:
        """Memory of all images as uint8."""
        channels, height, width = self.shape
        return (self.train + self.test) * channels * height * width

    @property
    def description(self) -> str:
        """A phrase such as "fashion-mnist: 60,000 training images, 10,000 held-out images, 28 x 28 pixels, ..."."""
        return f"{self.name}: {self.train:,} training images, {self.test:,} held-out images, {self.size}"

    @property
    def size(self) -> str:
        """A phrase such as "28 x 28 pixels, 1 channel, 10 classes"."""
        channels, height, width = self.shape
        return f"{width} x {height} pixels, {channels} channel{'s' if channels > 1 else ''}, {self.classes} classes"


class Location(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Location of images, and the options of their reader. Field names are stored.

    Attributes:
        source: Name of a data set, or path of a user's file or folder.
        data: Folder of data, or None.
        size: Pixels per side of the images, or None for their own size.
        images: Largest number of training images, or None.
        reading: Further options of the reader that differ from the defaults, by name.
    """

    source: str
    data: str | None
    size: int | None
    images: int | None
    reading: dict[str, Any] = {}


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Location of a data set in a store.

    Attributes:
        location: Location of the images, and the options of their reader.
        images: Entry of the settings of its runs.
        left_out: Sentence on images that could not be read.
        contents: Digest of the contents of all files; empty in stores of earlier versions.
        dataset: Key of its record in the store; empty in stores of earlier versions.
    """

    location: Location = msgspec.field(name="place")
    images: ImageRecord = msgspec.field(name="pictures")
    left_out: str = ""
    contents: str = ""
    dataset: str = ""


def record_images(
    root: Path,
    source: str | Path,
    data: Path | None,
    *,
    size: int | None,
    images: int | None,
    reading: ReadingOptions = NO_OPTIONS,
) -> ImageRecord:
    """Write the record of a data set into a store. A data set with a record is not read again.

    Args:
        root: Root of the store.
        source: Name of a data set, or path of a user's file or folder.
        data: Folder of data, or None.
        size: Pixels per side of the images, or None for their own size.
        images: Largest number of training images, or None for all.
        reading: Options of the reader that the user states.

    Returns:
        The record.

    Raises:
        ValueError: The data set is missing or damaged.
    """
    path, reading = Path(source), _stated(reading, Path(source), size)
    location = Location(
        source=str(path.resolve() if path.exists() else source),
        data=None if data is None else str(data.resolve()),
        size=reading.size or size,
        images=images,
        reading=reading.plain,
    )
    contents = _contents(root, location)
    for file in sorted((root / "data").glob("images-*.json")):
        stored = _stored(file)
        if stored is not None and (stored.location, stored.contents) == (location, contents):
            return stored.images
    splits, limited = _read(location)
    own = _is_own(location)
    values = "" if own else _digest(splits, root)
    record = ImageRecord(
        name=splits.train.name,
        digest=digest_of(_content(location, contents, limited)) if own else values,
        classes=len(splits.train.classes),
        shape=splits.train.shape,
        train=len(splits.train),
        test=len(splits.test),
    )
    place = path if own else source_files(location.source, data)[0]
    stated = digest_of([contents, location.reading]) if location.reading else contents
    described = image_record(splits, stated if own else values, source=source, limited=limited, reading=reading)
    stored = StoredRecord(
        location=location,
        images=record,
        left_out=splits.note,
        contents=contents,
        dataset=StoredRecords(root).add(described, place),
    )
    write_whole(_record_path(root, record.digest), msgspec.json.encode(stored))
    return record


def dataset_key(root: Path, record: ImageRecord) -> str:
    """Key of the record of a data set in a store, for the setting "dataset" of its runs.

    Args:
        root: Root of the store.
        record: Entry of the settings of the runs.

    Returns:
        The key; "" for a data set of an earlier version.
    """
    stored = _stored(_record_path(root, record.digest))
    return "" if stored is None else stored.dataset


def square_of(root: Path, record: ImageRecord) -> Square:
    """Return the preprocessing of the images of a record: size, cropping or padding, background.

    Args:
        root: Root of the store.
        record: Record of the data set.

    Returns:
        Their side, and the options of their reader.
    """
    stored = _stored(_record_path(root, record.digest))
    reading = ReadingOptions() if stored is None else _options(stored.location)
    return Square(max(record.shape[1:]), reading.fit or "crop", reading.background or WHITE)


def read_images(root: Path, record: ImageRecord) -> Splits:
    """Read the images of a record.

    Args:
        root: Root of the store.
        record: Record of the data set.

    Returns:
        Training and held-out images.

    Raises:
        ValueError: The images are missing, or they have changed.
    """
    path = _record_path(root, record.digest)
    stored = _stored(path)
    if stored is None:
        raise ValueError(
            f"{path}, which names the folder of {record.name}, cannot be read. Run the same command again."
        )
    same = _contents(root, stored.location) == stored.contents
    splits, _ = _read(stored.location)
    if not same and (_is_own(stored.location) or _digest(splits, root) != record.digest):
        raise ValueError(
            f"the images of {stored.location.source} have changed since this store was begun. Put the former ones "
            "back, or choose another --out."
        )
    return splits


def store_samples(root: Path, record: ImageRecord, count: int) -> None:
    """Copy the first held-out images into the store, for its pages, unless it has them.

    Args:
        root: Root of the store.
        record: Record of the data set.
        count: Number of images.
    """
    path = _sample_path(root, record)
    if path.exists():
        return
    test, file = read_images(root, record).test, io.BytesIO()
    np.save(file, test.read(torch.arange(min(count, len(test)))).numpy(), allow_pickle=False)
    write_whole(path, file.getvalue())


def stored_samples(root: Path, record: ImageRecord) -> np.ndarray | None:
    """Held-out images that a store has for its pages.

    Args:
        root: Root of the store.
        record: Record of the data set.

    Returns:
        Images ``(N, C, H, W)`` uint8, or None if there are none.
    """
    try:
        return np.load(_sample_path(root, record), allow_pickle=False)
    except (OSError, ValueError):
        return None


def _stored(path: Path) -> StoredRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _record_path(root: Path, digest: str) -> Path:
    return root / "data" / f"images-{digest}.json"


def _sample_path(root: Path, record: ImageRecord) -> Path:
    return root / "data" / f"samples-{record.digest}.npy"


def _read(location: Location) -> tuple[Splits, bool]:
    """The images of a location, and True if the training images are a part of those that it has."""
    data = None if location.data is None else Path(location.data)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+ images?.* decode", UserWarning)  # the record has the sentence
        splits = load_images(location.source, data, size=location.size, reading=_options(location), validation=0.0)
    if location.images is None or location.images >= len(splits.train):
        return splits, False
    return split(splits.train, splits.test, validation=0.0, count=location.images), True


def _stated(reading: ReadingOptions, source: Path, size: int | None) -> ReadingOptions:
    """The options that differ from the defaults. A name of the labels is relative to their folder."""
    labels = reading.labels
    if labels is not None:
        labels = os.path.relpath(labels if Path(labels).exists() else source / labels, source)
    usual = source.exists() and reading.format in readers.matching(source, "images")
    return msgspec.structs.replace(
        reading,
        format=None if usual else reading.format,
        size=None if reading.size == size else reading.size,
        fit=None if reading.fit == "crop" else reading.fit,
        background=None if reading.background == "white" else reading.background,
        labels=labels,
    )


def _content(location: Location, contents: str, limited: bool) -> list[Any]:
    """Input of the digest of a user's images: contents, and options that are not the defaults."""
    return [
        contents,
        location.size,
        location.images if limited else None,
        *([location.reading] if location.reading else []),
    ]


def _is_own(location: Location) -> bool:
    return location.source not in LOCATIONS


def _options(location: Location) -> ReadingOptions:
    """Options of the reader of a location. The path of the labels is absolute, as a worker may run in any folder."""
    reading = msgspec.convert(location.reading, ReadingOptions)
    labels = reading.labels and os.path.normpath(Path(location.source) / reading.labels)
    return msgspec.structs.replace(reading, labels=labels)


def _contents(root: Path, location: Location) -> str:
    """Digest of the contents of all files of a data set. Files that did not change are not read again."""
    data = None if location.data is None else Path(location.data)
    place, files = source_files(location.source, data, _options(location))
    return contents_digest(files, place, root / "data" / "file-digests.json")


def _digest(splits: Splits, root: Path) -> str:
    """Digest of the labels and pixels of a named data set, as it stands in the settings of runs.

    Earlier versions had the pixels of a sample in it. Their digest is kept for contents that are known to have it.
    """
    every, sample = hashlib.sha256(), hashlib.sha256()
    for part in (splits.train, splits.test):
        some = np.unique(np.linspace(0, len(part) - 1, min(SAMPLED, len(part))).round().astype(int))
        for digest in (every, sample):
            digest.update(repr((part.shape, part.classes)).encode())
            digest.update(part.labels.numpy().tobytes())
        sample.update(part.read(some).contiguous().numpy().tobytes())
        for start in range(0, len(part), CHUNK):
            rows = range(start, min(start + CHUNK, len(part)))
            every.update(part.read(rows).contiguous().numpy().tobytes())
    whole, before = every.hexdigest()[:16], sample.hexdigest()[:16]
    stored = _stored(_record_path(root, before))
    if SAMPLE_DIGESTS.get(whole) == before or (stored is not None and not stored.contents):
        return before
    return whole
