"""Tables of means over seeds: one line per variant, one column per metric, each with its 95% t-interval."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from posenc.workbench.metric_bounds import metric_bounds

Row = Mapping[str, Any]

PLAIN_METRICS = 4
"""Number of metrics of a table if a study names none."""
INTERVAL_NOTE = "Mean over seeds [95% t-interval]. No interval: one seed, or the same value for every seed."


@dataclass(frozen=True, kw_only=True)
class Line:
    """Line of a table: a variant in a condition.

    Attributes:
        condition: Label of the condition.
        variant: Label of the variant, with the number of the copy if several results of one run are stored.
        values: Metric to seed to value.
    """

    condition: str
    variant: str
    values: Mapping[str, Mapping[int, float]]

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return max(map(len, self.values.values()), default=0)

    def cell(self, metric: str) -> str:
        """Mean of a metric with its interval; "" without a value."""
        return mean_text(list(self.values.get(metric, {}).values()), metric)


@dataclass(frozen=True, kw_only=True)
class MetricTable:
    """Table of one study and one preset.

    Attributes:
        study: Name of the study.
        preset: Label of the preset.
        metrics: Metrics that the table shows.
        left_out: Further metrics of the same runs.
        lines: One per condition and variant.
    """

    study: str
    preset: str
    metrics: tuple[str, ...]
    left_out: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def omission(self) -> str:
        """Sentence on the metrics that are left out; "" if there are none."""
        if not self.left_out:
            return ""
        names = ", ".join(self.left_out[:8]) + (" .." if len(self.left_out) > 8 else "")
        return f"Left out: {len(self.left_out)} of {len(self.left_out) + len(self.metrics)} metrics ({names})."


def metric_tables(
    rows: Iterable[Row],
    main: Mapping[str, Sequence[str]] | None = None,
    *,
    metrics: Sequence[str] = (),
    every: bool = False,
) -> list[MetricTable]:
    """Arrange result rows as tables, one per study and preset.

    Args:
        rows: Rows of `Store.results`.
        main: Study to the metrics that its answer is about; see `Study.metrics`.
        metrics: Metrics to show in place of these.
        every: Show all metrics.

    Returns:
        The tables, in the order of the rows.

    Raises:
        ValueError: A metric is not stored; the message names the nearest one.
    """
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        blocks.setdefault((row["study"], row["preset"]), []).append(row)
    stored = {row["metric"] for block in blocks.values() for row in block}
    for name in metrics:
        if name not in stored:
            near = get_close_matches(name, sorted(stored), 3)
            hint = f"Did you mean {', '.join(near)}?" if near else f"Stored are {', '.join(sorted(stored))}."
            raise ValueError(f"there is no metric {name!r} in these results. {hint}")
    tables = []
    for (study, preset), block in blocks.items():
        known = sorted({row["metric"] for row in block}, key=_natural)
        shown = known if every else [name for name in metrics if name in known]
        if not metrics and not every:
            shown = main_metrics((main or {}).get(study, ()), known) or known[:PLAIN_METRICS]
        left_out = tuple(name for name in known if name not in shown)
        lines = _lines(block)
        tables.append(
            MetricTable(study=study, preset=preset, metrics=tuple(shown), left_out=left_out, lines=tuple(lines))
        )
    return tables


def main_metrics(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Stored metrics of a study's answer.

    Args:
        names: Names as the study gives them. "loss_at_x*" is the stored metric of this form with the largest number.
        known: Names of the stored metrics.

    Returns:
        The names that are stored, in the order of the study.
    """
    chosen = []
    for name in names:
        pattern = re.compile(re.escape(name).replace(r"\*", r"([0-9.]+)"))
        chosen += sorted(filter(pattern.fullmatch, known), key=_natural)[-1:]
    return list(dict.fromkeys(chosen))


def mean_text(values: Sequence[float], metric: str) -> str:
    """Format a mean over seeds: "2.144 [2.104, 2.184]".

    Args:
        values: One value per seed.
        metric: Stored name, for its bounds.

    Returns:
        The mean with two digits of its interval; without an interval for one seed, or if all values are equal. Values
        that are not finite are left out and counted.
    """
    finite = [value for value in values if math.isfinite(value)]
    lost = f" ({len(finite)} of {len(values)} seeds finite)" if len(finite) < len(values) else ""
    if not finite:
        return f"not finite{lost}" if values else ""
    if max(finite) == min(finite):
        return f"{_number(finite[0], _digits_alone(finite[0]))}{lost}"
    from posenc.measure.statistics import t_interval

    estimate = t_interval(finite, bounds=metric_bounds(metric))
    digits = max(0, min(6, 1 - math.floor(math.log10(estimate.high - estimate.low))))
    ends = f"[{_number(estimate.low, digits)}, {_number(estimate.high, digits)}]"
    return f"{_number(estimate.mean, digits)} {ends}{lost}"


def _lines(rows: Sequence[Row]) -> list[Line]:
    groups: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for row in rows:
        copy = str(row["unit"]).partition(".")[2]
        label = (row["setting"], row["scheme"] + (f" (copy {copy})" if copy else ""))
        groups.setdefault(label, {}).setdefault(row["metric"], {})[row["seed"]] = row["value"]
    return [Line(condition=label[0], variant=label[1], values=values) for label, values in groups.items()]


def _digits_alone(value: float) -> int:
    """Decimals of a value without an interval: none for a count, three for most values, more for small ones."""
    size = abs(value)
    if size >= 10 and value == round(value):
        return 0
    if size >= 100:
        return 1
    return 3 if size >= 0.1 or size == 0 else min(6, 2 - math.floor(math.log10(size)))


def _number(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def _natural(name: str) -> list[tuple[str, float]]:
    """Sort key that puts "x2" before "x16"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(text, float(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]
