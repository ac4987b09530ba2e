"""Budget of a race in time: its text, the number of candidates that fit, and the predicted time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from posenc.workbench.advice.race import Rung

UNITS = (3600.0, 60.0, 1.0)
"""Seconds of an hour, a minute and a second."""
PATTERN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
SHARE_OF_LATER = 0.5
"""Share of the candidates that is assumed to be left after the first rung."""
PAGE_SECONDS = 8.0
"""Time for the answer and its page, at most a tenth of the budget."""


def budget_seconds(text: str) -> float:
    """Read a budget such as "10m", "90s", "1h" or "2m30s".

    Args:
        text: The budget.

    Returns:
        Seconds.

    Raises:
        ValueError: It is no such text, or 0.
    """
    found = PATTERN.fullmatch(text.strip())
    parts = found.groups() if found else (None, None, None)
    seconds = sum(float(part or 0) * unit for part, unit in zip(parts, UNITS, strict=True))
    if not seconds > 0:
        raise ValueError(f"a budget is a time above 0, such as 10m, 90s or 1h; got {text!r}. Use --budget 10m.")
    return seconds


def reserve(budget: float) -> float:
    """Part of a budget that is left for the answer and its page, in seconds."""
    return min(PAGE_SECONDS, budget / 10)


def trainings(rungs: Sequence[Rung]) -> tuple[float, float]:
    """Whole trainings of a candidate in the first rung, and in the others together.

    Rungs that only add seeds to decide a close race are not counted.
    """
    first = rungs[0].fraction * rungs[0].seeds
    whole = [rung for rung in rungs[1:] if rung.seeds <= max(5, 2 * rungs[0].seeds)]
    return first, max((rung.fraction * rung.seeds for rung in whole), default=0.0)


def candidates_that_fit(each: float, seconds: float, processes: int, rungs: Sequence[Rung]) -> int:
    """Number of candidates whose race fits into a time, if half of them are dropped after the first rung.

    Args:
        each: Seconds of a whole training.
        seconds: Time for all trainings.
        processes: Trainings at the same time.
        rungs: Rungs of the race.

    Returns:
        The number; it may be below 2.
    """
    first, later = trainings(rungs)
    return int(seconds * processes / (each * (first + SHARE_OF_LATER * later)))


def least_seconds(each: float, processes: int, rungs: Sequence[Rung]) -> float:
    """Seconds of the first rung of two candidates."""
    return 2 * rungs[0].fraction * rungs[0].seeds * each / processes


def predicted_seconds(count: int, each: float, processes: int, rungs: Sequence[Rung]) -> float:
    """Predicted seconds of a race of some candidates."""
    first, later = trainings(rungs)
    return count * each * (first + SHARE_OF_LATER * later) / processes
