"""The panels of the spherical study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from posenc.workbench.report.page import Panel
from posenc.workbench.studies import Request
from posenc.workbench.studies.sc_pe import image_plots, plots, similarity_plots, variants
from posenc.workbench.studies.sc_pe.conditions import CIFAR, LENETS, TRANSFORMER
from posenc.workbench.studies.sc_pe.presets import SCPEPreset
from posenc.workbench.studies.sc_pe.settings import has_cifar
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec
from posenc.workbench.studies.shared.page_data import PageData

NeedsOf = Callable[[Request, SCPEPreset], Needs]
Draw = Callable[[PageData], list[Panel]]


def lenet_conditions(request: Request) -> list[str]:
    """Conditions with a LeNet: only the user's folder, or Fashion-MNIST and, if available, CIFAR-10."""
    return [MAIN, CIFAR] if has_cifar(request) else [MAIN]


def needs_features(request: Request, preset: SCPEPreset) -> Needs:
    """Concatenated encodings; on CIFAR-10 without those that are padded."""
    by_condition = {MAIN: tuple(preset.feature_variants), CIFAR: variants.UNPADDED}
    return {label: by_condition[label] for label in lenet_conditions(request)}


def needs_of(labels: Sequence[str]) -> NeedsOf:
    """These variants with every LeNet."""

    def needs(request: Request, preset: SCPEPreset) -> Needs:
        return {label: tuple(labels) for label in lenet_conditions(request)}

    return needs


def needs_rates(request: Request, preset: SCPEPreset) -> Needs:
    """On CIFAR-10, for which the author's learning rates differ; on other images if CIFAR-10 is not available."""
    return {lenet_conditions(request)[-1]: variants.RATES}


def needs_transformers(request: Request, preset: SCPEPreset) -> Needs:
    """The encodings of the vision transformer."""
    return {TRANSFORMER: tuple(variants.TRANSFORMERS)}


def no_needs(request: Request, preset: SCPEPreset) -> Needs:
    """No run."""
    return {}


def _lenet_panel(about: str, shows: str, needs: NeedsOf, draw: Draw, varies: Sequence[str] = ()) -> PanelSpec:
    """A panel of the LeNets, also of stored conditions whose data is not in the folder of data."""
    return PanelSpec(
        about=about,
        shows=shows,
        needs=needs,
        draw=draw,
        shows_condition=LENETS.__contains__,
        varies=lambda request, preset: varies,
    )


PANELS: Mapping[str, PanelSpec] = {
    "similarity": PanelSpec(
        about="cosine similarity of positions, sinusoidal and spherical",
        shows="Fig. 1 of the note",
        needs=no_needs,
        draw=similarity_plots.similarity,
    ),
    "concatenation": _lenet_panel(
        "accuracy of encodings concatenated with the features, and controls",
        "Figs. 2 and 3 of the note",
        needs_features,
        plots.concatenated,
    ),
    "readout-scale": _lenet_panel(
        "accuracy by the initial scale of the readout",
        "the note's guess on initialization",
        needs_of(variants.INITIAL_SCALES),
        plots.initial_scale,
    ),
    "multiplication": _lenet_panel(
        "accuracy of encodings multiplied with the pixels, and a trained mask",
        "Fig. 4 of the note",
        needs_of(variants.PIXEL_VARIANTS),
        image_plots.pixel_panels,
    ),
    "rates": _lenet_panel(
        "accuracy by the two learning rates of the released code, with and without the encoding",
        "Figs. 2 and 3 of the note on CIFAR-10",
        needs_rates,
        plots.learning_rates,
        varies=("training.lr",),
    ),
    "tokens": PanelSpec(
        about="accuracy of spherical and sinusoidal encodings in a vision transformer",
        shows="Fig. 5 of the note",
        needs=needs_transformers,
        draw=plots.transformers,
    ),
    "variants": PanelSpec(
        about="schemes and sizes of the variants", shows="no published figure", needs=no_needs, draw=plots.variants
    ),
}
