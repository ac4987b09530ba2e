"""Positions of texts in segments, on the axes (segment, place in the segment), as bilevel encodings count them.

    a_n = number of separators before token n,     b_n = number of tokens since the last separator before it

A separator, such as a full stop or a line break, ends its own segment.

Source: He et al. 2024, arXiv 2401.16421, section 3.2, and the authors' code (github zhenyuhe00/BiPE).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.whole_numbers import are_whole

LONGEST = 1024
"""Places of a segment in the authors' code; the tokens after them share the last."""


def segments(
    separators: Tensor, *, start: tuple[int, int] = (0, 0), longest: int = LONGEST, placed: Tensor | None = None
) -> Positions:
    """Positions of tokens by their segment and their place in it, for ``posenc.BiPE``.

    To decode, keep the two numbers of the next token: ``(a + 1, 0)`` after a separator, else ``(a, b + 1)``.

    Args:
        separators: True for tokens that end a segment, ``(N,)`` or ``(B, N)``.
        start: Segment and place of the first token, each at least 0. Default: (0, 0).
        longest: Number of places of a segment; the tokens after it share the last. Default: 1024.
        placed: False for padding, ``(N,)`` or ``(B, N)``, which is not counted. Default: no padding.

    Returns:
        Positions ``(N, 2)`` or ``(B, N, 2)`` of whole numbers on the axes (segment, place).

    Raises:
        ValueError: If ``separators`` is not a boolean tensor, ``start`` is not two whole numbers, ``longest`` is not a
            whole number of at least 1, or ``placed`` does not fit ``separators``.

    Example:
        >>> import torch
        >>> from posenc import segments
        >>> tokens = torch.tensor([5, 8, 13, 6, 13, 7])
        >>> segments(tokens == 13).coords.T
        tensor([[0, 0, 0, 1, 1, 2],
                [0, 1, 2, 0, 1, 0]])

    References:
        He et al. 2024, "Two Stones Hit One Bird: Bilevel Positional Encoding for Better Length Extrapolation", arXiv
        2401.16421, section 3.2.
    """
    if not isinstance(separators, Tensor):
        raise ValueError(
            "`separators` is a tensor, True for tokens that end a segment; got "
            f"{type(separators).__name__}. Write segments(torch.tensor(separators))."
        )
    if separators.dtype != torch.bool or separators.dim() not in (1, 2):
        raise ValueError(
            "`separators` is True for tokens that end a segment, (N,) or (B, N); got "
            f"{separators.dtype} of shape {tuple(separators.shape)}. Write tokens == full_stop."
        )
    two = isinstance(start, Sequence) and len(start) == 2 and are_whole(*start, least=0)
    if not two or not are_whole(longest):
        raise ValueError(
            "segments count from 0 and have at least one place; got "
            f"start={start!r}, longest={longest!r}. Write two whole numbers, as start=(1, 0), and one, as longest=1024."
        )
    _refuse_misfit(placed, separators)
    real = torch.ones_like(separators) if placed is None else placed.expand(separators.shape)
    ends = (separators & real).long()
    segment = ends.cumsum(-1) - ends
    counted = real.long().cumsum(-1) - 1
    behind = torch.where(ends.bool(), counted + 1, 0)  # the count of the token that follows a separator
    since = counted - torch.cat([ends.new_zeros(*ends.shape[:-1], 1), behind[..., :-1]], -1).cummax(-1).values
    place = since.clamp(min=0) + torch.where(segment == 0, start[1], 0)
    coords = torch.stack([segment + start[0], place.clamp(max=longest - 1)], -1)
    return Positions(coords, placed)


def _refuse_misfit(placed: Tensor | None, separators: Tensor) -> None:
    """Raise ValueError if ``placed`` is not one boolean for each of the tokens of ``separators``."""
    if placed is None:
        return
    if not isinstance(placed, Tensor) or placed.dtype != torch.bool:
        got = placed.dtype if isinstance(placed, Tensor) else type(placed).__name__
        raise ValueError(f"`placed` is a tensor of True and False; got {got}. Write torch.tensor(placed).bool().")
    if placed.shape not in (separators.shape, separators.shape[-1:]):
        raise ValueError(
            f"`placed` is True or False for each token of `separators` {tuple(separators.shape)}; got shape "
            f"{tuple(placed.shape)}. Give it shape {tuple(separators.shape)}."
        )
