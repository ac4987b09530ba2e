"""Separable resampling of values on a grid, for learned tables at a new resolution.

    v'[i] = sum_j W[i, j] v[j],   W[i, j] = h((j - x_i) / s) / sum_j h((j - x_i) / s),   x_i = (i + 1/2) n / m - 1/2

This resamples n points to m along each axis, one axis after another, in float64. Points are centers of cells, so the
grid keeps its extent (``align_corners=False``). The kernel ``h`` is the triangle ("linear") or Keys' cubic of 1981
("cubic").

Conventions: without antialiasing s = 1, edge values are repeated outside the grid, and the cubic kernel has a = -3/4,
as in OpenCV and torch. With antialiasing s = max(1, n/m) widens the kernel when shrinking, points outside the grid get
no weight, and a = -1/2, as in Pillow and torch. timm resamples its tables "cubic" with antialiasing, DeiT and DINOv2
without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

Method = Literal["cubic", "linear"]


def resample(values: Tensor, to: Sequence[int], *, method: Method = "cubic", antialias: bool = True) -> Tensor:
    """Resample ``values (n_1, .., n_P, d)`` to a grid of shape ``to``; the result is ``(*to, d)`` in float64."""
    values = values.double()
    for axis, points in enumerate(to):
        if values.shape[axis] != points:
            w = weights(values.shape[axis], points, method=method, antialias=antialias).to(values.device)
            values = torch.tensordot(w, values.movedim(axis, 0), 1).movedim(0, axis)
    return values


def weights(n: int, m: int, *, method: Method = "cubic", antialias: bool = True) -> Tensor:
    """Compute the weights ``W (m, n)`` of n input points for m output points. Rows sum to 1."""
    spread = max(1.0, n / m) if antialias else 1.0
    reach = (2 if method == "cubic" else 1) * spread
    x = (torch.arange(m, dtype=torch.float64) + 0.5) * n / m - 0.5
    outside = math.ceil(reach)
    j = torch.arange(-outside, n + outside, dtype=torch.float64)
    t = ((j - x[:, None]) / spread).abs()
    read = _cubic(t, -0.5 if antialias else -0.75) if method == "cubic" else (1 - t).clamp(min=0)
    if antialias:
        read = read[:, outside : outside + n]
    else:
        read = torch.zeros(m, n, dtype=torch.float64).index_add(1, j.clamp(0, n - 1).long(), read)
    return read / read.sum(1, keepdim=True)


def _cubic(t: Tensor, a: float) -> Tensor:
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return torch.where(t <= 1, near, torch.where(t < 2, far, 0.0))
