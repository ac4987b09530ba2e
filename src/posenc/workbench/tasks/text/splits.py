"""Train, validation and test splits of a text by position or by document, and starts of windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int32, Int64
from numpy.typing import NDArray
from torch import Tensor

from posenc.workbench.data.documents import Documents
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.tasks.equal_items import TEST, TRAINING, equal_items_note
from posenc.workbench.tasks.text.text_file import Text
from posenc.workbench.tasks.text.tokenizers import Tokenizer

HELD_OUT_PARTS = 20
"""1 / 20 of the text is the validation split, and as much is the test split."""
BLOCKS = 10
"""Blocks of a text whose splits depend on a seed; one is for validation and one for testing."""


class Splits(NamedTuple):
    """Training, validation and test splits of a text.

    pieces: Lengths of the pieces of the training split that were adjacent in the text; empty for a single piece.
    """

    train: Int32[Tensor, "N"]
    validation: Int32[Tensor, "M"]
    test: Int32[Tensor, "L"]
    pieces: tuple[int, ...] = ()

    def count_windows(self, length: int) -> int:
        """Number of training windows of ``length`` tokens and the token after them, within one piece each."""
        return sum(max(0, piece - length) for piece in self.pieces or (len(self.train),))

    def starts_of(self, windows: Int64[Tensor, "B"], length: int) -> Int64[Tensor, "B"]:
        """Starts in ``train`` of windows that are numbered from 0 to ``count_windows(length)`` - 1."""
        pieces = torch.tensor(self.pieces or (len(self.train),))
        ends = (pieces - length).clamp(min=0).cumsum(0)
        piece = torch.searchsorted(ends, windows, right=True)
        skipped = pieces.cumsum(0) - pieces - (ends - (pieces - length).clamp(min=0))
        return windows + skipped[piece]


def split(tokens: Int32[Tensor, "N"], *, longest: int) -> Splits:
    """Split a text by position: 90 % for training, 5 % for validation, 5 % for testing. No window crosses a boundary.

    Args:
        tokens: ``(N,)``.
        longest: Tokens of the longest window that each split must hold, without the token after it.

    Raises:
        ValueError: The text is too short.
    """
    held = _held_out_tokens(len(tokens), HELD_OUT_PARTS, longest)
    first, second = len(tokens) - 2 * held, len(tokens) - held
    return Splits(tokens[:first], tokens[first:second], tokens[second:])


def split_by_seed(tokens: Int32[Tensor, "N"], *, longest: int, seed: int) -> Splits:
    """Split a text into ten blocks: one for testing, one for validation, eight for training.

    Ten successive seeds test on ten different blocks.

    Args:
        tokens: ``(N,)``.
        longest: Tokens of the longest window that each split must hold, without the token after it.
        seed: Seed that decides which blocks are held out.

    Raises:
        ValueError: The text is too short.
    """
    held = _held_out_tokens(len(tokens), BLOCKS, longest)
    order = np.random.Generator(np.random.Philox(key=0)).permutation(BLOCKS)
    test, validation = int(order[seed % BLOCKS]), int(order[(seed + 1) % BLOCKS])
    blocks = tokens[: BLOCKS * held].view(BLOCKS, held)  # at most nine tokens at the end are left out
    first, second = sorted((test, validation))
    lengths = (held * first, held * (second - first - 1), held * (BLOCKS - second - 1))
    train = [number for number in range(BLOCKS) if number not in (test, validation)]
    return Splits(blocks[train].flatten(), blocks[validation], blocks[test], tuple(filter(None, lengths)))


def split_by_documents(text: Text, *, longest: int, seed: int) -> Splits:
    """Split a text between its documents: a tenth for testing, a tenth for validation, the others for training.

    The documents are put into an order that the seed draws. The sizes of the splits do not depend on the seed: the last
    document of each split is cut to the size, and its rest is left out.

    Args:
        text: A text for which ``has_documents_to_hold_out`` is true.
        longest: Tokens of the longest window that each split must hold, without the token after it.
        seed: Seed of the order.

    Raises:
        ValueError: The text is too short.
    """
    test, validation, train = _document_parts(text, 2, longest, seed)
    return Splits(train, validation, test)


def split_given(text: Text, *, longest: int, seed: int | None) -> Splits:
    """Split a text with a val file: the files are the parts.

    Without a test file the val file is for testing, and a part of the train file is for validation: a tenth that the
    seed draws, of its documents or blocks; without a seed, its last twentieth.

    Args:
        text: A text with ``given`` sizes.
        longest: Tokens of the longest window that each split must hold, without the token after it.
        seed: Seed of the validation part; None for the end of the train file.

    Raises:
        ValueError: A file is too short.
    """
    train, *others = text.tokens.split(list(text.given))
    for name, part in zip(("val", "test"), others, strict=False):
        if len(part) <= longest:
            raise ValueError(
                f"the {name} file has {len(part):,} tokens; at least {longest + 1:,} are needed. Give a longer one."
            )
    if len(others) > 1:
        if len(train) <= longest:
            raise ValueError(
                f"the train file has {len(train):,} tokens; at least {longest + 1:,} are needed. Give a longer one."
            )
        return Splits(train, others[0], others[1])
    (test,) = others
    if seed is None:
        held = _held_out_tokens(len(train), HELD_OUT_PARTS, longest)
        return Splits(train[:-held], train[-held:], test)
    if has_documents_to_hold_out(text):
        validation, train = _document_parts(text, 1, longest, seed)
        return Splits(train, validation, test)
    held = _held_out_tokens(len(train), BLOCKS, longest)
    number = int(np.random.Generator(np.random.Philox(key=0)).permutation(BLOCKS)[seed % BLOCKS])
    blocks = train[: BLOCKS * held].view(BLOCKS, held)
    kept = [block for block in range(BLOCKS) if block != number]
    lengths = tuple(filter(None, (held * number, held * (BLOCKS - number - 1))))
    return Splits(blocks[kept].flatten(), blocks[number], test, lengths)


def _document_parts(text: Text, held_parts: int, longest: int, seed: int) -> list[Tensor]:
    """Held-out parts of a tenth of the documents each, and the training part, in an order that the seed draws."""
    lengths = _lengths(text)
    whole, largest = int(lengths.sum()), int(lengths.max())
    held = _held_out_tokens(whole, BLOCKS, longest)
    sizes = (*[held] * held_parts, whole - held_parts * (held + largest))
    pieces = text.tokens[:whole].split(lengths.tolist())
    order = iter(np.random.Generator(np.random.Philox(key=seed)).permutation(len(pieces)).tolist())
    parts = list[Tensor]()
    for left in sizes:
        part = list[Tensor]()
        while left:
            part.append(pieces[next(order)][:left])
            left -= len(part[-1])
        parts.append(torch.cat(part))
    return parts


def has_documents_to_hold_out(text: Text) -> bool:
    """True for a text of at least ten documents of which none has more than a tenth of the tokens.

    Of a text with a val file, the documents of the train file count; with a test file too, none is held out.
    """
    lengths = _lengths(text)
    return len(text.given) < 3 and len(lengths) >= BLOCKS and BLOCKS * int(lengths.max()) <= int(lengths.sum())


def _lengths(text: Text) -> NDArray[np.int64]:
    """Tokens of each document; of a text with a val file, of each document of the train file."""
    lengths = np.diff(np.array((0, *text.ends), np.int64))
    return lengths[np.cumsum(lengths) <= text.given[0]] if text.given else lengths


def _held_out_tokens(count: int, parts: int, longest: int) -> int:
    """Tokens of one of equal parts of a text. Raises ValueError where the longest window does not fit into it."""
    held = count // parts
    if held < longest + 1:
        raise ValueError(
            f"this text has {count:,} tokens, of which {held:,} are held out for testing; at least {longest + 1:,} are "
            f"needed. Give a text of {(longest + 1) * parts:,} tokens or more."
        )
    return held


def text_record(
    text: Text,
    documents: Documents,
    splits: Splits,
    digest: str,
    *,
    name: str,
    own: bool,
    by_seed: bool,
    tokenizer: Tokenizer,
) -> DatasetRecord:
    """Record of a text with the tokens of its splits.

    Args:
        text: The text.
        documents: What the text was read from.
        splits: Its splits.
        digest: Digest of its tokens and vocabulary.
        name: Name of the file.
        own: True for a file of the user.
        by_seed: True if the seed of a run decides which blocks are held out.
        tokenizer: Its tokenizer.

    Returns:
        The record.
    """
    named = {"training": splits.train, "validation": splits.validation, "test": splits.test}
    form = {"form": documents.form} if documents.form not in ("text", "bytes") else {}
    read_as = {name: value for name, value in documents.options.items() if value != "bytes"}
    described = {"tokenizer": tokenizer.description} if tokenizer.description else {}
    described |= {"words": tokenizer.words} if tokenizer.name == "words" else {}
    files = {**documents.files, **({"tokenizer": tokenizer.file} if tokenizer.file else {})}
    return DatasetRecord(
        kind="text",
        name=name,
        digest=digest,
        parts=tuple(
            Part(name=part, counts={text.unit: len(some), "tokens": len(some)}) for part, some in named.items()
        ),
        options={
            "tokens": "ids of the file" if text.unit == "tokens" else text.unit,
            "vocabulary": text.model_vocabulary,
            "split": _division(text, by_seed),
            **form,
            **read_as,
            **described,
        },
        left_out=(*documents.left_out, *_unseen(text), *_equal_documents(text, documents, by_seed)),
        own=own,
        files=files,
    )


def _division(text: Text, by_seed: bool) -> str:
    """Phrase on the division of a text into parts."""
    by_document = has_documents_to_hold_out(text)
    if len(text.given) == 3:
        return "train, val and test files as given"
    if text.given:
        held = "a tenth of the documents" if by_document else f"one of {BLOCKS} blocks"
        drawn = f"the seed of a run holds out {held} of the train file for validation"
        return f"val file for testing; {drawn if by_seed else 'the end of the train file for validation'}"
    if not by_seed:
        return "beginning, middle, end"
    if by_document:
        return "by document; the seed of a run holds out a tenth for validation and a tenth for testing"
    return f"{BLOCKS} blocks; the seed of a run holds out one for validation and one for testing"


def _equal_documents(text: Text, documents: Documents, by_seed: bool) -> tuple[str, ...]:
    """Sentence on documents that are equal but for space around them, of a text that is divided between them."""
    own, *others = ([one.strip().encode() for one in each.texts] for each in (documents, *documents.given))
    if others:
        parts = {TRAINING: own, "validation": [key for each in others[:-1] for key in each], TEST: others[-1]}
    else:
        parts = {TRAINING: own if by_seed else []}
    note = equal_items_note(parts, "documents", drawn=not others)
    return (note,) if note else ()


def _unseen(text: Text) -> tuple[str, ...]:
    """Sentence on the tokens of a val or test file that the train file lacks."""
    if not text.given or text.most is not None:
        return ()
    train, others = text.tokens[: text.given[0]], text.tokens[text.given[0] :]
    seen = torch.zeros(len(text.vocabulary), dtype=torch.bool)
    seen[train.long()] = True
    unseen = ~seen[others.long()]
    if not bool(unseen.any()):
        return ()
    at = int(unseen.nonzero()[0, 0])
    kinds, first = len(others[unseen].unique()), text.vocabulary[int(others[at])]
    return (
        f"{int(unseen.sum()):,} tokens of the other files, of {kinds:,} kinds, do not occur in the train file. The "
        f"first is {first!r} at place {at:,}.",
    )


def window_starts(tokens: int, length: int) -> Int64[Tensor, "B"]:
    """Starts of adjacent windows of ``length`` tokens in a split of ``tokens`` tokens; each token is predicted once."""
    return torch.arange(0, tokens - length, length)
