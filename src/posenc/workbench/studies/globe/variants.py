"""The encodings of the globe study: a scheme on one view of the places, and the network that its budget leaves.

    none | fourier | space2vec-grid | space2vec-theory | hash | hash-wrap     longitude and latitude as on a plane
    geoclip                                                                   a map that keeps areas, at three scales
    xyz | fourier-xyz | hash-xyz                                              the unit vector
    sphere-c | sphere-c-plus | sphere-m | sphere-m-plus | sphere-dfs          Sphere2Vec
    sphere-c-plus-whole                                                       with whole 1/lambda, so without a seam
    harmonics                                                                 spherical harmonics up to degree 7, or 15
    sc-pe | sc-shear | sc-torus                                               spherical codes of the pixels of a map

An encoding has about 64 channels at detail 1, unless its definition fixes their number. Finer harmonics need more
channels. The network has two hidden layers, as wide as the budget allows. A variant can also be any scheme of the
catalog as text, such as ``SphereC(scales=4)``; a scheme with three axes reads the unit vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import torch

from posenc.kernels.grid_levels import growth
from posenc.lookup import scheme_text
from posenc.lookup.scheme_reference import split_view
from posenc.models.field import FieldConfig, largest_size_within, network_size, no_embedding
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.field_variants import FieldVariant, refuse_without_embedding, with_channels
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.tasks.globe import MAP_SIDE, views

View = Literal["lonlat", "xyz", "picture"]
VIEWS = (
    PositionView("lonlat", 2, "longitude and latitude in radians"),
    PositionView("xyz", 3, "unit vector of a place"),
    PositionView("picture", 2, "row and column on a map of 181 x 181 pixels"),
)
"""Views of a place. Without a name a scheme reads the first that fits."""
PLANAR = ("none", "fourier", "space2vec-grid", "space2vec-theory", "hash", "hash-wrap", "geoclip")
SPHERICAL = (
    "xyz",
    "fourier-xyz",
    "hash-xyz",
    "sphere-c",
    "sphere-c-plus",
    "sphere-c-plus-whole",
    "sphere-m",
    "sphere-m-plus",
    "sphere-dfs",
    "harmonics",
)
OCTANT = ("sc-pe", "sc-shear", "sc-torus")
VARIANTS = (*PLANAR, *SPHERICAL, *OCTANT)
KINDS = {"plane": PLANAR, "sphere": SPHERICAL, "octant pixels": OCTANT}
"""Geometry that encodings were designed for, and these encodings."""

PLACES = (torch.tensor([-180.0, 0.0, 90.0, 179.0]), torch.tensor([-90.0, 0.0, 45.0, 90.0]))
"""Longitudes and latitudes at which a scheme is tried."""
LEVELS, COARSEST, FINEST = 8, 4, 32
"""Hash grid at detail 1: number of levels, and cells between the poles of the coarsest and finest level.

There are twice as many cells around the equator; in xyz there are as many along each axis."""
DEGREE = 7
"""Highest degree of the spherical harmonics at detail 1: 64 channels, and 256 at detail 2."""
SIGMA, R_MIN = 0.5, 0.1
"""At detail 1: Fourier features in cycles per radian, and the shortest lambda in radians."""
GEOCLIP = {"dim": 64, "features": 64, "hidden": 16}
"""Widths of GeoCLIP, whose own have 9.4 million parameters."""


class GlobeEncoding(msgspec.Struct, frozen=True, kw_only=True):
    """An encoding with its network, and the view of a place that it reads."""

    field: FieldVariant
    view: View


def drawn(labels: Sequence[str], preferred: Sequence[str]) -> list[str]:
    """Encodings drawn where as many as the preferred have room: all of a few, else the user's own first."""
    order = [*(each for each in preferred if each in labels), *(each for each in labels if each not in preferred)]
    if len(order) > len(preferred):
        order.sort(key=lambda label: 0 if label not in VARIANTS else 1 if label in preferred else 2)
    return order[: len(preferred)]


def variant(label: str, *, outputs: int, parameters: int, detail: float) -> GlobeEncoding:
    """The encoding of a label with its network.

    Args:
        label: Label of a variant, or a scheme as text, alone or with a view, as ``FourierFeatures@xyz``.
        outputs: Outputs of the network.
        parameters: Trained parameters, at most.
        detail: Factor on the finest detail of every encoding that has one.

    Returns:
        The encoding with its network.

    Raises:
        ValueError: An unknown label, with the nearest name; or the budget is too small.
    """
    by_label, (text, asked) = _variants_by_label(detail, parameters), split_view(label)
    position_views.refuse_view(asked, VIEWS)
    if text.lower() in by_label:
        scheme, view, options = by_label[text.lower()]
    else:
        specification = with_channels(scheme_text.parse_variant(text, label, VARIANTS))
        scheme, options = specification.scheme, specification.options
        asked = view = asked or _view_of(specification)
    view = asked or view
    try:
        axes = 3 if view == "xyz" else 2
        refuse_without_embedding(scheme_text.Specification(scheme, options))
        network = _network(scheme_text.Specification(scheme, options), axes, outputs, parameters)
        if asked:
            places = {asked: views(*PLACES)[asked]}
            position_views.choose(scheme_text.Specification(scheme, options), {}, places, VIEWS, asked)
        encoding = GlobeEncoding(
            field=FieldVariant(scheme=scheme, axes=axes, options=options, network=network),
            view=view,  # type: ignore[arg-type]  # one of VIEWS
        )
        with torch.device("meta"):
            encoding.field.field()
    except ValueError as error:
        raise ValueError(f"the encoding {label!r} cannot be built: {error}") from None
    return encoding


def _view_of(scheme: scheme_text.Specification) -> str:
    """View of a scheme as text, by its axes and the positions that it can read; the first if it fits none."""
    if scheme_text.axes_of(scheme) == 3:
        return "xyz"
    places = views(*PLACES)
    for view in VIEWS:
        try:
            return position_views.choose(scheme, {}, {view.name: places[view.name]}, VIEWS, view.name)
        except ValueError:
            continue
    return VIEWS[0].name


def _network(scheme: scheme_text.Specification, axes: int, outputs: int, parameters: int) -> FieldConfig:
    with torch.device("meta"):  # A size of any table can be counted without memory for it.
        built = scheme_text.build(scheme, {"axes": axes})
    if "embed" not in built.claims.sites:
        raise ValueError(no_embedding(scheme.scheme, built.claims.sites))
    if built.claims.axes not in (None, axes):
        read = f"{built.claims.axes} {'axis' if built.claims.axes == 1 else 'axes'}"
        raise ValueError(
            f"it reads {read}, and a place has 2, or 3 as a vector. Write axes=3 or 2. {position_views.listed(VIEWS)}"
        )
    own = sum(p.numel() for p in built.parameters())

    def count(width: int) -> int:
        return own + network_size(built.out_dim, FieldConfig(outputs=outputs, width=width))

    return FieldConfig(outputs=outputs, width=largest_size_within(parameters, count))


def _variants_by_label(detail: float, parameters: int) -> dict[str, tuple[str, View, dict[str, Any]]]:
    """Label to scheme, view and options."""
    sigma, short = SIGMA * detail, {"r_min": R_MIN / detail, "r_max": 1.0}
    finest = max(COARSEST + 1, round(FINEST * detail))
    # The rows of all tables take about half the budget.
    grids = {"table_size": 2 ** ((parameters // 2 // (2 * LEVELS)).bit_length() - 1), "features": 2}
    cells = growth(COARSEST, finest, LEVELS)
    plane = {"axes": 2, "resolutions": [[2 * n, n] for n in cells], **grids}
    low, high = [-math.pi, -math.pi / 2], [math.pi, math.pi / 2]
    # The paper's ratio of 16 between scales. A unit of the map is pi radians of longitude at the equator.
    scales = [float(f"{math.pi * sigma / 16**step:.9g}") for step in (2, 1, 0)]
    # 1, 2, 4, .. waves around the globe, up to the power of two nearest to the finest detail of the others.
    octaves = max(1, round(math.log2(detail / R_MIN)))
    return {
        "none": ("Coordinates", "lonlat", {"axes": 2}),
        "fourier": ("FourierFeatures", "lonlat", {"dim": 64, "axes": 2, "sigma": sigma}),
        "space2vec-grid": ("Space2VecGrid", "lonlat", {"scales": 16, **short}),
        "space2vec-theory": ("Space2VecTheory", "lonlat", {"scales": 10, **short}),
        "hash": ("MultiResolutionGrid", "lonlat", {**plane, "domain": [low, high, "clamp"]}),
        "hash-wrap": ("MultiResolutionGrid", "lonlat", {**plane, "domain": [low, high, ["wrap", "clamp"]]}),
        "geoclip": ("GeoCLIP", "lonlat", {**GEOCLIP, "sigma": scales}),
        "xyz": ("Coordinates", "xyz", {"axes": 3}),
        "fourier-xyz": ("FourierFeatures", "xyz", {"dim": 64, "axes": 3, "sigma": sigma}),
        "hash-xyz": (
            "MultiResolutionGrid",
            "xyz",
            {"axes": 3, "resolutions": list(cells), **grids, "domain": [-1, 1, "clamp"]},
        ),
        "sphere-c": ("SphereC", "lonlat", {"scales": 16, **short}),
        "sphere-c-plus": ("SphereCPlus", "lonlat", {"scales": 10, **short}),
        "sphere-c-plus-whole": ("SphereCPlus", "lonlat", {"scales": octaves + 1, "r_min": 2.0**-octaves, "r_max": 1.0}),
        "sphere-m": ("SphereM", "lonlat", {"scales": 12, **short}),
        "sphere-m-plus": ("SphereMPlus", "lonlat", {"scales": 8, **short}),
        "sphere-dfs": ("SphereDFS", "lonlat", {"scales": 4, **short}),
        "harmonics": ("SphericalHarmonics", "lonlat", {"degree": max(0, round((DEGREE + 1) * detail) - 1)}),
        "sc-pe": ("SCPE", "picture", {"n": MAP_SIDE}),
        "sc-shear": ("SCShear", "picture", {"n": MAP_SIDE}),
        "sc-torus": ("SCTorus", "picture", {"n": MAP_SIDE}),
    }
