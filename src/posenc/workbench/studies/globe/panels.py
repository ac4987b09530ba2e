"""The panels of the globe study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.globe import map_plots, plots
from posenc.workbench.studies.globe.conditions import CONDITIONS
from posenc.workbench.studies.globe.presets import GlobePreset
from posenc.workbench.studies.globe.settings import has_raster
from posenc.workbench.studies.globe.variants import VARIANTS
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData


def needs(request: Request, preset: GlobePreset) -> Needs:
    """All variants, in every condition whose data is available."""
    return {label: VARIANTS for label, each in CONDITIONS.items() if not each.raster or has_raster(request)}


def _panel(about: str, draw: Callable[[PageData], list[Panel]]) -> PanelSpec:
    """A panel of all conditions, also of stored ones whose data is not in the folder of data."""
    return PanelSpec(
        about=about,
        shows="no published figure",
        needs=needs,
        draw=draw,
        shows_condition=lambda label: label in CONDITIONS,
    )


PANELS: Mapping[str, PanelSpec] = {
    "scores": _panel("scores over the globe, near the poles and near the date line", plots.scores_by_region),
    "latitude": _panel("error by latitude", plots.error_by_latitude),
    "maps": _panel("maps of predictions and errors", map_plots.prediction_maps),
    "date-line": _panel("maps of the strip around the date line", map_plots.date_line_maps),
    "poles": _panel("maps of both poles", map_plots.polar_maps),
    "variants": _panel("schemes and sizes of the encodings", plots.variant_table),
}
