"""Variants of the studies of hidden tokens: an encoding on a view of the tokens, or a baseline without a network.

1d-fixed | relative | rope | random | nope | learned-SIGMA          read at most the order of the tokens
2d-fixed                                                            reads the true grid, where there is one
sinusoid-xyz | fourier-xyz | gridpe-xyz | laplacian                 read the coordinates of the channels
mean | ridge | nearest                                              baselines
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import torch

from posenc.lookup.scheme_reference import split_view
from posenc.lookup.scheme_text import Specification, build
from posenc.models.encoder import EncoderConfig
from posenc.models.masked_encoder import MaskedEncoder
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.concat import Concat
from posenc.schemes.fourier_features import FourierFeatures
from posenc.workbench.studies.latin_squares import variants as latin_squares
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView

BASELINES = ("mean", "ridge", "nearest")
SIGMAS = (0.1, 0.2, 1.0, 2.0)
LEARNED = tuple(latin_squares.learned(sigma) for sigma in SIGMAS)
WITHOUT_COORDINATES = ("1d-fixed", "relative", "rope", "random", "nope", *LEARNED)
"""Variants that read no coordinates: those of arXiv 2406.08272, section 3.4, and one without any encoding."""
WITH_COORDINATES = ("sinusoid-xyz", "fourier-xyz", "gridpe-xyz", "laplacian")
TABLES_SHOWN = (*LEARNED, "random", "1d-fixed", "2d-fixed")
"""Order of the tables on a page; other tables follow."""
EIGENVECTORS = 8
FOURIER_SIGMA = 0.1
"""Sigma of Fourier features, in cycles per median distance to the nearest channel."""

View = Literal["index", "grid", "places", "graph"]
"""Position of a token: its number, its true cell, its coordinates, or eigenvectors of the graph of nearest channels."""


VIEWS = {
    "places": PositionView("places", None, "coordinates of a token, if the data have them"),
    "grid": PositionView("grid", 2, "true row and column of a token"),
    "index": PositionView("index", 1, "number of a token"),
    "graph": PositionView("graph", EIGENVECTORS, "smooth eigenvectors of the graph of nearest tokens"),
}
"""Views of the positions, from the richest. The last one is chosen only by name."""


class MaskedVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An encoding, the view of the tokens that it reads, and what it changes in the model. Field names are stored."""

    scheme: str
    options: dict[str, Any] = {}
    view: View = "index"
    model: dict[str, Any] = {}


def variant(label: str, config: EncoderConfig, positions: Mapping[str, Positions], axes: int) -> MaskedVariant:
    """The encoding of a label.

    Args:
        label: One of the labels above, or a scheme as text, both alone or with a view, as ``GridPE@places``.
        config: Sizes of the encoder.
        positions: Positions of the tokens by the name of the view.
        axes: Number of coordinates of a channel.

    Returns:
        The encoding.

    Raises:
        ValueError: The label is unknown (the message has the nearest name), or the scheme fits no view.
    """
    text, asked = split_view(label)
    chosen = _named(text, config.dim, axes)
    if not asked and (text in WITH_COORDINATES or latin_squares.is_named(text)):
        return chosen
    if asked in VIEWS and asked not in positions:  # require_fit explains what the data lack
        return _on(chosen, asked)
    offered = [view for name, view in VIEWS.items() if name in positions]
    tried = {view.name: positions[view.name] for view in offered if asked or view.name != "graph"}
    scheme = Specification(chosen.scheme, chosen.options)
    known = {"dim": config.dim, "head_dim": config.head_dim, "heads": config.heads}
    return _on(chosen, position_views.choose(scheme, known, tried, offered, asked))


def _on(variant: MaskedVariant, view: str) -> MaskedVariant:
    """The variant on another view."""
    return msgspec.convert({**msgspec.to_builtins(variant), "view": view}, MaskedVariant)


def _named(label: str, dim: int, axes: int) -> MaskedVariant:
    """The encoding of a label without a view; a scheme as text reads the order of the tokens."""
    with_coordinates: Mapping[str, MaskedVariant] = {
        # Every axis gets the same number of pairs; the channels that are left over stay zero.
        "sinusoid-xyz": MaskedVariant(
            scheme="Sinusoid", options={"axes": axes, "dim": dim - dim % (2 * axes)}, view="places"
        ),
        "fourier-xyz": MaskedVariant(
            scheme="FourierFeatures", options={"axes": axes, "sigma": FOURIER_SIGMA}, view="places"
        ),
        "gridpe-xyz": MaskedVariant(scheme="GridPE", options={"axes": axes, "extent": None}, view="places"),
        "laplacian": MaskedVariant(scheme="Laplacian", options={"axes": EIGENVECTORS}, view="graph"),
    }
    if label in with_coordinates:
        return with_coordinates[label]
    other = latin_squares.variant(label, (*WITHOUT_COORDINATES, *WITH_COORDINATES, *BASELINES))
    return MaskedVariant(scheme=other.scheme, options=other.options, view=other.view, model=other.model)


def make_model(
    encoding: MaskedVariant, config: EncoderConfig, pos: Positions, hidden: Literal["learned", "zero"]
) -> MaskedEncoder:
    """The model of a variant.

    Args:
        encoding: The variant.
        config: Sizes of the encoder.
        pos: Positions of the tokens.
        hidden: Input of a hidden token.

    Returns:
        The untrained model.

    Raises:
        ValueError: The encoding does not fit the model or the positions.
    """
    known = {"dim": config.dim, "head_dim": config.head_dim, "heads": config.heads}
    known |= {"max_len": pos.count, "max_distance": pos.count - 1}
    sizes = position_views.sizes_at(known, pos)
    first: list[Scheme] = []

    def schemes(layer: int) -> Scheme:
        if first and not first[0].claims.per_layer:
            return first[0]
        first.append(_widened(build(Specification(encoding.scheme, encoding.options), sizes), config.dim))
        return first[-1]

    return MaskedEncoder(msgspec.structs.replace(config, **encoding.model), schemes, hidden=hidden)


def _widened(scheme: Scheme, dim: int) -> Scheme:
    """The scheme, with zeros in the channels of the model that its embedding does not fill."""
    left = dim - scheme.out_dim if scheme.claims.sites == {"embed"} else 0
    if left <= 0 or left % 2:
        return scheme
    zeros = FourierFeatures(left, scheme.claims.axes or 1, amplitudes=[0.0] * (left // 2))
    return Concat([scheme, zeros])


def require_fit(encoding: MaskedVariant, config: EncoderConfig, views: Mapping[str, Positions]) -> None:
    """Check before training that a variant can be built and that the tokens have its view.

    Args:
        encoding: The variant.
        config: Sizes of the encoder.
        views: Positions of the tokens by the name of the view.

    Raises:
        ValueError: The view is missing, or the model cannot be built.
    """
    if encoding.view not in views:
        needed = {"grid": "a true grid", "places": "coordinates", "graph": "coordinates"}[encoding.view]
        raise ValueError(
            f"{encoding.scheme} on the view {encoding.view!r} needs {needed} of the channels, and these have none. "
            "Name another encoding, or give them: an array `coordinates` (channel, axes) beside the recordings."
        )
    pos = views[encoding.view]
    with torch.random.fork_rng(), torch.no_grad():
        values = torch.zeros(1, pos.count, config.channels)
        make_model(encoding, config, pos, "learned")(values, pos, torch.tensor([[0]]))
