"""What more context is worth: the loss of the same tokens, told from ever more of the text before them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Float64, Int32, Int64
from torch import Tensor

from posenc.tasks.text import windows

Losses = Callable[[Int64[Tensor, "B N"]], Float[Tensor, "B N-1"]]
"""Windows to the loss of each token but the first, in nats."""


def by_context(losses: Losses, part: Int32[Tensor, "N"], *, reach: int, stride: int) -> Float64[Tensor, "reach"]:
    """Entry ``c - 1`` is the mean loss of tokens that are told from the c tokens before them, c up to ``reach``.

    The tokens told are those of ``part`` after its first ``reach``, alike for every context to within a stride: a
    window starts at every ``stride`` tokens, so of any ``stride`` contexts in a row each such token has one. A text
    that grows harder along its way therefore looks no worse at greater lengths.

    stride: divides reach; a smaller one takes more time and tells each context from more tokens.

    Raises ValueError for a stride that does not divide the reach, and a part that holds no ``stride`` such tokens.
    """
    if stride < 1 or reach % stride:
        raise ValueError(f"the stride divides the reach; got stride={stride}, reach={reach}.")
    last = reach + (len(part) - 1 - reach) // stride * stride  # whole strides of tokens that are told
    if last <= reach:
        raise ValueError(
            f"a reach of {reach} tokens with a stride of {stride} takes a part of at least {reach + stride + 1}; got "
            f"{len(part)}."
        )
    total, count = (torch.zeros(reach, dtype=torch.float64) for _ in range(2))
    for start in range(0, last, stride):
        length = min(reach, last - start)
        found = losses(windows(part, length, [start]))[0].double().cpu()
        first = max(0, reach - start)  # of the tokens that are told; those before have no such context in another
        total[first:length] += found[first:]
        count[first:length] += 1
    return total / count


def octave(by_context: Float64[Tensor, "reach"], longest: int) -> float:
    """The mean over contexts of more than half of ``longest`` tokens, and up to all of them."""
    return float(by_context[longest // 2 : longest].mean())
