"""The rows of the globe study: an encoding on a view of the places, and the network that its budget leaves.

    none | fourier | space2vec-grid | space2vec-theory | hash | hash-wrap     longitude and latitude as on a plane
    xyz | fourier-xyz | hash-xyz                                              the unit vector
    sphere-c | sphere-c-plus | sphere-m | sphere-m-plus | sphere-dfs          Sphere2Vec
    sphere-c-plus-whole                                                       with whole 1/lambda, so without a seam
    harmonics                                                                 spherical harmonics up to degree 7, or 15
    sc-pe | sc-shear | sc-torus                                               a map's pixels on an octant, and mended

About 64 numbers an encoding at detail 1 (where its definition has no number of its own; harmonics have no finer detail
without more numbers), two hidden layers as wide as the budget
allows. Any scheme of the catalogue as text is taken too, as ``SphereC(scales=4)``; one of three axes gets the vector.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import torch

from posenc import specification
from posenc.kernels.levels import growth
from posenc.models.field import FieldConfig, network_size, within
from posenc.studies.field_rows import FieldRow
from posenc.tasks.globe import PICTURE

View = Literal["lonlat", "xyz", "picture"]
PLANAR = ("none", "fourier", "space2vec-grid", "space2vec-theory", "hash", "hash-wrap")
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
PICTURES = ("sc-pe", "sc-shear", "sc-torus")
NAMES = (*PLANAR, *SPHERICAL, *PICTURES)

LEVELS, COARSEST, FINEST = 8, 4, 32
"""Of a hash grid at detail 1: cells between the poles, twice as many around; as many an axis in xyz."""
DEGREE = 7
"""Of the spherical harmonics at detail 1: 64 numbers, and 256 at detail 2."""
SIGMA, R_MIN = 0.5, 0.1
"""Of Fourier features in cycles a radian, and the shortest lambda in radians, at detail 1."""


class GlobeRow(msgspec.Struct, frozen=True, kw_only=True):
    """An encoding with its network, and which view of a place it reads."""

    field: FieldRow
    view: View


def row(label: str, *, outputs: int, parameters: int, detail: float) -> GlobeRow:
    """The row of a label within a budget of ``parameters``; ``detail`` scales the finest detail of every encoding that
    has one, alike. Raises ValueError with the nearest name, and where the budget is too small."""
    named = _named(detail, parameters)
    if label.lower() in named:
        scheme, view, options = named[label.lower()]
    else:
        try:
            found = specification.parse(label)
        except ValueError as error:
            if "there is no encoding" in str(error):
                raise ValueError(specification.unknown("encoding", label, NAMES)) from None
            raise
        scheme, options = found.scheme, found.options
        view = "xyz" if options.get("axes") == 3 else "lonlat"
    axes = 3 if view == "xyz" else 2
    try:
        network = _network(specification.Specification(scheme, options), axes, outputs, parameters)
        made = GlobeRow(field=FieldRow(scheme=scheme, axes=axes, options=options, network=network), view=view)
        with torch.device("meta"):
            made.field.field()
    except ValueError as error:
        raise ValueError(f"the row {label!r} cannot be built: {error}") from None
    return made


def _network(scheme: specification.Specification, axes: int, outputs: int, parameters: int) -> FieldConfig:
    with torch.device("meta"):  # whatever its size
        built = specification.build(scheme, {"axes": axes})
    if "embed" not in built.claims.sites:
        sites = ", ".join(sorted(built.claims.sites)) or "no site"
        raise ValueError(f"a field reads an embedding of its coordinates, and {scheme.scheme} acts at {sites}.")
    if built.claims.axes not in (None, axes):
        raise ValueError(f"it reads {built.claims.axes} axes, and a place has 2, or 3 as a vector. Write axes=3 or 2.")
    own = sum(p.numel() for p in built.parameters())

    def count(width: int) -> int:
        return own + network_size(built.out_dim, FieldConfig(outputs=outputs, width=width))

    return FieldConfig(outputs=outputs, width=within(parameters, count))


def _named(detail: float, parameters: int) -> dict[str, tuple[str, View, dict[str, Any]]]:
    """Name to scheme, view and options."""
    sigma, short = SIGMA * detail, {"r_min": R_MIN / detail, "r_max": 1.0}
    finest = max(COARSEST + 1, round(FINEST * detail))
    # the rows of all tables take about half the budget
    grids = {"table_size": 2 ** ((parameters // 2 // (2 * LEVELS)).bit_length() - 1), "features": 2}
    cells = growth(COARSEST, finest, LEVELS)
    plane = {"axes": 2, "resolutions": [[2 * n, n] for n in cells], **grids}
    low, high = [-math.pi, -math.pi / 2], [math.pi, math.pi / 2]
    # 1, 2, 4, .. waves around: the nearest power of two to the finest of the others
    octaves = max(1, round(math.log2(detail / R_MIN)))
    return {
        "none": ("Coordinates", "lonlat", {"axes": 2}),
        "fourier": ("FourierFeatures", "lonlat", {"dim": 64, "axes": 2, "sigma": sigma}),
        "space2vec-grid": ("Space2VecGrid", "lonlat", {"scales": 16, **short}),
        "space2vec-theory": ("Space2VecTheory", "lonlat", {"scales": 10, **short}),
        "hash": ("MultiResolutionGrid", "lonlat", {**plane, "domain": [low, high, "clamp"]}),
        "hash-wrap": ("MultiResolutionGrid", "lonlat", {**plane, "domain": [low, high, ["wrap", "clamp"]]}),
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
        "sc-pe": ("SCPE", "picture", {"n": PICTURE}),
        "sc-shear": ("SCShear", "picture", {"n": PICTURE}),
        "sc-torus": ("SCTorus", "picture", {"n": PICTURE}),
    }
