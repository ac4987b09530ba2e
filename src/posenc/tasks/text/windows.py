"""A text in parts that do not overlap, and windows of a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

HELD = 20
"""One part in so many is held out to choose by, and another to report."""


class Parts(NamedTuple):
    """The beginning of a text, to learn from; what follows, to choose by; its end, to report."""

    train: Int32[Tensor, "N"]
    validation: Int32[Tensor, "M"]
    test: Int32[Tensor, "L"]


def split(tokens: Int32[Tensor, "N"], *, longest: int) -> Parts:
    """By position, 90, 5 and 5 in a hundred: no window of one part reaches into another.

    longest: tokens of the longest window that a part must hold, with the token after it.

    Raises ValueError for a text that is too short.
    """
    held = len(tokens) // HELD
    if held < longest + 1:
        raise ValueError(
            f"this text has {len(tokens):,} tokens, of which {held:,} are held out to report, and that takes at least "
            f"{longest + 1:,}. Bring a text of {(longest + 1) * HELD:,} tokens or more."
        )
    first, second = len(tokens) - 2 * held, len(tokens) - held
    return Parts(tokens[:first], tokens[first:second], tokens[second:])


def windows(
    part: Int32[Tensor, "N"], length: int, starts: Sequence[int] | Int64[Tensor, "B"]
) -> Int64[Tensor, "B length+1"]:
    """``length`` tokens from each start and the one after them.

    Raises ValueError where one does not lie within the part.
    """
    at = torch.as_tensor(starts, dtype=torch.int64)
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) <= len(part) - length - 1:
        raise ValueError(
            f"a window of {length} tokens, with the one after, starts from 0 to {len(part) - length - 1} in a part of "
            f"{len(part)}; got {int(at.min())} to {int(at.max())}."
        )
    return part[at[:, None] + torch.arange(length + 1)].long()


def apart(tokens: int, length: int) -> Int64[Tensor, "B"]:
    """Starts of windows that tell each token once, one behind the other: as many as a part of so many tokens holds."""
    return torch.arange(0, tokens - length, length)
