"""From the store's rows to numbers by scheme and seed, and from numbers to text."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from posenc.measure.statistics import Estimate, mean

if TYPE_CHECKING:
    from posenc.measure.inference import Correlation

Row = Mapping[str, Any]
BySeed = dict[int, float]
NO_BREAK = "\u00a0"
NEEDED = ("setting", "scheme", "seed", "metric", "value")


def read_csv(path: str | Path) -> list[Row]:
    """The rows of a file that `posenc results --format csv` wrote: seeds whole numbers, values floats, the rest text.

    Raises:
        ValueError: no such file, a column missing, or a seed or value that is no number; an empty value is nan.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
    except OSError as error:
        raise ValueError(f"Results are read from a CSV file; {path}: {error.strerror}. {_HOW_TO_WRITE}") from error
    missing = [name for name in NEEDED if lines and name not in lines[0]]
    if missing or not lines:
        lacks = f"lacks the columns {', '.join(missing)}" if lines else "has no rows"
        raise ValueError(f"{path} {lacks}: it is no file of results. {_HOW_TO_WRITE}")
    found: list[Row] = []
    for place, line in enumerate(lines, 2):
        try:
            found.append({**line, "seed": int(line["seed"]), "value": float(line["value"] or "nan")})
        except (TypeError, ValueError):
            read = f"seed {line['seed']!r} and value {line['value']!r}"
            raise ValueError(f"{path}, line {place}: {read} are not both numbers. {_HOW_TO_WRITE}") from None
    return found


_HOW_TO_WRITE = "Write one with: posenc results --format csv > results.csv"


def values(rows: Sequence[Row], metric: str, setting: str = "main") -> dict[str, BySeed]:
    """scheme -> seed -> value of one metric in one setting, finite values only (`unusable` lists the others).

    Raises:
        ValueError: one scheme and seed with two different values, as when two studies' rows are mixed.
    """
    found: dict[str, BySeed] = {}
    for row in _matching(rows, metric, setting):
        if not finite(row["value"]):
            continue
        scheme, seed, value = str(row["scheme"]), int(row["seed"]), float(row["value"])
        seeds = found.setdefault(scheme, {})
        if seeds.setdefault(seed, value) != value:
            raise ValueError(
                f"{scheme}, seed {seed} has two values of {metric} in the setting {setting!r}: {seeds[seed]} and "
                f"{value}. A page shows one study and one preset; filter the rows by study and preset first."
            )
    return found


def unusable(rows: Sequence[Row], metric: str, setting: str = "main") -> list[tuple[str, int]]:
    """(scheme, seed) of the rows whose value is missing or not finite, sorted."""
    return sorted(
        (str(row["scheme"]), int(row["seed"])) for row in _matching(rows, metric, setting) if not finite(row["value"])
    )


def best_first(by_scheme: Mapping[str, BySeed]) -> list[str]:
    """Schemes by falling mean over their seeds; ties by name, so that the order never depends on the store's."""
    return sorted(by_scheme, key=lambda scheme: (-mean(list(by_scheme[scheme].values())), scheme))


def number(value: float, digits: int = 2) -> str:
    """0.87, with a true minus sign and an en dash for what is not known."""
    if not math.isfinite(value):
        return "–"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def decimals(span: float) -> int:
    """How many decimals show two digits of a span, between three and six: 3 for 0.05, 5 for 0.0004."""
    return 3 if not (math.isfinite(span) and span > 0) else max(3, min(6, 1 - math.floor(math.log10(span))))


def signed(value: float, digits: int = 2) -> str:
    """+0.39 or −0.04, for differences."""
    text = number(value, digits)
    return text if text.startswith(("−", "–")) else f"+{text}"


def interval(
    estimate: Estimate, digits: int = 2, within: tuple[float, float] = (-math.inf, math.inf), over: str = "seed"
) -> str:
    """[0.82, 0.92], cut to the range that the quantity can take; a sentence fragment for a single seed, or `over`."""
    if not estimate.known:
        return f"[one {over}, no interval]"
    low, high = max(estimate.low, within[0]), min(estimate.high, within[1])
    return f"[{number(low, digits)},{NO_BREAK}{number(high, digits)}]"


def correlation(found: Correlation) -> str:
    """ρ = 0.96 [0.90, 0.98], p < 0.001, n = 20."""
    if not math.isfinite(found.rho):
        return f"ρ is not defined (a side does not vary), n = {found.n}"
    reach = f"[{number(found.low)},{NO_BREAK}{number(found.high)}]" if math.isfinite(found.low) else "[no interval]"
    p = f", {p_value(found.p).replace(' ', NO_BREAK)}" if math.isfinite(found.p) else ""
    return f"ρ = {number(found.rho)} {reach}{p}, n{NO_BREAK}={NO_BREAK}{found.n}"


def p_value(p: float) -> str:
    """p = 0.013, or p < 0.001."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = list(names)
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def count(n: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def finite(value: object) -> TypeGuard[Real]:
    """Whether a stored value is a number that an estimate can use."""
    return isinstance(value, Real) and math.isfinite(value)


def _matching(rows: Sequence[Row], metric: str, setting: str) -> list[Row]:
    return [row for row in rows if row["metric"] == metric and row.get("setting", "main") == setting]
