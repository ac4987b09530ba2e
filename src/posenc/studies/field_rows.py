"""The rows of studies that fit a field: an encoding and a network behind it, of about as many numbers as allowed.

    none | basic | positional | posenc | posenc-SCALE | gaussian-SIGMA | siren | one-blob
    dense | hash | multires | multires-nearest | multires-smoothstep

positional has 1, 2, 4, .. cycles as NeRF does; posenc is the mapping of that name in the code of arXiv 2006.10739, 128
frequencies an axis up to SCALE - 1 cycles; one-blob has 32 bins an axis. A row spends its budget where its paper does:
Fourier features and SIREN on the width of the network (three hidden layers), and bins like them; grids on their table,
with a network of two layers of 64; dense and multires, once they have a row for every vertex as fine as they may be, on
longer rows. Any scheme of the catalogue as text, such as ``MultiResolutionGrid(axes=2, table_size=4096)``, is taken as
it stands, with the grids' network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import torch

from posenc import specification
from posenc.kernels.levels import growth, lay_out
from posenc.models.field import Field, FieldConfig, TooSmallError, network_size, within

LEVELS, COARSEST, FEATURES = 16, 16, 2
FREQUENCIES = 128
"""Directions of Fourier features: 256 numbers."""
INSTANT_NGP: Mapping[str, Any] = MappingProxyType({"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-15, "optimiser": "adam"})
"""Arguments of a ``TrainingConfig``: Adam as Müller et al. set it, for grids and for the networks behind them."""
COPIES = 8
"""Of each parameter, while it is trained."""
GRIDS = {"dense", "hash", "multires", "multires-nearest", "multires-smoothstep"}
NAMES = ("none", "basic", "positional", "posenc", "gaussian-10", "siren", "one-blob", *sorted(GRIDS))
SCHEMES = {"none": "Coordinates", "siren": "SIREN", "one-blob": "OneBlob"}
BINS = 32
"""Of each axis, as instant-ngp's settings for pictures have them."""


class Budget(NamedTuple):
    """What every row of a comparison shares. axes: P. outputs: numbers at a point. parameters: at most so many.

    finest: the cells an axis of the finest level of a grid, and the most cycles of the positional mapping. output: of
    the network. coarsest, levels: of a grid of several levels. released: the scale of posenc where its label names
    none; its authors' is for pictures of which 256 pixels a side are learned.
    """

    axes: int
    outputs: int
    parameters: int
    finest: int
    output: str = "none"
    coarsest: int = COARSEST
    levels: int = LEVELS
    released: float = 64.0


class FieldRow(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, and the network behind it."""

    scheme: str
    axes: int
    options: dict[str, Any]
    network: FieldConfig

    def field(self) -> Field:
        """With first weights from torch's generator as it stands."""
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in self.options.items()}
        named = specification.Specification(self.scheme, options)
        return Field(specification.build(named, {"axes": self.axes}), self.network)


def memory_of(found: FieldRow, places: int) -> float:
    """Bytes that training a field takes, about, with so many places in a step.

    Of each parameter, in float32, itself, its gradient twice, two moments, an average and a checkpoint; of each place
    what the encoding and the network's layers keep for their gradients.
    """
    with torch.device("meta"):
        field = found.field()
    kept = 6 * field.scheme.out_dim + 3 * found.network.width * (found.network.depth + 1)
    return 4.0 * (COPIES * field.parameter_count + kept * places)


def row(label: str, budget: Budget) -> FieldRow:
    """The row of a label. Raises ValueError with the nearest name, and where the budget is too small for it."""
    name = label.lower()
    try:
        if name in GRIDS:
            return _grid(name, budget)
        if name in NAMES or name.startswith(("gaussian-", "posenc-")):
            return _waves(name, SCHEMES.get(name, "FourierFeatures"), budget)
    except TooSmallError as error:
        raise ValueError(f"the row {label!r} cannot be built: {error}") from None
    try:
        found = specification.parse(label)
    except ValueError as error:
        if "there is no encoding" in str(error):
            raise ValueError(specification.unknown("encoding", label, [*NAMES, *specification.catalogue()])) from None
        raise
    return _tried(_row(found.scheme, budget, found.options), label)


def _row(scheme: str, budget: Budget, options: dict[str, Any], **changes: Any) -> FieldRow:
    return FieldRow(scheme=scheme, axes=budget.axes, options=options, network=_network(budget, **changes))


def _network(budget: Budget, **changes: Any) -> FieldConfig:
    return FieldConfig(**{"outputs": budget.outputs, "output": budget.output, **changes})


def _waves(name: str, scheme: str, budget: Budget) -> FieldRow:
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
        inputs = 0
    else:
        options |= {"dim": inputs, "sigma": _number_in(name)}

    def count(width: int) -> int:
        network = _network(budget, width=width, **changes)
        return network_size(inputs, network) if inputs else network_size(width, network) + width * (axes + 1)

    width = within(budget.parameters, count)
    if name == "siren":
        options |= {"dim": width}
    return _row(scheme, budget, options, width=width, **changes)


def _number_in(name: str) -> float:
    kind, _, text = name.partition("-")
    what = {"gaussian": "Gaussian features by their standard deviation", "posenc": "posenc by its scale"}[kind]
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise ValueError(f"{name!r} should name {what}, as {kind}-10; {text!r} is no number above 0.")
    return found


def _grid(name: str, budget: Budget) -> FieldRow:
    axes, finest, features = budget.axes, budget.finest, FEATURES
    network = _network(budget)
    if name == "dense":
        return _dense(budget, network)
    if name == "hash":
        room = budget.parameters - network_size(features, network)
        # four to eight features a row, so that the budget is met more closely than by powers of two alone
        size = 2 ** max(1, (max(room, 8) // 4).bit_length() - 1)
        features = max(1, within(budget.parameters, lambda f: f * size + network_size(f, network)))
        return _row("HashGrid", budget, {"resolution": finest, "features": features, "table_size": size})
    resolutions = growth(min(budget.coarsest, finest), finest, budget.levels if finest > budget.coarsest else 1)
    unhashed = min(24, ((finest + 1) ** axes - 1).bit_length())

    def count(power: int, features: int = FEATURES) -> int:
        size = 2 ** min(power, unhashed)
        levels = lay_out(resolutions, axes, table_size=size, convention="paper", periodic=(False,) * axes)
        return features * (levels[-1].first + levels[-1].rows) + network_size(features * len(levels), network)

    power = min(unhashed, within(budget.parameters, count, least=min(3, unhashed)))
    if power == unhashed:
        features = within(budget.parameters, lambda f: count(power, f), least=FEATURES)
    options: dict[str, Any] = {"resolutions": list(resolutions), "features": features, "table_size": 2**power}
    if name != "multires":
        options |= {"interpolation": name.removeprefix("multires-")}
    return _row("MultiResolutionGrid", budget, options)


def _dense(budget: Budget, network: FieldConfig) -> FieldRow:
    """As fine as the budget allows and no finer than other grids; what is then left makes its rows longer."""
    axes = budget.axes

    def count(side: int) -> int:
        return FEATURES * (side + 1) ** axes + network_size(FEATURES, network)

    side = min(budget.finest, within(budget.parameters, count))
    options: dict[str, Any] = {"resolution": side}
    if side == budget.finest:
        longer = within(budget.parameters, lambda f: f * (side + 1) ** axes + network_size(f, network), least=FEATURES)
        options |= {"features": longer}
    return _row("DenseGrid", budget, options)


def _tried(found: FieldRow, label: str) -> FieldRow:
    with torch.device("meta"):  # whatever its size: how much memory it takes is another question
        try:
            scheme = found.field().scheme
        except ValueError as error:
            raise ValueError(f"the row {label!r} cannot be built: {error}") from None
    if scheme.claims.axes not in (None, found.axes):
        raise ValueError(
            f"the row {label!r} cannot be built: it reads {scheme.claims.axes} axes, and a place has {found.axes}. "
            f"Write axes={found.axes}, or leave axes out."
        )
    return found
