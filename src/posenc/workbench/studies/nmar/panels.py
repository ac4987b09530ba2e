"""The panels of the study of simulated networks."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.workbench.studies import Request
from posenc.workbench.studies.nmar import network_plots, plots
from posenc.workbench.studies.nmar.presets import NmarPreset
from posenc.workbench.studies.nmar.variants import VARIANTS
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec

FIGURE = "arXiv 2406.08272, Fig. A15"


def needs(request: Request, preset: NmarPreset) -> Needs:
    """All variants."""
    return {MAIN: VARIANTS}


def no_needs(request: Request, preset: NmarPreset) -> Needs:
    """No run."""
    return {}


PANELS: Mapping[str, PanelSpec] = {
    "modules": PanelSpec(
        about="agreement of learned tables with the modules, with a permutation null",
        shows=f"{FIGURE}D",
        needs=needs,
        draw=plots.modules,
    ),
    "errors": PanelSpec(
        about="prediction error, also relative to the best linear prediction",
        shows="arXiv 2406.08272, appendix A.4",
        needs=needs,
        draw=plots.prediction_error,
    ),
    "maps": PanelSpec(about="maps of learned positions", shows=f"{FIGURE}F", needs=needs, draw=plots.maps),
    "curves": PanelSpec(about="learning curves", shows="no published figure", needs=needs, draw=plots.learning_curves),
    "network": PanelSpec(
        about="graph of the simulated network, series of three nodes, and correlations; no run",
        shows=f"{FIGURE}A, B, E",
        needs=no_needs,
        draw=network_plots.network,
    ),
}
