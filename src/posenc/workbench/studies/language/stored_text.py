"""The text of a run in the store, under the digest of its tokens, so that a worker needs no other folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from posenc.workbench.data.readers import read_documents
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks import text

VOCABULARY_SEPARATOR: dict[text.Unit, str] = {"characters": "", "bytes": "", "tokens": " "}
"""Text between two entries of a stored vocabulary."""


class StoredText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entry "text" of the settings of a run. Field names are stored.

    Attributes:
        digest: Digest of all tokens and of their unit.
        unit: Kind of its tokens: characters, bytes or tokens.
        vocabulary: Number of different tokens.
        max_multiple: Longest context that its test split allows, in multiples of the training length.
    """

    digest: str
    unit: text.Unit
    vocabulary: int
    max_multiple: int = msgspec.field(name="multiple")


def text_path(source: Path | None, data: Path | None) -> Path:
    """Path of the text: the user's own file, or tiny-shakespeare in the folder of data.

    Raises:
        ValueError: Neither was given, or the folder has no text.
    """
    if source is None and data is None:
        raise ValueError(
            "language reads a text, and none was given. Name a file of yours, posenc run language my_text.txt, or the "
            f"folder of data that holds {text.FILE}.gz: --data DIR"
        )
    if source is not None:
        return source
    assert data is not None
    return text.tinyshakespeare_path(data)


def store_text(
    root: Path,
    path: Path,
    *,
    window: int,
    max_multiple: int,
    by_seed: bool = False,
    own: bool = True,
    reading: ReadingOptions | None = None,
) -> tuple[StoredText, dict[str, int], str]:
    """Write a text and its record into the folder of data of a store.

    Args:
        root: Root of the store.
        path: File or folder of the text.
        window: Training length in tokens.
        max_multiple: Longest context in testing, in multiples of the training length. It is halved until the test
            split of the text is long enough.
        by_seed: True if the splits depend on the seed of a run; their sizes do not.
        own: True for a file of the user.
        reading: Options of the reader; None for none.

    Returns:
        Entry "text" of the settings of the runs, the number of tokens of each split, and the key of the record.

    Raises:
        ValueError: The file is not a text, or its test split does not hold two windows.
    """
    documents = read_documents(path, reading or ReadingOptions())
    tokenized = text.tokenize_documents(documents)
    splits = split_text(tokenized, window, 0 if by_seed else None)
    while (max_multiple + 1) * window > len(splits.test):
        max_multiple //= 2
    tokens = tokenized.tokens.numpy().tobytes()
    vocabulary = VOCABULARY_SEPARATOR[tokenized.unit].join(tokenized.vocabulary)
    content: list[Any] = [tokenized.unit, vocabulary, tokens, *([list(tokenized.ends)] if tokenized.ends else [])]
    hashed = tokenized.unit.encode() + tokens
    if tokenized.ends or tokenized.unit == "tokens":  # the digests of single texts are those of the first version
        hashed += msgspec.msgpack.encode([vocabulary, tokenized.ends])
    digest = hashlib.sha256(hashed).hexdigest()[:16]
    target = _path(root, digest)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, msgspec.msgpack.encode(content))
    stored = StoredText(
        digest=digest, unit=tokenized.unit, vocabulary=len(tokenized.vocabulary), max_multiple=max_multiple
    )
    name = path.name if own else "tiny-shakespeare"
    described = text.text_record(tokenized, documents, splits, digest, name=name, own=own, by_seed=by_seed)
    counts = {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
    return stored, counts, StoredRecords(root).add(described, path)


def split_text(whole: text.Text, window: int, seed: int | None) -> text.Splits:
    """Splits of a text that hold two windows each. seed: of splits that depend on it; None for the fixed ones."""
    if seed is None:
        return text.split(whole.tokens, longest=2 * window)
    if text.has_documents_to_hold_out(whole):
        return text.split_by_documents(whole, longest=2 * window, seed=seed)
    return text.split_by_seed(whole.tokens, longest=2 * window, seed=seed)


def load_text(root: Path, stored: StoredText) -> text.Text:
    """Read the text of a record.

    Raises:
        ValueError: The store lacks the text.
    """
    path = _path(root, stored.digest)
    if not path.exists():
        raise ValueError(f"the text of these runs is no longer at {path}. Run the same command again.")
    content = msgspec.msgpack.decode(path.read_bytes(), type=_Content)
    tokens = torch.from_numpy(np.frombuffer(content.tokens, np.int32).copy())
    separator = VOCABULARY_SEPARATOR[content.unit]
    vocabulary = content.vocabulary.split(separator) if separator else content.vocabulary
    return text.Text(tokens, tuple(vocabulary), content.unit, content.ends)


class _Content(msgspec.Struct, frozen=True, array_like=True):
    """The file of a text in a store."""

    unit: text.Unit
    vocabulary: str
    tokens: bytes
    ends: tuple[int, ...] = ()


def _path(root: Path, digest: str) -> Path:
    return root / "data" / f"text-{digest}.msgpack"
