"""Arrays as JSON: curves as numbers of six digits, maps as whole numbers between their ends."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

MOST = 254
"""Largest whole number of a map, which is drawn with 24 levels of color. The next one, 255, is a missing value."""


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
    """Pack a map: each value is rounded to one of 255 values from the smallest to the largest one.

    Args:
        values: The map, of any shape; NaN is a missing value.

    Returns:
        Shape, smallest and largest value, and whole numbers as base64 of bytes; 255 is a missing value.
    """
    found = values.detach().double().numpy()
    there = np.isfinite(found)
    low, high = (float(found[there].min()), float(found[there].max())) if there.any() else (0.0, 0.0)
    steps = np.rint((np.where(there, found, low) - low) / ((high - low) or 1.0) * MOST)
    data = base64.b64encode(np.where(there, steps, MOST + 1).astype("u1").tobytes()).decode("ascii")
    return {"shape": list(found.shape), "low": low, "high": high, "data": data}


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """Read a map that ``packed`` wrote.

    Args:
        found: The result of ``packed``.

    Returns:
        The values, NaN where one is missing.
    """
    numbers = np.frombuffer(base64.b64decode(found["data"]), "u1").reshape(found["shape"]).astype(np.float64)
    values = found["low"] + numbers / MOST * (found["high"] - found["low"])
    return np.where(numbers > MOST, np.nan, values)
