"""Calibration of prediction intervals: the share of held-out targets in normal intervals, and their width."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS = (0.5, 0.8, 0.95)
"""Nominal coverages."""


def reach_of(level: float) -> float:
    """Half-width of a normal interval, in standard deviations.

    Args:
        level: Nominal coverage, between 0 and 1.

    Returns:
        The half-width: 1.96 for 0.95.
    """
    return NormalDist().inv_cdf((1 + level) / 2)


def interval_coverage(
    true: NDArray[Any], predicted: NDArray[Any], deviations: NDArray[Any], unit: float = 1.0
) -> dict[str, float]:
    """Coverage of normal intervals around predictions.

    Args:
        true: Targets ``(M,)``.
        predicted: Predictions ``(M,)``.
        deviations: Standard deviations of the predictions ``(M,)``, with the noise.
        unit: Size of a standardized target in units of the target.

    Returns:
        "covered_50", "covered_80", "covered_95": shares of the targets in the intervals; "width_95": mean width of the
        widest ones in units of the target.

    Example:
        >>> import numpy as np
        >>> from posenc.workbench.tasks.places import interval_coverage
        >>> interval_coverage(np.array([0.0, 3.0]), np.zeros(2), np.ones(2))["covered_95"]
        0.5
    """
    apart = np.abs(true - predicted)
    covered = {level: apart <= reach_of(level) * deviations for level in LEVELS}
    made = {f"covered_{100 * level:.0f}": float(inside.mean()) for level, inside in covered.items()}
    return made | {"width_95": 2 * reach_of(LEVELS[-1]) * float(deviations.mean()) * unit}
