"""The panels of the grid-cell study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from posenc.workbench.report.page import Panel
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.gridpe import plots, variants
from posenc.workbench.studies.gridpe.conditions import CONDITIONS, labels_of
from posenc.workbench.studies.gridpe.presets import SCALES, GridPEPreset
from posenc.workbench.studies.gridpe.settings import has_photographs
from posenc.workbench.studies.gridpe.variants import Architecture
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec
from posenc.workbench.studies.shared.image_sizes import size_measurements
from posenc.workbench.studies.shared.page_data import PageData

Draw = Callable[[PageData], list[Panel]]


def needs_of(architecture: Architecture, labels: Sequence[str] = ()) -> Callable[[Request, GridPEPreset], Needs]:
    """These variants, or those of the preset, in the conditions of an architecture whose data is available."""

    def needs(request: Request, preset: GridPEPreset) -> Needs:
        chosen = tuple(labels) or preset.variants_of(architecture)
        conditions = [label for label in labels_of(architecture) if label in preset.recipes]
        return {label: chosen for label in conditions if not CONDITIONS[label].photographs or has_photographs(request)}

    return needs


def needs_both(request: Request, preset: GridPEPreset) -> Needs:
    """The variants of the preset in all conditions."""
    return {**needs_of("vit")(request, preset), **needs_of("pvt")(request, preset)}


def no_needs(request: Request, preset: GridPEPreset) -> Needs:
    """No run: the panel shows the runs of the other panels."""
    return {}


def resolution_measurements(
    request: Request, preset: GridPEPreset, store: Store, specs: Sequence[RunSpec]
) -> list[RunSpec]:
    """Runs that measure the trained models of the panel at other image sizes."""
    vits = labels_of("vit")
    trained = [spec for spec in specs if spec.condition in vits and spec.variant in variants.SIZE_VARIANTS]
    return size_measurements(trained, store, SCALES, preset.resized_images)


def _vit_panel(about: str, shows: str, labels: Sequence[str], draw: Draw) -> PanelSpec:
    """A panel of the ViTs, also of stored conditions whose data is not in the folder of data."""
    return PanelSpec(
        about=about,
        shows=shows,
        needs=needs_of("vit", labels),
        draw=draw,
        shows_condition=labels_of("vit").__contains__,
    )


PANELS: Mapping[str, PanelSpec] = {
    "accuracy": _vit_panel(
        "accuracy of a ViT by encoding, as published", "Table 1 of the paper, lower half", (), plots.vit_accuracy
    ),
    "as-released": _vit_panel(
        "accuracy of a ViT by encoding, as released and as published",
        "Table 1 of the paper, lower half",
        variants.RELEASED_AND_PUBLISHED,
        plots.released_accuracy,
    ),
    "pvt": PanelSpec(
        about="accuracy of a PVT by encoding",
        shows="Table 1 of the paper, upper half",
        needs=needs_of("pvt"),
        draw=plots.pvt_accuracy,
        shows_condition=labels_of("pvt").__contains__,
    ),
    "curves": PanelSpec(
        about="learning curves",
        shows="Fig. 4 of the paper",
        needs=needs_both,
        draw=plots.curves,
        shows_condition=CONDITIONS.__contains__,
    ),
    "resolution": PanelSpec(
        about="accuracy by image size",
        shows="the table of the paper's version 3",
        needs=needs_of("vit", variants.SIZE_VARIANTS),
        draw=plots.accuracy_by_size,
        measured=resolution_measurements,
        shows_condition=labels_of("vit").__contains__,
    ),
    "heads": _vit_panel(
        "accuracy by number of attention heads",
        "the ablation of the paper's version 3",
        variants.BY_HEADS,
        plots.accuracy_by_heads,
    ),
    "attention-distance": _vit_panel(
        "attention distance and entropy", "the measurements of the paper's version 3", (), plots.attention_distance
    ),
    "variants": PanelSpec(
        about="schemes and sizes of the variants", shows="no published figure", needs=no_needs, draw=plots.variants
    ),
}
