"""Numbers of a token, stored as further channels of its key, so that any cache of another library keeps them.

    wide = append(key, values)         (B, G, N, D) and (B, N, M) -> (B, G, N, D + C)
    wide = torch.cat([key, channels(values, G, key.dtype)], -1)      the same, with channels that layers share
    key, values = separate(wide, D, M)

A cache concatenates, overwrites, drops, reorders and repeats keys of any width. Numbers in their channels are therefore
those of its tokens at any time. The M numbers are divided among the G key heads. A narrow dtype holds each number as a
sum of three, which is exact for positions below 2^24 and as precise as float32 for others.
"""

from __future__ import annotations

import torch
from torch import Tensor


def append(key: Tensor, values: Tensor) -> Tensor:
    """Append numbers of the tokens to their keys.

    Args:
        key: Keys ``(B, G, N, D)`` in float64, float32, bfloat16 or float16.
        values: Numbers ``(B, N, M)`` in float32, of size at most 65,504.

    Returns:
        Wider keys ``(B, G, N, D + C)`` in the dtype of ``key``.
    """
    return torch.cat([key, channels(values, key.shape[1], key.dtype)], -1)


def channels(values: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """The channels that ``append`` adds to keys.

    Args:
        values: Numbers ``(B, N, M)`` in float32, of size at most 65,504.
        heads: Number G of key heads.
        dtype: Dtype of the keys.

    Returns:
        Channels ``(B, G, N, C)``.
    """
    parts = torch.cat(_parts(values, dtype), -1)
    parts = torch.nn.functional.pad(parts, (0, -parts.shape[-1] % heads))
    return parts.unflatten(-1, (heads, -1)).transpose(1, 2)


def separate(wide: Tensor, width: int, count: int) -> tuple[Tensor, Tensor]:
    """Undo ``append``.

    Args:
        wide: Keys with numbers, ``(B, G, K, width + C)``.
        width: Number D of channels of a key.
        count: Number M of numbers of a token.

    Returns:
        Keys ``(B, G, K, width)``, and numbers ``(B, K, count)`` in float32 or wider.
    """
    parts = wide[..., width:].transpose(1, 2).flatten(2)
    parts = parts.to(torch.promote_types(parts.dtype, torch.float32))
    return wide[..., :width], sum(parts[..., i * count : (i + 1) * count] for i in range(_parts_of(wide.dtype)))  # pyright: ignore


def _parts(values: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Numbers of a dtype whose sum is ``values``."""
    parts, rest = [], values
    for _ in range(_parts_of(dtype)):
        parts.append(rest.to(dtype))
        rest = rest - parts[-1].to(rest.dtype)
    return parts


def _parts_of(dtype: torch.dtype) -> int:
    return 1 if dtype.itemsize >= 4 else 3
