"""Panels that studies of masked modelling share: errors, modules beside chance, maps, distances, curves."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from posenc.measure.distances import token_distances
from posenc.measure.statistics import mean
from posenc.report import arrangements
from posenc.report.lines import lines
from posenc.report.matrices import matrices
from posenc.report.page import Panel, Text, write_text
from posenc.report.rows import BySeed, Row, finite, number, values
from posenc.report.scores import Score, scores
from posenc.store import Unit
from posenc.studies.found import Found, plain_label
from posenc.studies.masking.rows import LEARNED
from posenc.studies.masking.work import error_at

SHOWN = (*LEARNED, "random", "1d-fixed", "2d-fixed")
"""Rows whose arrangement a page draws, where they were run."""
NO_TABLE = "No row that was run has a table of positions, so there is nothing to draw of where tokens lie."
LAYER = "Of models with several layers, the first layer's table is drawn; numbers are means over layers."


class Known(NamedTuple):
    """What is known of a unit's tokens: their names, and their modules or None."""

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None


Knows = Callable[[Found, Unit], Known]


def errors(found: Found, rates: Sequence[float], *, setting: str = "main", title: str, caption: str = "") -> Panel:
    """Every seed's error on what was never seen, a picture a rate."""
    named = {
        error_at(rate): Score(f"{rate:.0%} of the tokens hidden", "mean squared error", False, (0.0, None))
        for rate in rates
    }
    return scores(found.rows, metrics=named, setting=setting, title=title, caption=caption)


def by_recording(
    found: Found, rate: int, recordings: Sequence[str], *, setting: str = "main", title: str, unit: str
) -> Panel:
    """Every recording's error, the mean over seeds. rate: the place of the rate among those asked."""
    rows: list[Row] = []
    for label in found.labels(setting):
        cell = [unit for unit in found.done if unit.setting == setting and plain_label(unit) == label]
        if cell:
            wrong = np.mean([found.store.arrays(unit.key)["errors"][rate] for unit in cell], 0)
            rows += [
                {"setting": "main", "scheme": label, "seed": place, "metric": "error", "value": float(value)}
                for place, value in enumerate(wrong)
            ]
    names = "; ".join(f"{place}: {name}" for place, name in enumerate(recordings[:40]))
    more = f" and {len(recordings) - 40} more" if len(recordings) > 40 else ""
    return scores(
        rows,
        metrics={"error": Score("Every recording", unit, False, (0.0, None))},
        title=title,
        caption=f"Recordings by the numbers of the table: {names}{more}.",
        over="recording",
    )


def modules(found: Found, *, setting: str = "main", title: str, caption: str = "") -> Panel:
    """How well tables know the given modules, and the modules that were found without them, each beside its null."""
    named = {
        "auc": Score("Two of one module nearer than two of different ones", "chance of it", True, (0.0, 1.0)),
        "ari": Score("Modules found without being named", "adjusted Rand index", True, (-1.0, 1.0)),
        "modularity": Score("Modularity, without the diagonal", "Q", True),
        "modularity_literal": Score("Modularity to the letter, diagonal and all", "Q", True),
        "segregation": Score("Segregation", "C", True, (None, 1.0)),
    }
    drawn: dict[str, dict[str, float]] = {}
    for metric in named:
        null = values(found.rows, f"{metric}_null_high", setting)
        if null:
            drawn[metric] = {"97.5 % of chance": max(v for seeds in null.values() for v in seeds.values())}
    told = "Chance: the modules' names in random order; the line is the highest of all rows' upper ends. "
    return scores(
        found.rows, metrics=named, setting=setting, lines=drawn, title=title, caption=f"{told}{LAYER} {caption}".strip()
    )


def over_steps(
    found: Found,
    metric: str,
    *,
    setting: str = "main",
    title: str,
    y_label: str,
    bounds: tuple[float, float] | None = None,
    chance: float | None = None,
    caption: str = "",
) -> Panel:
    """A metric against steps of training, a line a row.

    Without bounds it is an error: from the first look after the start, which would flatten all that follows, between
    the lowest value and the highest.
    """
    series: dict[str, dict[float, BySeed]] = {}
    for row in found.curves:
        wanted = row["metric"] == metric and row["setting"] == setting and finite(row["value"])
        if wanted and (bounds is not None or row["epoch"] > 0):
            label = str(row["scheme"]).removesuffix(f", {setting}")
            series.setdefault(label, {}).setdefault(row["epoch"], {})[row["seed"]] = float(row["value"])
    every = [value for points in series.values() for seeds in points.values() for value in seeds.values()]
    if bounds is None and every:
        room = 0.05 * (max(every) - min(every)) or 0.1
        bounds = (round(min(every) - room, 3), round(max(every) + room, 3))
    return lines(series, title=title, x_label="steps", y_label=y_label, bounds=bounds, chance=chance, caption=caption)


def shown(found: Found, setting: str = "main") -> list[tuple[str, Unit, Mapping[str, np.ndarray]]]:
    """The rows with a table, in the order of a page: label, its first unit, what that stored."""
    there = {label: found.first(setting, label) for label in found.labels(setting)}
    order = [*(label for label in SHOWN if label in there), *(label for label in there if label not in SHOWN)]
    kept = []
    for label in order:
        unit = there[label]
        if unit is not None and "positions" in (arrays := found.store.arrays(unit.key)):
            kept.append((label, unit, arrays))
    return kept


def maps(found: Found, known: Knows, *, setting: str = "main", title: str, metric: str = "auc") -> list[Panel]:
    """The map of every row's learned positions, the distances behind them by module, and the tree of the best row."""
    rows = shown(found, setting)
    if not rows:
        return [Panel(title, (Text((NO_TABLE,)),))]
    # all maps of one panel are of one set of tokens: the first seed's
    knows = known(found, rows[0][1])
    same = [(label, unit, arrays) for label, unit, arrays in rows if known(found, unit) == knows]
    items = [(label, arrays["positions"], _note(found, unit, metric)) for label, unit, arrays in same]
    panels = [arrangements.maps(items, knows.channels, knows.modules, title=title, caption=LAYER)]
    panels.append(_distances(same, knows, f"Distances behind it: {title[:1].lower()}{title[1:]}"))
    best = max(same, key=lambda row: _value(found, row[1], metric))
    tree = f"Tree: {best[0]}"
    panels.append(arrangements.tree(_between(best[2]), knows.channels, knows.modules, title=tree))
    return panels


def _note(found: Found, unit: Unit, metric: str) -> str:
    value = _value(found, unit, metric)
    return f"{'AUC' if metric == 'auc' else metric} {number(value)}, seed {unit.seed}" if value > -1 else ""


def _value(found: Found, unit: Unit, metric: str) -> float:
    return found.store.read(unit.key).metrics.get(metric, -1.0)


def _between(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return token_distances(torch.from_numpy(np.array(arrays["table"]))).numpy()


def _distances(rows: Sequence[tuple[str, Unit, Mapping[str, np.ndarray]]], knows: Known, title: str) -> Panel:
    """Of each row in its own scale, sorted by the given modules, or by those that the row itself was found to have."""
    groups = []
    given = knows.modules
    order = None if given is None else np.argsort(np.array(given), kind="stable")
    for label, _, arrays in rows:
        by = np.argsort(arrays["modules"], kind="stable") if order is None else order
        between = _between(arrays)[np.ix_(by, by)]
        np.fill_diagonal(between, np.nan)
        groups.append((label, between))
    labels = None if given is None or order is None else [given[place] for place in order]
    return matrices(
        groups, title=title, shared_scale=False, labels=labels, low_label="near", high_label="far", size="small",
        caption="Tokens are sorted by module." if labels else "Tokens are sorted by the modules found in each row.",
    )  # fmt: skip


def write_positions(path: Path, found: Found, known: Knows, setting: str = "main") -> Path:
    """Every trained table as places: ``scheme, seed, channel, module, x, y, z``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("scheme", "seed", "channel", "module", "x", "y", "z"))
    for unit in found.done:
        arrays = found.store.arrays(unit.key) if unit.setting == setting else {}
        if "positions" not in arrays:
            continue
        knows = known(found, unit)
        given = knows.modules or ("",) * len(knows.channels)
        for channel, module, place in zip(knows.channels, given, arrays["positions"], strict=True):
            writer.writerow((plain_label(unit), unit.seed, channel, module, *(f"{float(x):.6g}" for x in place)))
    return write_text(path, text.getvalue())


def best(found: Found, metric: str, setting: str = "main", *, higher: bool = False) -> list[tuple[str, float]]:
    """Rows with their means, the best first."""
    by_row = values(found.rows, metric, setting)
    means = [(label.removesuffix(f", {setting}"), mean(list(seeds.values()))) for label, seeds in by_row.items()]
    return sorted(means, key=lambda pair: (-pair[1] if higher else pair[1], pair[0]))


def beyond_chance(found: Found, setting: str = "main") -> list[tuple[str, float]]:
    """Rows whose mean AUC of the modules lies above what chance reaches, the best first."""
    high = values(found.rows, "auc_null_high", setting)
    beyond = max((value for seeds in high.values() for value in seeds.values()), default=1.0)
    return [pair for pair in best(found, "auc", setting, higher=True) if pair[1] > beyond]
