"""One row of docs/models.md: what was measured of a model family."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

ALLOWED = 1e-5
"""Largest difference of logits between two computations of the same encoding."""


class Row(NamedTuple):
    """Measurements of one model family: for each column a difference, or the sentence of a refusal."""

    family: str
    values: tuple[float | str, ...]


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two tensors."""
    return float((a - b).abs().max())


def outcome(measure: Callable[[], float]) -> float | str:
    """Difference that a measurement returns, or the sentence of its refusal."""
    try:
        return measure()
    except ValueError as error:
        return " ".join(str(error).split())
