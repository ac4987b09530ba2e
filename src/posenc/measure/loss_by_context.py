"""Loss by context length: the loss of the same tokens, predicted from contexts of increasing length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Float64, Int32, Int64
from torch import Tensor

Losses = Callable[[Int64[Tensor, "B N"]], Float[Tensor, "B N-1"]]
"""Function from windows of tokens to the loss of each token but the first, in nats."""


def loss_by_context(losses: Losses, part: Int32[Tensor, "N"], *, reach: int, stride: int) -> Float64[Tensor, "reach"]:
    """Compute the mean loss of tokens that are predicted from the c tokens before them, for c = 1 .. ``reach``.

    The predicted tokens are those of ``part`` after its first ``reach`` tokens. A window starts at every ``stride``
    tokens, so each predicted token is used once for every ``stride`` consecutive context lengths. All context lengths
    therefore use the same tokens, to within one stride, and a text that becomes harder to predict towards its end
    does not bias the comparison.

    Args:
        losses: function from windows ``(B, N)`` to losses ``(B, N - 1)`` in nats.
        part: the text, token numbers ``(N,)``.
        reach: longest context, in tokens.
        stride: distance between the starts of two windows, in tokens; it divides ``reach``. A smaller stride takes more
            time and averages over more tokens.

    Returns:
        Mean losses ``(reach,)`` in nats; entry ``c - 1`` is for a context of c tokens.

    Raises:
        ValueError: a stride that does not divide the reach, or a part with fewer than ``reach + stride + 1`` tokens.
    """
    if stride < 1 or reach < 1 or reach % stride:
        raise ValueError(f"the stride divides the reach, both from 1; got stride={stride}, reach={reach}.")
    last = reach + (len(part) - 1 - reach) // stride * stride  # a whole number of strides
    if last <= reach:
        raise ValueError(
            f"a reach of {reach} tokens with a stride of {stride} takes a part of at least {reach + stride + 1}; got "
            f"{len(part)}."
        )
    total, count = (torch.zeros(reach, dtype=torch.float64) for _ in range(2))
    for start in range(0, last, stride):
        length = min(reach, last - start)
        loss = losses(windows(part, length, [start]))[0].double().cpu()
        first = max(0, reach - start)  # counts only tokens after the first `reach` of the part
        total[first:length] += loss[first:]
        count[first:length] += 1
    return total / count


def mean_over_octave(loss_by_context: Float64[Tensor, "reach"], longest: int) -> float:
    """Return the mean loss over contexts of ``longest / 2 + 1`` to ``longest`` tokens.

    Args:
        loss_by_context: mean losses by context length, ``(reach,)``.
        longest: longest context of the mean, in tokens, from 1 to ``reach``.

    Returns:
        Mean loss in nats.

    Raises:
        ValueError: a longest context beyond those that were measured.
    """
    if not 1 <= longest <= len(loss_by_context):
        raise ValueError(f"losses are known for contexts of 1 to {len(loss_by_context)} tokens; got longest={longest}.")
    return float(loss_by_context[longest // 2 : longest].mean())


def windows(part: Int32[Tensor, "N"], length: int, starts: Sequence[int] | Int64[Tensor, "B"]) -> Int64[Tensor, "B M"]:
    """Cut windows of ``length + 1`` tokens out of a text.

    Args:
        part: the text, token numbers ``(N,)``.
        length: number of tokens of a window, without the one after it, which is the last target.
        starts: first token of each window, ``(B,)``.

    Returns:
        Token numbers ``(B, length + 1)``.

    Raises:
        ValueError: a window that does not lie within the text.
    """
    at = torch.as_tensor(starts, dtype=torch.int64)
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) <= len(part) - length - 1:
        raise ValueError(
            f"a window of {length} tokens, with the one after, starts from 0 to {len(part) - length - 1} in a part of "
            f"{len(part)}; got {int(at.min())} to {int(at.max())}."
        )
    return part[at[:, None] + torch.arange(length + 1)].long()
