"""Comparison of measured results with published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from posenc.measure.statistics import FEWEST_SEEDS_FOR_P, t_interval
from posenc.workbench.report.number_format import NO_BREAK, count, number, p_value, signed_number
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed, Row, order_by_mean, values_by_scheme

if TYPE_CHECKING:
    from posenc.measure.inference import Comparison


def published_comparison(
    rows: Sequence[Row],
    *,
    metric: str,
    published: Mapping[str, tuple[float, float]],
    source: str,
    n_published: int | None = None,
    label: str = "different model and scale",
    condition: str = "main",
    title: str = "Comparison with published results",
    caption: str = "",
) -> Panel:
    """Compare means here with published means: difference in SDs and rank of each scheme.

    Args:
        rows: Result rows of one study and one preset.
        metric: Name of the metric.
        published: scheme -> (mean, SD) as published.
        source: Authors of the published results and the quantity that they measured.
        n_published: Number of runs behind each published mean. If given, the table states whether the difference lies
            within 2 SD √(1/n + 1/m), and the p-value of Welch's t-test, corrected by Holm's method over the table.
        label: Difference between the two models, for the column header.
        condition: Condition of the rows.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    by_scheme = values_by_scheme(rows, metric, condition)
    measured_order = order_by_mean(by_scheme)
    published_order = sorted(published, key=lambda scheme: (-published[scheme][0], scheme))
    shared = [scheme for scheme in measured_order if scheme in published]
    comparisons = _compare(by_scheme, published, shared, n_published)
    corrected = _holm_corrected(comparisons, by_scheme)
    body = []
    for scheme in [*measured_order, *(scheme for scheme in published_order if scheme not in by_scheme)]:
        measured, printed, ranks = "not run", "not published", ("–", "–")
        if scheme in by_scheme:
            estimate = t_interval(list(by_scheme[scheme].values()))
            measured = f"{_mean_and_sd(estimate.mean, estimate.sd)} (n = {estimate.n})"
        if scheme in published:
            printed = _mean_and_sd(*published[scheme])
        if scheme in shared:
            ranks = (
                str(shared.index(scheme) + 1),
                str([name for name in published_order if name in shared].index(scheme) + 1),
            )
        difference = _difference_in_sds(by_scheme.get(scheme), published.get(scheme))
        test = _test_cells(comparisons.get(scheme), corrected.get(scheme)) if n_published else ()
        body.append((scheme, measured, printed, *ranks, difference, *test))
    header = f"Published ({label}): mean ± SD" if label else "Published: mean ± SD"
    columns = ["Encoding", "Here: mean ± SD", header, "Rank here", "Rank published", "Difference (published SDs)"]
    columns += ["Difference within 2 SD √(1/n + 1/m)", "Welch’s t-test (Holm)"] if n_published else []
    note = f"Published: {source}" + (f" ({label}: compare ranks, not values)" if label else "")
    note += f". Ranks count only the {count(len(shared), 'encoding')} with both results."
    if n_published:
        note += _test_note(n_published, [scheme for scheme in shared if scheme not in corrected], len(corrected))
    heading = "Results here and published" + (f": {label}" if label else "")
    return Panel(title, (Table(heading, tuple(columns), tuple(body), note),), caption)


def reproduction_table(
    rows: Sequence[Row],
    *,
    published: Mapping[str, Mapping[str, tuple[float, float]]],
    metric_names: Mapping[str, str],
    source: str,
    n_published: int,
    condition: str = "main",
) -> Table | None:
    """Compare a retrained model with the published results of the same model, one row per published number.

    A result is reproduced if ``|here - published| <= 2 SD sqrt(1/n + 1/m)`` with the published SD, n published runs and
    m seeds here. The p-value uses the published SD alone (``inference.from_published``), so it does not depend on the
    SD of few seeds; it is corrected by Holm's method over the rows.

    Args:
        rows: Result rows of one study and one preset.
        published: metric -> scheme -> (mean, SD).
        metric_names: metric -> name for the table.
        source: Authors of the published results and the quantity that they measured.
        n_published: Number of runs behind each published mean.
        condition: Condition of the rows.

    Returns:
        The table; None without runs.
    """
    from posenc.measure.inference import compare_with_published, holm

    comparisons = {
        (scheme, metric): (
            measured := list(by_scheme[scheme].values()),
            compare_with_published(measured, *printed[scheme], n_published),
        )
        for metric, printed in published.items()
        for by_scheme in [values_by_scheme(rows, metric, condition)]
        for scheme in printed
        if scheme in by_scheme
    }
    if not comparisons:
        return None
    corrected = holm({f"{scheme} {metric}": each.p_theirs for (scheme, metric), (_, each) in comparisons.items()})
    body = []
    for (scheme, metric), (values, comparison) in comparisons.items():
        estimate = t_interval(values)
        body.append(
            (
                scheme,
                metric_names[metric],
                f"{_mean_and_sd(estimate.mean, estimate.sd)} (n = {estimate.n})",
                _mean_and_sd(*published[metric][scheme]),
                signed_number(comparison.difference, 3),
                number(comparison.bound, 3),
                "yes" if comparison.within else "no",
                p_value(corrected[f"{scheme} {metric}"]),
            )
        )
    columns = ("Encoding", "Test set", "Here: mean ± SD", "Published: mean ± SD", "Difference",
               "2 SD √(1/n + 1/m)", "Reproduced", "t-test with the published SD (Holm)")  # fmt: skip
    note = (
        f"Published: {source}. n = {n_published} published runs, m seeds here, SD as published. The t-test has "
        f"{n_published - 1} degrees of freedom and is corrected by Holm's method over {count(len(comparisons), 'row')}."
    )
    return Table("Reproduction of the published model", columns, tuple(sorted(body)), note)


def _compare(
    by_scheme: Mapping[str, BySeed],
    published: Mapping[str, tuple[float, float]],
    shared: Sequence[str],
    n_published: int | None,
) -> dict[str, Comparison]:
    if n_published is None:
        return {}
    from posenc.measure.inference import compare_with_published

    return {
        scheme: compare_with_published(list(by_scheme[scheme].values()), *published[scheme], n_published)
        for scheme in shared
    }


def _holm_corrected(comparisons: Mapping[str, Comparison], by_scheme: Mapping[str, BySeed]) -> dict[str, float]:
    p_values = {
        scheme: comparison.p
        for scheme, comparison in comparisons.items()
        if len(by_scheme[scheme]) >= FEWEST_SEEDS_FOR_P and math.isfinite(comparison.p)
    }
    if not p_values:
        return {}
    from posenc.measure.inference import holm

    return holm(p_values)


def _difference_in_sds(seeds: BySeed | None, published: tuple[float, float] | None) -> str:
    """(here − published) / published SD; a dash if one is missing or the published SD is 0."""
    if seeds is None or published is None or not published[1] > 0:
        return "–"
    return signed_number((t_interval(list(seeds.values())).mean - published[0]) / published[1], 1)


def _test_cells(comparison: Comparison | None, p: float | None) -> tuple[str, str]:
    if comparison is None:
        return ("–", "–")
    sign = "≤" if comparison.within else ">"
    sizes = f"{number(abs(comparison.difference), 3)} {sign} {number(comparison.bound, 3)}"
    return (f"{'yes' if comparison.within else 'no'}:{NO_BREAK}{sizes}", "–" if p is None else p_value(p))


def _test_note(n_published: int, untested: Sequence[str], tests: int) -> str:
    note = f" n = {n_published} published runs, m seeds here, SD as published."
    if tests:
        note += f" p: Welch's t-test against the published mean and SD, corrected by Holm's method over {tests} rows."
    if untested:
        note += f" No p-value with fewer than {FEWEST_SEEDS_FOR_P} seeds."
    return note


def _mean_and_sd(mean: float, sd: float) -> str:
    return f"{number(mean, 3)} ± {number(sd, 3)}" if math.isfinite(sd) else number(mean, 3)
