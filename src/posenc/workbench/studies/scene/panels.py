"""The panels of the scene study, and the variants that each needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from posenc.workbench.studies import Request
from posenc.workbench.studies.scene import plots
from posenc.workbench.studies.scene.conditions import (
    DIRECTION_CHANGES,
    NO_DIRECTIONS,
    SAMPLING_CHANGES,
    TORUS,
    UNCHANGED,
    SceneCondition,
    condition,
)
from posenc.workbench.studies.scene.presets import ScenePreset
from posenc.workbench.studies.scene.settings import subject
from posenc.workbench.studies.scene.variants import BY_SIGMA
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec


def encoding_needs(request: Request, preset: ScenePreset) -> Needs:
    """The compared encodings on the scene of the request."""
    return {subject(request): preset.variants}


def direction_needs(request: Request, preset: ScenePreset) -> Needs:
    """multires with and without view directions; for a rendered scene also without highlights."""
    changes = DIRECTION_CHANGES if request.source is None else (UNCHANGED, NO_DIRECTIONS)
    return {each.for_scene(subject(request)).label: ("multires",) for each in changes}


def sampling_needs(request: Request, preset: ScenePreset) -> Needs:
    """multires with each way to place samples on a ray."""
    return {each.for_scene(subject(request)).label: ("multires",) for each in SAMPLING_CHANGES}


def sigma_needs(request: Request, preset: ScenePreset) -> Needs:
    """Gaussian features of several sigmas on the torus."""
    return {TORUS: tuple(BY_SIGMA)}


def _has_change(changes: Sequence[SceneCondition]) -> Callable[[str], bool]:
    """Test for stored labels: True if a label has one of these changes, for any scene."""
    endings = [each.ending for each in changes]
    return lambda label: condition(label).ending in endings


PANELS: Mapping[str, PanelSpec] = {
    "encodings": PanelSpec(
        about="scores of held-out views after the same training time, with a matched parameter count",
        shows="arXiv 2201.05989, Fig. 2",
        needs=encoding_needs,
        draw=plots.encodings,
        shows_condition=_has_change((UNCHANGED,)),
    ),
    "directions": PanelSpec(
        about="PSNR with and without the view direction as an input of the color",
        shows="arXiv 2003.08934, Table 2",
        needs=direction_needs,
        draw=plots.directions,
        shows_condition=_has_change(DIRECTION_CHANGES),
    ),
    "samples": PanelSpec(
        about="PSNR by sampling along rays: occupied cells, importance sampling, even sampling",
        shows="arXiv 2003.08934, section 5.2; arXiv 2201.05989, appendix E",
        needs=sampling_needs,
        draw=plots.samples,
        shows_condition=_has_change(SAMPLING_CHANGES),
    ),
    "sigma": PanelSpec(
        about="PSNR of Gaussian features by sigma, on the torus",
        shows="no published figure",
        needs=sigma_needs,
        draw=plots.sigma,
    ),
}
