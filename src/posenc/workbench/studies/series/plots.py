"""Plots and tables of the series study: errors by variant and horizon, learning curves, the variants."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence

import msgspec

from posenc.lookup.scheme_text import find, schedule_frequencies
from posenc.measure.statistics import mean
from posenc.workbench.data.series import time_phrase
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed, Row
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.series.conditions import SeriesCondition, finished
from posenc.workbench.studies.series.stored_series import scales_of
from posenc.workbench.studies.series.variants import (
    BASELINES,
    BESIDE_LEARNED,
    LEARNED,
    VARIANTS,
    SeriesVariant,
    unit_seconds,
)
from posenc.workbench.studies.shared.classification_panels import (
    empty_panel,
    scheme_text,
    seeds_by_label,
)
from posenc.workbench.studies.shared.compared_score import held_out_items
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.validation_curves import validation_curves
from posenc.workbench.tasks.series import horizon_marks

VARIANCES = "mean squared error (variances of the training part)"
SCALED = "mean absolute scaled error"
METRICS = {
    "mse": Score("Mean squared error", VARIANCES, False),
    "mase": Score("MASE", SCALED, False),
}
FORECAST_CAPTION = (
    "Readings after the origin, mean over all horizons and origins of the test part. Line mean: the error of the mean "
    "of the training part, 1 variance. Line naive: the error of the last value as a forecast of the next one in "
    "training, a MASE of 1. Baselines: last (last value), seasonal (one day, week or year earlier, whichever has the "
    "lowest validation error), linear (DLinear's linear map by least squares), boosting (gradient boosting with "
    "calendar columns)."
)
FILL_IN_CAPTION = (
    "Hidden readings of the test part between visible ones, drawn at random, none of them twice. Lines mean and naive: "
    "as for forecasts. "
    "Baselines: last (the visible reading before), interpolation (on the line between the visible readings before and "
    "after)."
)


LEARNED_CAPTION = (
    "Readings after the origin, as for the other variants. Time2Vec: a linear term and sines of the time, all trained "
    "(Kazemi et al. 2019); its unit of time is the longest span of a training window. Convolution: a grouped "
    "convolution of the readings of a window, which reads no time (wav2vec 2.0)."
)


def conditions_of(data: PageData, *, fills_in: bool) -> list[SeriesCondition]:
    """Conditions in which a run has finished, of one task."""
    return [each for each in finished(data) if each.fills_in == fills_in]


def forecasts(data: PageData) -> list[Panel]:
    """Errors of forecasts."""
    return _score_panels(data, "Forecast errors", FORECAST_CAPTION, fills_in=False) or empty_panel("Forecast errors")


def learned_encodings(data: PageData) -> list[Panel]:
    """Errors of forecasts with learned encodings, and of those that they are compared with."""
    title, shown = "Forecast errors of learned encodings", (*BESIDE_LEARNED, *LEARNED)
    rows = [row for row in data.rows if row["scheme"] in shown]
    return _score_panels(data, title, LEARNED_CAPTION, fills_in=False, rows=rows) or empty_panel(title)


def filled_in(data: PageData) -> list[Panel]:
    """Errors of readings that are filled in."""
    title = "Errors of filled-in readings"
    return _score_panels(data, title, FILL_IN_CAPTION, fills_in=True) or empty_panel(title)


def _score_panels(
    data: PageData, title: str, caption: str, *, fills_in: bool, rows: Sequence[Row] | None = None
) -> list[Panel]:
    return [
        score_plots(
            data.rows if rows is None else rows,
            metrics=METRICS,
            condition=each.label,
            held_out=held_out_items(data, each.label),
            lines={"mse": {"mean": 1.0}, "mase": {"naive": 1.0}},
            title=f"{title}: {each.title}",
            caption=caption,
        )
        for each in conditions_of(data, fills_in=fills_in)
    ]


def errors_by_horizon(data: PageData) -> list[Panel]:
    """Errors by number of readings after the origin."""
    panels = []
    for each in conditions_of(data, fills_in=False):
        spec = next(spec for spec in data.specs if spec.condition == each.label)
        marks = horizon_marks(spec.settings["task"]["horizon"])
        for metric, score in METRICS.items():
            panels.append(
                line_plot(
                    _series(data, each.label, {float(mark): f"{metric}_at_{mark}" for mark in marks}, metric),
                    title=f"{score.title} by horizon: {each.title}",
                    x_label="readings after the origin",
                    y_label=score.unit,
                    bounds=(0.0, float("inf")),
                    limits="values",
                    log_x=True,
                    held_out=held_out_items(data, each.label),
                    note="Each origin of the test part has a forecast at each horizon. Steps of time may differ.",
                )
            )
    return panels or empty_panel("Error by horizon")


def learning_curves(data: PageData) -> list[Panel]:
    """Mean squared error on the validation part by step."""
    titles = {each.label: f"Learning curves: {each.title}" for each in finished(data)}
    return [
        validation_curves(data, label, "mse", title=title, y_label=VARIANCES, order=VARIANTS)
        for label, title in titles.items()
    ] or empty_panel("Learning curves")


def _series(data: PageData, label: str, metrics: Mapping[float, str], order_by: str) -> dict[str, dict[float, BySeed]]:
    """Variant to x to seed to value, the lowest mean error first. metrics: x to metric."""
    whole = seeds_by_label(data, order_by, label)
    order = sorted(whole, key=lambda name: (mean(list(whole[name].values())), name))
    by_x = {x: seeds_by_label(data, metric, label) for x, metric in metrics.items()}
    return {name: {x: by_label[name] for x, by_label in by_x.items() if name in by_label} for name in order}


def variant_tables(data: PageData) -> list[Panel]:
    """Scales of time of the training part, and what each variant is told."""
    panels = []
    for each in finished(data):
        specs = [spec for spec in data.specs if spec.condition == each.label]
        scales = scales_of(specs[0].settings)
        labels = [label for label in data.labels(each.label) if label not in BASELINES]
        counts, body = seeds_by_label(data, "parameters", each.label), []
        for label in sorted(labels, key=lambda label: (*VARIANTS, label).index(label)):
            spec = next(spec for spec in specs if spec.variant == label)
            made = msgspec.convert(spec.settings["row"], SeriesVariant)
            parameters = sorted({round(value) for value in counts.get(label, {}).values()})
            trained = " to ".join(f"{value:,}" for value in parameters) or "not run"
            call = scheme_text({"scheme": made.scheme, "options": made.options})
            body.append((label, call, made.view, _periods(made, unit_seconds(made.view, scales)), trained))
        columns = ("Variant", "Scheme", "Positions", "Periods of its frequencies", "Parameters")
        listed = ", ".join(scales.periods) or "none"
        sentences = (
            f"Shortest scale, the fifth percentile of the gaps of the training part: {time_phrase(scales.shortest)}.",
            f"Longest scale, the longest time of a training window: {time_phrase(scales.longest)}.",
            f"Periods of the calendar that the training part can show: {listed}.",
        )
        table = Table("Variants", columns, tuple(body), prose=True)
        panels.append(Panel(f"Scales of time and variants: {each.title}", (Text(sentences), table)))
    return panels or empty_panel("Scales of time and variants")


def _periods(made: SeriesVariant, unit: float) -> str:
    """Periods of the frequencies of a variant in words. unit: that of its times, in seconds."""
    frequencies, written = made.frequencies, made.options.get("frequencies")
    if frequencies is None and written is not None:
        scheduled = isinstance(written, Mapping)
        if scheduled and not {"periods", "from_span"} & {written.get("schedule")}:
            return "those of its schedule"
        frequencies = schedule_frequencies(written).tolist() if scheduled else written
    if frequencies is None:
        return "those of the scheme" if "frequencies" in inspect.signature(find(made.scheme)).parameters else "none"
    lengths = sorted(2 * math.pi / each for each in frequencies)
    texts = [f"{each:.3g} readings" if made.view == "index" else time_phrase(each * unit) for each in lengths]
    return ", ".join(texts)
