"""Panels of the image study, and the variants that each needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit import held_out_plots, plots, shifted_plots, size_plots
from posenc.workbench.studies.image_fit.conditions import (
    FIT,
    HELD_OUT,
    SHIFTED,
    SIZES,
    image_of,
    labels,
    protocol_of,
    same_image,
)
from posenc.workbench.studies.image_fit.presets import ImagePreset
from posenc.workbench.studies.image_fit.scale_selection import SELECTION_PHOTOGRAPHS
from posenc.workbench.studies.image_fit.variants import (
    COMPARED,
    GRIDS,
    INTERPOLATIONS,
    MAPPINGS,
    NEAR_SIGMAS,
    POSENC_SCALES,
    PUBLISHED_SIGMA,
    SIGMA_OF,
)
from posenc.workbench.studies.shared.declarations import Needs, PanelSpec


def every_condition(protocol: str, variants: Sequence[str]) -> Callable[[Request, ImagePreset], Needs]:
    """The same variants in every condition of a protocol."""
    return lambda request, preset: dict.fromkeys(labels(request, preset, protocol), variants)


def has_protocol(*protocols: str) -> Callable[[str], bool]:
    """Test of a condition's label for one of these protocols."""
    return lambda label: protocol_of(label) in protocols


def fit_needs(request: Request, preset: ImagePreset) -> Needs:
    """The compared variants, and the candidate sigmas if sigma is selected on held-out pixels."""
    selects = preset.asks and selection_conditions(request, preset)[0]
    return dict.fromkeys(labels(request, preset, FIT), (*COMPARED, *(NEAR_SIGMAS if selects else ())))


def parameter_needs(request: Request, preset: ImagePreset) -> Needs:
    """The compared variants at smaller parameter counts, and the same variants of the main comparison."""
    conditions = labels(request, preset, SIZES)
    smaller = tuple(f"{label}@{size}" for size in preset.smaller_parameters for label in COMPARED)
    fitted = [same_image(condition, FIT) for condition in conditions]
    return dict.fromkeys(conditions, smaller) | dict.fromkeys(fitted, COMPARED)


def held_out_needs(request: Request, preset: ImagePreset) -> Needs:
    """The mappings. If scales are selected: all scales on the selection photographs, near ones on the others."""
    selected_on, reported = selection_conditions(request, preset)
    if not selected_on:
        return dict.fromkeys(reported, MAPPINGS)
    variants = [label for label in MAPPINGS if label != "posenc"]
    return dict.fromkeys(selected_on, (*SIGMA_OF, *POSENC_SCALES)) | dict.fromkeys(
        reported, (*variants, *POSENC_SCALES, *NEAR_SIGMAS)
    )


def sigma_needs(request: Request, preset: ImagePreset) -> Needs:
    """Every sigma on the selection photographs, or on all images if there are none."""
    selected_on, reported = selection_conditions(request, preset)
    return dict.fromkeys(selected_on or reported, tuple(SIGMA_OF))


def selection_conditions(request: Request, preset: ImagePreset) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Conditions that scales are selected on, and conditions that are reported.

    If only selection photographs are available, all conditions are reported.
    """
    every = labels(request, preset, HELD_OUT)
    selected_on = tuple(condition for condition in every if image_of(condition) in SELECTION_PHOTOGRAPHS)
    reported = tuple(condition for condition in every if condition not in selected_on)
    return (selected_on, reported) if reported else ((), every)


def size_needs(request: Request, preset: ImagePreset) -> Needs:
    """The grids at every parameter count of the sweep."""
    variants = tuple(f"{name}@{size}" for name in GRIDS for size in preset.sweep_parameters)
    return every_condition(SIZES, variants)(request, preset)


def _varies_parameters(request: Request, preset: ImagePreset) -> Collection[str]:
    """The parameter count, which both sweeps vary."""
    return ("parameters",)


PANELS = {
    "fit": PanelSpec(
        about="PSNR of fields with matched parameter counts, fitted to every pixel for the same time",
        shows="arXiv 2201.05989, section 5.1",
        needs=fit_needs,
        draw=plots.fit,
        shows_condition=has_protocol(FIT),
    ),
    "parameters": PanelSpec(
        about="PSNR by parameter count for each encoding, after the same training time",
        shows="arXiv 2201.05989, Fig. 2 for images",
        needs=parameter_needs,
        draw=size_plots.parameters,
        varies=_varies_parameters,
        shows_condition=has_protocol(SIZES, FIT),
    ),
    "held-out": PanelSpec(
        about="PSNR on held-out pixels: even pixels for training, odd pixels for testing",
        shows="arXiv 2006.10739, Table 1, 2D image",
        needs=held_out_needs,
        draw=held_out_plots.held_out,
        shows_condition=has_protocol(HELD_OUT),
    ),
    "sigma": PanelSpec(
        about="PSNR on held-out pixels by sigma of the Gaussian features",
        shows="arXiv 2006.10739, Fig. 3",
        needs=sigma_needs,
        draw=held_out_plots.sigma,
        shows_condition=has_protocol(HELD_OUT),
    ),
    "sizes": PanelSpec(
        about="PSNR by parameter count for dense, hashed and multi-resolution grids, and hash collisions",
        shows="arXiv 2201.05989, Fig. 4 in two dimensions",
        needs=size_needs,
        draw=size_plots.crossover,
        varies=_varies_parameters,
        shows_condition=has_protocol(SIZES),
    ),
    "interpolation": PanelSpec(
        about="PSNR with nearest-vertex, linear and smoothstep interpolation",
        shows="no published figure",
        needs=every_condition(SIZES, INTERPOLATIONS),
        draw=size_plots.interpolation,
        shows_condition=has_protocol(SIZES),
    ),
    "shifted": PanelSpec(
        about="PSNR with every position shifted far away",
        shows="no published figure",
        needs=every_condition(SHIFTED, (PUBLISHED_SIGMA, "positional", "none")),
        draw=shifted_plots.shifted,
        shows_condition=has_protocol(SHIFTED, FIT),
    ),
}
