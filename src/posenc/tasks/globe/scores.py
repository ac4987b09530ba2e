"""Scores on the globe: of classes, of values, and of the seam."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.nn import functional

from posenc.tasks.globe.raster import Lat, Lon

EPSILON = 1e-3  # degrees on either side of a meridian: some hundred metres
ACROSS = 512
DATE_LINE, ELSEWHERE = 180.0, 0.0
"""The meridians whose jumps are compared."""


def accuracy(logits: Float[Tensor, "N C"], target: Int64[Tensor, "N"], *, macro: bool) -> float:
    """The share of places that are told rightly; with ``macro`` the mean of each occurring class' own share."""
    right = (logits.argmax(-1) == target).double()
    if not macro:
        return float(right.mean())
    count = torch.bincount(target, minlength=logits.shape[-1])
    sums = torch.zeros(len(count), dtype=torch.float64, device=right.device).index_add_(0, target, right)
    return float((sums / count)[count > 0].mean())


def loss(logits: Float[Tensor, "N C"], target: Int64[Tensor, "N"]) -> float:
    """Mean cross-entropy in nats."""
    return float(functional.cross_entropy(logits.double(), target))


def rmse(values: Float[Tensor, "N"], target: Float[Tensor, "N"]) -> float:
    """The root of the mean squared error; 1 is what the field's mean scores, for its variance is 1."""
    return float((values.double() - target.double()).square().mean().sqrt())


def beside(meridian: float) -> tuple[Lon, Lat]:
    """Places just west and then just east of a meridian at the same latitudes, as many in any area: ``2 x 512``."""
    lat = torch.rad2deg(((2 * torch.arange(ACROSS, dtype=torch.float64) + 1) / ACROSS - 1).asin())
    east = meridian + EPSILON
    lon = torch.tensor([meridian - EPSILON, east - 360 if east > 180 else east], dtype=torch.float64)
    return lon.repeat_interleave(ACROSS), lat.repeat(2)


def jump(outputs: Float[Tensor, "M C"]) -> float:
    """The mean over latitudes of the difference between the two sides of ``beside``: of values ``|f - f'|`` (C = 1), of
    probabilities their total variation ``sum_c |p_c - p'_c| / 2``."""
    west, east = outputs.double().chunk(2)
    across: Float64[Tensor, "L"] = (west - east).abs().sum(-1)
    return float(across.mean()) / (1 if outputs.shape[-1] == 1 else 2)
