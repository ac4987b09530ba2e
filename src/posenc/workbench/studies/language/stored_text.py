"""The text of a run in the store, under the digest of its tokens, so that a worker needs no other folder.

data/text-DIGEST.msgpack         tokens and vocabulary
data/tokenizer-DIGEST.msgpack    the tokenizer.json of the text and the ids of its vocabulary, if it has one
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.workbench.data.readers import read_documents
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks import text

VOCABULARY_SEPARATOR: dict[text.Unit, str] = {"characters": "", "bytes": "", "tokens": " "}
"""Text between two entries of a stored vocabulary. That of other units is stored as a list in JSON."""


class StoredText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entry "text" of the settings of a run. Field names are stored.

    Attributes:
        digest: Digest of all tokens and of their unit.
        unit: Kind of its tokens: characters, bytes, words, subwords, or tokens for ids.
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
    reading = reading or ReadingOptions()
    tokenizer = text.named_tokenizer(reading.tokenizer)
    documents = read_documents(path, reading)
    tokenized = text.tokenize_documents(documents, tokenizer)
    refuse_one_token(tokenized, path)
    splits = split_text(tokenized, window, 0 if by_seed else None)
    while (max_multiple + 1) * window > len(splits.test):
        max_multiple //= 2
    content, digest = _stored_content(tokenized, tokenizer, own=own)
    target = _path(root, digest)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, msgspec.msgpack.encode(content))
    beside = _tokenizer_path(root, digest)
    if tokenized.ids and not beside.exists():
        write_whole(beside, msgspec.msgpack.encode([tokenizer.content, tokenized.ids]))
    stored = StoredText(
        digest=digest, unit=tokenized.unit, vocabulary=tokenized.model_vocabulary, max_multiple=max_multiple
    )
    names = {"name": path.name if own else "tiny-shakespeare", "own": own}
    described = text.text_record(tokenized, documents, splits, digest, **names, by_seed=by_seed, tokenizer=tokenizer)
    counts = {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
    return stored, counts, StoredRecords(root).add(described, path)


def refuse_one_token(tokenized: text.Text, path: Path) -> None:
    """Refuse a text of one token, which every model predicts.

    Args:
        tokenized: The text.
        path: Its file or folder.

    Raises:
        ValueError: All its tokens are equal.
    """
    if len(tokenized.tokens) and bool((tokenized.tokens == tokenized.tokens[0]).all()):
        count, only = len(tokenized.tokens), tokenized.decode(tokenized.tokens[:1])
        units = f"{count:,} {tokenized.unit}, and all are" if count > 1 else f"one token ({tokenized.unit}), which is"
        raise ValueError(f"{path} has {units} {only!r}. Give a text with at least two different ones.")


def _stored_content(tokenized: text.Text, tokenizer: text.Tokenizer, *, own: bool) -> tuple[list[Any], str]:
    """Content of the file of a text, and the digest of its name.

    Texts of one version keep the digests of that version: tiny-shakespeare, then those of documents and of ids, then
    those with a val file or another tokenizer, then single texts of a user. Tokens alone do not name a text: they are
    ranks in its vocabulary, so two alphabets of one order have the same.
    """
    tokens, separator = tokenized.tokens.numpy().tobytes(), VOCABULARY_SEPARATOR.get(tokenized.unit)
    listed = msgspec.json.encode(tokenized.vocabulary).decode()
    vocabulary = listed if separator is None else separator.join(tokenized.vocabulary)
    content: list[Any] = [tokenized.unit, vocabulary, tokens]
    hashed, ends = tokenized.unit.encode() + tokens, list(tokenized.ends)
    alone = tokenized.unit == "characters" and not tokenized.given and own
    if tokenized.ends or tokenized.unit == "tokens" or alone:
        content += [ends] if ends else []
        hashed += msgspec.msgpack.encode([vocabulary, tokenized.ends])
    if tokenized.given or separator is None:
        sizes = b"" if tokenized.sizes is None else tokenized.sizes.numpy().tobytes()
        more = [list(tokenized.given), sizes, tokenized.unknown, tokenized.most]
        content = [tokenized.unit, vocabulary, tokens, ends, *more]
        hashed += msgspec.msgpack.encode([vocabulary, *more, tokenizer.description])
    return content, hashlib.sha256(hashed).hexdigest()[:16]


def split_text(whole: text.Text, window: int, seed: int | None) -> text.Splits:
    """Splits of a text that hold two windows each. seed: of splits that depend on it; None for the fixed ones."""
    if whole.given:
        return text.split_given(whole, longest=2 * window, seed=seed)
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
    sizes = torch.from_numpy(np.frombuffer(content.sizes, np.int32).copy()) if content.sizes else None
    more: dict[str, Any] = {"sizes": sizes, "unknown": content.unknown, "most": content.most}
    return text.Text(tokens, _vocabulary(content), content.unit, content.ends, content.given, **more)


def _vocabulary(content: _Content) -> tuple[str, ...]:
    separator = VOCABULARY_SEPARATOR.get(content.unit)
    if separator is None:
        return msgspec.json.decode(content.vocabulary, type=tuple[str, ...])
    return tuple(content.vocabulary.split(separator) if separator else content.vocabulary)


class TextOfRun(NamedTuple):
    """Text of a run with its splits.

    Attributes:
        text: The text, with the vocabulary of the model.
        splits: Its splits.
        longest: Longest context in testing, in tokens.
        test_sizes: UTF-8 bytes of each token of the test split; None for token ids.
    """

    text: text.Text
    splits: text.Splits
    longest: int
    test_sizes: Tensor | None


def text_of_run(spec: RunSpec, root: Path) -> TextOfRun:
    """Read the text of a run, divided by its seed, with the vocabulary of its training part.

    Args:
        spec: The run.
        root: Root of its store.

    Returns:
        The text with its splits.

    Raises:
        ValueError: The store lacks the text.
    """
    stored, window = msgspec.convert(spec.settings["text"], StoredText), spec.settings["window"]
    whole, seed = load_text(root, stored), spec.seed if "split" in spec.settings else None
    splits, sizes = split_text(whole, window, seed), whole.byte_sizes()
    test_sizes = None if sizes is None else split_text(dataclasses.replace(whole, tokens=sizes), window, seed).test
    whole, table = whole.with_training_vocabulary(splits.train)
    if table is not None:
        train, validation, test = (table[part.long()] for part in splits[:3])
        splits = text.Splits(train, validation, test, splits.pieces)
    return TextOfRun(whole, splits, stored.max_multiple * window, test_sizes)


def codec_of_run(spec: RunSpec, root: Path) -> text.TextCodec:
    """Encoder and decoder of the tokens of a run.

    Args:
        spec: The run.
        root: Root of its store.

    Returns:
        The codec.

    Raises:
        ValueError: The store lacks the text, or the tokenizer of its subwords.
    """
    stored, whole = msgspec.convert(spec.settings["text"], StoredText), text_of_run(spec, root).text
    if whole.unit != "subwords":
        return text.TextCodec(whole)
    path = _tokenizer_path(root, stored.digest)
    if not path.exists():
        raise ValueError(f"the tokenizer of these runs is not at {path}. Run the same command again, which writes it.")
    content, ids = msgspec.msgpack.decode(path.read_bytes(), type=tuple[bytes, tuple[int, ...]])
    return text.TextCodec(whole, text.SubwordIds(content, ids))


class _Content(msgspec.Struct, frozen=True, array_like=True):
    """The file of a text in a store."""

    unit: text.Unit
    vocabulary: str
    tokens: bytes
    ends: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    sizes: bytes = b""
    unknown: int | None = None
    most: int | None = None


def _path(root: Path, digest: str) -> Path:
    return root / "data" / f"text-{digest}.msgpack"


def _tokenizer_path(root: Path, digest: str) -> Path:
    return root / "data" / f"tokenizer-{digest}.msgpack"
