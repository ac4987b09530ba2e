"""Scores of predicted views: peak signal-to-noise ratio (PSNR) and structural similarity (SSIM).

PSNR = -10 log10(mean((a - b)^2)),   colors in [0, 1], in decibels; the mean over views of the PSNR of each view
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.float32]
MIN_SQUARED_ERROR = 1e-10
"""Lower bound of a mean squared error: 100 dB, more than eight bits can represent."""


def psnr(made: Images, truth: Images, mask: NDArray[np.bool_] | None = None) -> float:
    """PSNR in decibels, the mean over views.

    Args:
        made: Predicted views ``(V, H, W, 3)`` in [0, 1].
        truth: True views.
        mask: ``(V, H, W)``: pixels to score; views with an empty mask are left out. None scores all pixels.
    """
    squared = np.mean((made.astype(np.float64) - truth) ** 2, -1)
    inside = np.ones(squared.shape, dtype=bool) if mask is None else mask
    means = [view[chosen].mean() for view, chosen in zip(squared, inside, strict=True) if chosen.any()]
    return float(np.mean([-10 * math.log10(max(each, MIN_SQUARED_ERROR)) for each in means])) if means else math.nan


def ssim(made: Images, truth: Images) -> float | None:
    """SSIM with a Gaussian window, by scikit-image; None without scikit-image, or for views smaller than the window.

    References:
        Wang et al. 2004, "Image quality assessment: from error visibility to structural similarity".
    """
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        return None
    if min(made.shape[1:3]) < 11:
        return None
    window: dict[str, Any] = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    pairs = zip(made.astype(np.float64), truth.astype(np.float64), strict=True)
    values = [structural_similarity(a, b, channel_axis=-1, data_range=1.0, **window) for a, b in pairs]
    return float(np.mean(np.array(values)))
