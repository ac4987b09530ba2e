"""Numbers such as -9999 that stand for a missing value in many tables: found by their distance from all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of

CODES = (99, 999, 9999, 99999, 999999, 99.9, 99.99, 999.9, 999.99, 9999.9, 9999.99, 1e20, 1e30, 1e36)
"""Numbers that tables write for a missing value, with either sign."""
LEAST_OTHERS = 10
"""Different other values that show the range of a column."""


def code_sentences(columns: Mapping[str, NDArray[np.float64]], noun: str = "readings") -> Iterator[str]:
    """Name the columns with a number that probably stands for a missing value. The values are not changed.

    Args:
        columns: Name of a column to its values ``(N,)``, NaN where missing.
        noun: What a value is of, in the plural.

    Yields:
        A sentence for each such number. It is the smallest or the largest value, one of ``CODES``, and farther from
        the next value than the others lie from each other.

    Example:
        >>> import numpy as np
        >>> values = np.append(np.linspace(-5, 30, 50), [-9999, -9999])
        >>> next(code_sentences({"temp": values})).partition(".")[0]
        'temp is -9999 in 2 readings, and from -5 to 30 in all others'
    """
    for name, column in columns.items():
        values = column[np.isfinite(column)]
        for extreme in dict.fromkeys((values.min(), values.max())) if len(values) else ():
            others = values[values != extreme]
            if abs(float(extreme)) not in CODES or len(np.unique(others)) < LEAST_OTHERS:
                continue
            low, high = float(others.min()), float(others.max())
            if min(abs(low - extreme), abs(high - extreme)) <= high - low:
                continue
            some = count_of(int((values == extreme).sum()), noun)
            yield (
                f"{name} is {extreme:g} in {some}, and from {low:g} to {high:g} in all others. It is read as a "
                "number: if it stands for a missing value, empty these cells."
            )
