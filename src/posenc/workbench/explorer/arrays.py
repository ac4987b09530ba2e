"""Arrays as JSON: curves as numbers of six digits, maps as 12-bit whole numbers between their ends."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

LEVELS = 4094
"""Largest number of a value, of 12 bits; the next one, 4095, is a missing value. A map is drawn with 24 levels of color,
and further bits could not be compressed."""


def curve(values: Iterable[float | None] | Tensor) -> list[float | None]:
    """Round the values of a curve to six digits; NaN, infinity and None become None.

    Args:
        values: The values.

    Returns:
        A list for JSON.
    """
    numbers = values.tolist() if isinstance(values, Tensor) else values
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in numbers]


def packed(values: Tensor) -> dict[str, Any]:
    """Pack a map: each value is rounded to one of 4,095 values between the smallest and the largest value.

    Args:
        values: The map, of any shape; NaN is a missing value.

    Returns:
        Shape, smallest and largest value, and the numbers, 16 bits each, little-endian, as base64.
    """
    found = values.detach().double().numpy()
    there = np.isfinite(found)
    low, high = (float(found[there].min()), float(found[there].max())) if there.any() else (0.0, 0.0)
    steps = np.rint((np.where(there, found, low) - low) / ((high - low) or 1.0) * LEVELS)
    numbers = np.where(there, steps, LEVELS + 1).astype("<u2")
    return {
        "shape": list(found.shape),
        "low": low,
        "high": high,
        "data": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """Read a map that ``packed`` wrote.

    Args:
        found: The result of ``packed``.

    Returns:
        The values, NaN where one is missing.
    """
    numbers = np.frombuffer(base64.b64decode(found["data"]), "<u2").reshape(found["shape"]).astype(np.float64)
    values = found["low"] + numbers / LEVELS * (found["high"] - found["low"])
    return np.where(numbers > LEVELS, np.nan, values)
