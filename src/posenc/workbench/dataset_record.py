"""Record of the data of a run: what was read, how, and what was left out.

A reader makes the record, a store keeps it once, and each run of the data names it by its key. The digest covers all
contents that a reader may read; neither the name nor the path of the data is part of the digest or of the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

import msgspec

DIGITS, SHORT = 16, 6
"""Hexadecimal digits of a digest and of a key, and those that stand in a label."""
SplitPhrase = Literal["given", "all given", "seed"]
SPLITS: Mapping[SplitPhrase, str] = {
    "all given": "all parts as given",
    "given": "the test part as given, validation drawn from the others by the seed of a run",
    "seed": "training, validation and test drawn by the seed of a run",
}
"""Ways to divide the items of each class."""
GENERATED = "generated"
"""Kind of data that a generator draws. Its digest is that of the generator's settings; the draw belongs to the seed."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part of a data set, such as its training images. Field names are stored.

    Attributes:
        name: Name of the part: "training", "validation" or "test".
        counts: Unit to count, such as {"images": 340} or {"characters": 9000, "tokens": 9000}.
        by_class: Number of items of each class, in the order of the record's classes; empty without classes.

    Example:
        >>> from posenc.workbench import Part
        >>> Part(name="test", counts={"images": 5}, by_class=(5, 0)).counts
        {'images': 5}
    """

    name: str
    counts: dict[str, int]
    by_class: tuple[int, ...] = ()


class DatasetRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Record of a data set. Field names are stored.

    Attributes:
        kind: Kind of the data: "images", "text", "recordings", "clouds", "series", "graphs", "image", "shape", "scene",
            "raster" or "generated".
        name: Name of the file, folder, data set or generator. Outside the digest and the key.
        digest: Digest of all contents, 16 hexadecimal digits; of generated data, that of the generator's settings.
        parts: Parts with their counts, in the order training, validation, test.
        classes: Names of the classes; empty without classes.
        options: Options of the reader or settings of the generator, as plain JSON.
        left_out: Sentences on what was not read.
        own: True for a file or folder of the user. Outside the key.
        files: Flag to the name of a further file of the user, such as {"val": "val.txt"}. Outside the key.

    Example:
        >>> from posenc.workbench import DatasetRecord, Part
        >>> record = DatasetRecord(
        ...     kind="text",
        ...     name="docs.jsonl",
        ...     digest="1f00c4d2a96b7e35",
        ...     parts=(Part(name="training", counts={"tokens": 9000}), Part(name="test", counts={"tokens": 500})),
        ...     own=True,
        ... )
        >>> record.label
        'docs-1f00c4'
    """

    kind: str
    name: str
    digest: str
    parts: tuple[Part, ...] = ()
    classes: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    left_out: tuple[str, ...] = ()
    own: bool = False
    files: dict[str, str] = {}

    @property
    def key(self) -> str:
        """Key of the record in a store: a digest of kind, contents and options, and of neither name nor path."""
        return digest_of([self.kind, self.digest, self.options])

    @property
    def label(self) -> str:
        """Name without its ending and the first digits of the digest, as in "docs-1f00c4"."""
        return label_of({"data": self.name, "digest": self.digest})

    def part(self, name: str) -> Part | None:
        """Return a part by name.

        Args:
            name: Name of the part.

        Returns:
            The part; None if the data have no such part.
        """
        return next((part for part in self.parts if part.name == name), None)

    @property
    def untested(self) -> tuple[str, ...]:
        """Classes without test items. Their accuracy is unknown, and means over classes leave them out."""
        test = self.part("test")
        if test is None or not test.by_class:
            return ()
        return tuple(name for name, count in zip(self.classes, test.by_class, strict=True) if not count)


def generated(name: str, options: Mapping[str, Any], parts: tuple[Part, ...] = ()) -> DatasetRecord:
    """Record of generated data: the generator and its settings.

    Args:
        name: Name of the generator.
        options: Its settings, as plain JSON.
        parts: Parts with their counts.

    Returns:
        The record.
    """
    return DatasetRecord(
        kind=GENERATED, name=name, digest=digest_of([name, dict(options)]), parts=parts, options=dict(options)
    )


def label_of(row: Mapping[str, Any]) -> str:
    """Label of the data of a result row, such as "docs-1f00c4"; "" for a row without data."""
    return f"{PurePath(row['data']).stem}-{row['digest'][:SHORT]}" if row.get("digest") else ""


def digest_of(content: Any) -> str:
    """Digest of plain JSON, 16 hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:DIGITS]
