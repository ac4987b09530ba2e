"""How well a view is predicted: peak signal to noise ratio, on the whole and on the object, and structural similarity.

PSNR = -10 log10(mean((a - b)^2)),   colours in [0, 1], in decibels, the mean over views of each view's own
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.float32]
DARKEST = 1e-10
"""Mean squares below this count as this: 100 dB, beyond what eight bits can say."""


def psnr(made: Pictures, truth: Pictures, mask: NDArray[np.bool_] | None = None) -> float:
    """Of views ``(V, H, W, 3)``; within ``mask (V, H, W)`` where there is one, views that it leaves empty left out."""
    wrong = np.mean((made.astype(np.float64) - truth) ** 2, -1)
    inside = np.ones(wrong.shape, dtype=bool) if mask is None else mask
    means = [view[there].mean() for view, there in zip(wrong, inside, strict=True) if there.any()]
    return float(np.mean([-10 * math.log10(max(each, DARKEST)) for each in means])) if means else math.nan


def ssim(made: Pictures, truth: Pictures) -> float | None:
    """Wang et al. 2004 with its Gaussian window, by scikit-image; None where that is not installed, or a view is
    smaller than the window."""
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        return None
    if min(made.shape[1:3]) < 11:
        return None
    window: dict[str, Any] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    pairs = zip(made.astype(np.float64), truth.astype(np.float64), strict=True)
    found = [structural_similarity(a, b, channel_axis=-1, data_range=1.0, **window) for a, b in pairs]
    return float(np.mean(np.array(found)))
