"""Score plots: dot plots of metrics (PSNR, errors, seconds) whose axes span the values, one plot per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc.measure.held_out_interval import HeldOut
from posenc.measure.statistics import Bounds, Estimate, mean
from posenc.workbench.report.dot_plot import dot_plot
from posenc.workbench.report.number_format import capitalize, decimals, interval, number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.report.seed_interval import interval_name, is_drawn, seed_interval, two_seeds_note
from posenc.workbench.report.svg_style import id_prefix
from posenc.workbench.tables.metric_bounds import metric_bounds

KEY = "Circle: one {over}. Vertical tick: mean over {over}s, also printed at the right."
DIRECTION = {True: " (higher is better)", False: " (lower is better)", None: ""}


@dataclass(frozen=True)
class Score:
    """Description of a metric for its plot.

    Attributes:
        title: Title of the plot.
        unit: Unit, used as the label of the axis.
        higher: True if higher is better, False if lower is better, None if neither.
        bounds: Lowest and highest possible value; None for those that the name of the metric implies.
        log: Use a logarithmic axis if all values are above 0; for errors that differ by powers of ten.
        trained: True for a score of training items.
    """

    title: str
    unit: str
    higher: bool | None = True
    bounds: Bounds | None = None
    log: bool = False
    trained: bool = False

    def bounds_of(self, metric: str) -> Bounds:
        """Lowest and highest possible value of the metric of this name."""
        return metric_bounds(metric) if self.bounds is None else self.bounds

    def estimate(self, metric: str, seeds: BySeed, level: float, held_out: HeldOut | None) -> Estimate:
        """Mean over seeds with its interval. metric: stored name of the score."""
        values, of_training = list(seeds.values()), self.trained and held_out is not None
        return seed_interval(values, level, self.bounds_of(metric), held_out, trained=of_training)


def score_plots(
    rows: Sequence[Row],
    *,
    metrics: Mapping[str, Score],
    condition: str = "main",
    lines: Mapping[str, Mapping[str, float]] | None = None,
    level: float = 0.95,
    title: str = "Scores by encoding",
    caption: str = "",
    over: str = "seed",
    held_out: HeldOut | None = None,
) -> Panel:
    """Dot plots of scores, one per metric, ordered by the first metric from best to worst.

    Args:
        rows: Result rows of one study and one preset.
        metrics: metric -> its description.
        condition: Condition of the rows.
        lines: metric -> name -> value of a reference line.
        level: Coverage of the t-intervals.
        title: Title of the panel.
        caption: Text below the title.
        over: Unit that the column "seed" counts.
        held_out: Held-out items that the intervals cover; None for t-intervals over seeds.

    Returns:
        The panel.
    """
    columns = {metric: values_by_scheme(rows, metric, condition) for metric in metrics}
    columns = {metric: by_scheme for metric, by_scheme in columns.items() if by_scheme}
    if not columns:
        return Panel(title, (Text(("No run in this condition has finished.",)),), caption)
    first = next(iter(columns))
    order = _order_schemes(columns, higher=metrics[first].higher is not False)
    reference = lines or {}
    estimates = {
        metric: {label: metrics[metric].estimate(metric, seeds, level, held_out) for label, seeds in by_scheme.items()}
        for metric, by_scheme in columns.items()
    }
    headroom = max(len(reference.get(metric, {})) for metric in columns)
    figures = []
    for metric, by_scheme in columns.items():
        score, marks = metrics[metric], reference.get(metric, {})
        log = score.log and min([*marks.values(), *_all_values(by_scheme)]) > 0
        low, high = _axis_bounds(by_scheme, estimates[metric], marks, score.bounds_of(metric), log)
        svg = dot_plot(
            by_scheme,
            order,
            prefix=id_prefix(title, condition, metric),
            lines=marks,
            headroom=headroom,
            axis_label=score.unit + DIRECTION[score.higher],
            bounds=score.bounds_of(metric),
            limits=(low, high),
            intervals=estimates[metric],
            digits=max(0, min(5, 2 - math.floor(math.log10(high - low)))),
            log=log,
        )
        means = ", ".join(
            f"{scheme} {number(mean(list(by_scheme[scheme].values())), 3)}" for scheme in order if scheme in by_scheme
        )
        figures.append(Figure(svg, score.title, f"{score.title} ({score.unit}) by encoding. Means: {means}."))
    numbers = _value_table(f"{title}: values", columns, estimates, metrics, order, level, over)
    every = [estimate for by_scheme in estimates.values() for estimate in by_scheme.values()]
    key = _key(every, over, f"{level:.0%} {interval_name(held_out).replace('seeds', f'{over}s')}")
    return Panel(title, (FigureGroup(tuple(figures), key, numbers),), caption)


def _key(estimates: Sequence[Estimate], over: str, interval_words: str) -> str:
    """Key of the marks that the plots have."""
    bar = f" Bar: {interval_words}." if any(map(is_drawn, estimates)) else ""
    return KEY.format(over=over) + bar + two_seeds_note((estimate.n for estimate in estimates), "bar", over)


def _order_schemes(columns: Mapping[str, Mapping[str, BySeed]], *, higher: bool) -> list[str]:
    order: list[str] = []
    for by_scheme in columns.values():
        best = sorted(
            by_scheme, key=lambda scheme: ((-1 if higher else 1) * mean(list(by_scheme[scheme].values())), scheme)
        )
        order += [scheme for scheme in best if scheme not in order]
    return order


def _axis_bounds(
    by_scheme: Mapping[str, BySeed],
    estimates: Mapping[str, Estimate],
    marks: Mapping[str, float],
    bounds: Bounds,
    log: bool,
) -> tuple[float, float]:
    ends = list(marks.values())
    for scheme, seeds in by_scheme.items():
        estimate = estimates[scheme]
        ends += [*seeds.values(), *((estimate.low, estimate.high) if is_drawn(estimate) else ())]
    if log:  # An interval that reaches 0 is clipped near the smallest value.
        low, high = min([*marks.values(), *_all_values(by_scheme)]), max(ends)
        margin = (high / low) ** 0.06 if high > low else 1.1
        return (low / margin, high * margin)
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low) or max(abs(high), 1e-3) * 0.05
    return (max(low - margin, min(low, bounds[0])), min(high + margin, max(high, bounds[1])))


def _all_values(by_scheme: Mapping[str, BySeed]) -> list[float]:
    return [value for seeds in by_scheme.values() for value in seeds.values()]


def _value_table(
    caption: str,
    columns: Mapping[str, Mapping[str, BySeed]],
    estimates: Mapping[str, Mapping[str, Estimate]],
    metrics: Mapping[str, Score],
    order: Sequence[str],
    level: float,
    over: str,
) -> Table:
    body = []
    for scheme in order:
        for metric, by_scheme in columns.items():
            seeds = by_scheme.get(scheme)
            if not seeds:
                continue
            estimate = estimates[metric][scheme]
            digits = decimals(estimate.high - estimate.low) if estimate.known else 3
            each = ", ".join(f"{seed}: {number(seeds[seed], digits)}" for seed in sorted(seeds))
            reach = interval(estimate, digits) if estimate.known else "–"
            score = f"{metrics[metric].title} ({metrics[metric].unit})"
            body.append((scheme, score, number(estimate.mean, digits), reach, each))
    return Table(
        caption, ("Encoding", "Score", "Mean", f"{level:.0%} interval", f"{capitalize(over)}: value"), tuple(body)
    )
