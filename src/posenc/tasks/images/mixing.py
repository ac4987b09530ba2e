"""Two pictures of a batch in one, with a target that says how much of each.

    mixup:   x = lam x_i + (1 - lam) x_j,  y = lam y_i + (1 - lam) y_j,  lam ~ Beta(alpha, alpha)
    CutMix:  a box of x_j, sides sqrt(1 - lam) of x_i's, centre anywhere, cut at the edges; lam = 1 - its share of x_i

One lam and one box a batch; j is a random order of the batch. Both are the papers' and their code's.

Sources: Zhang et al. 2018, arXiv 1710.09412, equation 1; Yun et al. 2019, arXiv 1905.04899, equations 1 and 2.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def soft(labels: Tensor, classes: int, smoothing: float = 0.0) -> Tensor:
    """Targets ``(B, classes)`` of labels ``(B,)``: ``1 - smoothing`` on the label, ``smoothing`` shared by all."""
    targets = torch.full((len(labels), classes), smoothing / classes, device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - smoothing + smoothing / classes)


def mix(x: Tensor, targets: Tensor, mixup: float, cutmix: float, chance: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A batch with its own random order mixed in. mixup, cutmix: alphas, 0 for neither; with both, a fair coin."""
    if not mixup and not cutmix:
        return x, targets
    cut = bool(cutmix) and (not mixup or chance.random() < 0.5)
    alpha = cutmix if cut else mixup
    lam = float(chance.beta(alpha, alpha))
    other = torch.from_numpy(chance.permutation(len(x))).to(x.device)
    if cut:
        height, width = x.shape[-2:]
        top, bottom = _side(height, lam, chance)
        left, right = _side(width, lam, chance)
        mixed = x.clone()
        mixed[..., top:bottom, left:right] = x[other, :, top:bottom, left:right]
        lam = 1 - (bottom - top) * (right - left) / (height * width)
    else:
        mixed = lam * x + (1 - lam) * x[other]
    return mixed, lam * targets + (1 - lam) * targets[other]


def _side(length: int, lam: float, chance: np.random.Generator) -> tuple[int, int]:
    cut, centre = int(length * math.sqrt(1 - lam)), int(chance.integers(length))
    return max(centre - cut // 2, 0), min(centre + cut // 2, length)
