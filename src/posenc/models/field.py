"""Coordinate network (neural field): an encoding of coordinates, followed by a small multilayer perceptron.

    f(x) = W_D a(.. a(W_1 [e(x)] + b_1) ..) + b_D,    e any scheme's embedding, a the activation, D - 1 hidden layers

Sources: the ReLU network of Müller et al. 2022, arXiv 2201.05989, section 3 (hidden layers of 64 units), and of Tancik
et al. 2020, arXiv 2006.10739 (256 units, a sigmoid at the end); the sine network (SIREN) of Sitzmann et al. 2020, arXiv
2006.09661. Initialization: Glorot with zero biases; for sine activations U(-sqrt(6 / n) / omega, sqrt(6 / n) / omega)
as in section 3.2 of Sitzmann et al., with n inputs of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.kernels.domain import weight_levels
from posenc.positions import Positions, as_positions
from posenc.scheme import Scheme

Activation = Literal["relu", "gelu", "softplus", "sine"]
LARGEST_SIZE = 2**24
"""Largest size that ``largest_size_within`` returns."""


class FieldConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of the network that follows an encoding.

    Attributes:
        outputs: number of values of the field at a point.
        width: width of a hidden layer.
        depth: number of hidden layers; 0 for a linear map of the encoding.
        activation: activation between layers; "sine" is ``sin(omega z)``.
        output: activation of the output.
        omega: frequency factor of the sine activation.
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


def no_embedding(name: str, sites: Collection[str]) -> str:
    """Return the error message for a scheme that has no embedding, as a field needs."""
    return (
        f"a field reads an embedding of its coordinates, and {name} acts at {', '.join(sorted(sites)) or 'no site'}. "
        "Take one that embeds, as FourierFeatures."
    )


class Field(nn.Module):
    """Coordinate network from coordinates ``(N, P)`` or ``(B, N, P)`` to values ``(.., N, outputs)``.

    Args:
        scheme: a scheme that has the site "embed".
        config: sizes and activations of the network.

    Raises:
        ValueError: a scheme without the site "embed".
    """

    def __init__(self, scheme: Scheme, config: FieldConfig) -> None:
        super().__init__()
        if "embed" not in scheme.claims.sites:
            raise ValueError(no_embedding(type(scheme).__name__, scheme.claims.sites))
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

    def forward(
        self, x: Float[Tensor, "*B N P"] | Positions, level_weights: Tensor | None = None
    ) -> Float[Tensor, "*B N out"]:
        """Evaluate the field at coordinates.

        Args:
            x: coordinates ``(N, P)`` or ``(B, N, P)``, or Positions with such coordinates.
            level_weights: one weight ``(L,)`` for each level of a grid or each direction of Fourier features, for
                coarse-to-fine training. ``kernels.domain.coarse_to_fine`` makes them.

        Returns:
            Values ``(.., N, outputs)``.

        Raises:
            ValueError: ``level_weights`` for a scheme that is neither a grid nor Fourier features.
        """
        where = self.scheme.prepare(as_positions(x))
        if level_weights is not None:
            where = weight_levels(where, level_weights)
        *hidden, last = self.layers
        assert isinstance(last, nn.Linear)
        # coordinates may have a wider dtype than the weights; only the encoding needs that precision
        h = self.scheme.embed(where).to(last.bias.dtype)
        for layer in hidden:
            h = _activate(layer(h), self.config)
        out = last(h)
        return out.sigmoid() if self.config.output == "sigmoid" else out

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters, of the encoding and of the network."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _activate(z: Tensor, config: FieldConfig) -> Tensor:
    if config.activation == "sine":
        return torch.sin(config.omega * z)
    if config.activation == "softplus":
        return nn.functional.softplus(z, beta=100)
    return nn.functional.gelu(z) if config.activation == "gelu" else nn.functional.relu(z)


class TooSmallError(ValueError):
    """Raised if even the smallest field has more parameters than the budget allows."""


def largest_size_within(budget: int, parameters: Callable[[int], int], least: int = 1) -> int:
    """Find the largest size n with ``parameters(n) <= budget``, by bisection.

    Args:
        budget: largest number of parameters.
        parameters: number of parameters for a size n, increasing in n.
        least: smallest size to consider.

    Returns:
        The size n, from ``least`` to ``LARGEST_SIZE``.

    Raises:
        TooSmallError: ``parameters(least)`` exceeds the budget. It is a ValueError.
    """
    if parameters(least) > budget:
        raise TooSmallError(
            f"the smallest field of this kind has {parameters(least)} parameters, and {budget} are allowed. "
            f"Allow {parameters(least)} or more."
        )
    low, high = least, least + 1
    while high < LARGEST_SIZE and parameters(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(middle) <= budget else (low, middle)
    return low


def network_size(inputs: int, config: FieldConfig) -> int:
    """Count the parameters of the network without the encoding.

    Args:
        inputs: width of the encoding's rows.
        config: sizes of the network.

    Returns:
        Number of weights and biases.
    """
    widths = [inputs, *[config.width] * config.depth, config.outputs]
    return sum(a * b + b for a, b in pairwise(widths))
