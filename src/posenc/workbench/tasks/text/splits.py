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
from posenc.workbench.tasks.text.text_file import Text

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
    held, largest = _held_out_tokens(len(text.tokens), BLOCKS, longest), int(_lengths(text).max())
    sizes = iter((held, held, len(text.tokens) - 2 * held - 2 * largest))
    pieces = text.tokens.split(_lengths(text).tolist())
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(pieces)).tolist()
    parts: list[list[Tensor]] = [[]]
    left = next(sizes)
    for number in order:
        parts[-1].append(pieces[number][:left])
        left -= len(parts[-1][-1])
        if not left:
            if len(parts) == len(Splits._fields) - 1:
                break
            parts.append([])
            left = next(sizes)
    test, validation, train = parts
    return Splits(torch.cat(train), torch.cat(validation), torch.cat(test))


def has_documents_to_hold_out(text: Text) -> bool:
    """True for a text of at least ten documents of which none has more than a tenth of the tokens."""
    return len(text.ends) >= BLOCKS and BLOCKS * int(_lengths(text).max()) <= len(text.tokens)


def _lengths(text: Text) -> NDArray[np.int64]:
    return np.diff(np.array((0, *text.ends), np.int64))


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
    text: Text, documents: Documents, splits: Splits, digest: str, *, name: str, own: bool, by_seed: bool
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

    Returns:
        The record.
    """
    named = {"training": splits.train, "validation": splits.validation, "test": splits.test}
    how = f"{BLOCKS} blocks; the seed of a run holds out one for validation and one for testing"
    if has_documents_to_hold_out(text):
        how = "by document; the seed of a run holds out a tenth for validation and a tenth for testing"
    read_as = {"form": documents.form, **documents.options} if documents.form not in ("text", "bytes") else {}
    return DatasetRecord(
        kind="text",
        name=name,
        digest=digest,
        parts=tuple(
            Part(name=part, counts={text.unit: len(some), "tokens": len(some)}) for part, some in named.items()
        ),
        options={
            "tokens": "ids of the file" if text.unit == "tokens" else text.unit,
            "vocabulary": len(text.vocabulary),
            "split": how if by_seed else "beginning, middle, end",
            **read_as,
        },
        left_out=documents.left_out,
        own=own,
    )


def window_starts(tokens: int, length: int) -> Int64[Tensor, "B"]:
    """Starts of adjacent windows of ``length`` tokens in a split of ``tokens`` tokens; each token is predicted once."""
    return torch.arange(0, tokens - length, length)
