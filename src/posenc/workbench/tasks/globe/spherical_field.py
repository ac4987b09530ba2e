"""Smooth isotropic random field on the sphere, generated from a seed.

    f = sum_{l=1}^{L} sum_{|m|<=l} c_lm Y_lm,    c_lm ~ N(0, (l+1)^-p),  scaled so that f has mean 0 and variance 1

The distribution of the field does not change under rotations. Averaged over fields, no place of the sphere is harder
than another, so an error at a pole or at the date line is due to the encoding. A single field differs from place to
place.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from posenc.kernels.harmonics import harmonics
from posenc.workbench.tasks.globe.raster import COLUMNS, ROWS, Lat, Lon

CHUNK = 8192
"""Number of places evaluated at a time."""


@dataclasses.dataclass(frozen=True, eq=False)
class Field:
    """A field on the sphere, from the coefficients of real spherical harmonics.

    Attributes:
        coefficients: ``(n,)``; entry ``l^2 + l + m`` belongs to degree l and order m.
    """

    coefficients: Float64[Tensor, "n"]

    @property
    def degree(self) -> int:
        """Largest degree L."""
        return math.isqrt(len(self.coefficients)) - 1

    @property
    def cell_mask(self) -> Bool[Tensor, "360 720"]:
        """True in every raster cell, for the field is defined everywhere."""
        return torch.ones(ROWS, COLUMNS, dtype=torch.bool)

    def variance_share(self, degree: int) -> float:
        """Share of the variance in the harmonics up to ``degree``."""
        power = self.coefficients.square()
        return float(power[: (degree + 1) ** 2].sum() / power.sum())

    def values_at(self, lon: Lon, lat: Lat) -> Float64[Tensor, "N"]:
        """Values of the field ``(N,)`` at places in degrees."""
        parts = zip(torch.deg2rad(lon).split(CHUNK), torch.deg2rad(lat).split(CHUNK), strict=True)
        values = [harmonics(a, b, self.degree) @ self.coefficients for a, b in parts]
        return torch.cat(values) if values else lon.new_zeros(0)


def random_field(degree: int, power: float, *, seed: int) -> Field:
    """Random field of a seed.

    Args:
        degree: L; the finest detail is 180 / L degrees.
        power: p; a larger value gives a smoother field.
        seed: Seed of the coefficients.

    Raises:
        ValueError: ``degree`` is below 1.
    """
    if degree < 1:
        raise ValueError(f"a field that is not a constant has degree 1 or more; got {degree}. 16 shows continents.")
    l = torch.arange(degree + 1, dtype=torch.float64)  # noqa: E741
    sizes = ((l + 1) ** (-power / 2)).repeat_interleave(2 * torch.arange(degree + 1) + 1)
    c = sizes * torch.randn(len(sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    c[0] = 0
    return Field(c * math.sqrt(4 * math.pi) / c.norm())
