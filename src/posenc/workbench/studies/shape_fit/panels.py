"""Panels of the shape study: the variants that each needs in each condition."""

from __future__ import annotations

from collections.abc import Callable

from posenc.workbench.studies import Request
from posenc.workbench.studies.shape_fit import plots, variants
from posenc.workbench.studies.shape_fit.conditions import EIKONAL, NORMALS, OCCUPANCY
from posenc.workbench.studies.shape_fit.presets import ShapePreset
from posenc.workbench.studies.shared.declarations import MAIN, Needs, PanelSpec


def fixed_needs(needs: Needs) -> Callable[[Request, ShapePreset], Needs]:
    """Needs that depend on neither request nor preset."""
    return lambda request, preset: needs


def with_and_without_terms(request: Request, preset: ShapePreset) -> Needs:
    """The same variants with and without the eikonal term; at longer presets SIREN and the normals too."""
    labels = ("siren", *variants.EIKONAL_VARIANTS) if preset.asks else variants.EIKONAL_VARIANTS
    return dict.fromkeys((MAIN, EIKONAL, NORMALS) if preset.asks else (MAIN, EIKONAL), labels)


PANELS = {
    "fit": PanelSpec(
        about="surface error of signed distance fields with matched parameter counts, after the same number of steps",
        shows="arXiv 2201.05989, section 5.2, on a CPU",
        needs=fixed_needs({MAIN: variants.FIT}),
        draw=plots.fit,
    ),
    "lattices": PanelSpec(
        about="surface error of K-Planes, TensoRF and a permutohedral grid, beside cubic grids with as many parameters",
        shows="no published figure",
        needs=fixed_needs({MAIN: variants.LATTICES}),
        draw=plots.lattices,
    ),
    "eikonal": PanelSpec(
        about="gradient norm and surface error with and without the eikonal term, for linear and smooth interpolation",
        shows="no published figure",
        needs=with_and_without_terms,
        draw=plots.eikonal,
    ),
    "occupancy": PanelSpec(
        about="surface error of occupancy fields; also for meshes that are not watertight",
        shows="arXiv 2006.10739, Table 1, 3D shape",
        needs=fixed_needs({OCCUPANCY: variants.OCCUPANCY}),
        draw=plots.occupancy,
    ),
    "sigma": PanelSpec(
        about="Chamfer distance by sigma of the Gaussian features",
        shows="arXiv 2006.10739, Fig. 3, for a shape",
        needs=fixed_needs({MAIN: tuple(variants.SIGMA_OF)}),
        draw=plots.sigma,
    ),
}
