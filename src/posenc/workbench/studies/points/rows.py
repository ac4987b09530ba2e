"""The rows of the points study: a scheme, the unit in which it reads coordinates, and what tokens carry.

    blind                              no coordinates anywhere: every token alike
    nope                               the shape of each point's neighbourhood, which says nothing of where it is
    fourier | rope-axial | rope-mixed | gridpe | liere | distance     that shape, and a scheme told where points are
    xyz                                that shape beside the coordinates themselves, no scheme
    gridpe + xyz | rope-axial + xyz    both
    gridpe, fixed places               that shape, and GridPE told places that all clouds share

Any scheme of the catalogue as text is a row too, as ``LieRE(block=2)``, and with `` + xyz`` after it. Rotary schemes
count in cells, of which a cloud is 16 wide as a picture has patches; the others in radii of the cloud.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from posenc import scheme_text
from posenc.models.point_cloud import PointClassifier, PointsConfig
from posenc.workbench.tasks.points import CELLS_PER_RADIUS, FEATURE_CHANNELS, Features, View

XYZ = " + xyz"
SIGMA = 0.5
"""Of Fourier features, in cycles a radius."""
EXTENT = 2 * CELLS_PER_RADIUS
PLAIN = ("blind", "nope", "xyz", "fourier", "rope-axial", "rope-mixed", "gridpe", "distance")
BESIDE = ("rope-axial" + XYZ, "gridpe" + XYZ)
ELSEWHERE = "gridpe, fixed places"
LIE = "liere"
"""Takes three times as long a step as the others do, and so is asked upright alone. MixedRoPE is its control, blocks of
2."""
NAMES = (*PLAIN, *BESIDE, ELSEWHERE, LIE)
ROTARY = ("rope-axial", "rope-mixed", "gridpe")
"""Whose logits depend on offsets alone."""


class PointsRow(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, what tokens carry, and the unit of positions."""

    scheme: str
    options: dict[str, Any]
    features: Features
    view: View

    def model(self, config: PointsConfig) -> PointClassifier:
        """A new model, with random weights. Raises ValueError where the scheme does not fit it."""
        chosen = scheme_text.Specification(self.scheme, self.options)
        return PointClassifier(config, scheme_text.per_layer(chosen, config.known()))


def row(label: str, config: PointsConfig) -> tuple[PointsRow, PointsConfig]:
    """The row of a label, and the model's configuration with as many channels as its tokens carry.

    Raises ValueError with the nearest name, and for a scheme that cannot be built for three axes.
    """
    plain = label.removesuffix(XYZ)
    features: Features = "none" if plain == "blind" else "shape" if plain == label else "xyz"
    named = _named(config)
    if plain.lower() in named:
        scheme, view, options = named[plain.lower()]
        features = "xyz" if plain.lower() == "xyz" else features
    else:
        try:
            found = scheme_text.parse(plain)
        except ValueError as error:
            if "there is no encoding" in str(error):
                raise ValueError(scheme_text.unknown("encoding", label, NAMES)) from None
            raise
        scheme, view, options = found.scheme, "cells", found.options
    made = PointsRow(scheme=scheme, options=options, features=features, view=view)
    config = msgspec.structs.replace(config, channels=FEATURE_CHANNELS[features])
    try:
        model = made.model(config)
        _refuse_unfit(model)
    except ValueError as error:
        raise ValueError(f"the row {label!r} cannot be built: {error}") from None
    return made, config


def _refuse_unfit(model: PointClassifier) -> None:
    schemes: list[Any] = list(model.schemes)
    for claims in (scheme.claims for scheme in schemes):
        if claims.axes not in (None, 3):
            raise ValueError(f"it reads {claims.axes} axes, and a point has 3. Write axes=3 if it can.")
        if claims.range is not None or "mix" in claims.sites:
            raise ValueError("points stand at any real coordinates, and it reads a table's rows or a grid's.")


def _named(config: PointsConfig) -> dict[str, tuple[str, View, dict[str, Any]]]:
    """Name to scheme, unit of positions and options."""
    groups = config.dim // config.heads // 8  # of four waves, eight channels
    ratio = math.exp(1 / 3)
    # the longest wave spans the cloud, and the shortest is what the head's width leaves, four cells at the least
    shortest = max(4.0, EXTENT / ratio ** (groups - 1) * (1 + 1e-9))
    grid = {"axes": 3, "extent": EXTENT, "shortest": shortest}
    return {
        "blind": ("NoPE", "radii", {}),
        "nope": ("NoPE", "radii", {}),
        "xyz": ("NoPE", "radii", {}),
        "fourier": ("FourierFeatures", "radii", {"dim": 64, "axes": 3, "sigma": SIGMA}),
        "rope-axial": ("AxialRoPE", "cells", {"axes": 3}),
        "rope-mixed": ("MixedRoPE", "cells", {"axes": 3}),
        "gridpe": ("GridPE", "cells", grid),
        ELSEWHERE: ("GridPE", "fixed", grid),
        "liere": ("LieRE", "radii", {"axes": 3, "block": 4}),
        "distance": ("KERPLELog", "cells", {"axes": 3}),
    }
