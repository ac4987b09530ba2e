"""Positions of texts with images and videos, on the axes (time, height, width), as M-RoPE of Qwen2-VL counts them.

    text of n tokens from s:          (s, s, s), (s + 1, s + 1, s + 1), ..
    frame t, row r, column c from s:  (s + floor(t interval), s + r, s + c)

The text after an image or video starts at ``s + max(rows, columns)``.

VideoRoPE centers frames on a diagonal, and the text goes on after the last frame:

    frame t, row r, column c from s:  s + interval t + (0, r - floor((rows - 1) / 2), c - floor((columns - 1) / 2))

Sources: Wang et al. 2024, arXiv 2409.12191, section 2.1, and ``get_rope_index`` of transformers 5.23; Wei et al. 2025,
arXiv 2502.05173, and the authors' code (github Wiselnn570/VideoRoPE).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posenc.positions import Positions

Segment = int | tuple[int, int, int]
"""A number of text tokens, or (frames, rows, columns) of an image or video after patches are merged."""
Block = Callable[[float, tuple[int, int, int]], tuple[Tensor, float]]
"""Coordinates ``(frames, rows, columns, 3)`` of an image or video by its start and sizes; start of the next text."""


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

    def block(start: float, sizes: tuple[int, int, int]) -> tuple[Tensor, float]:
        frames, rows, columns = (torch.arange(size, device="cpu") for size in sizes)
        frames = (frames * interval).long()
        end = max(*sizes[1:], int(frames[-1]) + 1 if after == "volume" else 1)
        return start + torch.stack(torch.meshgrid(frames, rows, columns, indexing="ij"), -1), start + end

    return _positions(segments, block, device)


def video_rope(
    segments: Sequence[Segment] | Sequence[Sequence[Segment]],
    *,
    interval: float = 2.0,
    device: torch.device | str | None = None,
) -> Positions:
    """Positions of VideoRoPE: frames centered on the diagonal of (time, height, width), on which text stands too.

    Use them with ``SectionedRoPE(128, (16, 24, 24), base=1e6, arrangement="time last")``. The next token of a text that
    is continued has ``coords[..., 0].max() + 1`` on all axes.

    Args:
        segments: The parts of the text in their order, as in ``multimodal``.
        interval: Positions between two frames, above 0. Default 2, as in the authors' model; their code for vLLM has
            0.5. Unless it is whole, coordinates are float64.
        device: Device of the coordinates. Default: torch's default device.

    Returns:
        Positions ``(N, 3)`` of one text, or ``(B, N, 3)`` of several, padded on the left with ``placed=False``.

    Raises:
        ValueError: If a segment is neither, a size is negative or zero, or ``interval`` is not positive and finite.

    Example:
        >>> from posenc import video_rope
        >>> video_rope([1, (2, 1, 3), 1]).coords
        tensor([[0, 0, 0],
                [1, 1, 0],
                [1, 1, 1],
                [1, 1, 2],
                [3, 3, 2],
                [3, 3, 3],
                [3, 3, 4],
                [4, 4, 4]])

    References:
        Wei et al. 2025, "VideoRoPE: What Makes for Good Video Rotary Position Embedding?", arXiv 2502.05173.
    """
    if not 0 < interval < math.inf:
        raise ValueError(f"`interval` is the number of positions between two frames, above 0; got {interval}.")
    step = int(interval) if interval == int(interval) else torch.tensor(interval, dtype=torch.float64, device="cpu")

    def block(start: float, sizes: tuple[int, int, int]) -> tuple[Tensor, float]:
        frames, rows, columns = (torch.arange(size, device="cpu") for size in sizes)
        time = start + (frames * step)[:, None, None].expand(sizes)
        row, column = rows[:, None] - (sizes[1] - 1) // 2, columns - (sizes[2] - 1) // 2
        return torch.stack([time, time + row, time + column], -1), time[-1, 0, 0].item() + 1

    return _positions(segments, block, device)


def _positions(segments: Sequence[Any], block: Block, device: torch.device | str | None) -> Positions:
    """Positions of one text, or of several, padded on the left."""
    if isinstance(segments, str) or not isinstance(segments, Sequence):
        raise ValueError(
            "the segments of a text are a list of numbers of text tokens and (frames, rows, columns), as "
            f"[5, (1, 4, 6), 3]; got {segments!r}. Write [5] for a text of 5 tokens."
        )
    several = len(segments) > 0 and all(isinstance(text, list) for text in segments)
    texts = [_coordinates(text, block) for text in (segments if several else [segments])]
    if not several:
        return Positions(texts[0].to(device or torch.get_default_device()))
    longest = max(map(len, texts))
    coords = torch.stack([torch.nn.functional.pad(text, (0, 0, longest - len(text), 0)) for text in texts])
    real = torch.stack([torch.arange(longest) >= longest - len(text) for text in texts])
    return Positions(coords, None if bool(real.all()) else real).to(device or torch.get_default_device())


def _numbers(sizes: Sequence[Any]) -> list[Any]:
    """Sizes with numbers of numpy and torch, as an image processor has them, as those of Python."""
    return [size.tolist() if isinstance(size, Tensor | np.generic) else size for size in sizes]


def _coordinates(segments: Sequence[Segment], block: Block) -> Tensor:
    """Coordinates ``(N, 3)`` of one text."""
    start: float = 0
    parts = [torch.empty(0, 3, dtype=torch.int64, device="cpu")]
    for segment in segments:
        plain = segment.tolist() if isinstance(segment, Tensor | np.generic | np.ndarray) else segment
        sizes = [plain] if isinstance(plain, int) else _numbers(plain) if isinstance(plain, tuple | list) else []
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
        coords, start = block(start, (sizes[0], sizes[1], sizes[2]))
        parts.append(coords.flatten(0, 2))
    return torch.cat(parts)
