"""Arrays as JSON: curves as numbers of six digits, maps as whole numbers between their ends."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

FINE, COARSE = 12, 8
"""Bits of a number. A map is drawn with 24 levels of color, so its numbers have few bits and are compressed well."""


def curve(values: Iterable[float | None] | Tensor) -> list[float | None]:
    """Round the values of a curve to six digits; NaN, infinity and None become None.

    Args:
        values: The values.

    Returns:
        A list for JSON.
    """
    numbers = values.tolist() if isinstance(values, Tensor) else values
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in numbers]


def packed(values: Tensor, bits: int = FINE) -> dict[str, Any]:
    """Pack a map: each value is rounded to one of ``2^bits - 1`` values from the smallest to the largest one.

    Args:
        values: The map, of any shape; NaN is a missing value.
        bits: ``FINE`` or ``COARSE``.

    Returns:
        Shape, bits, smallest and largest value, and whole numbers as base64: bytes, or pairs of bytes, little-endian.
        The largest number of that many bits is a missing value.
    """
    found, most = values.detach().double().numpy(), 2**bits - 2
    there = np.isfinite(found)
    low, high = (float(found[there].min()), float(found[there].max())) if there.any() else (0.0, 0.0)
    steps = np.rint((np.where(there, found, low) - low) / ((high - low) or 1.0) * most)
    numbers = np.where(there, steps, most + 1).astype("<u2" if bits == FINE else "u1")
    data = base64.b64encode(numbers.tobytes()).decode("ascii")
    return {"shape": list(found.shape), "bits": bits, "low": low, "high": high, "data": data}


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """Read a map that ``packed`` wrote.

    Args:
        found: The result of ``packed``.

    Returns:
        The values, NaN where one is missing.
    """
    most, kind = 2 ** found["bits"] - 2, "<u2" if found["bits"] == FINE else "u1"
    numbers = np.frombuffer(base64.b64decode(found["data"]), kind).reshape(found["shape"]).astype(np.float64)
    values = found["low"] + numbers / most * (found["high"] - found["low"])
    return np.where(numbers > most, np.nan, values)
