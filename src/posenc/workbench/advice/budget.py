"""Budget of a race in time: its text, the number of candidates that fit, and the predicted time."""

from __future__ import annotations

import re

from posenc.workbench.advice.race import RacePlan

UNITS = (3600.0, 60.0, 1.0)
"""Seconds of an hour, a minute and a second."""
PATTERN = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
SHARE_OF_LATER = 0.5
"""Share of the candidates that is assumed to be left after the first rung."""
ENOUGH = 4
"""Candidates that start even if the budget may allow only half of their training."""
HEADROOM = 1.5
"""Factor on the predicted time of those that start. Candidates that wait enter if it was too large."""
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
    found = PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    parts = found.groups() if found else (None, None, None)
    seconds = sum(float(part or 0) * unit for part, unit in zip(parts, UNITS, strict=True))
    if not seconds > 0:
        raise ValueError(f"a budget is a time above 0, such as 10m, 90s or 1h; got {text!r}. Use --budget 10m.")
    return seconds


def budget_words(seconds: float) -> str:
    """A budget in words without rounding: "90 s", "2 min", "2 min 30 s".

    Args:
        seconds: The budget.

    Returns:
        The words.
    """
    minutes, rest = divmod(seconds, 60)
    if minutes < 2 and rest:
        return f"{seconds:g} s"
    return f"{minutes:g} min" + (f" {rest:g} s" if rest else "")


def reserve(budget: float) -> float:
    """Part of a budget that is left for the answer and its page, in seconds."""
    return min(PAGE_SECONDS, budget / 10)


def race_seconds(each: float, plan: RacePlan) -> float:
    """Predicted seconds of one candidate in a race, if half of the candidates are dropped after the first rung.

    Rungs that only add seeds to decide a close race are not counted.

    Args:
        each: Seconds of a run with the whole training.
        plan: Rungs of the race, runs at the same time, and the fixed time of a run.

    Returns:
        The seconds.
    """
    first, *later = plan.rungs
    counted = [rung for rung in later if rung.seeds <= max(5, 2 * first.seeds)]
    whole = max((plan.length(rung.fraction) * rung.seeds for rung in counted), default=0.0)
    share = plan.length(first.fraction) * first.seeds + SHARE_OF_LATER * whole
    return each * share / plan.length(1.0) / plan.processes


def least_seconds(each: float, plan: RacePlan) -> float:
    """Seconds of the first rung of two candidates; arguments as in ``race_seconds``."""
    first = plan.rungs[0]
    return 2 * each * plan.length(first.fraction) * first.seeds / plan.length(1.0) / plan.processes


def starting(candidates: int, each: float, plan: RacePlan, left: float) -> int:
    """Number of candidates that start; the others wait.

    Args:
        candidates: Number of candidates that fit the data.
        each: Seconds of a run with the whole training.
        plan: Rungs of the race, runs at the same time, and the fixed time of a run.
        left: Seconds for the race.

    Returns:
        The number, at least two. A few start even if only half of the usual training fits.
    """
    most = candidates * HEADROOM
    room, room_of_half = (int(min(most, left / race_seconds(each, one))) for one in (plan, plan.shorter()))
    return min(candidates, max(2, int(room / HEADROOM), min(ENOUGH, room_of_half)))
