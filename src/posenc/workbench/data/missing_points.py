"""Points that probably stand for missing ones, and columns that number the lines: found by their values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.data.missing_codes import code_sentences

LEAST_AT_ZERO, ZERO_SHARE = 2, 0.01
"""Fewest points at zero that are named, and their least share of all points."""
LEAST_NUMBERED = 10
"""Fewest lines whose numbers show that a column counts them."""


def missing_point_sentences(points: NDArray[np.float64], name: str) -> Iterator[str]:
    """Name points that are all at zero, and coordinates such as -9999. The points are not changed.

    Args:
        points: ``(N, 3)`` coordinates.
        name: Name of the file.

    Yields:
        A sentence for each.
    """
    zeros = int((points == 0).all(1).sum())
    if zeros >= max(LEAST_AT_ZERO, ZERO_SHARE * len(points)):
        yield (
            f"{zeros:,} of {count_of(len(points), 'points')} of {name} are at (0, 0, 0). They are read as points: if "
            "they stand for missing ones, remove them."
        )
    codes = list(code_sentences(dict(zip("xyz", points.T, strict=True)), "points"))
    if codes:
        others = sorted({sentence[0] for sentence in codes} - {codes[0][0]})
        too = f" The same holds for {' and '.join(others)}." if others else ""
        yield (
            f"In {name} {codes[0].partition(' It is read')[0]}{too} These numbers are read as coordinates: "
            "if they stand for missing points, remove the points."
        )


def counts_lines(columns: NDArray[np.float64]) -> bool:
    """True if the first of at least four columns counts the lines from 0 or 1, so that the others hold the points.

    Args:
        columns: ``(N, C)`` numbers without names.

    Returns:
        True for a column that counts.
    """
    if columns.shape[1] < 4 or len(columns) < LEAST_NUMBERED or columns[0, 0] not in (0, 1):
        return False
    return bool((columns[:, 0] == columns[0, 0] + np.arange(len(columns))).all())
