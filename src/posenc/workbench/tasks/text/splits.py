"""Train, validation and test splits of a text by position, and starts of windows that do not overlap."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.tasks.text.text_file import Text

HELD_OUT_PARTS = 20
"""1 / 20 of the text is the validation split, and as much is the test split."""


class Splits(NamedTuple):
    """Training split (beginning), validation split (middle) and test split (end) of a text."""

    train: Int32[Tensor, "N"]
    validation: Int32[Tensor, "M"]
    test: Int32[Tensor, "L"]


def split(tokens: Int32[Tensor, "N"], *, longest: int) -> Splits:
    """Split a text by position: 90 % for training, 5 % for validation, 5 % for testing. No window crosses a boundary.

    Args:
        tokens: ``(N,)``.
        longest: Tokens of the longest window that each split must hold, without the token after it.

    Raises:
        ValueError: The text is too short.
    """
    held = len(tokens) // HELD_OUT_PARTS
    if held < longest + 1:
        raise ValueError(
            f"this text has {len(tokens):,} tokens, of which {held:,} are held out for testing; at least "
            f"{longest + 1:,} are needed. Give a text of {(longest + 1) * HELD_OUT_PARTS:,} tokens or more."
        )
    first, second = len(tokens) - 2 * held, len(tokens) - held
    return Splits(tokens[:first], tokens[first:second], tokens[second:])


def text_record(text: Text, digest: str, *, name: str, own: bool) -> DatasetRecord:
    """Record of a text with the tokens of its splits.

    Args:
        text: The text.
        digest: Digest of its tokens and vocabulary.
        name: Name of the file.
        own: True for a file of the user.

    Returns:
        The record.
    """
    named = zip(("training", "validation", "test"), split(text.tokens, longest=1), strict=True)
    return DatasetRecord(
        kind="text",
        name=name,
        digest=digest,
        parts=tuple(Part(name=part, counts={text.unit: len(some), "tokens": len(some)}) for part, some in named),
        options={"tokens": text.unit, "vocabulary": len(text.vocabulary), "split": "beginning, middle, end"},
        own=own,
    )


def window_starts(tokens: int, length: int) -> Int64[Tensor, "B"]:
    """Starts of adjacent windows of ``length`` tokens in a split of ``tokens`` tokens; each token is predicted once."""
    return torch.arange(0, tokens - length, length)
