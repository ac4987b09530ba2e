"""Labels of learned tables: ``learned-SIGMA``, where SIGMA is the standard deviation of the initial table."""

from __future__ import annotations

PREFIX = "learned-"


def learned(sigma: float) -> str:
    """Label of a learned table whose initial values have that standard deviation."""
    return f"{PREFIX}{sigma:g}"


def sigma_of(label: str) -> float:
    """Standard deviation that a label ``learned-SIGMA`` names. Raises ValueError where it is not a number."""
    text = label.removeprefix(PREFIX)
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"{label!r} should name a learned table by its standard deviation, such as learned-0.2; {text!r} is not a "
            "number."
        ) from None
