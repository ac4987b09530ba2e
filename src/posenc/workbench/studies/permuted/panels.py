"""The panels of the study of permuted images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.permuted import plots
from posenc.workbench.studies.permuted.presets import PermutedPreset
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData


def needs(request: Request, preset: PermutedPreset) -> Needs:
    """The variants of the preset."""
    return {MAIN: preset.variants}


def _panel(about: str, draw: Callable[[PageData], list[Panel]]) -> PanelSpec:
    return PanelSpec(about=about, shows="no published figure", needs=needs, draw=draw)


PANELS: Mapping[str, PanelSpec] = {
    "neighbors": _panel("neighbor recall and Procrustes disparity of learned tables", plots.neighbor_recall),
    "maps": _panel("layouts of learned tables by Isomap", plots.layouts),
    "errors": _panel("prediction error, with baselines", plots.prediction_error),
    "curves": _panel("learning curves", plots.learning_curves),
}
