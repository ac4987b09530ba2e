"""The pictures of a study that classifies: they stay where they are, and a store notes how they were found.

A store keeps the place and a digest of labels and pixels; a worker finds the pictures again and knows them by it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from posenc.store import Store, Unit
from posenc.tasks.images import Parts, find, split
from posenc.training.checkpoint import write_whole

TOLD = 1000
"""Pictures of each part whose pixels are in the digest, evenly spread: enough to know them again, and quick."""


class Pictures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a unit learns from, with what decides the shape of its model. digest: of labels and pixels."""

    name: str
    digest: str
    classes: int
    shape: tuple[int, int, int]
    train: int
    test: int

    @property
    def bytes(self) -> int:
        channels, height, width = self.shape
        return (self.train + self.test) * channels * height * width


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where pictures are, for the workers of a store. images: learn from so many at most."""

    source: str
    data: str | None
    size: int | None
    images: int | None


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a store keeps of a set: where it was found, what it is, and a sentence on what could not be read."""

    place: Place
    pictures: Pictures
    left_out: str = ""


def keep(root: Path, source: str | Path, data: Path | None, *, size: int | None, images: int | None) -> Pictures:
    """Finds a data set and notes in a store where it is; one that is noted already is not read again.

    Raises ValueError for one that is not there or damaged.
    """
    own = Path(source)
    where = Place(
        source=str(own.resolve() if own.exists() else source),
        data=None if data is None else str(data.resolve()),
        size=size,
        images=images,
    )
    for path in sorted((root / "data").glob("images-*.json")):
        note = _read(path)
        if note is not None and note.place == where:
            return note.pictures
    parts = _parts(where)
    digest = _digest(parts)
    pictures = Pictures(
        name=parts.train.name,
        digest=digest,
        classes=len(parts.train.classes),
        shape=parts.train.shape,
        train=len(parts.train),
        test=len(parts.test),
    )
    path = _noted(root, digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(Note(place=where, pictures=pictures, left_out=parts.note)))
    return pictures


def kept(root: Path, pictures: Pictures) -> Parts:
    """The pictures of a store. Raises ValueError where they are gone or others have come in their place."""
    path = _noted(root, pictures.digest)
    note = _read(path)
    if note is None:
        raise ValueError(f"{path} cannot be read, which says where {pictures.name} is. Run the same command again.")
    parts = _parts(note.place)
    if _digest(parts) != pictures.digest:
        raise ValueError(
            f"the pictures of {note.place.source} have changed since this store was begun. Put the former ones back, "
            "or choose another --out."
        )
    return parts


def left_out(store: Store, units: Iterable[Unit]) -> tuple[str, ...]:
    """A sentence on each set of these units of which some pictures could not be read."""
    digests = dict.fromkeys(unit.settings["pictures"]["digest"] for unit in units)
    notes = (_read(_noted(store.root, digest)) for digest in digests)
    return tuple(note.left_out for note in notes if note is not None and note.left_out)


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        return None


def _noted(root: Path, digest: str) -> Path:
    return root / "data" / f"images-{digest}.json"


def _parts(where: Place) -> Parts:
    data = None if where.data is None else Path(where.data)
    parts = find(where.source, data, size=where.size, validation=0.0)
    if where.images is None or where.images >= len(parts.train):
        return parts
    return split(parts.train, parts.test, validation=0.0, count=where.images)


def _digest(parts: Parts) -> str:
    told = hashlib.sha256()
    for part in (parts.train, parts.test):
        told.update(repr((part.shape, part.classes)).encode())
        told.update(part.labels.numpy().tobytes())
        some = np.unique(np.linspace(0, len(part) - 1, min(TOLD, len(part))).round().astype(int))
        told.update(part.read(some).contiguous().numpy().tobytes())
    return told.hexdigest()[:16]
