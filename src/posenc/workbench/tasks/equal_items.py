"""Items that are equal to others, such as one photograph in two files: a network remembers the answers of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

TRAINING, TEST = "training", "test"


def equal_items_note(parts: Mapping[str, Sequence[bytes]], nouns: str, *, drawn: bool, equal: str = "equal to") -> str:
    """Sentence on equal items of a data set.

    Args:
        parts: "training", "test" and perhaps further parts, to a key of each item; equal items have equal keys.
        nouns: What the items are, in the plural.
        drawn: True if the seed of a run draws the test items from all, False if the data have a test part.
        equal: Relation of two items with equal keys.

    Returns:
        How many test items are equal to a training item, or how many items are equal to another if the parts are drawn;
        "" where there are none.

    Example:
        >>> equal_items_note({"training": [b"a", b"b"], "test": [b"b", b"c"]}, "images", drawn=False)
        'Of 2 test images 1 is equal to one of the training images: the score counts what a network remembers.'
    """
    if drawn:
        counts = Counter(key for keys in parts.values() for key in keys)
        items, of = sum(counts.values()), nouns
        found = sum(count for count in counts.values() if count > 1)
        other, leak = "another", "where one of them is drawn for training and one for the test, "
    else:
        known, tested = set(parts[TRAINING]), parts.get(TEST, ())
        items, of, found = len(tested), f"{TEST} {nouns}", sum(key in known for key in tested)
        other, leak = f"one of the {TRAINING} {nouns}", ""
    if not found:
        return ""
    are = "is" if found == 1 else "are"
    return f"Of {items:,} {of} {found:,} {are} {equal} {other}: {leak}the score counts what a network remembers."


def file_keys(paths: Sequence[Path]) -> list[bytes]:
    """Keys of files by their contents. A file with a size of its own is not read.

    Args:
        paths: The files.

    Returns:
        A key of each file; files of equal contents have equal keys.
    """
    sizes = [path.stat().st_size for path in paths]
    alike = Counter(sizes)
    return [
        b"%d " % size + (_digest(path) if alike[size] > 1 else b"") for path, size in zip(paths, sizes, strict=True)
    ]


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
