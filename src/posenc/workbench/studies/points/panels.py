"""The panels of the points study."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.points import cloud_plots, plots
from posenc.workbench.studies.points.conditions import SPOT, label_of
from posenc.workbench.studies.points.presets import PointsPreset
from posenc.workbench.studies.points.settings import mesh_of_spot
from posenc.workbench.studies.points.variants import LIERE, RECENT, RECENT_BESIDE, VARIANTS, WITHOUT_CONTROLS
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.own_data import own_plan
from posenc.workbench.studies.shared.page_data import PageData

NO_FIGURE = "no published figure"


def needs_upright(request: Request, preset: PointsPreset) -> Needs:
    """All variants, on clouds that are rotated about the vertical axis; on a user's meshes without the slowest one."""
    own = own_plan(preset, request) is not None
    return {label_of(request): tuple(label for label in VARIANTS if label != LIERE or not own)}


def needs_rotated(request: Request, preset: PointsPreset) -> Needs:
    """The variants that are not controls, on clouds that are rotated in 3-D."""
    return {label_of(request, rotated=True): WITHOUT_CONTROLS}


def needs_recent(request: Request, preset: PointsPreset) -> Needs:
    """Encodings of recent years and those that they are compared with, on upright clouds."""
    return {label_of(request): (*RECENT_BESIDE, *RECENT)}


def needs_spot(request: Request, preset: PointsPreset) -> Needs:
    """The variants that are not controls, on the parts of Spot; nothing without Spot's mesh."""
    return {SPOT: WITHOUT_CONTROLS} if mesh_of_spot(request) else {}


def _upright_panel(about: str, draw: Callable[[PageData], list[Panel]], shows: str = NO_FIGURE) -> PanelSpec:
    return PanelSpec(about=about, shows=shows, needs=needs_upright, draw=draw)


PANELS: Mapping[str, PanelSpec] = {
    "accuracy": _upright_panel("accuracy by encoding, and accuracy within pairs of similar classes", plots.accuracy),
    "points": _upright_panel(
        "accuracy by number of points of a cloud",
        plots.accuracy_by_point_count,
        "arXiv 2406.07049, version 3, point clouds",
    ),
    "invariance": _upright_panel(
        "accuracy and change of the logits after a translation or a rotation of the clouds", plots.motions
    ),
    "rotations": PanelSpec(
        about="accuracy on clouds that are rotated in 3-D, in training too",
        shows=NO_FIGURE,
        needs=needs_rotated,
        draw=plots.rotated_clouds,
    ),
    "spot": PanelSpec(
        about="accuracy on parts of the cow Spot", shows=NO_FIGURE, needs=needs_spot, draw=plots.parts_of_spot
    ),
    "recent": PanelSpec(
        about="accuracy of encodings since 2022, beside rotary encodings, Fourier features and none; moved clouds",
        shows=NO_FIGURE,
        needs=needs_recent,
        draw=plots.recent_encodings,
    ),
    "clouds": _upright_panel("one cloud of each class", cloud_plots.example_clouds),
    "variants": _upright_panel("schemes, features and sizes of the variants", plots.variant_tables),
}
