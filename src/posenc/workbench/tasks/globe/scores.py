"""Scores of the globe task: accuracy, cross-entropy, RMSE, and the jump at a meridian."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional

from posenc.workbench.tasks.globe.raster import Lat, Lon

SEAM_OFFSET = 1e-3  # degrees on either side of a meridian: about a hundred meters
SEAM_LATITUDES = 512
DATE_LINE, ELSEWHERE = 180.0, 0.0
"""Longitudes of the meridians whose jumps are compared."""


def accuracy(logits: Float[Tensor, "N C"], target: Int64[Tensor, "N"], *, macro: bool) -> float:
    """Share of places with the correct class; with ``macro``, the mean of the accuracies of the occurring classes."""
    right = (logits.argmax(-1) == target).double()
    if not macro:
        return float(right.mean())
    count = torch.bincount(target, minlength=logits.shape[-1])
    sums = torch.zeros(len(count), dtype=torch.float64, device=right.device).index_add_(0, target, right)
    return float((sums / count)[count > 0].mean())


def cross_entropy(logits: Float[Tensor, "N C"], target: Int64[Tensor, "N"]) -> float:
    """Mean cross-entropy in nats."""
    return float(functional.cross_entropy(logits.double(), target))


def rmse(values: Float[Tensor, "N"], target: Float[Tensor, "N"]) -> float:
    """Root mean squared error. Predicting the field's mean scores 1, for the field has variance 1."""
    return float((values.double() - target.double()).square().mean().sqrt())


def seam_places(meridian: float) -> tuple[Lon, Lat]:
    """Places just west, then just east, of a meridian at the same 512 latitudes, which are uniform by area."""
    lat = torch.rad2deg(((2 * torch.arange(SEAM_LATITUDES, dtype=torch.float64) + 1) / SEAM_LATITUDES - 1).asin())
    east = meridian + SEAM_OFFSET
    lon = torch.tensor([meridian - SEAM_OFFSET, east - 360 if east > 180 else east], dtype=torch.float64)
    return lon.repeat_interleave(SEAM_LATITUDES), lat.repeat(2)


def seam_jump(outputs: Float[Tensor, "M C"]) -> float:
    """Mean over latitudes of the difference of outputs between the two sides of a meridian.

    Args:
        outputs: ``(M, C)`` at the places of ``seam_places``: values (C = 1) or class probabilities.

    Returns:
        ``|f - f'|`` of values, or the total variation ``sum_c |p_c - p'_c| / 2`` of probabilities.
    """
    west, east = outputs.double().chunk(2)
    across: Float64[Tensor, "L"] = (west - east).abs().sum(-1)
    return float(across.mean()) / (1 if outputs.shape[-1] == 1 else 2)
