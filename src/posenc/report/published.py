"""What was measured here beside what was printed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from posenc.measure.statistics import FEWEST_SEEDS_FOR_P, t_interval
from posenc.report.page import Panel, Table
from posenc.report.rows import NO_BREAK, BySeed, Row, best_first, count, number, p_value, signed, values

if TYPE_CHECKING:
    from posenc.measure.inference import Comparison


def against_published(
    rows: Sequence[Row],
    *,
    metric: str,
    published: Mapping[str, tuple[float, float]],
    source: str,
    n_published: int | None = None,
    label: str = "another model, another scale",
    setting: str = "main",
    title: str = "Beside the published numbers",
    caption: str = "",
) -> Panel:
    """A table of mean ± sd here and in a publication, how far apart they are, and the rank that each gives.

    Args:
        published: scheme -> (mean, sd) as printed there.
        source: who published them, and what they measured.
        n_published: the number of runs behind each published mean. With it the table says whether the difference lies
            within 2 SD √(1/n + 1/m), and the p-value of Welch's t-test, corrected by Holm's method over the table.
        label: how the two differ; it stands in the column's heading, not in a footnote.
    """
    by_scheme = values(rows, metric, setting)
    here = best_first(by_scheme)
    there = sorted(published, key=lambda scheme: (-published[scheme][0], scheme))
    shared = [scheme for scheme in here if scheme in published]
    compared = _compared(by_scheme, published, shared, n_published)
    corrected = _corrected(compared, by_scheme)
    body = []
    for scheme in [*here, *(scheme for scheme in there if scheme not in by_scheme)]:
        ours, theirs, ranks = "not run", "none", ("–", "–")
        if scheme in by_scheme:
            estimate = t_interval(list(by_scheme[scheme].values()))
            ours = f"{_plus_minus(estimate.mean, estimate.sd)} (n = {estimate.n})"
        if scheme in published:
            theirs = _plus_minus(*published[scheme])
        if scheme in shared:
            ranks = (str(shared.index(scheme) + 1), str([name for name in there if name in shared].index(scheme) + 1))
        apart = _apart(by_scheme.get(scheme), published.get(scheme))
        tested = _tested(compared.get(scheme), corrected.get(scheme)) if n_published else ()
        body.append((scheme, ours, theirs, *ranks, apart, *tested))
    printed = f"Published ({label}): mean ± sd" if label else "Published: mean ± sd"
    columns = ["Encoding", "Here: mean ± sd", printed, "Rank here", "Rank published", "Difference in published SDs"]
    columns += ["Within 2 SD √(1/n + 1/m)", "Welch’s test, Holm"] if n_published else []
    note = f"Published: {source}" + (f" ({label}: compare the order, not the size)" if label else "")
    note += f". Ranks count the {count(len(shared), 'encoding')} that both have."
    if n_published:
        note += _how(n_published, [scheme for scheme in shared if scheme not in corrected], len(corrected))
    heading = "Here and as published" + (f": {label}" if label else "")
    return Panel(title, (Table(heading, tuple(columns), tuple(body), note),), caption)


def reproduction(
    rows: Sequence[Row],
    *,
    published: Mapping[str, Mapping[str, tuple[float, float]]],
    named: Mapping[str, str],
    source: str,
    n_published: int,
    setting: str = "main",
) -> Table | None:
    """The same model trained again, beside those who published it: one line for each of their numbers, or None where
    no run of any is there.

    A line holds where ``|here - there| <= 2 SD sqrt(1/n + 1/m)``, SD the published one; its p-value asks nothing of
    the spread of our few seeds (``inference.from_published``) and is corrected by Holm's method over the lines.

    Args:
        published: metric -> scheme -> (mean, SD). named: metric -> how a reader calls it.
        source: who published them and what they measured. n_published: the runs behind each mean.
    """
    from posenc.measure.inference import from_published, holm

    found = {
        (scheme, metric): (ours := list(by_scheme[scheme].values()), from_published(ours, *theirs[scheme], n_published))
        for metric, theirs in published.items()
        for by_scheme in [values(rows, metric, setting)]
        for scheme in theirs
        if scheme in by_scheme
    }
    if not found:
        return None
    corrected = holm({f"{scheme} {metric}": told.p_theirs for (scheme, metric), (_, told) in found.items()})
    body = []
    for (scheme, metric), (ours, told) in found.items():
        here = t_interval(ours)
        body.append(
            (
                scheme,
                named[metric],
                f"{_plus_minus(here.mean, here.sd)} (n = {here.n})",
                _plus_minus(*published[metric][scheme]),
                signed(told.difference, 3),
                number(told.bound, 3),
                "yes" if told.within else "no",
                p_value(corrected[f"{scheme} {metric}"]),
            )
        )
    columns = ("Encoding", "Measured on", "Here: mean ± sd", "Published: mean ± sd", "Difference",
               "2 SD √(1/n + 1/m)", "Within", "t-test by their SD, Holm")  # fmt: skip
    note = (
        f"Published: {source}. n = {n_published} published runs, m the seeds here, SD the published one; its t-test "
        f"has {n_published - 1} degrees of freedom and is corrected by Holm's method over {count(len(found), 'line')}."
    )
    return Table("The same model, trained again", columns, tuple(sorted(body)), note)


def _compared(
    by_scheme: Mapping[str, BySeed],
    published: Mapping[str, tuple[float, float]],
    shared: Sequence[str],
    n_published: int | None,
) -> dict[str, Comparison]:
    if n_published is None:
        return {}
    from posenc.measure.inference import from_published

    return {
        scheme: from_published(list(by_scheme[scheme].values()), *published[scheme], n_published) for scheme in shared
    }


def _corrected(compared: Mapping[str, Comparison], by_scheme: Mapping[str, BySeed]) -> dict[str, float]:
    told = {
        scheme: found.p
        for scheme, found in compared.items()
        if len(by_scheme[scheme]) >= FEWEST_SEEDS_FOR_P and math.isfinite(found.p)
    }
    if not told:
        return {}
    from posenc.measure.inference import holm

    return holm(told)


def _apart(seeds: BySeed | None, printed: tuple[float, float] | None) -> str:
    """(ours − theirs) / their SD; a dash without both, or where theirs has no spread."""
    if seeds is None or printed is None or not printed[1] > 0:
        return "–"
    return signed((t_interval(list(seeds.values())).mean - printed[0]) / printed[1], 1)


def _tested(found: Comparison | None, p: float | None) -> tuple[str, str]:
    if found is None:
        return ("–", "–")
    sizes = f"{number(abs(found.difference), 3)} {'≤' if found.within else '>'} {number(found.bound, 3)}"
    return (f"{'yes' if found.within else 'no'}:{NO_BREAK}{sizes}", "–" if p is None else p_value(p))


def _how(n_published: int, untested: Sequence[str], tests: int) -> str:
    told = f" n = {n_published} published runs, m the seeds here, SD the published one."
    if tests:
        told += f" p: Welch's t-test against the published mean and sd, corrected by Holm's method over {tests} rows."
    if untested:
        told += f" No p-value below {FEWEST_SEEDS_FOR_P} seeds: it would mostly say how few there are."
    return told


def _plus_minus(mean: float, sd: float) -> str:
    return f"{number(mean, 3)} ± {number(sd, 3)}" if math.isfinite(sd) else number(mean, 3)
