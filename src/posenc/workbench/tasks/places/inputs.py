"""Columns that a model reads beside coordinates: numbers, categories and times.

Networks, ridge, neighbors and Gaussian processes read numbers less their training mean, in training standard
deviations, with 0 for a missing one and a column that marks it. Boosting reads numbers as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.frequencies import LENGTHS, periods
from posenc.workbench.data.places import PlaceTable

CYCLES = ("day", "week", "year")
LEAST_CYCLES, LEAST_PHASES, PHASES = 2, 4, 48
"""A cycle counts if the times span two of it and lie in at least 4 of its 48 parts."""
CONSTANT = 1e-12
"""Largest standard deviation of a constant column, as a share of its mean."""
FARTHEST = 8.0
"""Largest standardized number, in standard deviations."""


def cycles_of(times: NDArray[np.float64]) -> tuple[str, ...]:
    """Cycles of the calendar that some times can show.

    Args:
        times: Seconds since 1970 ``(N,)``; may be empty.

    Returns:
        Names among "day", "week" and "year".
    """
    if not len(times):
        return ()

    def shows(name: str) -> bool:
        phases = np.unique(np.floor(times % LENGTHS[name] / LENGTHS[name] * PHASES))
        return bool(np.ptp(times) >= LEAST_CYCLES * LENGTHS[name] and len(phases) >= LEAST_PHASES)

    return tuple(name for name in CYCLES if shows(name))


def time_columns(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear time, and a sine and a cosine for each cycle that the times can show.

    Args:
        times: Seconds since 1970 ``(N,)``; may be empty.

    Returns:
        Columns ``(N, T)``; ``(0, 0)`` without times.
    """
    if not len(times):
        return np.zeros((0, 0))
    columns = [times]
    if names := cycles_of(times):
        phases = times[:, None] * periods(*names).numpy()  # type: ignore[arg-type]  # names of Period
        columns += [*np.sin(phases).T, *np.cos(phases).T]
    return np.stack(columns, 1)


def _indicators(table: PlaceTable) -> NDArray[np.float64]:
    """A column of 0 and 1 for each category."""
    blocks = [
        codes[:, None] == np.arange(len(names))
        for codes, (_, names) in zip(table.codes.T, table.categories, strict=True)
    ]
    return np.concatenate(blocks, 1).astype(float) if blocks else np.zeros((len(table), 0))


def plain_columns(table: PlaceTable) -> NDArray[np.float64]:
    """Columns for boosting: numbers with NaN where missing, categories as 0 and 1, and times.

    Args:
        table: The table.

    Returns:
        Columns ``(N, F)``.
    """
    times = time_columns(table.times)
    return np.concatenate([table.numeric, _indicators(table), *([times] if len(times) else [])], 1)


def standardized_columns(table: PlaceTable, train: NDArray[np.int64]) -> NDArray[np.float32]:
    """Columns for models that need numbers of one size and none missing.

    Args:
        table: The table.
        train: Numbers of the training rows, by which numbers are standardized.

    Returns:
        Columns ``(N, F)``; their number does not depend on the training rows.
    """
    columns = plain_columns(table)
    held = np.isfinite(columns)
    known = np.where(held, columns, 0.0)
    counts = np.maximum(held[train].sum(0), 1)
    mean = known[train].sum(0) / counts
    spread = np.sqrt((np.where(held, known - mean, 0.0)[train] ** 2).sum(0) / counts)
    varies = spread > CONSTANT * np.abs(mean)  # rounding errors are not variation
    scaled = np.where(held, known - mean, 0.0) / np.where(varies, spread, np.inf)
    lacking = ~held[:, ~held.all(0)]
    return np.concatenate([scaled.clip(-FARTHEST, FARTHEST), lacking], 1).astype(np.float32)
