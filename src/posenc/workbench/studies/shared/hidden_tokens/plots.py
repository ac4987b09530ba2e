"""Panels that the studies of hidden tokens share: errors, modules, maps of learned positions, learning curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from posenc.measure.distances import How, token_distances
from posenc.measure.modularity import modularity, module_numbers, similarity
from posenc.measure.statistics import Estimate, mean, t_interval
from posenc.workbench.report import token_map
from posenc.workbench.report.curve_overlay import curve_overlay
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import MAX_LINES_PER_PLOT, line_plot
from posenc.workbench.report.number_format import interval, join_words, number
from posenc.workbench.report.page import Panel, Table, Text, write_text
from posenc.workbench.report.result_rows import BySeed, Row, is_finite, values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.best_variant import best_variant
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.hidden_tokens.settings import error_metric
from posenc.workbench.studies.shared.hidden_tokens.variants import BASELINES, TABLES_SHOWN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, metric_bounds

NO_TABLE = "None of the encodings that were run has a table of positions, so no map can be drawn."
LAYER = "For models with several layers, maps show the first layer's table; scores are means over layers."
FURTHER_DISTANCES: Mapping[How, tuple[str, str]] = {
    "cosine_similarity": ("Cosine similarity of learned positions", "Cosine similarity"),
    "norm_only": ("Distances as Procrustes of two rows", "Differences of the norms, | |a| − |b| |,"),
    "sign": ("Distances as Procrustes of two columns", "Distances up to a sign, min(|a − b|, |a + b|),"),
}
"""Title and description of the distances besides the Euclidean one."""
MODULE_SCORES = {
    "auc": Score("AUC of the modules from distances in the table", "AUC"),
    "ari": Score("Agreement with modules detected in the table", "adjusted Rand index"),
    "modularity": Score("Modularity without the diagonal", "modularity Q"),
    "modularity_literal": Score("Modularity with the diagonal, as published", "modularity Q"),
    "segregation": Score("Segregation of the modules", "segregation"),
}


class TokenNames(NamedTuple):
    """Names of the tokens of a run, and their modules or None."""

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None


NamesOf = Callable[[PageData, RunSpec], TokenNames]
StoredTable = tuple[str, RunSpec, Mapping[str, np.ndarray]]
"""Variant, one of its runs, and the arrays of that run."""
EQUAL_DISTANCE = 1e-6
"""Distances below this share of the largest norm of a table are 0, because they are rounding errors of float32."""


def error_plots(
    data: PageData, rates: Sequence[float], *, tokens: str, unit: str, title: str, caption: str = ""
) -> Panel:
    """Prediction error of every variant and seed, one plot per share of hidden tokens.

    Args:
        data: Data of the page.
        rates: Shares of hidden tokens in testing.
        tokens: Noun for the tokens, such as "channels".
        unit: Name and unit of the error.
        title: Title of the panel.
        caption: Text below the title.

    Returns:
        The panel.
    """
    scores = {error_metric(rate): Score(f"{rate:.0%} of the {tokens} hidden", unit, False) for rate in rates}
    held_out = held_out_items(data, MAIN)
    return score_plots(data.rows, metrics=scores, title=title, caption=caption, held_out=held_out)


def error_by_recording(data: PageData, rate: int, recordings: Sequence[str], *, title: str, unit: str) -> Panel:
    """Prediction error on every test recording, as the mean over the seeds that hold it out.

    Args:
        data: Data of the page.
        rate: Index of the test rate.
        recordings: Names of the test recordings.
        title: Title of the panel.
        unit: Name and unit of the error.

    Returns:
        The panel.
    """
    rows: list[Row] = []
    for label in data.labels(MAIN):
        runs = [spec for spec in data.done if spec.condition == MAIN and spec.variant == label]
        by_recording: dict[int, list[float]] = {}
        for arrays in (data.store.arrays(spec.identity) for spec in runs):
            errors = arrays["errors"][rate]
            for index, error in zip(arrays.get("tested", np.arange(len(errors))), errors, strict=True):
                by_recording.setdefault(int(index), []).append(float(error))
        rows += [
            {"setting": MAIN, "scheme": label, "seed": index, "metric": "error", "value": float(np.mean(errors))}
            for index, errors in sorted(by_recording.items())
        ]
    names = "; ".join(f"{index}: {name}" for index, name in enumerate(recordings[:40]))
    more = f" and {len(recordings) - 40} more" if len(recordings) > 40 else ""
    return score_plots(
        rows,
        metrics={"error": Score("Test recordings", unit, False)},
        title=title,
        caption=f"Recordings by number: {names}{more}.",
        over="recording",
    )


def module_plots(data: PageData, *, title: str, caption: str = "", condition: str = MAIN) -> Panel:
    """Scores of the tables against the given modules, each with the upper end of its permutation null.

    Args:
        data: Data of the page.
        title: Title of the panel.
        caption: Text below the title.
        condition: Label of the condition.

    Returns:
        The panel.
    """
    lines: dict[str, dict[str, float]] = {}
    for metric in MODULE_SCORES:
        null = values_by_scheme(data.rows, f"{metric}_null_high", condition)
        if null:
            lines[metric] = {"97.5th percentile": max(v for seeds in null.values() for v in seeds.values())}
    key = (
        "AUC: probability that two tokens of one module are nearer in the table than two of different modules. Line: "
        "97.5th percentile with the modules permuted over the tokens; the highest value of all encodings. "
    )
    return score_plots(
        data.rows, metrics=MODULE_SCORES, lines=lines, title=title, caption=f"{key}{LAYER} {caption}".strip(),
        condition=condition,
    )  # fmt: skip


def learning_curves(
    data: PageData,
    metric: str,
    *,
    title: str,
    y_label: str,
    chance: float | None = None,
    caption: str = "",
    condition: str = MAIN,
) -> Panel:
    """A metric by training step: the means of all variants on one axis, then each variant with its seeds.

    The axis of an error spans its values after step 0, where it is largest.

    Args:
        data: Data of the page.
        metric: Stored name of the metric.
        title: Title of the panel.
        y_label: Name and unit of the metric.
        chance: Value at chance level, or None.
        caption: Text below the title.
        condition: Label of the condition.

    Returns:
        The panel.
    """
    bounds = metric_bounds(metric)
    share, limits = bounds == SHARE, None
    series: dict[str, dict[float, BySeed]] = {}
    by_seed: dict[str, dict[int, dict[int, float]]] = {}
    for row in data.curves:
        wanted = row["metric"] == metric and row["setting"] == condition and is_finite(row["value"])
        if wanted and (share or row["epoch"] > 0):
            label, seed, epoch, value = str(row["scheme"]), row["seed"], row["epoch"], float(row["value"])
            series.setdefault(label, {}).setdefault(epoch, {})[seed] = value
            by_seed.setdefault(label, {}).setdefault(seed, {})[epoch] = value
    values = [value for points in series.values() for seeds in points.values() for value in seeds.values()]
    if not share and values:
        margin = 0.05 * (max(values) - min(values)) or 0.1
        limits = (round(min(values) - margin, 3), round(max(values) + margin, 3))
    panel = line_plot(
        series, title=title, x_label="training step", y_label=y_label, bounds=bounds, limits=limits, chance=chance,
        caption=caption,
    )  # fmt: skip
    if len(series) <= MAX_LINES_PER_PLOT:
        return panel
    together = curve_overlay(
        by_seed, title=title, x_label="training step", y_label=y_label, bounds=limits or SHARE, chance=chance
    )
    return Panel(panel.title, (*together, *panel.blocks), panel.caption)


def stored_tables(data: PageData) -> list[StoredTable]:
    """Variants whose runs stored a table of positions.

    Args:
        data: Data of the page.

    Returns:
        The variants in the order of the page, with the arrays of their runs.
    """
    first = {label: data.first(MAIN, label) for label in data.labels(MAIN)}
    order = [
        *(label for label in TABLES_SHOWN if label in first),
        *(each for each in first if each not in TABLES_SHOWN),
    ]
    tables: list[StoredTable] = []
    for label in order:
        spec = first[label]
        if spec is not None and "positions" in (arrays := data.store.arrays(spec.identity)):
            tables.append((label, spec, arrays))
    return tables


def map_panels(data: PageData, names_of: NamesOf, *, tokens: str) -> list[Panel]:
    """Maps of learned positions, the distances between them, and the dendrogram of the variant with the best AUC.

    Args:
        data: Data of the page.
        names_of: Function from the data of the page and a run to the names of its tokens.
        tokens: Noun for the tokens, such as "channels".

    Returns:
        The panels.
    """
    title, (same, left_out) = "Maps of learned positions", _tables_of_the_same_tokens(data, names_of)
    if not same:
        return [Panel(title, (Text((NO_TABLE,)),))]
    names = names_of(data, same[0][1])
    items = [(label, arrays["positions"], _auc_note(data, spec)) for label, spec, arrays in same]
    caption = f"{LAYER} {left_out}".rstrip()
    panels = [token_map.token_maps(items, names.channels, names.modules, title=title, caption=caption)]
    panels.append(_distance_maps(same, names, f"Distances between learned positions of {tokens}"))
    panels += [_distance_maps(same, names, f"{title}: {tokens}", how) for how, (title, _) in FURTHER_DISTANCES.items()]
    panels += _modularity_by_distance(same, names)
    best = max(same, key=lambda table: _auc(data, table[1]))
    distances = _distances(best[2])
    panels.append(
        token_map.token_dendrogram(distances, names.channels, names.modules, title=f"Dendrogram of {tokens}: {best[0]}")
    )
    return panels


def _tables_of_the_same_tokens(data: PageData, names_of: NamesOf) -> tuple[list[StoredTable], str]:
    """One table per variant, all of the same tokens, and a sentence on the variants that are left out.

    All tables are of one seed: the lowest that every variant has, or else the one that most have. A variant without
    this seed has the table of its lowest seed, if the tokens are the same there.
    """
    tables = stored_tables(data)
    seeds = {
        label: {spec.seed: spec for spec in data.done if (spec.condition, spec.variant) == (MAIN, label)}
        for label, _, _ in tables
    }
    every = sorted({seed for runs in seeds.values() for seed in runs})
    if not every:
        return [], ""
    seed = max(every, key=lambda each: (sum(each in runs for runs in seeds.values()), -each))
    chosen = [(label, seeds[label].get(seed, spec)) for label, spec, _ in tables]
    names = next(names_of(data, spec) for _, spec in chosen if spec.seed == seed)
    same = [(label, spec) for label, spec in chosen if names_of(data, spec) == names]
    others = [label for label, _ in chosen if label not in dict(same)]
    stored = [(label, spec, data.store.arrays(spec.identity)) for label, spec in same]
    sentence = (
        f"Maps and distances are of seed {seed}. Encodings without this seed are not drawn: {join_words(others)}."
    )
    return [table for table in stored if "positions" in table[2]], sentence if others else ""


def _auc_note(data: PageData, spec: RunSpec) -> str:
    auc = _auc(data, spec)
    return f"AUC {number(auc)}, seed {spec.seed}" if auc >= 0 else ""


def _auc(data: PageData, spec: RunSpec) -> float:
    """AUC of the modules of a run; -1 where none is stored."""
    return data.store.read(spec.identity).metrics.get("auc", -1.0)


def _distances(arrays: Mapping[str, np.ndarray], how: How = "euclidean") -> np.ndarray:
    """Distances between the rows of a table; those that are rounding errors of the stored table are 0."""
    table = torch.from_numpy(np.array(arrays["table"]))
    distances = token_distances(table, how).numpy()
    if how == "cosine_similarity":
        return distances
    return np.where(distances < EQUAL_DISTANCE * float(table.norm(dim=1).max()), 0.0, distances)


def _modularity_of(distances: np.ndarray, numbers: torch.Tensor) -> str:
    """Modularity by distances; a dash where no distance differs from 0."""
    return number(modularity(similarity(torch.from_numpy(distances)), numbers)) if distances.any() else "–"


def _modularity_by_distance(tables: Sequence[StoredTable], names: TokenNames) -> list[Panel]:
    """Modularity of the given modules by each reading of the distance of two encodings; nothing without modules."""
    if names.modules is None or len(set(names.modules)) < 2:
        return []
    numbers, body = module_numbers(np.array(names.modules)), list[tuple[str, ...]]()
    readings: tuple[How, ...] = ("euclidean", "norm_only", "sign")
    for label, _, arrays in tables:
        body.append((label, *(_modularity_of(_distances(arrays, how), numbers) for how in readings)))
    columns = ("Encoding", "Euclidean", "Procrustes of two rows", "Procrustes of two columns")
    note = (
        "Modularity Q without the diagonal, with weights 1 − distance after scaling to the range 0 to 1; first layer, "
        "one seed. The paper says Procrustes distance between two tokens, which may mean any of the three. A dash: all "
        "distances are 0, as between encodings of equal norms."
    )
    title = "Modularity by the distance between two encodings"
    return [Panel(title, (Table(title, columns, tuple(body), note),))]


def _distance_maps(tables: Sequence[StoredTable], names: TokenNames, title: str, how: How = "euclidean") -> Panel:
    """Distances of each table, sorted by the given modules, or by the modules detected in the table."""
    groups = []
    given = names.modules
    order = None if given is None else np.argsort(np.array(given), kind="stable")
    for label, _, arrays in tables:
        own = np.argsort(arrays["modules"], kind="stable") if order is None else order
        distances = _distances(arrays, how)[np.ix_(own, own)]
        np.fill_diagonal(distances, np.nan)
        groups.append((label, distances))
    labels = None if given is None or order is None else [given[index] for index in order]
    sorted_by = "by module" if labels else "by the modules detected in each table"
    ends = ("unlike", "alike") if how == "cosine_similarity" else ("near", "far")
    formula = FURTHER_DISTANCES[how][1] if how in FURTHER_DISTANCES else "Euclidean distances"
    return heat_maps(
        groups, title=title, shared_scale=False, labels=labels, low_label=ends[0], high_label=ends[1], size="small",
        caption=f"{formula} between rows of the first layer's table, sorted {sorted_by}.",
    )  # fmt: skip


def write_positions(path: Path, data: PageData, names_of: NamesOf) -> Path:
    """Write the map of every trained table into a CSV file: ``scheme, seed, channel, module, x, y, z``.

    Args:
        path: The file.
        data: Data of the page.
        names_of: Function from the data of the page and a run to the names of its tokens.

    Returns:
        The file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("scheme", "seed", "channel", "module", "x", "y", "z"))
    for spec in data.done:
        arrays = data.store.arrays(spec.identity) if spec.condition == MAIN else {}
        if "positions" not in arrays:
            continue
        names = names_of(data, spec)
        modules = names.modules or ("",) * len(names.channels)
        for channel, module, point in zip(names.channels, modules, arrays["positions"], strict=True):
            writer.writerow((spec.variant, spec.seed, channel, module, *(f"{float(x):.6g}" for x in point)))
    return write_text(path, text.getvalue())


def estimates(data: PageData, metric: str, *, higher: bool = False) -> dict[str, Estimate]:
    """Mean over seeds of a metric with its 95% interval.

    Args:
        data: Data of the page.
        metric: Stored name of the metric.
        higher: True if higher values are better.

    Returns:
        Variant -> estimate, the best first.
    """
    values = values_by_scheme(data.rows, metric)
    order = sorted(values, key=lambda label: ((-1 if higher else 1) * mean(list(values[label].values())), label))
    return {label: t_interval(list(values[label].values()), bounds=metric_bounds(metric)) for label in order}


def best_prediction(data: PageData, metric: str, where: str) -> str:
    """Sentence on the encoding with the lowest prediction error, also against ridge regression.

    Args:
        data: Data of the page.
        metric: Stored name of the error.
        where: Phrase for the task, such as "in predicting hidden patches".

    Returns:
        The sentence. If baselines alone have finished, it lists them; "" if nothing has finished.
    """
    values = values_by_scheme(data.rows, metric)
    encodings = {label: seeds for label, seeds in values.items() if label not in BASELINES}
    baselines = {label: values[label] for label in BASELINES if label in values}
    if encodings and "ridge" in baselines:
        baselines = {"ridge": baselines["ridge"]}
    return best_variant(
        encodings,
        metric="mean squared error",
        unit="",
        where=where,
        higher=False,
        digits=3,
        bounds=metric_bounds(metric),
        references={"ridge regression" if label == "ridge" else label: seeds for label, seeds in baselines.items()},
    )


def with_interval(estimate: Estimate, digits: int = 2) -> str:
    """Format an estimate as "0.95 [0.91, 0.99]".

    Args:
        estimate: The estimate.
        digits: Decimals.

    Returns:
        The text.
    """
    return f"{number(estimate.mean, digits)} {interval(estimate, digits)}"


def chance_auc(data: PageData) -> float:
    """Highest upper end (97.5%) of the permutation nulls of the AUC.

    Args:
        data: Data of the page.

    Returns:
        The AUC; 1 if no run stored a null.
    """
    high = values_by_scheme(data.rows, "auc_null_high")
    return max((value for seeds in high.values() for value in seeds.values()), default=1.0)
