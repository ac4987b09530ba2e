"""Network for rows of a table with a place: an encoding of the place beside other columns, and a multilayer perceptron.

    f(x, c) = W_D a(.. a(W_1 [e(x) | c] + b_1) ..) + b_D

e is any scheme's embedding of the place x, c are the other columns of the row, a is GELU. Without a scheme the network
reads the columns alone. It is the location encoder of Mai et al. 2023 (Sphere2Vec), arXiv 2306.17624, section 3, with
further columns beside the embedding.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.field import no_embedding
from posenc.positions import Positions, as_positions
from posenc.scheme import Scheme


class PlaceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of the network.

    Attributes:
        columns: number of other columns of a row.
        outputs: number of outputs: classes, or 1 for a value.
        width: width of a hidden layer.
        depth: number of hidden layers; 0 for a linear map.
        dropout: share of the hidden units that are set to 0 in training.
    """

    columns: int
    outputs: int = 1
    width: int = 64
    depth: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.outputs, self.width) < 1 or min(self.columns, self.depth) < 0 or not 0 <= self.dropout < 1:
            raise ValueError(
                "a network of places has at least one output, hidden layers of at least one unit and a dropout below "
                f"1; got {self}."
            )

    def size(self, encoded: int) -> int:
        """Number of weights and biases behind an embedding of some width."""
        widths = [encoded + self.columns, *[self.width] * self.depth, self.outputs]
        return sum(a * b + b for a, b in pairwise(widths))


class PlaceNetwork(nn.Module):
    """Network from places ``(N, P)`` and other columns ``(N, C)`` to outputs ``(N, outputs)``.

    Args:
        scheme: A scheme that has the site "embed"; None to read the other columns alone.
        config: Sizes of the network.

    Raises:
        ValueError: The scheme has no site "embed", or there is nothing to read.

    Example:
        >>> import torch
        >>> from posenc import FourierFeatures
        >>> from posenc.models.place_network import PlaceConfig, PlaceNetwork
        >>> network = PlaceNetwork(FourierFeatures(32, axes=2), PlaceConfig(columns=5))
        >>> network(torch.rand(10, 2), torch.randn(10, 5)).shape
        torch.Size([10, 1])

    References:
        Mai et al. 2023, arXiv 2306.17624, section 3.
    """

    def __init__(self, scheme: Scheme | None, config: PlaceConfig) -> None:
        super().__init__()
        if scheme is not None and "embed" not in scheme.claims.sites:
            raise ValueError(no_embedding(type(scheme).__name__, scheme.claims.sites))
        encoded = 0 if scheme is None else scheme.out_dim
        self.scheme, self.config = scheme, config
        widths = [encoded + config.columns, *[config.width] * config.depth, config.outputs]
        self.layers = nn.ModuleList(nn.Linear(max(a, 1), b) for a, b in pairwise(widths))
        self.is_constant = widths[0] == 0
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "N P"] | Positions, columns: Float[Tensor, "N C"]) -> Float[Tensor, "N out"]:
        """Evaluate the network.

        Args:
            x: Places, as the scheme reads them.
            columns: Other columns of the rows; ``(N, 0)`` for none.

        Returns:
            Logits or values ``(N, outputs)``.
        """
        parts = [columns]
        if self.scheme is not None:
            embedded = self.scheme.embed(self.scheme.prepare(as_positions(x)))
            parts.insert(0, embedded.to(columns.dtype))
        if self.is_constant:  # neither a scheme nor columns: the output is one learned constant
            parts = [columns.new_ones(len(columns), 1)]
        h = torch.cat(parts, -1)
        *hidden, last = self.layers
        for layer in hidden:
            h = functional.dropout(functional.gelu(layer(h)), self.config.dropout, self.training)
        return last(h)

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters, of the encoding and of the network."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)
