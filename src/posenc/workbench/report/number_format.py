"""Numbers and short phrases as text: means, differences, intervals, p-values, counts and lists of names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from posenc.measure.statistics import Estimate

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

NO_BREAK = "\u00a0"
"""No-break space."""


MOST_DECIMALS = 6
"""Most decimals of a number; smaller ones are written with an exponent."""
ROUNDING = 1e-12
"""Smallest magnitude that is written with an exponent; smaller ones are rounding errors."""


def number(value: float, digits: int = 2) -> str:
    """Format a number with a leading zero and a minus sign.

    Args:
        value: The number.
        digits: Decimals.

    Returns:
        Text such as "0.87" or "−0.04", with the most decimals also "2.1e−08"; an en dash where the value is not finite.
    """
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        small = digits >= MOST_DECIMALS and abs(value) >= ROUNDING
        text = f"{value:.1e}" if small else text.removeprefix("-")
    return text.replace("-", "−")


def decimals(span: float) -> int:
    """Number of decimals that show two significant digits of a span, at least 3 and at most ``MOST_DECIMALS``.

    A span below ``ROUNDING`` is a rounding error and counts as none.
    """
    if not (math.isfinite(span) and span > ROUNDING):
        return 3
    return max(3, min(MOST_DECIMALS, 1 - math.floor(math.log10(span))))


def digits_off_zero(numbers: Iterable[float], digits: int) -> int:
    """Number of decimals, at least ``digits``, with which no number but 0 is written as 0: a sign may hang on it."""
    sizes = [abs(each) for each in numbers if math.isfinite(each) and abs(each) >= ROUNDING]
    wanted = [each for each in range(digits, MOST_DECIMALS + 1) if all(round(size, each) for size in sizes)]
    return min(wanted, default=max(digits, MOST_DECIMALS))


def signed_number(value: float, digits: int = 2) -> str:
    """Format a difference with its sign: "+0.39", "−0.04"."""
    text = number(value, digits)
    return text if text.startswith(("−", "–")) else f"+{text}"


def interval(estimate: Estimate, digits: int = 2, over: str = "seed") -> str:
    """Format an interval: "[0.82, 0.92]".

    Args:
        estimate: The estimate that the interval belongs to.
        digits: Decimals.
        over: Unit that the estimate averages over, such as "seed".

    Returns:
        The interval, or "[one seed, no interval]" where the estimate has a single value. Seeds that all agree have no
        interval if their spread is unknown.
    """
    if not estimate.known:
        return f"[one {over}, no interval]" if estimate.n < 2 else f"[equal {over}s, no interval]"
    return f"[{number(estimate.low, digits)},{NO_BREAK}{number(estimate.high, digits)}]"


def correlation(estimate: Correlation) -> str:
    """Format a rank correlation: "ρ = 0.96 [0.90, 0.98], p < 0.001, n = 20"."""
    if not math.isfinite(estimate.rho):
        return f"ρ is undefined (one of the two variables is constant), n = {estimate.n}"
    low, high = estimate.low, estimate.high
    bounds = f"[{number(low)},{NO_BREAK}{number(high)}]" if math.isfinite(low) else "[no interval]"
    p = f", {p_value(estimate.p).replace(' ', NO_BREAK)}" if math.isfinite(estimate.p) else ""
    return f"ρ = {number(estimate.rho)} {bounds}{p}, n{NO_BREAK}={NO_BREAK}{estimate.n}"


def p_value(p: float) -> str:
    """Format a p-value: "p = 0.013", "p < 0.001"."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def capitalize(text: str) -> str:
    """Make the first letter a capital and leave the other letters as they are."""
    return text[:1].upper() + text[1:]


def join_words(words: Sequence[str]) -> str:
    """Join words for a sentence: "a", "a and b", "a, b and c"."""
    words = list(words)
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def count(n: int, noun: str) -> str:
    """Format a count with its noun: "1 seed", "3 seeds"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
