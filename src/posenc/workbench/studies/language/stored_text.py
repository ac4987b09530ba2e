"""The text of a run in the store, under the digest of its tokens, so that a worker needs no other folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks import text


class StoredText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entry "text" of the settings of a run. Field names are stored.

    Attributes:
        digest: Digest of all tokens and of their unit.
        unit: Kind of its tokens: characters or bytes.
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
    root: Path, path: Path, *, window: int, max_multiple: int, by_seed: bool = False, own: bool = True
) -> tuple[StoredText, dict[str, int], str]:
    """Write a text and its record into the folder of data of a store.

    Args:
        root: Root of the store.
        path: File of the text.
        window: Training length in tokens.
        max_multiple: Longest context in testing, in multiples of the training length. It is halved until the test
            split of the text is long enough.
        by_seed: True if the splits depend on the seed of a run; their sizes do not.
        own: True for a file of the user.

    Returns:
        Entry "text" of the settings of the runs, the number of tokens of each split, and the key of the record.

    Raises:
        ValueError: The file is not a text, or its test split does not hold two windows.
    """
    tokenized = text.read_text(path)
    splits = split_text(tokenized.tokens, window, 0 if by_seed else None)
    while (max_multiple + 1) * window > len(splits.test):
        max_multiple //= 2
    tokens = tokenized.tokens.numpy().tobytes()
    digest = hashlib.sha256(tokenized.unit.encode() + tokens).hexdigest()[:16]
    target = _path(root, digest)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, msgspec.msgpack.encode([tokenized.unit, "".join(tokenized.vocabulary), tokens]))
    stored = StoredText(
        digest=digest, unit=tokenized.unit, vocabulary=len(tokenized.vocabulary), max_multiple=max_multiple
    )
    name = path.name if own else "tiny-shakespeare"
    described = text.text_record(tokenized, splits, digest, name=name, own=own, by_seed=by_seed)
    counts = {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
    return stored, counts, StoredRecords(root).add(described, path)


def split_text(tokens: Tensor, window: int, seed: int | None) -> text.Splits:
    """Splits of a text that hold two windows each. seed: of splits that depend on it; None for the fixed ones."""
    if seed is None:
        return text.split(tokens, longest=2 * window)
    return text.split_by_seed(tokens, longest=2 * window, seed=seed)


def load_text(root: Path, stored: StoredText) -> text.Text:
    """Read the text of a record.

    Raises:
        ValueError: The store lacks the text.
    """
    path = _path(root, stored.digest)
    if not path.exists():
        raise ValueError(f"the text of these runs is no longer at {path}. Run the same command again.")
    unit, vocabulary, tokens = msgspec.msgpack.decode(path.read_bytes(), type=tuple[text.Unit, str, bytes])
    return text.Text(torch.from_numpy(np.frombuffer(tokens, np.int32).copy()), tuple(vocabulary), unit)


def _path(root: Path, digest: str) -> Path:
    return root / "data" / f"text-{digest}.msgpack"
