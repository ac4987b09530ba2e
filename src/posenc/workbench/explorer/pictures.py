"""Drawings of an encoding for the explorer: what is drawn, as arrays and labels.

Every value comes from the encoding itself, by the functions of ``posenc.measure``. A drawing is a mapping for JSON with
"form": "lines", "map" (values around a query on a plane or a globe), "matrix" or "rows" (a matrix, one row at a time).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from posenc.kernels.harmonics import TURN
from posenc.lookup.scheme_text import Specification
from posenc.measure.content_spread import DRAWS, mean_attention, spread_by_distance
from posenc.measure.distance_decay import (
    WIDTH,
    heads_of,
    line_positions,
    logits_by_head,
    make_shown,
    pair_logits,
    plane_positions,
    reachable_distance,
)
from posenc.measure.far_positions import NEAR, logit_at_far_distances, reads_far_positions, rounding_error
from posenc.measure.grid_cells import firing_maps
from posenc.measure.stretched_frequencies import stretched, takes_schedule, wavelengths
from posenc.positions import sphere
from posenc.scheme import Scheme
from posenc.workbench.explorer.arrays import curve, packed
from posenc.workbench.explorer.options import FACTOR, TRAINED

Drawing = dict[str, Any]
DISTANCES, PLANE, TOKENS, ATTENTION = 64, 6, 24, 16
"""Largest distance of curves and of the plane; half the number of positions of the matrix and of attention."""
CONTENTS = 16
"""Number of random contents of attention."""
LINES = 6
"""Most curves of one drawing; heads between the first and the last are left out."""
MOST_CHANNELS, MOST_HEADS = 4096, 64
"""Largest encodings that are drawn."""
LONGITUDES, LATITUDES = 30, 15
"""Number of places on the globe; every third one on each axis is a query."""
DISTANCE = "distance, key position − query position"


@dataclass(frozen=True)
class Shown:
    """An encoding that is drawn.

    Attributes:
        call: Its call.
        scheme: The encoding, in float64 and with seed 0.
        trained: Training length, in tokens.
        factor: Extension of the context.
    """

    call: Specification
    scheme: Scheme
    trained: int = TRAINED
    factor: float = FACTOR

    @property
    def heads(self) -> int:
        """Number of heads that the call names."""
        return heads_of(self.call)

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self.scheme).__name__


def make(
    call: Specification, kind: type[Scheme] | None = None, trained: int = TRAINED, factor: float = FACTOR
) -> Shown:
    """Build the encoding of a call, and refuse one that is too large to draw.

    Args:
        call: The call.
        kind: Class of a declared example that text cannot hold; None for a call that it can.
        trained: Training length, in tokens.
        factor: Extension of the context.

    Returns:
        The encoding.

    Raises:
        ValueError: The arguments do not fit, or it is too large.
    """
    scheme = make_shown(call, kind)
    width = scheme.out_dim if "embed" in scheme.claims.sites else scheme.head_width or WIDTH
    heads = max(getattr(scheme, "heads", 1), heads_of(call))
    if width > MOST_CHANNELS or heads > MOST_HEADS:
        raise ValueError(
            f"The explorer draws up to {MOST_CHANNELS:,} channels and {MOST_HEADS} heads; this encoding has {width:,} "
            f"channels and {heads:,} heads. Use smaller sizes."
        )
    return Shown(call, scheme, trained, factor)


def kernel(shown: Shown) -> list[Drawing]:
    """Logit by distance of every head, and its mean and spread over random content."""
    far = reachable_distance(shown.scheme, DISTANCES)
    by_head = logits_by_head(shown.scheme, far, heads=shown.heads)
    names = list(by_head)
    names = (
        [names[round(place * (len(names) - 1) / (LINES - 1))] for place in range(LINES)]
        if len(names) > LINES
        else names
    )
    series = [
        {
            "name": name,
            "x": curve(row["distance"] for row in by_head[name]),
            "y": curve(row["logit"] for row in by_head[name]),
        }
        for name in names
    ]
    spread = spread_by_distance(shown.scheme, far, heads=shown.heads)
    drawings = [_lines("Equal vectors", DISTANCE, "logit", series)]
    if float(spread.deviation.nan_to_num().max()) > 1e-6:
        band = {"name": "mean ± 1 standard deviation", "x": curve(spread.distance), "y": curve(spread.mean)}
        band["low"], band["high"] = curve(spread.mean - spread.deviation), curve(spread.mean + spread.deviation)
        drawings.append(_lines("Random vectors, first head", DISTANCE, "logit", [band]))
    return drawings


def similarity_map(shown: Shown) -> list[Drawing]:
    """Logits of a query at a chosen place and of equal keys at all places."""
    scheme = shown.scheme
    if scheme.claims.axes == 1:
        raise ValueError(f"{shown.name} reads positions of one axis; a map needs two.")
    if (turn := _turn(scheme)) is not None:
        lon = torch.linspace(-180, 180, LONGITUDES + 1, dtype=torch.float64)[:-1] + 180 / LONGITUDES
        lat = torch.linspace(-90, 90, LATITUDES + 1, dtype=torch.float64)[:-1] + 90 / LATITUDES
        places = torch.cartesian_prod(lat, lon)
        pos = sphere(places[:, 1], places[:, 0])
        pos = pos if turn == TURN["radians"] else type(pos)(places.flip(-1))
        shape, every, form = (LATITUDES, LONGITUDES), 3, {"form": "map", "globe": True}
        ends = {"rows": curve(lat), "columns": curve(lon), "x": "longitude (degrees)", "y": "latitude (degrees)"}
    else:
        far = reachable_distance(scheme, PLANE)
        pos, every, form = plane_positions(scheme, far), 2 if far > 3 else 1, {"form": "map", "globe": False}
        shape = (2 * far + 1, 2 * far + 1)
        rows = pos.coords[:: shape[1], 0]
        ends = {"rows": curve(rows), "columns": curve(pos.coords[: shape[1], 1]), "x": "second axis", "y": "first axis"}
    start = 1 if form["globe"] else 0
    asked = torch.cartesian_prod(torch.arange(start, shape[0], every), torch.arange(start, shape[1], every))
    logits = pair_logits(scheme, pos, asked[:, 0] * shape[1] + asked[:, 1], heads=shown.heads)[0, 0]
    return [
        {
            **form,
            **ends,
            "title": "Logits of the first head",
            "queries": asked.tolist(),
            "values": packed(logits),
        }
    ]


def _turn(scheme: Scheme) -> float | None:
    """One turn in the unit of a scheme that reads longitude and latitude; None for another scheme."""
    limits = scheme.claims.limits(2)
    return next((turn for turn in TURN.values() if limits == ((-turn, turn), (-turn, turn))), None)


def values_by_position(shown: Shown) -> list[Drawing]:
    """Channels of the embedding, or of a transformed vector of ones, by position; of a bias its logits."""
    if (sites := shown.scheme.claims.sites) <= {"mix"}:
        where = f"it acts at {', '.join(sites)}" if sites else "it acts nowhere"
        raise ValueError(f"{shown.name} changes no logits: {where}.")
    far = reachable_distance(shown.scheme, TOKENS)
    pos, step = line_positions(shown.scheme, far)
    first = float(pos.coords[0, 0])
    place = {"first": first, "step": step}
    try:
        channels = firing_maps(shown.scheme, pos, heads=shown.heads)
        words = "embedding" if "embed" in shown.scheme.claims.sites else "transformed vector of ones, first head"
        return [_matrix(f"Channels of the {words}", "channel", "position", channels, {"first": 0, "step": 1}, place)]
    except ValueError:
        logits = pair_logits(shown.scheme, pos, torch.arange(pos.count), heads=shown.heads)[0, 0]
        return [_matrix("Logits of equal vectors, first head", "key position", "query position", logits, place, place)]


def wavelengths_by_channel(shown: Shown) -> list[Drawing]:
    """Wavelengths of the waves, beside the training length."""
    found = wavelengths(shown.scheme)
    if found is None:
        raise ValueError(f"{shown.name} has no table of frequencies.")
    series = [{"name": "wavelength", "x": list(range(len(found))), "y": curve(found), "points": True}]
    return [_wavelengths("Wavelengths", series, shown)]


def stretch(shown: Shown) -> list[Drawing]:
    """Wavelengths and logits with the frequencies of each method that extends a context."""
    if not takes_schedule(type(shown.scheme)):
        raise ValueError(f"{shown.name} takes no frequency schedule: no options `frequencies` and `base`.")
    found = wavelengths(shown.scheme) or []
    schemes = {"as chosen": shown.scheme}
    calls = stretched(shown.call, len(found), shown.factor, shown.trained)
    for name, call in calls.items():
        with contextlib.suppress(ValueError):  # a scheme that takes plain frequencies has no attention factor
            schemes[name] = make_shown(call)
    waves, logits = list[Drawing](), list[Drawing]()
    distances = torch.linspace(0, round(shown.factor * shown.trained), 129, dtype=torch.float64).round().unique()
    for name, scheme in schemes.items():
        own = wavelengths(scheme) or []
        waves.append({"name": name, "x": list(range(len(own))), "y": curve(own)})
        values = logit_at_far_distances(scheme, distances, heads=shown.heads)
        logits.append({"name": name, "x": curve(distances), "y": curve(values)})
    trained = {"x": shown.trained, "label": "training length"}
    return [
        _wavelengths(f"Wavelengths, extended {shown.factor:g} times", waves, shown),
        _lines("Logit of equal vectors", "distance", "logit", logits, marks=[trained]),
    ]


def attention_of_queries(shown: Shown) -> list[Drawing]:
    """Mean attention weights of each query over random content."""
    far = reachable_distance(shown.scheme, ATTENTION)
    pos, step = line_positions(shown.scheme, far)
    weights = mean_attention(shown.scheme, pos.count, heads=shown.heads, draws=CONTENTS)
    causal = ", causal mask" if pos.axes == 1 else ""
    place = {"first": float(pos.coords[0, 0]), "step": step}
    title = f"Mean weights over {CONTENTS} contents, first head{causal}"
    found = _matrix(title, "key position", "query position", weights, place, place)
    return [{**found, "form": "rows", "value": "attention weight"}]


def far_positions(shown: Shown) -> list[Drawing]:
    """Logits at large distances, and rounding errors of logits at large positions."""
    if not reads_far_positions(shown.scheme):
        raise ValueError(f"{shown.name} has a limited range, or reads the tokens between two positions.")
    distances = torch.logspace(0, 16, 193, base=2.0, dtype=torch.float64).round().unique()
    logits = curve(logit_at_far_distances(shown.scheme, distances, heads=shown.heads))
    starts, errors = [2**power for power in range(0, 22, 3)], list[Drawing]()
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        found = rounding_error(shown.scheme, starts, dtype, heads=shown.heads)
        if any(found):  # zeros have no place on a logarithmic axis
            errors.append({"name": name, "x": starts, "y": curve(value or math.nan for value in found), "points": True})
    exact = "" if errors else f"; rounding changes no logit at distances up to {NEAR}"
    far = [{"name": "logit", "x": curve(distances), "y": logits}]
    drawings = [_lines(f"Logit of equal vectors at large distances{exact}", "distance", "logit", far, x_log=True)]
    if errors:
        title = f"Largest error of logits at distances up to {NEAR}, beside float64"
        drawings.append(_lines(title, "position of the query", "error of the logit", errors, x_log=True, y_log=True))
    return drawings


@dataclass(frozen=True)
class Picture:
    """One of the pictures of the page.

    Attributes:
        title: Heading.
        about: Sentence under the heading.
        draw: Function from an encoding to its drawings; ValueError says why there is none.
    """

    title: str
    about: str
    draw: Callable[[Shown], list[Drawing]]


PICTURES: Mapping[str, Picture] = {
    "kernel": Picture(
        "Logit by distance",
        "Query and key are equal vectors of norm 1, so without an encoding every logit is 1. Parameters are untrained. "
        f"Of random vectors the mean and the standard deviation over {DRAWS} of them are drawn, where they matter.",
        kernel,
    ),
    "map": Picture(
        "Similarity map",
        "Logits of the query at the marked place and of an equal key at every place; nothing is averaged. Drag the "
        "map, or use the dials.",
        similarity_map,
    ),
    "values": Picture("Values by position", "One row for each position.", values_by_position),
    "frequencies": Picture(
        "Wavelengths", "A wave that is longer than the training length never turned once in training.",
        wavelengths_by_channel,
    ),
    "stretch": Picture(
        "Stretched frequencies",
        "The same base with the frequencies of each method. YaRN has alpha 0.5 and beta 2 here, for short training "
        "lengths. LongRoPE's factors grow in equal steps; its authors search them for each model.",
        stretch,
    ),
    "attention": Picture(
        "Attention of one query",
        "All tokens have one random content, to which the rows of an embedding are added. The weights are means over "
        "contents. The dial chooses the query.",
        attention_of_queries,
    ),
    "far": Picture(
        "Far positions", "Where a logit returns, distances are confused (aliasing). Errors come from rounded numbers.",
        far_positions,
    ),
}  # fmt: skip


def draw(shown: Shown, name: str) -> dict[str, Any]:
    """Draw one picture.

    Args:
        shown: The encoding.
        name: Name of the picture.

    Returns:
        ``{"drawings": [..]}``, or ``{"absent": sentence}`` for an encoding that does not have the picture.
    """
    try:
        return {"drawings": PICTURES[name].draw(shown)}
    except ValueError as error:
        return {"absent": str(error)}


def _lines(title: str, x: str, y: str, series: list[Drawing], **more: Any) -> Drawing:
    return {"form": "lines", "title": title, "x_label": x, "y_label": y, "series": series, **more}


def _wavelengths(title: str, series: list[Drawing], shown: Shown) -> Drawing:
    marks = [{"y": shown.trained, "label": "training length"}]
    return _lines(title, "wave", "wavelength (positions)", series, y_log=True, marks=marks)


def _matrix(title: str, x: str, y: str, values: torch.Tensor, columns: Drawing, rows: Drawing) -> Drawing:
    found = {"form": "matrix", "title": title, "x_label": x, "y_label": y}
    return {**found, "values": packed(values), "columns": columns, "rows": rows}
