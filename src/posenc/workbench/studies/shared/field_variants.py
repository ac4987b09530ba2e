"""Variants of studies that fit a field: an encoding and the network behind it, with a matched parameter count.

    none | basic | positional | posenc | posenc-SCALE | gaussian-SIGMA | siren | one-blob
    dense | hash | multires | multires-nearest | multires-smoothstep
    permutohedral | k-planes | tensorf

"positional" has 1, 2, 4, ... cycles as NeRF does. "posenc" is the mapping of that name in the released code of arXiv
2006.10739: 128 frequencies per axis, up to SCALE - 1 cycles. "one-blob" has 32 bins per axis.

Each variant spends its parameters as its paper does. Fourier features, SIREN and one-blob have a wide network with
three hidden layers. Grids have a large table and a network with two hidden layers of 64 units. The grids dense and
multires get longer feature vectors once they have one for every vertex at the finest allowed resolution. A
permutohedral grid has the levels of multires, with cells of the same sizes. K-Planes has three scales, each twice as
fine as the one before, with 8 features; TensoRF has one, with 16 components, and needs three axes.

A scheme of the catalogue as text, such as ``MultiResolutionGrid(axes=2, table_size=4096)``, is built as it is written,
with the network of the grids.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import torch

from posenc.kernels.grid_levels import growth, lay_out
from posenc.lookup import scheme_text
from posenc.lookup.name_suggestion import plain_name
from posenc.lookup.scheme_reference import split_view
from posenc.models.field import Field, FieldConfig, TooSmallError, largest_size_within, network_size, no_embedding
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.training.config import TrainingConfig

LEVELS, COARSEST, FEATURES = 16, 16, 2
VIEW = "coordinates"
"""The only view of the positions of a field."""
FREQUENCIES = 128
"""Directions of Fourier features: 256 features, a sine and a cosine each."""
INSTANT_NGP: Mapping[str, Any] = MappingProxyType({"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-15, "optimizer": "adam"})
"""Arguments of a ``TrainingConfig``: Adam as configured in arXiv 2201.05989 for grids and the networks behind them."""
FIELD_TRAINING = TrainingConfig(**INSTANT_NGP, epochs=1, batch=2**14, ema=0.95)
"""Training of a field. Its steps, batch and learning rate are those of a preset and a variant."""
COPIES = 8
"""Copies of each parameter that a training holds."""
GRIDS = {"dense", "hash", "multires", "multires-nearest", "multires-smoothstep"}
FACTORS = ("permutohedral", "k-planes", "tensorf")
"""A lattice of simplices, and sums of products of planes and lines, in the place of a cubic grid."""
SCALES, PLANE_FEATURES, COMPONENTS = 3, 8, 16
"""Scales and features of K-Planes; components of TensoRF."""
NAMES = ("none", "basic", "positional", "posenc", "gaussian-10", "siren", "one-blob", *sorted(GRIDS), *FACTORS)
SCHEMES = {"none": "Coordinates", "siren": "SIREN", "one-blob": "OneBlob"}
CHANNELS = 96
"""Channels of a scheme as text that needs a number of channels and names none: a multiple of 2 P for P = 1, 2, 3."""
BINS = 32
"""Bins per axis of one-blob, as in the image configuration of instant-ngp."""


class Budget(NamedTuple):
    """Sizes that all variants of a comparison share.

    Attributes:
        axes: Number of coordinates P.
        outputs: Number of values at a point.
        parameters: Largest number of parameters.
        finest: Cells per axis of the finest level of a grid, and largest number of cycles of the positional mapping.
        output: Activation of the network's output.
        coarsest: Cells per axis of the coarsest level of a multi-resolution grid.
        levels: Number of levels of a multi-resolution grid.
        released: Scale of posenc if its label names none. The scale of the released code is for images with 256
            training pixels a side.
    """

    axes: int
    outputs: int
    parameters: int
    finest: int
    output: str = "none"
    coarsest: int = COARSEST
    levels: int = LEVELS
    released: float = 64.0


class FieldVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, and the network behind it."""

    scheme: str
    axes: int
    options: dict[str, Any]
    network: FieldConfig

    def field(self) -> Field:
        """The field, with initial weights from torch's global generator."""
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in self.options.items()}
        named = scheme_text.Specification(self.scheme, options)
        return Field(scheme_text.build(named, {"axes": self.axes}), self.network)


def training_memory(variant: FieldVariant, positions: int) -> float:
    """Approximate memory of training a field, in bytes.

    Each parameter counts eight times in float32: the value, two gradients, two moments, an average and a checkpoint.
    Each position counts with the activations that the encoding and the network keep for their gradients.

    Args:
        variant: The field.
        positions: Number of positions in a step.

    Returns:
        Bytes.
    """
    with torch.device("meta"):
        field = variant.field()
    activations = 6 * field.scheme.out_dim + 3 * variant.network.width * (variant.network.depth + 1)
    return 4.0 * (COPIES * field.parameter_count + activations * positions)


def views(axes: int) -> tuple[PositionView, ...]:
    """Views of the positions of a field.

    Args:
        axes: Number of coordinates.

    Returns:
        The only one.
    """
    return (PositionView(VIEW, axes, "coordinates of a point"),)


def field_variant(label: str, budget: Budget) -> FieldVariant:
    """The variant of a label.

    Args:
        label: One of the labels above, or a scheme of the catalogue as text.
        budget: Sizes that all variants share.

    Returns:
        The scheme, its options and the sizes of its network.

    Raises:
        ValueError: The label is unknown (the message names the nearest one), or the smallest field of this kind has
            more parameters than the budget.
    """
    label, view = split_view(label)
    position_views.refuse_view(view, views(budget.axes))
    by_plain_name = {plain_name(known): known for known in NAMES}
    name = by_plain_name.get(plain_name(label), label.lower())
    try:
        if name in GRIDS:
            return _grid(name, budget)
        if name in FACTORS:
            return _factors(name, budget)
        if name in NAMES or name.startswith(("gaussian-", "posenc-")):
            return _gridless(name, SCHEMES.get(name, "FourierFeatures"), budget)
    except TooSmallError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    parsed = scheme_text.parse_variant(label, label, NAMES)
    try:
        refuse_without_embedding(parsed)
    except ValueError as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    parsed = with_channels(parsed)
    return _check_axes(_variant(parsed.scheme, budget, parsed.options), label)


def refuse_without_embedding(scheme: scheme_text.Specification) -> None:
    """Raise ValueError for a scheme that embeds in none of its declared examples, before its arguments are asked for.

    Args:
        scheme: The scheme.

    Raises:
        ValueError: It acts at other sites of a network alone.
    """
    kind = scheme_text.find(scheme.scheme)
    with torch.device("meta"):
        sites = {site for example in kind.examples for site in kind(**example).claims.sites}
    if sites and "embed" not in sites:
        raise ValueError(no_embedding(scheme.scheme, sites))


def with_channels(scheme: scheme_text.Specification) -> scheme_text.Specification:
    """Give a scheme as text a number of channels, if its class needs one and the text has none.

    Args:
        scheme: The scheme.

    Returns:
        The scheme, with ``dim=96`` if it had no ``dim`` and needs one.
    """
    parameter = inspect.signature(scheme_text.find(scheme.scheme)).parameters.get("dim")
    if parameter is None or parameter.default is not parameter.empty or "dim" in scheme.options:
        return scheme
    return msgspec.structs.replace(scheme, options={"dim": CHANNELS, **scheme.options})


def _variant(scheme: str, budget: Budget, options: dict[str, Any], **changes: Any) -> FieldVariant:
    return FieldVariant(scheme=scheme, axes=budget.axes, options=options, network=_network(budget, **changes))


def _network(budget: Budget, **changes: Any) -> FieldConfig:
    return FieldConfig(**{"outputs": budget.outputs, "output": budget.output, **changes})


def _gridless(name: str, scheme: str, budget: Budget) -> FieldVariant:
    axes = budget.axes
    options: dict[str, Any] = {}
    changes: dict[str, Any] = {"depth": 3}
    inputs = 2 * FREQUENCIES
    if name == "none":
        inputs = axes
    elif name == "basic":
        inputs = 2 * axes
        options |= {"dim": inputs, "directions": "basic"}
    elif name == "positional":
        octaves = max(1, budget.finest.bit_length())  # 1, 2, 4, .. cycles up to `finest`
        inputs = 2 * axes * octaves
        options |= {"dim": inputs, "directions": "positional", "sigma": float(2**octaves)}
    elif name.startswith("posenc"):
        inputs = 2 * axes * FREQUENCIES
        scale = budget.released if name == "posenc" else _number_in(name)
        options |= {"dim": inputs, "directions": "released", "sigma": scale}
    elif name == "one-blob":
        inputs = axes * BINS
        options |= {"bins": BINS}
    elif name == "siren":
        changes |= {"activation": "sine"}
        inputs = 0  # the encoding is as wide as the network
    else:
        options |= {"dim": inputs, "sigma": _number_in(name)}

    def count(width: int) -> int:
        network = _network(budget, width=width, **changes)
        return network_size(inputs, network) if inputs else network_size(width, network) + width * (axes + 1)

    width = largest_size_within(budget.parameters, count)
    if name == "siren":
        options |= {"dim": width}
    return _variant(scheme, budget, options, width=width, **changes)


def _number_in(name: str) -> float:
    kind, _, text = name.partition("-")
    meaning = {"gaussian": "Gaussian features by their standard deviation", "posenc": "posenc by its scale"}[kind]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{name!r} should name {meaning}, as {kind}-10; {text!r} is not a number above 0.")
    return value


def _grid(name: str, budget: Budget) -> FieldVariant:
    axes, finest, features = budget.axes, budget.finest, FEATURES
    network = _network(budget)
    if name == "dense":
        return _dense(budget, network)
    if name == "hash":
        left = budget.parameters - network_size(features, network)
        # four to eight features per entry meet the budget more closely than a power of two of entries alone
        size = 2 ** max(1, (max(left, 8) // 4).bit_length() - 1)
        features = max(1, largest_size_within(budget.parameters, lambda f: f * size + network_size(f, network)))
        return _variant("HashGrid", budget, {"resolution": finest, "features": features, "table_size": size})
    resolutions = growth(min(budget.coarsest, finest), finest, budget.levels if finest > budget.coarsest else 1)
    unhashed = min(24, ((finest + 1) ** axes - 1).bit_length())

    def count(power: int, features: int = FEATURES) -> int:
        size = 2 ** min(power, unhashed)
        levels = lay_out(resolutions, axes, table_size=size, convention="paper", periodic=(False,) * axes)
        return features * (levels[-1].first + levels[-1].rows) + network_size(features * len(levels), network)

    power = min(unhashed, largest_size_within(budget.parameters, count, least=min(3, unhashed)))
    if power == unhashed:
        features = largest_size_within(budget.parameters, lambda f: count(power, f), least=FEATURES)
    options: dict[str, Any] = {"resolutions": list(resolutions), "features": features, "table_size": 2**power}
    if name != "multires":
        options |= {"interpolation": name.removeprefix("multires-")}
    return _variant("MultiResolutionGrid", budget, options)


def _factors(name: str, budget: Budget) -> FieldVariant:
    """A permutohedral grid, K-Planes or TensoRF within the budget; planes are no finer than other grids."""
    axes, network = budget.axes, _network(budget)
    if name == "permutohedral":
        cells = growth(min(budget.coarsest, budget.finest), budget.finest, budget.levels)
        per_row, outside = FEATURES * len(cells), network_size(FEATURES * len(cells), network)
        rows = largest_size_within(budget.parameters, lambda size: per_row * size + outside)
        options: dict[str, Any] = {"scales": [1 / each for each in cells], "features": FEATURES, "table_size": rows}
        return _variant("PermutohedralGrid", budget, options)
    if name == "tensorf" and axes != 3:
        raise ValueError(f"TensoRF has planes and lines of 3 axes; a position has {axes}. Use permutohedral.")

    def vertices(cells: int) -> list[int]:
        """Vertices of the planes of each scale; of a plane and a line of TensoRF."""
        if name == "tensorf":
            return [3 * (cells + 1) ** 2 + 3 * (cells + 1)]
        return [math.comb(axes, 2) * (max(1, cells // 2**by) + 1) ** 2 for by in reversed(range(SCALES))]

    def count(cells: int, features: int) -> int:
        rows = 3 * features if name == "tensorf" else SCALES * features
        return features * sum(vertices(cells)) + network_size(rows, network)

    features = COMPONENTS if name == "tensorf" else PLANE_FEATURES
    cells = min(budget.finest, largest_size_within(budget.parameters, lambda size: count(size, features)))
    if cells == budget.finest:
        features = largest_size_within(budget.parameters, lambda size: count(cells, size), least=features)
    if name == "tensorf":
        return _variant("TensoRF", budget, {"resolution": cells, "components": features})
    resolutions = [max(1, cells // 2**by) for by in reversed(range(SCALES))]
    return _variant("KPlanes", budget, {"resolutions": resolutions, "features": features})


def _dense(budget: Budget, network: FieldConfig) -> FieldVariant:
    """A dense grid as fine as the budget allows, but no finer than other grids; the rest adds features per entry."""
    axes = budget.axes

    def count(side: int) -> int:
        return FEATURES * (side + 1) ** axes + network_size(FEATURES, network)

    side = min(budget.finest, largest_size_within(budget.parameters, count))
    options: dict[str, Any] = {"resolution": side}
    if side == budget.finest:
        longer = largest_size_within(
            budget.parameters, lambda f: f * (side + 1) ** axes + network_size(f, network), least=FEATURES
        )
        options |= {"features": longer}
    return _variant("DenseGrid", budget, options)


def _check_axes(variant: FieldVariant, label: str) -> FieldVariant:
    """Return the variant after a check of its axes: it is built on the meta device, which takes no memory."""
    with torch.device("meta"):
        try:
            scheme = variant.field().scheme
        except ValueError as error:
            raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    position_views.refuse_graphs(scheme)
    if scheme.claims.axes not in (None, variant.axes):
        raise ValueError(
            f"the variant {label!r} cannot be built: it encodes {scheme.claims.axes} axes, and a position has "
            f"{variant.axes}. Write axes={variant.axes}, or leave axes out. "
            f"{position_views.listed(views(variant.axes))}"
        )
    return variant
