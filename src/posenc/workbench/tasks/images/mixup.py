"""mixup and CutMix: two images of a batch are combined, and their targets in the same proportion.

    mixup:   x = lam x_i + (1 - lam) x_j,  y = lam y_i + (1 - lam) y_j,  lam ~ Beta(alpha, alpha)
    CutMix:  a box of x_j replaces x_i's, with sides sqrt(1 - lam) of the image's, centered anywhere and cut at the
             edges; then lam = 1 - (box area) / (image area)

A batch has one lam and one box; j is a random permutation of the batch. Both follow the papers and their code.

References:
    mixup: Zhang et al. 2018, arXiv 1710.09412, equation 1. CutMix: Yun et al. 2019, arXiv 1905.04899, equations 1 and
        2.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def soft_targets(labels: Tensor, classes: int, smoothing: float = 0.0) -> Tensor:
    """Targets ``(B, classes)`` of labels ``(B,)`` with label smoothing: all classes share ``smoothing`` equally."""
    targets = torch.full((len(labels), classes), smoothing / classes, device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - smoothing + smoothing / classes)


def mix_batch(
    x: Tensor, targets: Tensor, mixup: float, cutmix: float, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Mix a batch with a random permutation of itself.

    Args:
        x: Images ``(B, C, H, W)``.
        targets: ``(B, classes)``.
        mixup: alpha of mixup; 0 for none. With mixup and CutMix, a fair coin chooses one.
        cutmix: alpha of CutMix; 0 for none.
        rng: Random generator.

    Returns:
        Mixed images and targets, of the same shapes.
    """
    if not mixup and not cutmix:
        return x, targets
    cut = bool(cutmix) and (not mixup or rng.random() < 0.5)
    alpha = cutmix if cut else mixup
    lam = float(rng.beta(alpha, alpha))
    other = torch.from_numpy(rng.permutation(len(x))).to(x.device)
    if cut:
        height, width = x.shape[-2:]
        top, bottom = _box_side(height, lam, rng)
        left, right = _box_side(width, lam, rng)
        mixed = x.clone()
        mixed[..., top:bottom, left:right] = x[other, :, top:bottom, left:right]
        lam = 1 - (bottom - top) * (right - left) / (height * width)
    else:
        mixed = lam * x + (1 - lam) * x[other]
    return mixed, lam * targets + (1 - lam) * targets[other]


def _box_side(length: int, lam: float, rng: np.random.Generator) -> tuple[int, int]:
    """Start and end of the box along one side."""
    cut, center = int(length * math.sqrt(1 - lam)), int(rng.integers(length))
    return max(center - cut // 2, 0), min(center + cut // 2, length)
