"""The rows of studies of masked modelling: an encoding on a view of the tokens, or a baseline that trains no network.

1d-fixed | relative | rope | random | nope | learned-SIGMA          told nothing but the order of the channels
2d-fixed                                                            told the true grid, where there is one
sinusoid-xyz | fourier-xyz | gridpe-xyz | laplacian                 told the coordinates of the channels
mean | ridge | nearest                                              baselines
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import torch

from posenc.models.encoder import EncoderConfig
from posenc.models.masked import MaskedEncoder
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.concat import Concat
from posenc.schemes.fourier_features import FourierFeatures
from posenc.specification import Specification, build, parse, unknown
from posenc.studies.latin_squares import rows as shared

BASELINES = ("mean", "ridge", "nearest")
SIGMAS = (0.1, 0.2, 1.0, 2.0)
LEARNED = tuple(shared.learned(sigma) for sigma in SIGMAS)
UNTOLD = ("1d-fixed", "relative", "rope", "random", "nope", *LEARNED)
"""Rows that know no place: those of arXiv 2406.08272, section 3.4, and one without any encoding."""
PLACED = ("sinusoid-xyz", "fourier-xyz", "gridpe-xyz", "laplacian")
EIGENVECTORS = 8
WAVES = 0.1
"""Sigma of Fourier features, in cycles a unit: the median distance to the nearest channel is 1."""

View = Literal["index", "grid", "places", "graph"]
"""What a token's position is: its number, its true cell, its coordinates, or the smooth eigenvectors of their graph."""


class MaskedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoding, which view of the tokens it reads, and what it changes in the model."""

    scheme: str
    options: dict[str, Any] = {}
    view: View = "index"
    model: dict[str, Any] = {}


def row(label: str, dim: int, axes: int) -> MaskedRow:
    """The row of a label, for a model so wide and coordinates of so many axes. Raises ValueError with the nearest
    name for one that nobody has."""
    placed: Mapping[str, MaskedRow] = {
        # every axis gets the same number of pairs; the channels that are left over stay zero
        "sinusoid-xyz": MaskedRow(
            scheme="Sinusoid", options={"axes": axes, "dim": dim - dim % (2 * axes)}, view="places"
        ),
        "fourier-xyz": MaskedRow(scheme="FourierFeatures", options={"axes": axes, "sigma": WAVES}, view="places"),
        "gridpe-xyz": MaskedRow(scheme="GridPE", options={"axes": axes, "extent": None}, view="places"),
        "laplacian": MaskedRow(scheme="Laplacian", options={"axes": EIGENVECTORS}, view="graph"),
    }
    if label in placed:
        return placed[label]
    try:
        found = shared.row(label)
    except ValueError as error:
        if "there is no encoding" not in str(error):
            raise
        raise ValueError(unknown("encoding", label, [*UNTOLD, *PLACED, *BASELINES])) from None
    view: View = "places" if label not in shared.ROWS and _axes(label) not in (None, 1) else found.view
    return MaskedRow(scheme=found.scheme, options=found.options, view=view, model=found.model)


def _axes(label: str) -> int | None:
    """How many axes somebody asked for in text, as ``FourierFeatures(dim=64, axes=3)``."""
    return None if label.startswith("learned-") else parse(label).options.get("axes")


def make_model(
    row: MaskedRow, config: EncoderConfig, pos: Positions, hidden: Literal["learned", "zero"]
) -> MaskedEncoder:
    """The model of a row for tokens at these positions. Raises ValueError where they do not go together."""
    known = {
        "dim": config.dim,
        "head_dim": config.head_dim,
        "heads": config.heads,
        "max_len": pos.count,
        "max_distance": pos.count - 1,
        "axes": pos.axes,
    }
    first: list[Scheme] = []

    def schemes(layer: int) -> Scheme:
        if first and not first[0].claims.per_layer:
            return first[0]
        first.append(_filled(build(Specification(row.scheme, row.options), known), config.dim))
        return first[-1]

    return MaskedEncoder(msgspec.structs.replace(config, **row.model), schemes, hidden=hidden)


def _filled(scheme: Scheme, dim: int) -> Scheme:
    """The scheme with zeros in the channels that its rows leave."""
    left = dim - scheme.out_dim if scheme.claims.sites == {"embed"} else 0
    if left <= 0 or left % 2:
        return scheme
    zeros = FourierFeatures(left, scheme.claims.axes or 1, amplitudes=[0.0] * (left // 2))
    return Concat([scheme, zeros])


def refuse_unfit(row: MaskedRow, config: EncoderConfig, views: Mapping[str, Positions]) -> None:
    """Raises ValueError, before anything is trained, for a row that cannot be built or cannot read its view."""
    if row.view not in views:
        what = {"grid": "a true grid", "places": "coordinates", "graph": "coordinates"}[row.view]
        raise ValueError(
            f"{row.scheme} on the view {row.view!r} needs {what} of the channels, and these have none. Name another "
            "row, or give them: an array `coordinates` (channel, axes) beside the recordings."
        )
    pos = views[row.view]
    with torch.random.fork_rng(), torch.no_grad():
        values = torch.zeros(1, pos.count, config.channels)
        make_model(row, config, pos, "learned")(values, pos, torch.tensor([[0]]))
