"""Readout network: a small multilayer perceptron from an encoding row to one value, as ``3 -> 128 -> ReLU -> 1``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.positions import Positions

Relu = bool | Sequence[bool]
"""ReLU after the hidden layers: one value for all of them, or one for each."""


class PreparedRows(NamedTuple):
    """Prepared rows of a readout.

    Attributes:
        rows: ``(.., N, F)``.
        placed: which tokens have a position, as in ``Positions``.
    """

    rows: Tensor
    placed: Tensor | None


class Readout(nn.Module):
    """Multilayer perceptron ``W_2 ReLU(W_1 x + b_1) + b_2`` with one output.

    Weights are initialized as in torch's linear layers.

    Args:
        width: width of the input.
        hidden: widths of the hidden layers; () for one linear layer.
        relu: whether a ReLU follows the hidden layers, for all or for each.
    """

    weights: nn.ParameterList
    biases: nn.ParameterList

    def __init__(self, width: int, hidden: Sequence[int], relu: Relu = True) -> None:
        super().__init__()
        if min(hidden, default=1) < 1:
            raise ValueError(f"hidden layers have at least one unit each; got hidden={tuple(hidden)}. Use (128,).")
        self.relu = (relu,) * len(hidden) if isinstance(relu, bool) else tuple(relu)
        if len(self.relu) != len(hidden):
            raise ValueError(
                f"relu is True or False for each hidden layer; got relu={self.relu} for hidden={tuple(hidden)}. "
                "Use one value for all, such as relu=False."
            )
        sizes = list(itertools.pairwise((width, *hidden, 1)))
        self.weights = nn.ParameterList(torch.empty(after, before) for before, after in sizes)
        self.biases = nn.ParameterList(torch.empty(after) for _, after in sizes)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights and biases again."""
        with torch.no_grad():
            for weight, bias in zip(self.weights, self.biases, strict=True):
                bound = 1 / math.sqrt(weight.shape[1])
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(.., N, width)`` to ``(.., N, 1)`` in the dtype of the input."""
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x.relu() if number and self.relu[number - 1] else x
            x = x @ weight.to(x.dtype).mT + bias.to(x.dtype)
        return x


def optional(width: int, hidden: Sequence[int] | None, relu: Relu) -> Readout | None:
    """Return a readout, or None if ``hidden`` is None. Raises ValueError for ``relu`` without a readout."""
    if hidden is None and relu is not True:
        raise ValueError(f"relu={relu} is for the readout, which has no layers here. Add hidden=(128,).")
    return None if hidden is None else Readout(width, hidden, relu)


def points(rows: Tensor, pos: Positions) -> PreparedRows:
    """Prepare rows at positions for ``read``."""
    return PreparedRows(rows.to(pos.table_dtype), pos.placed)


def read(where: PreparedRows, readout: Readout | None) -> Tensor:
    """Return the rows, or the network's outputs if there is one; zeros for tokens without a position."""
    rows = where.rows if readout is None else readout(where.rows)
    return rows if where.placed is None else rows * where.placed[..., None]


def define(row: Tensor, readout: Readout | None) -> Tensor:
    """Compute ``read`` for one row, unit by unit: the scalar definition."""
    if readout is None:
        return row
    for number, (weight, bias) in enumerate(zip(readout.weights, readout.biases, strict=True)):
        row = torch.stack([unit.clamp(min=0) for unit in row]) if number and readout.relu[number - 1] else row
        row = torch.stack([(weight[i] * row).sum() + bias[i] for i in range(len(bias))])
    return row
