"""Variants of the places study: an encoding of the coordinates beside the other columns of a row, and baselines.

    none                                the other columns alone
    coordinates                         coordinates of the region, between -1 and 1
    fourier | positional                random directions (Gaussian), or 1, 2, 4, .. cycles along each axis
    learnable-fourier                   Fourier features with trained directions and a small network
    space2vec-grid | -theory            scales of planar coordinates
    one-blob | dense | hash             bins along each axis; a dense grid; a multi-resolution hash grid
    xyz | sphere-c | -c-plus | -m | -m-plus | -dfs | harmonics      on a sphere alone
    fourier-mixed | sphere-c-plus-mixed     an encoding of the place beside one of each further axis (depth, time)
    fourier-joint                           random directions over the place and the further axes together

    knn | gp | ridge | boosting         baselines of scikit-learn with coordinates (docs/places.md)
    ridge + NAME | boosting + NAME      the same on the rows of an encoding; "none" is without coordinates

Every network has about the same parameter count. ``detail`` is the largest number of cycles along half of the region's
longer side, for every encoding that has a finest scale. Any scheme of the catalogue as text is a variant too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.kernels.grid_levels import growth
from posenc.lookup import scheme_text
from posenc.lookup.scheme_reference import split_view
from posenc.models.field import largest_size_within
from posenc.models.place_network import PlaceConfig, PlaceNetwork
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.field_variants import refuse_without_embedding, with_channels
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.tasks.places import MIXED, PlaceView, Region

VIEWS = (
    PositionView("region", None, "coordinates between -1 and 1 along the longer side of the region"),
    PositionView("lonlat", 2, "longitude and latitude in radians, on a sphere"),
    PositionView("xyz", 3, "unit vector, on a sphere"),
    PositionView("mixed", None, "region, then the further axes, each between -1 and 1"),
    PositionView("mixed_lonlat", None, "lonlat, then the further axes, each between -1 and 1"),
)
"""Views of a place. Without a name a scheme reads the first that fits; one of spheres reads "lonlat"."""
NONE, COORDINATES = "none", "coordinates"
ANYWHERE = (
    NONE, COORDINATES, "fourier", "positional", "learnable-fourier", "space2vec-grid", "space2vec-theory", "one-blob",
    "dense", "hash",
)  # fmt: skip
ON_SPHERES = ("xyz", "sphere-c", "sphere-c-plus", "sphere-m", "sphere-m-plus", "sphere-dfs", "harmonics", "geoclip")
IN_PLANES = ("space2vec-grid", "space2vec-theory")
FURTHER_AXIS = "a further axis beside the place: a third name in --coordinates, such as a depth, or --time COLUMN"
WITH_FURTHER_AXES = ("fourier-mixed", "sphere-c-plus-mixed", "fourier-joint")
"""Variants for tables with a depth, a time or another axis beside the place."""
VARIANTS = (*ANYWHERE, *ON_SPHERES, *WITH_FURTHER_AXES)
USUAL = (
    NONE, COORDINATES, "fourier", "positional", "learnable-fourier", "space2vec-theory", "dense", "hash",
    "sphere-c-plus", "sphere-m-plus", "sphere-dfs", "harmonics",
)  # fmt: skip
"""Variants that every page has; the others are in the panel all-variants."""
BOOSTING, RIDGE, NEIGHBORS, PROCESS = "boosting", "ridge", "knn", "gp"
SIMPLE = (NEIGHBORS, PROCESS, RIDGE, BOOSTING)
READ_BY = " + "
"""Stands between a baseline and the encoding whose rows it reads."""
BASELINES = (
    *SIMPLE,
    *(f"{name}{READ_BY}{each}" for each in (NONE, "fourier", "sphere-c-plus") for name in (RIDGE, BOOSTING)),
)
WITH_FEWER_ROWS = (COORDINATES, "fourier", NEIGHBORS, BOOSTING)
"""Variants that are trained with fewer rows too."""
TRAINED = ("LearnableFourier", "GeoCLIP", "DenseGrid", "MultiResolutionGrid", "HashGrid")
RADIANS_PER_CYCLE = 2 * math.pi
SPHERE_SCHEMES: Mapping[str, tuple[str, int]] = {
    "sphere-c": ("SphereC", 16),
    "sphere-c-plus": ("SphereCPlus", 10),
    "sphere-m": ("SphereM", 12),
    "sphere-m-plus": ("SphereMPlus", 8),
    "sphere-dfs": ("SphereDFS", 4),
}
"""Label to scheme of Sphere2Vec and its number of scales, so that all have 60 to 80 channels."""
CHANNELS, BINS, DEGREE = 64, 16, 7
GEOCLIP = {"dim": 32, "features": 32, "hidden": 16}
"""Widths of GeoCLIP, whose own have 9.4 million parameters."""
LEVELS, COARSEST, CELLS = 6, 4, 8
"""Levels of a hash grid, cells per axis of the coarsest, and cells per cycle of the finest along the whole side."""
TABLE_SHARE = 0.5
"""Share of the parameters that the table of a grid may have."""


class Sizes(NamedTuple):
    """Sizes that all variants of a run share.

    Attributes:
        region: Region of the places.
        columns: Number of other columns.
        outputs: Outputs of a network.
        parameters: Largest parameter count.
        detail: Largest number of cycles along half of the region's longer side.
        depth: Hidden layers of a network.
        dropout: Dropout of a network.
        further: Number of further axes.
    """

    region: Region
    columns: int
    outputs: int
    parameters: int
    detail: float
    depth: int
    dropout: float
    further: int = 0

    @property
    def axes(self) -> int:
        """Number of coordinates of a place."""
        return len(self.region.middle)


class PlaceVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options and the view that it reads. Field names are stored.

    Attributes:
        scheme: Name of the scheme; "" for none.
        options: Its options.
        view: Positions that it reads.
        axes: Number of coordinates of the view.
    """

    scheme: str = ""
    options: dict[str, Any] = {}
    view: PlaceView = "region"
    axes: int = 2

    def build(self) -> Scheme | None:
        """The scheme, with initial weights from torch's global generator; None for none."""
        if not self.scheme:
            return None
        return scheme_text.build(scheme_text.Specification(self.scheme, _tuples(self.options)), {"axes": self.axes})

    def model(self, config: PlaceConfig) -> PlaceNetwork:
        """The untrained network."""
        return PlaceNetwork(self.build(), config)

    def rows(self, places: Tensor) -> Tensor:
        """Rows ``(N, D)`` of the untrained encoding at places ``(N, P)``; ``(N, 0)`` without one."""
        scheme = self.build()
        if scheme is None:
            return places.new_zeros(len(places), 0)
        with torch.no_grad():
            return scheme.embed(scheme.prepare(Positions(places))).float()


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def is_baseline(label: str) -> bool:
    """True for a baseline, alone or on the rows of an encoding."""
    return label in SIMPLE or label.startswith((f"{RIDGE}{READ_BY}", f"{BOOSTING}{READ_BY}"))


def fits(label: str, geometry: str, further: int) -> bool:
    """True if a variant of the study reads coordinates of a geometry with a number of further axes."""
    name = label.partition(READ_BY)[2] or label
    if name in WITH_FURTHER_AXES:
        return further > 0 and (geometry == "sphere" or not name.startswith("sphere"))
    return geometry == "sphere" or ((geometry == "plane" or name not in IN_PLANES) and name not in ON_SPHERES)


def variant(label: str, sizes: Sizes) -> PlaceVariant:
    """The variant of a label.

    Args:
        label: One of the labels above, or a scheme as text, alone or with a view, as ``FourierFeatures@xyz``.
        sizes: Sizes that all variants share.

    Returns:
        The variant.

    Raises:
        ValueError: The label is unknown (the message names the nearest one), or the scheme cannot read the places.
    """
    name, view = split_view(label)
    position_views.refuse_view(view, VIEWS)
    own = None if view else _own(name, sizes)
    if own is not None:
        return own
    parsed = scheme_text.parse_variant(name, label, (*VARIANTS, *BASELINES))
    try:
        refuse_without_embedding(parsed)
        parsed = with_channels(parsed)
        places = _trial_places(sizes.region, sizes.further)
        chosen = position_views.choose(parsed, {}, places, VIEWS, view or _view_of_spheres(parsed, sizes.region))
    except ValueError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    return PlaceVariant(
        scheme=parsed.scheme,
        options=parsed.options,
        view=chosen,  # type: ignore[arg-type]  # one of VIEWS
        axes=places[chosen].axes,
    )


def network_config(made: PlaceVariant, sizes: Sizes, label: str) -> PlaceConfig:
    """Configuration of the network of a variant, with about the allowed parameter count.

    Args:
        made: The variant.
        sizes: Sizes that all variants share.
        label: Label of the variant, for messages.

    Returns:
        The configuration.

    Raises:
        ValueError: The encoding alone has too many parameters.
    """
    with torch.device("meta"):  # a size of any table can be counted without memory for it
        scheme = made.build()
    own = 0 if scheme is None else sum(p.numel() for p in scheme.parameters() if p.requires_grad)
    encoded = 0 if scheme is None else scheme.out_dim

    def config(width: int) -> PlaceConfig:
        return PlaceConfig(
            columns=sizes.columns, outputs=sizes.outputs, width=width, depth=sizes.depth, dropout=sizes.dropout
        )

    try:
        return config(largest_size_within(sizes.parameters, lambda width: own + config(width).size(encoded)))
    except ValueError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None


def _trial_places(region: Region, further: int) -> dict[str, Positions]:
    """The middle and two corners of a region on each of its views."""
    corners = torch.tensor([-1.0, 0.0, 1.0])[:, None].expand(-1, len(region.middle))
    places = {"region": Positions(corners.contiguous())}
    if region.geometry == "sphere":
        apart = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]) * region.half
        degrees = np.clip(np.array(region.middle) + apart, (-180, -90), (180, 90))
        places |= {"lonlat": Positions(region.view(degrees, "lonlat")), "xyz": Positions(region.view(degrees, "xyz"))}
    if further:
        corners = torch.tensor([-1.0, 0.0, 1.0])[:, None].expand(-1, further)
        bases = {view: base for view, base in MIXED.items() if base in places}
        places |= {view: Positions(torch.cat([places[base].coords, corners], 1)) for view, base in bases.items()}
    return places


def _view_of_spheres(parsed: scheme_text.Specification, region: Region) -> str:
    """View "lonlat" for a scheme that is defined on a sphere, "" for another one.

    Raises:
        ValueError: The places are on no sphere, so the scheme would read other coordinates as longitude and latitude.
    """
    if parsed.scheme not in {name for name, _ in SPHERE_SCHEMES.values()} | {"SphericalHarmonics", "GeoCLIP"}:
        return ""
    if region.geometry != "sphere":
        raise ValueError(_other_geometry(parsed.scheme, region))
    return "lonlat"


def _other_geometry(name: str, region: Region) -> str:
    needed = "two coordinates" if name in IN_PLANES else "longitude and latitude"
    return (
        f"{name} needs {needed}; the coordinates are of the kind {region.geometry}. Leave it out, or state what the "
        "coordinates are: --geometry."
    )


def _own(label: str, sizes: Sizes) -> PlaceVariant | None:
    """The variant of a label of the study; None for another text."""
    if label not in VARIANTS:
        return None
    if label in WITH_FURTHER_AXES and not sizes.further:
        raise ValueError(f"{label} needs {FURTHER_AXIS}.")
    if not fits(label, sizes.region.geometry, sizes.further):
        raise ValueError(_other_geometry(label, sizes.region))
    axes, detail = sizes.axes, sizes.detail
    if label == NONE:
        return PlaceVariant(axes=axes)
    if label in WITH_FURTHER_AXES:
        return _with_further_axes(label, sizes)
    if label in ON_SPHERES:
        return _on_sphere(label, sizes)
    short = {"r_min": _digits(1 / (RADIANS_PER_CYCLE * detail)), "r_max": 1.0}
    box = [-1.0, 1.0, "clamp"]
    octaves = max(1, round(math.log2(detail)) + 1)
    finest = max(COARSEST + 1, round(CELLS * detail))
    scheme, options = {
        COORDINATES: ("Coordinates", {}),
        "fourier": ("FourierFeatures", {"dim": CHANNELS, "sigma": detail / 2}),
        "positional": (
            "FourierFeatures",
            {"dim": 2 * axes * octaves, "directions": "positional", "sigma": float(2**octaves)},
        ),
        "learnable-fourier": (
            "LearnableFourier",
            {"dim": CHANNELS, "features": CHANNELS, "gamma": _digits(2 / (RADIANS_PER_CYCLE * detail))},
        ),
        "space2vec-grid": ("Space2VecGrid", {"scales": 16, **short}),
        "space2vec-theory": ("Space2VecTheory", {"scales": 10, **short}),
        "one-blob": ("OneBlob", {"bins": BINS, "domain": box}),
        "dense": ("DenseGrid", {"resolution": _dense_side(sizes), "domain": box}),
        "hash": (
            "MultiResolutionGrid",
            {"resolutions": list(growth(COARSEST, finest, LEVELS)), "table_size": _table_size(sizes), "domain": box},
        ),
    }[label]
    options = dict(options) if label.startswith("space2vec") else {"axes": axes, **options}
    return PlaceVariant(scheme=scheme, options=options, axes=axes)


def _on_sphere(label: str, sizes: Sizes) -> PlaceVariant:
    """A variant that reads longitude and latitude on the sphere."""
    if label == "xyz":
        return PlaceVariant(scheme="Coordinates", options={"axes": 3}, view="xyz", axes=3)
    if label == "harmonics":
        return PlaceVariant(scheme="SphericalHarmonics", options={"degree": DEGREE}, view="lonlat")
    if label == "geoclip":  # the paper's ratio of 16 between scales; a unit of the map is half of the equator
        finest = sizes.detail / 2 * 180 / sizes.region.half
        scales = [_digits(finest / 16**step) for step in (2, 1, 0)]
        return PlaceVariant(scheme="GeoCLIP", options={**GEOCLIP, "sigma": scales}, view="lonlat")
    scheme, scales = SPHERE_SCHEMES[label]
    shortest = _digits(math.radians(sizes.region.half) / (RADIANS_PER_CYCLE * sizes.detail))
    options = {"scales": scales, "r_min": shortest, "r_max": max(1.0, 2 * shortest)}
    return PlaceVariant(scheme=scheme, options=options, view="lonlat")


def _with_further_axes(label: str, sizes: Sizes) -> PlaceVariant:
    """A variant that reads the further axes too."""
    axes, detail = sizes.axes + sizes.further, sizes.detail
    if label == "fourier-joint":
        options = {"axes": axes, "dim": CHANNELS, "sigma": detail / 2}
        return PlaceVariant(scheme="FourierFeatures", options=options, view="mixed", axes=axes)
    place = _own(label.removesuffix("-mixed"), sizes)
    assert place is not None, "the label names a variant"
    octaves = max(1, round(math.log2(detail)) + 1)
    line = {"dim": 2 * octaves, "axes": 1, "directions": "positional", "sigma": float(2**octaves)}
    parts = [{"scheme": place.scheme, "options": place.options}]
    parts += [{"scheme": "FourierFeatures", "options": line}] * sizes.further
    view: PlaceView = "mixed_lonlat" if place.view == "lonlat" else "mixed"
    return PlaceVariant(scheme="ConcatAxes", options={"parts": parts}, view=view, axes=axes)


def _dense_side(sizes: Sizes) -> int:
    """Cells per axis of a dense grid: as fine as the detail asks and the budget allows."""
    most = (TABLE_SHARE * sizes.parameters / 2) ** (1 / sizes.axes) - 1
    return max(2, min(int(most), round(CELLS * sizes.detail)))


def _table_size(sizes: Sizes) -> int:
    """Rows of the table of each level of a hash grid, a power of two."""
    return 2 ** max(4, (int(TABLE_SHARE * sizes.parameters) // (2 * LEVELS)).bit_length() - 1)


def _digits(value: float) -> float:
    """A number with few digits, so that runs have the same identity on every machine."""
    return float(f"{value:.9g}")
