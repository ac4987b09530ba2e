"""Variants of the points study: a scheme, the view in which it reads coordinates, and the features of a token.

    blind                              no information on the cloud: all tokens are equal
    nope                               the shape of each point's neighborhood, which no motion of the cloud changes
    fourier | rope-axial | rope-mixed | gridpe | liere | distance     that shape, and a scheme that reads coordinates
    xyz                                that shape and the coordinates as features, no scheme
    gridpe + xyz | rope-axial + xyz    that shape and the coordinates as features, and a scheme that reads coordinates
    gridpe-fixed-places                that shape, and GridPE at positions that are the same for all clouds
    string | k-planes | tensorf | permutohedral        that shape, and a scheme of recent years

Any scheme of the catalogue as text is a variant too, such as ``LieRE(block=2)``; `` + xyz`` after it adds coordinates
to the features. Rotary schemes read coordinates in cells: a cloud is 16 cells wide, as an image has 16 patches. Fourier
features, LieRE and trained tables of features read them in radii of the cloud.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from torch import Tensor

from posenc.lookup import scheme_text
from posenc.lookup.scheme_reference import split_view
from posenc.models.point_cloud import PointClassifier, PointsConfig
from posenc.positions import Positions
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.studies.shared.written_schemes import named_like
from posenc.workbench.tasks.points import (
    CELLS_PER_RADIUS,
    FEATURE_CHANNELS,
    CloudSample,
    Features,
    View,
    token_features,
    token_positions,
)

VIEWS = (
    PositionView("cells", 3, "coordinates in sixteenths of the width of a cloud"),
    PositionView("radii", 3, "coordinates in radii of the cloud"),
    PositionView("fixed", 3, "the same places for all clouds"),
)
"""Views of the positions. Without a name a scheme reads the first."""
WITH_XYZ = " + xyz"
"""Ending of a variant whose features contain the coordinates."""
SIGMA = 0.5
"""Standard deviation of the frequencies of Fourier features, in cycles per radius."""
EXTENT = 2 * CELLS_PER_RADIUS
"""Longest wavelength of GridPE in cells: the width of a cloud."""
GROUP, RATIO, SHORTEST = 8, math.exp(1 / 3), 4.0
"""GridPE on three axes: channels of a group of four waves, ratio of wavelengths, least shortest wavelength in cells."""
FIXED_PLACES = "gridpe-fixed-places"
LIERE = "liere"
"""A step takes three times as long as with other variants, so only the upright condition has it. Its control is
MixedRoPE, which has blocks of two channels."""
WITHOUT_CONTROLS = ("blind", "nope", "xyz", "fourier", "rope-axial", "rope-mixed", "gridpe", "distance")
SCHEME_AND_XYZ = (f"rope-axial{WITH_XYZ}", f"gridpe{WITH_XYZ}")
VARIANTS = (*WITHOUT_CONTROLS, *SCHEME_AND_XYZ, FIXED_PLACES, LIERE)
RECENT = ("string", "k-planes", "tensorf", "permutohedral")
"""Encodings of 2022 and later that read three real axes. LieRE, and DAPE on the bias of distances, are not among them:
a run of the preset quick takes 135 and 201 seconds of one core with these, and 22 to 41 with the others."""
RECENT_BESIDE = ("nope", "fourier", "rope-axial", "rope-mixed")
"""Variants that the recent ones are compared with."""
PLANE_RESOLUTIONS, PLANE_FEATURES = (8, 16), 16
"""Cells of the planes of K-Planes across a cloud, and features of a vertex."""
FACTOR_RESOLUTION, FACTOR_COMPONENTS = 16, 16
LATTICE_SCALES, LATTICE_FEATURES, LATTICE_ROWS = (1.0, 0.5, 0.25, 0.125), 4, 1024
"""Sizes of cells of the permutohedral levels in radii, and their tables: like those of the planes and the factors, they
have some 16,000 parameters."""
ROTARY = ("rope-axial", "rope-mixed", "gridpe")
"""Rotary variants whose logits depend on differences of positions alone."""


class PointsVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, the features of a token, and the position view. Field names are stored."""

    scheme: str
    options: dict[str, Any]
    features: Features
    view: View

    def model(self, config: PointsConfig) -> PointClassifier:
        """The untrained model. Raises ValueError if the scheme does not fit it."""
        chosen = scheme_text.Specification(self.scheme, self.options)
        schemes = scheme_text.per_layer(chosen, config.scheme_arguments())
        first = schemes(0)  # later layers read no rows, so a scheme of rows alone is built once
        return PointClassifier(config, (lambda layer: first) if first.claims.sites == {"embed"} else schemes)

    def tokens(self, sample: CloudSample) -> tuple[Tensor, Positions]:
        """Features and positions of the points of clouds, which the model reads."""
        features = token_features(sample.points, self.features, sample.present, sample.attributes)
        return features, token_positions(sample.points, self.view, sample.present)


def variant(label: str, config: PointsConfig, attributes: int = 0) -> tuple[PointsVariant, PointsConfig]:
    """The variant of a label, and the configuration of the model with as many channels as its features have.

    Args:
        label: One of the labels above, or a scheme as text, alone or with a view, as ``GridPE@radii``.
        config: Sizes of the model.
        attributes: Number of features of a point beside its coordinates, such as a normal. Every variant with features
            has them too.

    Returns:
        The variant and the configuration.

    Raises:
        ValueError: The label is unknown (the message names the nearest one), or the scheme does not read three real
            axes.
    """
    name, view = split_view(label.removesuffix(WITH_XYZ))
    position_views.refuse_view(view, VIEWS)
    by_name = _by_name(config)
    features: Features = "xyz" if label.endswith(WITH_XYZ) else "shape"
    if name.lower() in by_name:
        chosen = by_name[name.lower()]
        chosen = msgspec.structs.replace(chosen, features="xyz") if features == "xyz" else chosen
    else:
        parsed = scheme_text.parse_variant(name, label, (*VARIANTS, *RECENT))
        texts = {known: scheme_text.Specification(each.scheme, each.options) for known, each in by_name.items()}
        like = named_like(parsed, texts)  # its view: LieRE reads radii, rotary schemes read cells
        own: View = by_name[like].view if like else "cells"
        chosen = PointsVariant(scheme=parsed.scheme, options=parsed.options, features=features, view=own)
    chosen = msgspec.structs.replace(chosen, **({"view": view} if view else {}))
    channels = FEATURE_CHANNELS[chosen.features] + (0 if chosen.features == "none" else attributes)
    config = msgspec.structs.replace(config, channels=channels)
    try:
        _refuse_unfit(chosen.model(config))
    except ValueError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    return chosen, config


def _refuse_unfit(model: PointClassifier) -> None:
    schemes: list[Any] = list(model.schemes)
    for scheme in schemes:
        position_views.refuse_graphs(scheme)
    for claims in (scheme.claims for scheme in schemes):
        if claims.axes not in (None, 3):
            count = f"{claims.axes} {'axis' if claims.axes == 1 else 'axes'}"
            listed = position_views.listed(VIEWS)
            raise ValueError(f"it reads {count}, and a point has 3. Write axes=3 if it can. {listed}")
        if claims.range is not None or "mix" in claims.sites:
            raise ValueError("points have real coordinates, and it reads the rows of a table or the cells of a grid.")


def _by_name(config: PointsConfig) -> dict[str, PointsVariant]:
    """Label in lower case to its variant."""
    groups = config.dim // config.heads // GROUP
    # The longest wave spans the cloud; the number of groups in a head then gives the shortest.
    shortest = max(SHORTEST, EXTENT / RATIO ** (groups - 1) * (1 + 1e-9))
    grid = {"axes": 3, "extent": EXTENT, "shortest": shortest}
    fourier = {"dim": 64, "axes": 3, "sigma": SIGMA}
    return {
        "blind": PointsVariant(scheme="NoPE", options={}, features="none", view="radii"),
        "nope": PointsVariant(scheme="NoPE", options={}, features="shape", view="radii"),
        "xyz": PointsVariant(scheme="NoPE", options={}, features="xyz", view="radii"),
        "fourier": PointsVariant(scheme="FourierFeatures", options=fourier, features="shape", view="radii"),
        "rope-axial": PointsVariant(scheme="AxialRoPE", options={"axes": 3}, features="shape", view="cells"),
        "rope-mixed": PointsVariant(scheme="MixedRoPE", options={"axes": 3}, features="shape", view="cells"),
        "gridpe": PointsVariant(scheme="GridPE", options=grid, features="shape", view="cells"),
        FIXED_PLACES: PointsVariant(scheme="GridPE", options=grid, features="shape", view="fixed"),
        LIERE: PointsVariant(scheme="LieRE", options={"axes": 3, "block": 4}, features="shape", view="radii"),
        "distance": PointsVariant(scheme="KERPLELog", options={"axes": 3}, features="shape", view="cells"),
        **_recent(),
    }


def _recent() -> dict[str, PointsVariant]:
    """Label of a recent encoding to its variant. A cloud lies between -1 and 1; border values hold beyond."""
    domain = [-1, 1, "clamp"]
    planes = {"axes": 3, "resolutions": list(PLANE_RESOLUTIONS), "features": PLANE_FEATURES, "domain": domain}
    factors = {"resolution": FACTOR_RESOLUTION, "components": FACTOR_COMPONENTS, "domain": domain}
    lattice = {"scales": list(LATTICE_SCALES), "features": LATTICE_FEATURES, "table_size": LATTICE_ROWS}
    return {
        "string": PointsVariant(scheme="STRING", options={"axes": 3}, features="shape", view="cells"),
        "k-planes": PointsVariant(scheme="KPlanes", options=planes, features="shape", view="radii"),
        "tensorf": PointsVariant(scheme="TensoRF", options=factors, features="shape", view="radii"),
        "permutohedral": PointsVariant(
            scheme="PermutohedralGrid", options={"axes": 3, **lattice}, features="shape", view="radii"
        ),
    }
