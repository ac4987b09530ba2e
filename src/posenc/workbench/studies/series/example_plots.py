"""Images of forecasts and filled-in readings: some windows of the test part with the predictions of some variants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from posenc.frequencies import LENGTHS
from posenc.measure.statistics import mean
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table
from posenc.workbench.report.svg_style import FIRST, MUTED, SECOND, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.series.conditions import SeriesCondition, finished
from posenc.workbench.studies.series.stored_series import read_windows
from posenc.workbench.studies.series.variants import BASELINES
from posenc.workbench.studies.shared.classification_panels import empty_panel, seeds_by_label
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.series import TEST, Readings

WIDTH, HEIGHT = 460, 220


def examples(data: PageData) -> list[Panel]:
    """Predictions of the best trained variant and of the best baseline, beside the readings."""
    return [panel for each in finished(data) for panel in _panel(data, each)] or empty_panel("Examples")


def _panel(data: PageData, each: SeriesCondition) -> list[Panel]:
    values = seeds_by_label(data, "mse", each.label)
    order = sorted(values, key=lambda label: (mean(list(values[label].values())), label))
    runs = {label: spec for label in order if (spec := data.first(each.label, label)) is not None}
    best = next((runs[label] for label in runs if label not in BASELINES), None)
    if best is None:
        return []
    baseline = [label for label, spec in runs.items() if label in BASELINES and spec.seed == best.seed][:1]
    windows, chosen = read_windows(data.store.root, best.settings, best.seed), [best.variant, *baseline]
    arrays = {label: data.arrays(each.label, label) for label in chosen}
    shown, figures, body = arrays[best.variant]["shown"], list[Figure](), list[tuple[str, ...]]()
    part = windows.parts[TEST].take(torch.from_numpy(shown))
    readings = windows.readings(part)
    for row in range(len(shown)):
        predicted = [(label, arrays[label]["hidden"][row], arrays[label]["predicted"][row]) for label in chosen]
        name = windows.names[int(part.series[row])]
        svg = window_svg(readings, row, predicted, f"{each.label}-{row}", joined=not each.fills_in)
        figures.append(Figure(svg, name, f"{name}: readings, and predictions of {' and '.join(chosen)}."))
        true = readings.values[row].numpy()
        errors = (number(float(np.square(found - true[at]).mean()), 3) for _, at, found in predicted)
        body.append((name, number(float(np.ptp(readings.times[row].numpy())) / LENGTHS["day"], 2), *errors))
    key = (
        f"Windows of the test part, evenly spaced, seed {best.seed}. Gray: readings that a model sees; hollow: those "
        f"that it does not see. Predictions: {_named(chosen)}. Values in standard deviations of the training part."
    )
    columns = ("Series", "Length of the window (days)", *(f"Mean squared error, {label}" for label in chosen))
    table = Table("Windows that are shown", columns, tuple(body))
    return [Panel(f"Examples: {each.title}", (FigureGroup(tuple(figures), key, table),))]


def _named(chosen: Sequence[str]) -> str:
    return ", ".join(f"{label} ({color})" for label, color in zip(chosen, ("blue", "orange"), strict=False))


def window_svg(
    readings: Readings,
    row: int,
    predicted: Sequence[tuple[str, np.ndarray, np.ndarray]],
    name: str,
    *,
    joined: bool = True,
) -> str:
    """One window with predictions.

    Args:
        readings: Readings of windows.
        row: Number of the window.
        predicted: Label, numbers of the hidden readings, and values of each variant.
        name: Name of the figure, which makes its ids unique.
        joined: Join the predictions by a line, where no visible reading is between them.

    Returns:
        The SVG.
    """
    times, values = readings.times[row].numpy(), readings.values[row].numpy()
    hidden = predicted[0][1]
    visible = np.delete(np.arange(len(times)), hidden)
    unit = next((each for each in ("year", "day", "hour", "minute") if np.ptp(times) >= 2 * LENGTHS[each]), "second")
    at = (times - times[visible[-1]]) / LENGTHS[unit]
    with plot_style():
        figure, axes = canvas(WIDTH, HEIGHT, 52, 8, 8, 34)
        axes.plot(at[visible], values[visible], color=MUTED, linewidth=1, marker="o", markersize=3)
        axes.plot(at[hidden], values[hidden], "o", color=MUTED, markersize=5, markerfacecolor="none")
        for (_, numbers, found), color in zip(predicted, (FIRST, SECOND), strict=False):
            axes.plot(at[numbers], found, color=color, linewidth=1 if joined else 0, marker="o", markersize=3)
        axes.set_ylabel("standard deviations")
        axes.set_xlabel(f"time from the last visible reading ({unit}s)")
        axes.tick_params(length=3, labelsize=12)
        axes.spines[["top", "right"]].set_visible(False)
        return page_svg(figure, id_prefix("series", name))
