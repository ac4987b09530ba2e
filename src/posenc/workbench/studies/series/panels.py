"""The panels of the series study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.series import example_plots, plots
from posenc.workbench.studies.series.conditions import NO_PERIODS, label_of
from posenc.workbench.studies.series.presets import SeriesPreset
from posenc.workbench.studies.series.variants import BESIDE_LEARNED, FILL_IN_VARIANTS, LEARNED, VARIANTS
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.series import FILLED_IN, FORECASTS

NO_FIGURE = "no published figure"
WITHOUT_PERIODS = ("none", "index-rows", "time-rows", "time-rotation", "time-bias", "calendar-rows", "both-rows")


def needs_forecasts(request: Request, preset: SeriesPreset) -> Needs:
    """All variants on the main series; on those without periods fewer."""
    main = {label_of(request): (*VARIANTS, *FORECASTS)}
    return main if request.source is not None else main | {NO_PERIODS: (*WITHOUT_PERIODS, *FORECASTS)}


def needs_learned(request: Request, preset: SeriesPreset) -> Needs:
    """Learned encodings and those that they are compared with, on the main series."""
    return {label_of(request): (*BESIDE_LEARNED, *LEARNED)}


def needs_filled_in(request: Request, preset: SeriesPreset) -> Needs:
    """Some variants that fill in readings of the main series."""
    return {label_of(request, fills_in=True): (*FILL_IN_VARIANTS, *FILLED_IN)}


def _panel(about: str, draw: Callable[[PageData], list[Panel]]) -> PanelSpec:
    return PanelSpec(about=about, shows=NO_FIGURE, needs=needs_forecasts, draw=draw)


PANELS: Mapping[str, PanelSpec] = {
    "forecasts": _panel("errors of forecasts by variant", plots.forecasts),
    "horizons": _panel("errors of forecasts by horizon", plots.errors_by_horizon),
    "fill-in": PanelSpec(
        about="errors of hidden readings between visible ones",
        shows=NO_FIGURE,
        needs=needs_filled_in,
        draw=plots.filled_in,
    ),
    "learned": PanelSpec(
        about="errors of forecasts with Time2Vec and with a convolution, beside rows of sines and no encoding",
        shows=NO_FIGURE,
        needs=needs_learned,
        draw=plots.learned_encodings,
    ),
    "curves": _panel("learning curves on the validation part", plots.learning_curves),
    "examples": _panel("some windows with their predictions", example_plots.examples),
    "variants": _panel("scales of time, and what each variant is told", plots.variant_tables),
}
