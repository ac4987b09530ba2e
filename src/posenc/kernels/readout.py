"""A small trained network that turns a place's few numbers into one: ``3 -> 128 -> ReLU -> 1`` and its kin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.positions import Positions


class Points(NamedTuple):
    """``rows (.., N, F)`` that a network may read, and which tokens have a place, as in Positions."""

    rows: Tensor
    placed: Tensor | None


class Readout(nn.Module):
    """``W_2 ReLU(W_1 x + b_1) + b_2``: a linear layer for every width, ReLU between them, one number at the end.

    width: of the input. hidden: the widths between; () for one linear layer. Weights start as torch's linear layers do.
    """

    weights: nn.ParameterList
    biases: nn.ParameterList

    def __init__(self, width: int, hidden: Sequence[int]) -> None:
        super().__init__()
        if min(hidden, default=1) < 1:
            raise ValueError(f"hidden layers have at least one unit each; got hidden={tuple(hidden)}. Use (128,).")
        sizes = list(itertools.pairwise((width, *hidden, 1)))
        self.weights = nn.ParameterList(torch.empty(after, before) for before, after in sizes)
        self.biases = nn.ParameterList(torch.empty(after) for _, after in sizes)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        with torch.no_grad():
            for weight, bias in zip(self.weights, self.biases, strict=True):
                bound = 1 / math.sqrt(weight.shape[1])
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """``(.., N, width)`` to ``(.., N, 1)``, in the inputs' dtype."""
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x.relu() if number else x
            x = x @ weight.to(x.dtype).mT + bias.to(x.dtype)
        return x


def points(rows: Tensor, pos: Positions) -> Points:
    return Points(rows.to(pos.table_dtype), pos.placed)


def read(where: Points, readout: Readout | None) -> Tensor:
    """The rows themselves or what the network makes of them; zero for tokens without a place."""
    rows = where.rows if readout is None else readout(where.rows)
    return rows if where.placed is None else rows * where.placed[..., None]


def define(row: Tensor, readout: Readout | None) -> Tensor:
    """``read`` for one row, unit by unit."""
    if readout is None:
        return row
    for number, (weight, bias) in enumerate(zip(readout.weights, readout.biases, strict=True)):
        row = torch.stack([unit.clamp(min=0) for unit in row]) if number else row
        row = torch.stack([(weight[i] * row).sum() + bias[i] for i in range(len(bias))])
    return row
