"""Scores of answers: accuracy and loss of classes, or mean squared error of values, of all items and by graph size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

BINS = 4
"""Groups of own graphs by their number of nodes."""


class SizeRange(NamedTuple):
    """Graphs of some numbers of nodes. It is stored as a list.

    Attributes:
        low: Smallest number of nodes.
        high: Largest number of nodes.
        mark: Number of nodes by which the group is named and drawn.
    """

    low: int
    high: int
    mark: int


def size_ranges(sizes: NDArray[np.int64]) -> tuple[SizeRange, ...]:
    """Divide graphs into up to four groups of about equal number, by their number of nodes.

    Args:
        sizes: Number of nodes of each graph.

    Returns:
        The groups; none if all graphs have the same size. A mark is the median of a group.
    """
    cuts = np.unique(np.quantile(sizes, np.linspace(0, 1, BINS + 1), method="higher"))
    made, low = list[SizeRange](), int(cuts[0])
    for high in cuts[1:].tolist():
        inside = sizes[(sizes >= low) & (sizes <= high)]
        if len(inside):
            made.append(SizeRange(low, high, int(np.median(inside))))
            low = high + 1
    return tuple(made) if len(made) > 1 else ()


def class_scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy and cross-entropy.

    Args:
        logits: Logits, or logarithms of probabilities, ``(M, C)``.
        labels: Class numbers ``(M,)``.

    Returns:
        "accuracy" and "loss".
    """
    right = logits.argmax(-1) == labels
    return {"accuracy": float(right.double().mean()), "loss": float(functional.cross_entropy(logits, labels))}


def value_scores(values: Tensor, true: Tensor) -> dict[str, float]:
    """Mean squared error.

    Args:
        values: Predictions ``(M, T)`` in standard deviations of the training part.
        true: Answers ``(M, T)`` in the same unit.

    Returns:
        "mse".
    """
    return {"mse": float((values - true).double().square().mean())}


def by_size(sizes: Tensor, ranges: Sequence[SizeRange]) -> dict[int, Tensor]:
    """Answers of graphs of each group of sizes.

    Args:
        sizes: Number of nodes ``(M,)`` of the graph of each answer.
        ranges: The groups.

    Returns:
        Mark to a mask ``(M,)``, for groups with answers.
    """
    masks = {each.mark: (sizes >= each.low) & (sizes <= each.high) for each in ranges}
    return {mark: mask for mark, mask in masks.items() if bool(torch.any(mask))}
