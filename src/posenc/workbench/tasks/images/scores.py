"""Scores of image classification: accuracy, top-5 accuracy, balanced accuracy and cross-entropy."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def score(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """``accuracy``, ``accuracy-top5``, ``accuracy-per-class`` (balanced accuracy) and ``loss`` (cross-entropy, nats).

    Args:
        logits: ``(N, classes)``.
        labels: ``(N,)``.

    Returns:
        Scores by name. Top-5 accuracy is 1 where there are five classes or fewer.

    Raises:
        ValueError: The shapes do not match, or there is no image.
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
        "accuracy-per-class": balanced_accuracy(right, labels),
        "loss": cross_entropy(logits.double(), labels).item(),
    }


def balanced_accuracy(right: Tensor, labels: Tensor) -> float:
    """Mean of the accuracy of each class, from ``right`` ``(N,)`` bool. Classes without images do not count."""
    counts = torch.bincount(labels)
    hits = torch.bincount(labels, weights=right.double(), minlength=len(counts))
    has_images = counts > 0
    return (hits[has_images] / counts[has_images]).mean().item() if has_images.any() else math.nan
