"""Numbers such as -9999 that stand for a missing value in many tables: found by their distance from all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
        the next value than the others lie from each other, or negative, several times, where no other value is.

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
            times = int((values == extreme).sum())
            far = min(abs(low - extreme), abs(high - extreme)) > high - low
            if not far and not (extreme < 0 <= low and times > 1):
                continue
            some = count_of(times, noun)
            yield (
                f"{name} is {extreme:g} in {some}, and from {low:g} to {high:g} in all others. It is read as a "
                "number: if it stands for a missing value, empty these cells."
            )


def place_sentences(names: Sequence[str], coords: NDArray[np.float64]) -> Iterator[str]:
    """Name coordinates that probably stand for a missing place: codes, and rows at zero apart from all others.

    Args:
        names: Names of the coordinates.
        coords: Coordinates ``(N, P)``.

    Yields:
        A sentence for each such number or place.

    Example:
        >>> import numpy as np
        >>> places = np.random.default_rng(0).uniform(4, 6, (50, 2))
        >>> places[0] = 0
        >>> next(place_sentences(("lon", "lat"), places)).partition(":")[0]
        '1 row is at lon 0, lat 0, and all others are away from it'
    """
    yield from code_sentences(dict(zip(names, coords.T, strict=True)), "rows")
    at_zero = (coords == 0).all(1)
    others = coords[~at_zero]
    if not at_zero.any() or len(np.unique(others, axis=0)) < LEAST_OTHERS:
        return
    low, high = others.min(0), others.max(0)
    if ((low > 0) | (high < 0)).any():
        count = int(at_zero.sum())
        are = "is" if count == 1 else "are"
        yield (
            f"{count_of(count, 'rows')} {are} at {', '.join(f'{name} 0' for name in names)}, and all others are away "
            "from it: if the place is not known, empty these cells."
        )
