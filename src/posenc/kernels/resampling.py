"""Values on a full grid, read at the points of another grid over the same extent: a learned table at a new resolution.

    v'[i] = sum_j W[i, j] v[j],   W[i, j] = h((j - x_i) / s) / sum_j h((j - x_i) / s),   x_i = (i + 1/2) n / m - 1/2

along each axis, n points to m. Points are centres of cells, so a grid keeps its extent ("align_corners=False"); axes
are interpolated one after the other, in float64. ``h`` is the triangle ("linear") or Keys' cubic ("cubic", 1981).

Conventions: without antialiasing s = 1, the edge's value is repeated outside, and the cubic has a = -3/4, as OpenCV and
torch; with it s = max(1, n/m) spreads the kernel when shrinking, what lies outside is left out, and a = -1/2, as Pillow
and torch. timm resamples its tables "cubic" with antialiasing, DeiT and DINOv2 without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

Method = Literal["cubic", "linear"]


def resample(values: Tensor, to: Sequence[int], *, method: Method = "cubic", antialias: bool = True) -> Tensor:
    """``values (n_1, .., n_P, d)`` at the points of a grid of shape ``to``: ``(*to, d)``, in float64."""
    values = values.double()
    for axis, points in enumerate(to):
        if values.shape[axis] != points:
            w = weights(values.shape[axis], points, method=method, antialias=antialias).to(values.device)
            values = torch.tensordot(w, values.movedim(axis, 0), 1).movedim(0, axis)
    return values


def weights(n: int, m: int, *, method: Method = "cubic", antialias: bool = True) -> Tensor:
    """``W (m, n)``: how m points read n. Rows add to 1."""
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
