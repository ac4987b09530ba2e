"""Result rows: reading them from CSV and grouping one metric by scheme and seed.

A row is one stored value with its labels: columns "study", "preset", "setting", "scheme", "seed", "metric" and "value".
The column "setting" holds the condition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard

from posenc.measure.statistics import mean
from posenc.workbench.files.user_files import csv_lines, csv_rows, number, read_text
from posenc.workbench.variant_labels import current_label

Row = Mapping[str, Any]
BySeed = dict[int, float]
"""Seed to value."""

REQUIRED_COLUMNS = ("setting", "scheme", "seed", "metric", "value")
MOST_NAMED = 12
"""Metrics of a scheme that `left_out_values` names before it counts the others."""

_EXPORT_COMMAND = "Write one with: posenc results --format csv > results.csv"


def read_csv(path: str | Path) -> list[Row]:
    """Read the result rows of a file written by `posenc results --format csv`.

    Args:
        path: The CSV file.

    Returns:
        One mapping per line: "seed" as an integer, "value" as a float (an empty cell is nan), other columns as text.

    Raises:
        ValueError: The file does not exist, a column is missing, or a seed or a value is not a number.
    """
    try:
        table = csv_rows(csv_lines(read_text(path, 40, "a CSV file of results")), path)
    except ValueError as error:
        raise ValueError(f"Results are read from a CSV file; {error} {_EXPORT_COMMAND}") from error
    lines = [dict.fromkeys(table[0][1], "") | dict(zip(table[0][1], row, strict=False)) for _, row in table[1:]]
    missing = [name for name in REQUIRED_COLUMNS if lines and name not in lines[0]]
    if missing or not lines:
        lacks = f"lacks the columns {', '.join(missing)}" if lines else "has no rows"
        raise ValueError(f"{path} {lacks}: it is not a file of results. {_EXPORT_COMMAND}")
    rows: list[Row] = []
    for line_number, line in enumerate(lines, 2):
        try:
            # in files of the first layout, labels outside the main condition end in the condition
            scheme = line["scheme"].removesuffix(f", {line['setting']}")
            scheme = current_label(line.get("study", ""), scheme)
            rows.append({**line, "scheme": scheme, "seed": int(line["seed"]), "value": number(line["value"] or "nan")})
        except (TypeError, ValueError):
            cells = f"seed {line['seed']!r} and value {line['value']!r}"
            raise ValueError(f"{path}, line {line_number}: {cells} are not both numbers. {_EXPORT_COMMAND}") from None
    return rows


def values_by_scheme(rows: Sequence[Row], metric: str, condition: str = "main") -> dict[str, BySeed]:
    """Group the finite values of one metric in one condition by scheme and seed.

    Args:
        rows: Result rows of one study and one preset.
        metric: Name of the metric.
        condition: Condition; rows of other conditions are ignored.

    Returns:
        scheme -> seed -> value. Values that are not finite are left out; `left_out_values` names them.

    Raises:
        ValueError: One scheme and seed has two different values.
    """
    by_scheme: dict[str, BySeed] = {}
    for row in _matching(rows, metric, condition):
        if not is_finite(row["value"]):
            continue
        scheme, seed, value = str(row["scheme"]), int(row["seed"]), float(row["value"])
        seeds = by_scheme.setdefault(scheme, {})
        if seeds.setdefault(seed, value) != value:
            raise ValueError(
                f"{scheme}, seed {seed} has two values of {metric} in the condition {condition!r}: {seeds[seed]} and "
                f"{value}. A page shows one study and one preset; filter the rows by study and preset first."
            )
    return by_scheme


def left_out_values(rows: Sequence[Row]) -> str:
    """Name the values that `values_by_scheme` leaves out; empty if there are none.

    A metric without any finite value in a condition has no meaning there, and is not named.

    Args:
        rows: Result rows of one study and one preset.

    Returns:
        A sentence with metric, scheme and seeds, and with the condition unless it is the main one.

    Examples:
        >>> rows = [{"metric": "psnr", "scheme": "rope", "seed": seed, "value": seed / seed if seed else math.inf}
        ...         for seed in range(3)]
        >>> left_out_values(rows)
        'Left out of tables, plots and verdicts, because the value is infinite or not a number: psnr of rope, seed 0.'
    """
    with_values = {(row.get("setting", "main"), row["metric"]) for row in rows if is_finite(row["value"])}
    seeds: dict[tuple[str, str, str], set[int]] = {}
    for row in rows:
        key = (str(row.get("setting", "main")), str(row["metric"]), str(row["scheme"]))
        if key[:2] in with_values and not is_finite(row["value"]):
            seeds.setdefault(key, set()).add(int(row["seed"]))
    if not seeds:
        return ""
    named = [_name_cell(*key, sorted(some)) for key, some in seeds.items()]
    more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return (
        "Left out of tables, plots and verdicts, because the value is infinite or not a number: "
        f"{'; '.join(named[:MOST_NAMED])}{more}."
    )


def order_by_mean(by_scheme: Mapping[str, BySeed]) -> list[str]:
    """Order schemes by decreasing mean over seeds, and by name where means are equal."""
    return sorted(by_scheme, key=lambda scheme: (-mean(list(by_scheme[scheme].values())), scheme))


def is_finite(value: object) -> TypeGuard[Real]:
    """True for a finite real number."""
    return isinstance(value, float | Real) and math.isfinite(value)  # a float is the quickest to recognize


def _matching(rows: Sequence[Row], metric: str, condition: str) -> list[Row]:
    return [row for row in rows if row["metric"] == metric and row.get("setting", "main") == condition]


def _name_cell(condition: str, metric: str, scheme: str, seeds: Sequence[int]) -> str:
    where = "" if condition == "main" else f" ({condition})"
    return f"{metric} of {scheme}{where}, {'seeds' if len(seeds) > 1 else 'seed'} {' '.join(map(str, seeds))}"
