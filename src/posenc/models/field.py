"""A field: a function of coordinates, as an encoding of the coordinates and a small network behind it.

    f(x) = W_D a(.. a(W_1 [e(x)] + b_1) ..) + b_D,    e any scheme's embedding, a the activation, D - 1 hidden layers

Sources: the ReLU network of Müller et al. 2022, arXiv 2201.05989, section 3 (hidden layers of 64), and of Tancik et al.
2020, arXiv 2006.10739 (256, a sigmoid at the end); the sine network of Sitzmann et al. 2020, arXiv 2006.09661. First
weights: Glorot's, biases zero; for sines U(-sqrt(6 / n) / omega, sqrt(6 / n) / omega) of section 3.2 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.kernels.domain import weigh
from posenc.positions import Positions
from posenc.scheme import Scheme

Activation = Literal["relu", "gelu", "softplus", "sine"]
MOST = 2**24
"""The largest number that ``within`` looks for."""


class FieldConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network behind an encoding.

    outputs: numbers that the field has at a point. width: of a hidden layer. depth: hidden layers, 0 for a linear map
    of the encoding. activation: between layers; "sine" is ``sin(omega z)``. output: at the end.
    """

    outputs: int
    width: int = 64
    depth: int = 2
    activation: Activation = "relu"
    output: Literal["none", "sigmoid"] = "none"
    omega: float = 30.0

    def __post_init__(self) -> None:
        if self.outputs < 1 or self.width < 1 or self.depth < 0:
            raise ValueError(
                f"a field has at least one output and hidden layers of at least one unit; got outputs={self.outputs}, "
                f"width={self.width}, depth={self.depth}."
            )


class Field(nn.Module):
    """``field(x)``: coordinates ``(N, P)`` or ``(B, N, P)`` to values ``(.., N, outputs)``.

    scheme: any that embeds. Raises ValueError for one that does not.
    """

    def __init__(self, scheme: Scheme, config: FieldConfig) -> None:
        super().__init__()
        if "embed" not in scheme.claims.sites:
            raise ValueError(
                f"a field reads an embedding of its coordinates, and {type(scheme).__name__} acts at "
                f"{', '.join(sorted(scheme.claims.sites)) or 'no site'}. Take one that embeds, as FourierFeatures."
            )
        self.scheme, self.config = scheme, config
        widths = [scheme.out_dim, *[config.width] * config.depth, config.outputs]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            if config.activation == "sine":
                bound = math.sqrt(6 / layer.in_features) / config.omega
                nn.init.uniform_(layer.weight, -bound, bound)
            else:
                nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*B N P"], level_weights: Tensor | None = None) -> Float[Tensor, "*B N out"]:
        """level_weights: of a grid's levels or of the directions of Fourier features, ``(L,)``, for coarse-to-fine
        training: ``kernels.domain.coarse_to_fine``. Raises ValueError for a scheme that has neither."""
        where = self.scheme.prepare(Positions(x))
        if level_weights is not None:
            where = weigh(where, level_weights)
        *hidden, last = self.layers
        assert isinstance(last, nn.Linear)
        # coordinates may be finer than weights: the encoding is where that counts
        h = self.scheme.embed(where).to(last.bias.dtype)
        for layer in hidden:
            h = _activate(layer(h), self.config)
        out = last(h)
        return out.sigmoid() if self.config.output == "sigmoid" else out

    @property
    def parameter_count(self) -> int:
        """How many numbers training changes: those of the encoding and of the network."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _activate(z: Tensor, config: FieldConfig) -> Tensor:
    if config.activation == "sine":
        return torch.sin(config.omega * z)
    if config.activation == "softplus":
        return nn.functional.softplus(z, beta=100)
    return nn.functional.gelu(z) if config.activation == "gelu" else nn.functional.relu(z)


class TooSmallError(ValueError):
    """No field of a kind has as few parameters."""


def within(budget: int, parameters: Callable[[int], int], least: int = 1) -> int:
    """The largest n from `least` on with ``parameters(n) <= budget``, for a count that grows with n.

    Raises TooSmallError, a ValueError, where even the least is too many.
    """
    if parameters(least) > budget:
        raise TooSmallError(
            f"the smallest field of this kind has {parameters(least)} parameters, and {budget} are allowed. Allow more."
        )
    low, high = least, least + 1
    while high < MOST and parameters(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(middle) <= budget else (low, middle)
    return low


def network_size(inputs: int, config: FieldConfig) -> int:
    """Parameters of the network alone, behind an encoding of so many numbers."""
    widths = [inputs, *[config.width] * config.depth, config.outputs]
    return sum(a * b + b for a, b in pairwise(widths))
