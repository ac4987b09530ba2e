"""Positions of texts with images and videos, on the axes (time, height, width), as M-RoPE of Qwen2-VL counts them.

    text of n tokens from s:          (s, s, s), (s + 1, s + 1, s + 1), ..
    frame t, row r, column c from s:  (s + floor(t interval), s + r, s + c)

The text after an image or video starts at ``s + max(rows, columns)``.

Source: Wang et al. 2024, arXiv 2409.12191, section 2.1; ``get_rope_index`` of transformers 5.23.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from posenc.positions import Positions

Segment = int | tuple[int, int, int]
"""A number of text tokens, or (frames, rows, columns) of an image or video after patches are merged."""


def multimodal(
    segments: Sequence[Segment] | Sequence[Sequence[Segment]],
    *,
    interval: float = 1.0,
    after: Literal["plane", "volume"] = "plane",
    device: torch.device | str | None = None,
) -> Positions:
    """Positions of one text with images and videos, or of several, padded on the left.

    The next token of a text that is continued has ``coords.max() + 1`` on all axes.

    Args:
        segments: The parts of the text in their order: a number of text tokens, or ``(frames, rows, columns)`` of an
            image (one frame) or video, whose tokens are in row-major order. Sizes are those after merging: Qwen divides
            the patches of an image by 2 on height and width. For several texts a list of such lists. Qwen3-VL divides a
            video into frames with a text of the time before each: ``[.., 6, (1, 4, 4), 6, (1, 4, 4), ..]``.
        interval: Positions between two frames, at least 0. Qwen2.5-VL: ``tokens_per_second * seconds_per_frame``.
            Default 1, as in Qwen2-VL.
        after: Start of the text after an image or video: "plane" (default) counts rows and columns alone, as
            transformers 5.23; "volume" counts frames too, so that the positions of a long video never occur again in
            the text after it.
        device: Device of the coordinates. Default: torch's default device.

    Returns:
        Positions ``(N, 3)`` of one text, or ``(B, N, 3)`` of several, where padding has ``placed=False``.

    Raises:
        ValueError: If a segment is neither, a size is negative or zero, or ``interval`` or ``after`` is not one of the
            values above.

    Example:
        >>> from posenc import multimodal
        >>> multimodal([2, (1, 1, 2), 1]).coords
        tensor([[0, 0, 0],
                [1, 1, 1],
                [2, 2, 2],
                [2, 2, 3],
                [4, 4, 4]])

    References:
        Wang et al. 2024, arXiv 2409.12191, section 2.1.
    """
    if not 0 <= interval < math.inf:
        raise ValueError(f"`interval` is the number of positions between two frames, at least 0; got {interval}.")
    if after not in ("plane", "volume"):
        raise ValueError(f"the text after an image starts after its 'plane' or 'volume'; got after={after!r}.")
    several = len(segments) > 0 and all(isinstance(text, list) for text in segments)
    texts = [_coordinates(text, interval, after) for text in (segments if several else [segments])]  # pyright: ignore
    if not several:
        return Positions(texts[0].to(device or torch.get_default_device()))
    longest = max(map(len, texts))
    coords = torch.stack([torch.nn.functional.pad(text, (0, 0, longest - len(text), 0)) for text in texts])
    real = torch.stack([torch.arange(longest) >= longest - len(text) for text in texts])
    return Positions(coords, None if bool(real.all()) else real).to(device or torch.get_default_device())


def _coordinates(segments: Sequence[Segment], interval: float, after: str) -> Tensor:
    """Coordinates ``(N, 3)`` of one text."""
    start, parts = 0, [torch.empty(0, 3, dtype=torch.int64, device="cpu")]
    for segment in segments:
        sizes = [segment] if isinstance(segment, int) else list(segment) if isinstance(segment, tuple) else []
        if len(sizes) not in (1, 3) or any(isinstance(size, bool) or not isinstance(size, int) for size in sizes):
            raise ValueError(
                "a segment is a number of text tokens or (frames, rows, columns), as [5, (1, 4, 6), 3]; got "
                f"{segment!r}."
            )
        if min(sizes) < (0 if len(sizes) == 1 else 1):
            raise ValueError(f"a text has at least 0 tokens and an image at least one row and column; got {segment!r}.")
        if len(sizes) == 1:
            parts.append(start + torch.arange(sizes[0], device="cpu")[:, None].expand(-1, 3))
            start += sizes[0]
            continue
        _, rows, columns = sizes
        at = [torch.arange(size, device="cpu") for size in sizes]
        at[0] = (at[0] * interval).long()
        parts.append(start + torch.stack(torch.meshgrid(*at, indexing="ij"), -1).flatten(0, 2))
        start += max(rows, columns, int(at[0][-1]) + 1 if after == "volume" else 1)
    return torch.cat(parts)
