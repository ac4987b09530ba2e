"""Image data of a study that classifies: the files stay where they are, and the store has a record of them.

data/images-DIGEST.json     where the images are, their names, counts and shapes, and which could not be read
data/samples-DIGEST.npy     a few held-out images, where a page shows them

A worker reads the images from their place and compares the digest of labels and pixels with the record.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import torch

from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store
from posenc.workbench.tasks.images import Splits, load_images, split
from posenc.workbench.training.checkpoint import write_whole

DIGESTED = 1000
"""Images of each split whose pixels are in the digest, evenly spaced: enough to tell sets apart, and quick."""


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of a data set in the settings of a run. Field names are stored.

    Attributes:
        name: Name of the data set.
        digest: Digest of labels and pixels.
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
        return f"{height} x {width} pixels, {channels} channel{'s' if channels > 1 else ''}, {self.classes} classes"


class Location(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Location of images, and the options of their reader. Field names are stored.

    Attributes:
        source: Name of a data set, or path of a user's file or folder.
        data: Folder of data, or None.
        size: Pixels per side of the images, or None for their own size.
        images: Largest number of training images, or None.
    """

    source: str
    data: str | None
    size: int | None
    images: int | None


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Location and record of a data set in a store, and a sentence on images that could not be read."""

    location: Location = msgspec.field(name="place")
    images: ImageRecord = msgspec.field(name="pictures")
    left_out: str = ""


def record_images(
    root: Path, source: str | Path, data: Path | None, *, size: int | None, images: int | None
) -> ImageRecord:
    """Write the record of a data set into a store. A data set with a record is not read again.

    Args:
        root: Root of the store.
        source: Name of a data set, or path of a user's file or folder.
        data: Folder of data, or None.
        size: Pixels per side of the images, or None for their own size.
        images: Largest number of training images, or None for all.

    Returns:
        The record.

    Raises:
        ValueError: The data set is missing or damaged.
    """
    path = Path(source)
    location = Location(
        source=str(path.resolve() if path.exists() else source),
        data=None if data is None else str(data.resolve()),
        size=size,
        images=images,
    )
    for file in sorted((root / "data").glob("images-*.json")):
        stored = _stored(file)
        if stored is not None and stored.location == location:
            return stored.images
    splits = _read(location)
    record = ImageRecord(
        name=splits.train.name,
        digest=_digest(splits),
        classes=len(splits.train.classes),
        shape=splits.train.shape,
        train=len(splits.train),
        test=len(splits.test),
    )
    file = _record_path(root, record.digest)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.encode(StoredRecord(location=location, images=record, left_out=splits.note)))
    return record


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
        raise ValueError(f"{path} cannot be read, which says where {record.name} is. Run the same command again.")
    splits = _read(stored.location)
    if _digest(splits) != record.digest:
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


def data_remarks(store: Store, specs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Sentences on the data sets of runs, and on images that could not be read.

    Args:
        store: The store.
        specs: The runs.

    Returns:
        The sentences, each once.
    """
    specs = tuple(specs)
    records = [msgspec.convert(spec.settings["pictures"], ImageRecord) for spec in specs]
    described = dict.fromkeys(f"Data: {_description(spec)}." for spec in specs)
    files = (_stored(_record_path(store.root, record.digest)) for record in dict.fromkeys(records))
    unread = dict.fromkeys(stored.left_out for stored in files if stored is not None and stored.left_out)
    return (*described, *unread)


def _description(spec: RunSpec) -> str:
    """Phrase on the images of a run, with the parts of a user's images."""
    record, items = msgspec.convert(spec.settings["pictures"], ImageRecord), spec.settings.get("items")
    if items is None:
        return record.description
    drawn = "drawn anew by each seed" if spec.settings["split"] == "seed" else "the held-out images as given"
    return (
        f"{record.name}: {items['train']:,} training images, {items['validation']:,} validation images and "
        f"{items['test']:,} held-out images, {drawn}, {record.size}"
    )


def _stored(path: Path) -> StoredRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _record_path(root: Path, digest: str) -> Path:
    return root / "data" / f"images-{digest}.json"


def _sample_path(root: Path, record: ImageRecord) -> Path:
    return root / "data" / f"samples-{record.digest}.npy"


def _read(location: Location) -> Splits:
    data = None if location.data is None else Path(location.data)
    splits = load_images(location.source, data, size=location.size, validation=0.0)
    if location.images is None or location.images >= len(splits.train):
        return splits
    return split(splits.train, splits.test, validation=0.0, count=location.images)


def _digest(splits: Splits) -> str:
    digest = hashlib.sha256()
    for part in (splits.train, splits.test):
        digest.update(repr((part.shape, part.classes)).encode())
        digest.update(part.labels.numpy().tobytes())
        sample = np.unique(np.linspace(0, len(part) - 1, min(DIGESTED, len(part))).round().astype(int))
        digest.update(part.read(sample).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
