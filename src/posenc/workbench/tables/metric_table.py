"""Tables of means over seeds: one line per variant, one column per metric, each with its 95% t-interval."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from posenc.workbench.dataset_record import label_of
from posenc.workbench.tables.metric_bounds import metric_bounds

Row = Mapping[str, Any]

PLAIN_METRICS = 4
"""Number of metrics of a table if a study names none."""
MOST_DECIMALS, SMALLEST = 6, 1e-12
"""Most decimals of a number, and the smallest magnitude that is no rounding error."""
CODE, RUN = 6, 8
"""Digits of the key of a code and of the identity of a run that a table shows."""
INTERVAL_NOTE = "Mean over seeds [95% t-interval]. No interval: one seed, or the same value for every seed."


Block = tuple[str, str, str]
"""Study, preset and label of the data: the runs of one table."""


class RunMetrics(NamedTuple):
    """Metrics of a run with its labels.

    Attributes:
        study: Name of the study.
        preset: Label of the preset.
        data: Label of the data; "" without data.
        condition: Label of the condition.
        variant: Label of the variant.
        seed: Seed.
        unit: Identity, with the number of the copy.
        code: Key of the code that made it; "" if that is not known.
        metrics: Metrics by name.
        settings: Digest of the settings that decide its result; "" if that is not known.
    """

    study: str
    preset: str
    data: str
    condition: str
    variant: str
    seed: int
    unit: str
    code: str
    metrics: Mapping[str, float]
    settings: str = ""


_Variants = dict[tuple[str, str], list[tuple[int, RunMetrics]]]
"""Condition and variant to its runs, each with its position among all runs."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Line of a table: a variant in a condition.

    Attributes:
        condition: Label of the condition.
        variant: Label of the variant, with the number of the copy if several results of one run are stored, and with
            the code or the settings if those of its seeds differ: their results are not averaged.
        values: Metric to seed to value.
        runs: Identities of its runs.
    """

    condition: str
    variant: str
    values: Mapping[str, Mapping[int, float]]
    runs: tuple[str, ...] = ()

    @property
    def run_names(self) -> str:
        """Beginnings of the identities, which name a run in `posenc results --run`; at most three."""
        some = " ".join(run[:RUN] for run in self.runs[:3])
        return some + (f" +{len(self.runs) - 3}" if len(self.runs) > 3 else "")

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return max(map(len, self.values.values()), default=0)

    def cell(self, metric: str) -> str:
        """Mean of a metric with its interval; "" without a value."""
        return mean_text(list(self.values.get(metric, {}).values()), metric)


@dataclass(frozen=True, kw_only=True)
class MetricTable:
    """Table of one study, one preset and one data set.

    Attributes:
        study: Name of the study.
        preset: Label of the preset.
        data: Label of the data, such as "docs-1f00c4"; "" for rows without data.
        metrics: Metrics that the table shows.
        left_out: Further metrics of the same runs.
        lines: One per condition and variant.
    """

    study: str
    preset: str
    data: str
    metrics: tuple[str, ...]
    left_out: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Study, preset and data."""
        return ", ".join(filter(None, (self.study, self.preset, self.data)))

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
    """Arrange result rows as tables, one per study, preset and data set: runs on different data are never averaged.

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
    return tables_of_runs(map(_run_of_row, rows), main, metrics=metrics, every=every)


def tables_of_runs(
    runs: Iterable[RunMetrics],
    main: Mapping[str, Sequence[str]] | None = None,
    *,
    metrics: Sequence[str] = (),
    every: bool = False,
    chosen: Collection[str] | None = None,
) -> list[MetricTable]:
    """Arrange runs as ``metric_tables`` does.

    Args:
        runs: The runs.
        main: Study to the metrics that its answer is about.
        metrics: Metrics to show in place of these.
        every: Show all metrics.
        chosen: Only these metrics have values in the lines, which have only runs with one of them; None for all.

    Returns:
        The tables, in the order of the runs.

    Raises:
        ValueError: A metric is not stored; the message names the nearest one.
    """
    blocks: dict[Block, _Variants] = {}
    variants, last = _Variants(), None
    for numbered in enumerate(runs):
        run = numbered[1]
        if last is None or run[:3] != last[:3]:
            variants = blocks.setdefault((run.study, run.preset, run.data), {})
        variants.setdefault((run.condition, run.variant), []).append(numbered)
        last = run
    known = {block: _names(variants) for block, variants in blocks.items()}
    refuse_unknown_metrics(metrics, {name for names in known.values() for name in names})
    tables = []
    for (study, preset, data), variants in blocks.items():
        names = sorted(known[study, preset, data], key=_natural)
        shown = metrics_of_block(names, (main or {}).get(study, ()), metrics=metrics, every=every)
        left_out = tuple(name for name in names if name not in shown)
        lines = _lines(variants, set(names) if chosen is None else {*chosen})
        tables.append(
            MetricTable(
                study=study, preset=preset, data=data, metrics=tuple(shown), left_out=left_out, lines=tuple(lines)
            )
        )
    return tables


def refuse_unknown_metrics(metrics: Sequence[str], stored: Collection[str]) -> None:
    """Check that metrics are stored.

    Args:
        metrics: Names that were asked for.
        stored: Names of all stored metrics.

    Raises:
        ValueError: A metric is not stored; the message names the nearest one.
    """
    for name in metrics:
        if name not in stored:
            near = get_close_matches(name, sorted(stored), 3)
            hint = f"Did you mean {', '.join(near)}?" if near else f"Stored are {', '.join(sorted(stored))}."
            raise ValueError(f"there is no metric {name!r} in these results. {hint}")


def metrics_of_block(
    names: Collection[str], main: Sequence[str] = (), *, metrics: Sequence[str] = (), every: bool = False
) -> list[str]:
    """Metrics that a table shows.

    Args:
        names: Names of the metrics of its rows.
        main: Metrics that the study's answer is about.
        metrics: Metrics to show in place of these.
        every: Show all metrics.

    Returns:
        The names.
    """
    known = sorted(names, key=_natural)
    if metrics or every:
        return known if every else [name for name in metrics if name in known]
    return main_metrics(main, known) or known[:PLAIN_METRICS]


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
        The mean with two digits of its interval; without an interval for one seed, or if all values are equal but for
        rounding errors. Values that are not finite are left out and counted.
    """
    finite = list(filter(math.isfinite, values))
    lost = f" ({len(finite)} of {len(values)} seeds finite)" if len(finite) < len(values) else ""
    if not finite:
        return f"not finite{lost}" if values else ""
    from posenc.measure.statistics import t_interval

    estimate = t_interval(finite, bounds=metric_bounds(metric))
    if not estimate.known or estimate.high - estimate.low <= SMALLEST:
        return f"{_number(finite[0], _digits_alone(finite[0]))}{lost}"
    digits = max(0, min(MOST_DECIMALS, 1 - math.floor(math.log10(estimate.high - estimate.low))))
    ends = f"[{_number(estimate.low, digits)}, {_number(estimate.high, digits)}]"
    return f"{_number(estimate.mean, digits)} {ends}{lost}"


def _run_of_row(row: Row) -> RunMetrics:
    labels = (row["study"], row["preset"], label_of(row), row["setting"], row["scheme"], row["seed"])
    return RunMetrics(*labels, str(row["unit"]), row.get("code", ""), {row["metric"]: row["value"]})


def _names(variants: _Variants) -> set[str]:
    several = {tuple(run.metrics) for runs in variants.values() for _, run in runs}
    return {name for names in several for name in names}


def _lines(variants: _Variants, chosen: Collection[str]) -> list[Line]:
    """Lines of a table in the order in which the first run of each came."""
    groups: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    names: dict[tuple[str, str], dict[str, None]] = {}
    first: dict[tuple[str, str], int] = {}
    wanted = sorted(chosen)
    for (condition, variant), runs in variants.items():
        codes, settings = (_metrics_of_several(runs, of) for of in ("code", "settings"))
        for position, run in runs:
            copy = run.unit.partition(".")[2]
            alone = (condition, f"{variant} (copy {copy})" if copy else variant)
            of_settings = f" (settings {run.settings[:CODE] or 'unknown'})" if settings else ""
            of_code = f" (code {run.code[:CODE] or 'unknown'})" if codes else ""
            seed, metrics = run.seed, run.metrics
            for metric in wanted:
                if metric in metrics:
                    label = alone
                    if metric in settings or metric in codes:
                        apart = (of_settings if metric in settings else "") + (of_code if metric in codes else "")
                        label = (condition, alone[1] + apart)
                    if label not in groups:
                        groups[label], names[label], first[label] = {}, {}, position
                    values = groups[label]
                    if metric not in values:
                        values[metric] = {}
                    values[metric][seed] = metrics[metric]
                    names[label][run.unit] = None
    return [
        Line(condition=label[0], variant=label[1], values=groups[label], runs=tuple(names[label]))
        for label in sorted(groups, key=first.__getitem__)
    ]


def _metrics_of_several(runs: Sequence[tuple[int, RunMetrics]], of: Literal["code", "settings"]) -> set[str]:
    """Metrics of a variant with different code or settings; those of some runs may not be known."""
    keys = [run.code if of == "code" else run.settings for _, run in runs]
    if len({*keys} - {""}) < 2:
        return set()
    found: dict[str, set[str]] = {}
    for (_, run), key in zip(runs, keys, strict=True):
        for metric in run.metrics:
            found.setdefault(metric, set()).add(key)
    return {metric for metric, each in found.items() if len(each - {""}) > 1}


def _digits_alone(value: float) -> int:
    """Decimals of a value without an interval: none for a count, three for most values, more for small ones."""
    size = abs(value)
    if size >= 10 and value == round(value):
        return 0
    if size >= 100:
        return 1
    return 3 if size >= 0.1 or size == 0 else min(MOST_DECIMALS, 2 - math.floor(math.log10(size)))


def _number(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        small = digits >= MOST_DECIMALS and abs(value) >= SMALLEST
        text = f"{value:.1e}" if small else text.removeprefix("-")
    return text


def _natural(name: str) -> list[tuple[str, float]]:
    """Sort key that puts "x2" before "x16"."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(text, float(number or 0)) for text, number in zip(parts[::2], [*parts[1::2], ""], strict=True)]
