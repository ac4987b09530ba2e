"""The panels of the study of recordings."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.workbench.studies import Request
from posenc.workbench.studies.recordings import group_plots, plots, rate_plots
from posenc.workbench.studies.recordings.conditions import CONDITIONS
from posenc.workbench.studies.recordings.presets import RecordingsPreset
from posenc.workbench.studies.recordings.training_error import training_errors
from posenc.workbench.studies.recordings.variants import FIRST_ON_OWN_DATA, RATE_VARIANTS, VARIANTS
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec


def needs(request: Request, preset: RecordingsPreset) -> Needs:
    """All variants, with half of the channels hidden in training. Quick trains a few of them on own recordings."""
    if request.preset == "quick" and request.source is not None:
        return {MAIN: FIRST_ON_OWN_DATA}
    return {MAIN: VARIANTS}


def all_needs(request: Request, preset: RecordingsPreset) -> Needs:
    """All variants, with half of the channels hidden in training, on own recordings too."""
    return {MAIN: VARIANTS}


def order_needs(request: Request, preset: RecordingsPreset) -> Needs:
    """The baseline that trains nothing, which puts the recordings into the store."""
    return {MAIN: ("mean",)}


def rate_needs(request: Request, preset: RecordingsPreset) -> Needs:
    """The variants of Figs. A11 to A13, with every share of the channels hidden in training."""
    return dict.fromkeys(CONDITIONS, RATE_VARIANTS)


PANELS: Mapping[str, PanelSpec] = {
    "groups": PanelSpec(
        about="groups of channels, with their stability, and those of the plain correlation matrix",
        shows="none",
        needs=needs,
        draw=group_plots.groups,
    ),
    "errors": PanelSpec(
        about="prediction error on test recordings, with the baselines mean, ridge and nearest",
        shows="arXiv 2406.08272, Fig. 4",
        needs=needs,
        draw=plots.prediction_error,
        measured=training_errors,
    ),
    "modules": PanelSpec(
        about="agreement of learned tables with the given modules, and modules detected in the tables",
        shows="arXiv 2406.08272, Fig. 5C, D",
        needs=needs,
        draw=plots.modules,
    ),
    "maps": PanelSpec(
        about="maps of learned positions, distances, dendrogram",
        shows="arXiv 2406.08272, Fig. 5B",
        needs=needs,
        draw=plots.maps,
    ),
    "curves": PanelSpec(
        about="learning curves", shows="arXiv 2406.08272, Fig. 4C", needs=needs, draw=plots.learning_curves
    ),
    "encodings": PanelSpec(
        about="error and groups of every encoding; quick trains only a few of them on own recordings otherwise",
        shows="arXiv 2406.08272, Figs. 4 and 5",
        needs=all_needs,
        draw=group_plots.groups_by_encoding,
    ),
    "rates": PanelSpec(
        about="prediction error by the share of the channels hidden in training",
        shows="arXiv 2406.08272, Figs. A11 to A13",
        needs=rate_needs,
        draw=rate_plots.error_by_training_rate,
        measured=training_errors,
    ),
    "rate-curves": PanelSpec(
        about="training error by step and by the share of the channels hidden in training",
        shows="arXiv 2406.08272, Figs. A11A, A12A, A13A",
        needs=rate_needs,
        draw=rate_plots.curves_by_training_rate,
    ),
    "rate-modules": PanelSpec(
        about="modularity and segregation by the share of the channels hidden in training",
        shows="arXiv 2406.08272, Figs. A11C, D, A12C, D, A13C, D",
        needs=rate_needs,
        draw=rate_plots.modules_by_training_rate,
    ),
    "order": PanelSpec(
        about="network of each channel in the order in which the model gets the channels; no training",
        shows="arXiv 2406.08272, Fig. 5A",
        needs=order_needs,
        draw=plots.module_order,
    ),
}
