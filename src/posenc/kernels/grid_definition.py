"""Scalar definition of grid interpolation, corner by corner: the reference for ``kernels.interpolation``.

y(x) = sum_{c in {0, 1}^P} prod_p (t_p if c_p else 1 - t_p) table[row(i + c)]
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from posenc.kernels.domain import Domain
from posenc.kernels.grid_levels import PRIMES, Level
from posenc.kernels.interpolation import Interpolation


def define_row(table: Tensor, p: Tensor, level: Level, domain: Domain, interpolation: Interpolation) -> Tensor:
    """Compute the interpolated row ``(F,)`` of one level at the position ``p (P,)``."""
    x = define_unit(p, domain)
    if x is None:
        return torch.zeros_like(table[0])
    lower, t = [], []
    for axis, scale in enumerate(level.scale):
        s = scale * x[axis] + (0.5 if interpolation == "nearest" else level.offset)
        i = math.floor(float(s.detach()))
        if interpolation != "nearest" and level.offset == 0:
            i = min(i, int(scale) - 1)  # x = 1 is the end of the last cell
        s = s - i
        lower.append(i)
        t.append(s**2 * (3 - 2 * s) if interpolation == "smoothstep" else s)
    if interpolation == "nearest":
        return table[define_index(lower, level)]
    y = torch.zeros_like(table[0])
    for corner in itertools.product((0, 1), repeat=len(lower)):
        weight = math.prod(t[axis] if c else 1 - t[axis] for axis, c in enumerate(corner))
        y = y + weight * table[define_index([i + c for i, c in zip(lower, corner, strict=True)], level)]
    return y


def define_index(vertex: list[int], level: Level) -> int:
    """Return the row of the table that belongs to a vertex."""
    v = [n % level.vertices[axis] if level.periodic[axis] else n for axis, n in enumerate(vertex)]
    index = 0
    if level.hashed:
        for n, prime in zip(v, PRIMES, strict=False):
            index ^= n * prime % 2**32
    else:
        stride = 1
        for n, vertices in zip(v, level.vertices, strict=True):
            index, stride = index + n * stride, stride * vertices
    return level.first + index % level.rows


def define_unit(p: Tensor, domain: Domain) -> list[Tensor] | None:
    """Return the position ``p`` relative to the box, from 0 to 1 on each axis; None if the row is zero."""
    x = []
    for axis, rule in enumerate(domain.outside):
        low, high = (side[axis] for side in (domain.low, domain.high))
        u = (p[axis] - low) / (high - low)
        if not 0 <= float(u.detach()) <= 1:
            if rule == "zero":
                return None
            u = u - math.floor(float(u.detach())) if rule == "wrap" else u.clamp(0, 1)
        x.append(u)
    return x
