"""The panels of the places study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.places import map_plots, plots
from posenc.workbench.studies.places.conditions import SHARES, label_of
from posenc.workbench.studies.places.presets import PlacesPreset
from posenc.workbench.studies.places.variants import (
    BASELINES,
    PROCESS,
    USUAL,
    VARIANTS,
    WITH_FEWER_ROWS,
    WITH_FURTHER_AXES,
)
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData

NO_FIGURE = "no published figure"


def _splits(request: Request, variants: tuple[str, ...]) -> Needs:
    """Variants with each split; that by time if a column of times is named."""
    time, coordinates = request.reading.get("time"), str(request.reading.get("coordinates") or "")
    splits = ("random", "blocks", "time") if time else ("random", "blocks")
    networks = any(name in variants for name in USUAL)
    mixed = WITH_FURTHER_AXES if networks and (time or coordinates.count(",") > 1) else ()
    return {label_of(request, split): (*mixed, *variants) for split in splits}


def needs_main(request: Request, preset: PlacesPreset) -> Needs:
    """The usual variants and all baselines with each split."""
    return _splits(request, (*USUAL, *BASELINES))


def needs_all(request: Request, preset: PlacesPreset) -> Needs:
    """All variants and all baselines with each split."""
    return _splits(request, (*VARIANTS, *BASELINES))


def needs_intervals(request: Request, preset: PlacesPreset) -> Needs:
    """The baseline that gives intervals, with each split."""
    return _splits(request, (PROCESS,))


def needs_rows(request: Request, preset: PlacesPreset) -> Needs:
    """Some variants with all rows and with fewer, by the random split."""
    return {label_of(request, "random", divisor): WITH_FEWER_ROWS for divisor in (1, *SHARES)}


def _panel(
    about: str,
    draw: Callable[[PageData], list[Panel]],
    needs: Callable[[Request, PlacesPreset], Needs] = needs_main,
    shows: str = NO_FIGURE,
) -> PanelSpec:
    return PanelSpec(about=about, shows=shows, needs=needs, draw=draw)


def all_variants(data: PageData) -> list[Panel]:
    """Scheme, view and parameter count of each network of the study."""
    return plots.variant_tables(data, "All variants")


PANELS: Mapping[str, PanelSpec] = {
    "scores": _panel("R2 or accuracy by variant, with each split", plots.scores),
    "gap": _panel("scores at random, by blocks and by time side by side", plots.split_gaps),
    "maps": _panel("maps of the target, of predictions and of residuals", map_plots.maps),
    "intervals": _panel("coverage of the prediction intervals of kriging", plots.interval_coverage, needs_intervals),
    "rows": _panel("scores by number of training rows", plots.scores_by_rows, needs_rows),
    "time": _panel("processor time to train and to predict", plots.times),
    "curves": _panel("learning curves on the validation part", plots.learning_curves),
    "variants": _panel("schemes, views and sizes of the variants", plots.variant_tables),
    "all-variants": _panel("the variants that the other panels leave out too", all_variants, needs_all),
}
