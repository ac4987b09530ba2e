"""Train, validation and test splits of a text by position, and starts of windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int32, Int64
from torch import Tensor

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
    held = len(tokens) // HELD_OUT_PARTS
    if held < longest + 1:
        raise ValueError(
            f"this text has {len(tokens):,} tokens, of which {held:,} are held out for testing; at least "
            f"{longest + 1:,} are needed. Give a text of {(longest + 1) * HELD_OUT_PARTS:,} tokens or more."
        )
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
    held = len(tokens) // BLOCKS
    if held < longest + 1:
        raise ValueError(
            f"this text has {len(tokens):,} tokens, of which {held:,} are held out for testing; at least "
            f"{longest + 1:,} are needed. Give a text of {(longest + 1) * BLOCKS:,} tokens or more."
        )
    order = np.random.Generator(np.random.Philox(key=0)).permutation(BLOCKS)
    test, validation = int(order[seed % BLOCKS]), int(order[(seed + 1) % BLOCKS])
    blocks = tokens[: BLOCKS * held].view(BLOCKS, held)  # at most nine tokens at the end are left out
    first, second = sorted((test, validation))
    lengths = (held * first, held * (second - first - 1), held * (BLOCKS - second - 1))
    train = [number for number in range(BLOCKS) if number not in (test, validation)]
    return Splits(blocks[train].flatten(), blocks[validation], blocks[test], tuple(filter(None, lengths)))


def window_starts(tokens: int, length: int) -> Int64[Tensor, "B"]:
    """Starts of adjacent windows of ``length`` tokens in a split of ``tokens`` tokens; each token is predicted once."""
    return torch.arange(0, tokens - length, length)
