"""The panels of the graphs study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.graphs import graph_plots, plots
from posenc.workbench.studies.graphs.conditions import DISTANCES, label_of
from posenc.workbench.studies.graphs.presets import GraphsPreset
from posenc.workbench.studies.graphs.variants import BASELINES, VARIANTS
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData

NO_FIGURE = "no published figure"


def needs_main(request: Request, preset: GraphsPreset) -> Needs:
    """All variants and baselines on the user's graphs, or on the skip-link graphs."""
    return {label_of(request): (*VARIANTS, *BASELINES)}


def needs_distances(request: Request, preset: GraphsPreset) -> Needs:
    """All variants and baselines on graphs with distances; nothing beside the user's graphs."""
    return {} if request.source is not None else {DISTANCES: (*VARIANTS, *BASELINES)}


def _panel(
    about: str,
    draw: Callable[[PageData], list[Panel]],
    needs: Callable[[Request, GraphsPreset], Needs] = needs_main,
    shows: str = NO_FIGURE,
) -> PanelSpec:
    return PanelSpec(about=about, shows=shows, needs=needs, draw=draw)


PANELS: Mapping[str, PanelSpec] = {
    "scores": _panel("accuracy or error by variant", plots.scores, shows="arXiv 1903.02541, skip-link graphs"),
    "distances": _panel("errors of distances to a marked node", plots.distance_errors, needs_distances),
    "sizes": _panel("scores by number of nodes of a graph", plots.scores_by_size),
    "curves": _panel("learning curves on the validation part", plots.learning_curves),
    "drawings": _panel("some graphs, with coordinates of the nodes as colors", graph_plots.drawings),
    "variants": _panel("schemes, views and sizes of the variants", plots.variant_tables),
}
