"""Pages of evidence: each study with its pages of results, and the leaderboard of variants by study.

The scores are those of the CSV files in results/. A table never mixes scales, conditions or data: it is of one file and
one condition.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rank_plots import AverageRanks, average_ranks, rank_plot
from result_pages import RESULTS, copy_results

from posenc.measure.statistics import Estimate, paired_difference, t_interval
from posenc.workbench import Study, all_studies
from posenc.workbench.report.number_format import number
from posenc.workbench.report.result_rows import BySeed, read_csv, values_by_scheme
from posenc.workbench.tables.metric_bounds import metric_bounds

LOWER_IS_BETTER = re.compile(r"loss.*|bits_per_byte|r?mse.*|chamfer|.*_error|error")
FEWEST_SEEDS = 3
"""A variant with fewer seeds has a mean and no rank."""
PRESETS = ("quick", "standard")
VARIANTS = Path(__file__).parents[2] / "docs" / "site" / "variants.json"
"""Schemes of the variants of all studies, which ``variants.py`` writes."""


@dataclass(frozen=True)
class Ranking:
    """Variants of one condition of one file of results, the best mean first.

    Attributes:
        study: Name of the study.
        preset: Its scale.
        condition: The condition.
        metric: Stored name of the metric.
        page: Name of the page in results/.
        scores: Variant to its mean over seeds with its interval.
        ranks: Variant to the lowest and highest rank that the paired intervals allow; none below ``FEWEST_SEEDS``.
        average: Average ranks over complete blocks; None for too few variants or seeds.
    """

    study: str
    preset: str
    condition: str
    metric: str
    page: str
    scores: Mapping[str, Estimate]
    ranks: Mapping[str, tuple[int, int]]
    average: AverageRanks | None = None


def write_evidence_pages(pages: Path) -> list[Ranking]:
    """Write the list of studies and the leaderboard, and copy the pages of results.

    Args:
        pages: Folder of the pages of the site.

    Returns:
        The rankings of the leaderboard.
    """
    copy_results(pages / "extra" / "results")
    folder = pages / "evidence"
    folder.mkdir()
    found = list(rankings())
    (folder / "studies.md").write_text(_studies(), encoding="utf-8")
    (folder / "leaderboard.md").write_text(leaderboard(found), encoding="utf-8")
    return found


def rankings() -> Iterator[Ranking]:
    """Rank the variants of every condition of the stored tables, by the first metric of their study."""
    for study, preset in itertools.product(all_studies().values(), PRESETS):
        path = RESULTS / f"{study.name}-{preset}.csv"
        if not path.exists():
            continue
        rows = read_csv(path)
        for condition in dict.fromkeys(str(row["setting"]) for row in rows):
            grouped = ((metric, values_by_scheme(rows, metric, condition)) for metric in study.metrics)
            metric, values = next(((metric, each) for metric, each in grouped if len(each) > 1), ("", {}))
            if metric:
                yield ranked(values, study=study.name, preset=preset, condition=condition, metric=metric)


def ranked(values: Mapping[str, BySeed], *, study: str, preset: str, condition: str, metric: str) -> Ranking:
    """Rank variants by their mean, with the ranks that their paired intervals allow.

    A variant is surely better than another if the interval of the paired difference excludes 0. Its rank lies between
    1 + the number that are surely better and the number of variants - the number that are surely worse, at 95 %: the
    intervals have Bonferroni's correction for its comparisons with all others.

    Args:
        values: Variant to its values by seed.
        study: Name of the study.
        preset: Its scale.
        condition: The condition.
        metric: Stored name of the metric, which decides if lower is better.

    Returns:
        The ranking.
    """
    bounds, sign = metric_bounds(metric), -1 if LOWER_IS_BETTER.fullmatch(metric) else 1
    scores = {name: t_interval(list(seeds.values()), bounds=bounds) for name, seeds in values.items()}
    order = sorted(scores, key=lambda name: -sign * scores[name].mean)
    judged = [name for name in order if len(values[name]) >= FEWEST_SEEDS]
    better, worse = dict.fromkeys(judged, 0), dict.fromkeys(judged, 0)
    level = 1 - 0.05 / max(1, len(judged) - 1)
    for first, second in itertools.combinations(judged, 2):
        if len(values[first].keys() & values[second].keys()) < FEWEST_SEEDS:
            continue
        gap = paired_difference(values[first], values[second], level=level, bounds=bounds)
        if gap.low > 0 or gap.high < 0:
            above, below = (first, second) if sign * gap.mean > 0 else (second, first)
            worse[above] += 1
            better[below] += 1
    ranks = {name: (1 + better[name], len(judged) - worse[name]) for name in judged}
    in_order = {name: scores[name] for name in order}
    average = average_ranks(values, lower_is_better=sign < 0)
    return Ranking(study, preset, condition, metric, f"{study}-{preset}.html", in_order, ranks, average)


def leaderboard(found: Sequence[Ranking]) -> str:
    """Write the leaderboard as Markdown.

    Args:
        found: The rankings, in the order of studies and scales.

    Returns:
        The page: tables, critical-difference plots, and what was not run.
    """
    parts = [
        "# Leaderboard",
        "Mean over seeds of the first metric of each study, with its 95 % interval. Each table is of one study, scale "
        "and condition; scores of different tables are not comparable.",
        "The last column has the ranks that the data allow, at 95 % for each variant: another one counts as better "
        "only if the paired interval of the difference excludes 0, corrected for the number of comparisons "
        f"(Bonferroni). Variants with fewer than {FEWEST_SEEDS} seeds have no rank. Three seeds rarely separate "
        "neighbors.",
        "A critical-difference plot shows average ranks over complete blocks: the seeds of one scale and condition for "
        "which all of its variants have a value.",
        "A click on a heading sorts; a field above long tables leaves rows out. Variants of a study that a scale does "
        "not have are listed below its tables.",
    ]
    for (study, preset), group in itertools.groupby(found, key=lambda each: (each.study, each.preset)):
        tables = list(group)
        parts.append(f"## {study}, {preset}\n\n[Page](results:{tables[0].page})")
        parts += [_table(each) for each in tables]
        parts.append(_not_run(study, tables))
    return "\n\n".join(parts) + "\n"


def _table(ranking: Ranking) -> str:
    way = "lower" if LOWER_IS_BETTER.fullmatch(ranking.metric) else "higher"
    lines = [
        f"| variant | {ranking.metric} ({way} is better) | 95 % interval | seeds | rank |",
        "|---|---|---|---|---|",
    ]
    for name, score in ranking.scores.items():
        span = f"{number(score.low, 3)} to {number(score.high, 3)}" if score.n > 1 else "one seed"
        low, high = ranking.ranks.get(name, (0, 0))
        rank = "" if not high else str(low) if low == high else f"{low} to {high}"
        lines.append(f"| {name} | {number(score.mean, 3)} | {span} | {score.n} | {rank} |")
    title = f"{ranking.study}, {ranking.preset}, {ranking.condition}"
    plot = f"\n\n```{{raw}} html\n{rank_plot(ranking.average, title)}\n```" if ranking.average else ""
    heading = "" if ranking.condition == "main" else f"### {ranking.study}, {ranking.preset}: {ranking.condition}\n\n"
    return f"{heading}{{.sortable}}\n" + "\n".join(lines) + plot


def _not_run(study: str, tables: Sequence[Ranking]) -> str:
    """Variants of a study that a scale does not have."""
    known = json.loads(VARIANTS.read_text(encoding="utf-8")).get(study, {})
    missing = [name for name in known if not any(name in each.scores for each in tables)]
    names = ", ".join(f"`{name}`" for name in missing)
    return f"Not run at this scale: {names}." if names else "Every variant of the study was run at this scale."


def _studies() -> str:
    parts = [
        "# Studies",
        "A study is a question and the runs that answer it. `posenc run STUDY` trains them here; `posenc run STUDY "
        "--help` lists presets, panels and variants. The pages below are stored results of real runs.",
    ]
    for name, study in all_studies().items():
        parts.append(f"## {name}\n\n{study.question}\n\n{_pages(name, study)}")
    return "\n\n".join(parts) + "\n"


def _pages(name: str, study: Study) -> str:
    paths = sorted(RESULTS.glob(f"{name}-*.html"))
    lines = [f"* [{path.stem}](results:{path.name})" for path in paths if _of(path.stem, name)]
    run = f"```sh\nposenc run {name}{' FILE' if study.takes else ''}\n```"
    return "\n".join(lines) + f"\n\n{run}" if lines else run


def _of(stem: str, study: str) -> bool:
    others = [each for each in all_studies() if each != study and stem.startswith(f"{each}-")]
    return not any(len(each) > len(study) for each in others)
