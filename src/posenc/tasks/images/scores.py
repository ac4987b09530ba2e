"""How well pictures are classified: of all pictures, and of the mean class where classes are of different sizes."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def score(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """``accuracy``, ``accuracy-top5``, ``accuracy-per-class`` (the mean over classes that have pictures) and ``loss``.

    logits: ``(N, classes)``. labels: ``(N,)``. Top 5 is 1 where there are five classes or fewer. Raises ValueError for
    other shapes and for no picture.
    """
    if logits.dim() != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise ValueError(
            f"logits (N, classes) are scored by N labels; got {tuple(logits.shape)} and {tuple(labels.shape)}."
        )
    ranked = logits.topk(min(5, logits.shape[1]), dim=1).indices
    right = ranked[:, 0] == labels
    return {
        "accuracy": right.double().mean().item(),
        "accuracy-top5": (ranked == labels[:, None]).any(1).double().mean().item(),
        "accuracy-per-class": mean_of_classes(right, labels),
        "loss": cross_entropy(logits.double(), labels).item(),
    }


def mean_of_classes(right: Tensor, labels: Tensor) -> float:
    """The mean over classes of the share ``right`` ``(N,)`` of each; a class without pictures does not count."""
    counts = torch.bincount(labels)
    hits = torch.bincount(labels, weights=right.double(), minlength=len(counts))
    there = counts > 0
    return (hits[there] / counts[there]).mean().item() if there.any() else math.nan
