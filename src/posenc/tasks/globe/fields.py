"""A smooth random field on the sphere, made and not downloaded.

    f = sum_{l=1}^{L} sum_{|m|<=l} c_lm Y_lm,    c_lm ~ N(0, (l+1)^-p),  scaled so that f has mean 0 and variance 1

Isotropic: in distribution it does not change under any rotation, so over fields no place of the sphere is harder than
another, and what an encoding loses at a pole or at the date line it loses by itself. One field is not alike everywhere.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from posenc.kernels.harmonics import harmonics
from posenc.tasks.globe.raster import COLUMNS, ROWS, Lat, Lon

CHUNK = 8192


@dataclasses.dataclass(frozen=True, eq=False)
class Field:
    """``f(lon, lat)`` from the coefficients of real spherical harmonics, entry ``l^2 + l + m``."""

    coefficients: Float64[Tensor, "n"]

    @property
    def degree(self) -> int:
        return math.isqrt(len(self.coefficients)) - 1

    @property
    def asked(self) -> Bool[Tensor, "360 720"]:
        return torch.ones(ROWS, COLUMNS, dtype=torch.bool)

    def share(self, degree: int) -> float:
        """How much of the variance lies in the span of the harmonics up to a degree."""
        power = self.coefficients.square()
        return float(power[: (degree + 1) ** 2].sum() / power.sum())

    def at(self, lon: Lon, lat: Lat) -> Float64[Tensor, "N"]:
        """The field at places in degrees."""
        parts = zip(torch.deg2rad(lon).split(CHUNK), torch.deg2rad(lat).split(CHUNK), strict=True)
        found = [harmonics(a, b, self.degree) @ self.coefficients for a, b in parts]
        return torch.cat(found) if found else lon.new_zeros(0)


def random_field(degree: int, power: float, *, seed: int) -> Field:
    """The field of a seed. degree: L, the finest detail is 180/L degrees; power: p, larger is smoother.

    Raises ValueError for a degree below 1.
    """
    if degree < 1:
        raise ValueError(f"a field that is no constant has degree 1 or more; got {degree}. 16 shows continents.")
    l = torch.arange(degree + 1, dtype=torch.float64)  # noqa: E741
    sizes = ((l + 1) ** (-power / 2)).repeat_interleave(2 * torch.arange(degree + 1) + 1)
    c = sizes * torch.randn(len(sizes), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    c[0] = 0
    return Field(c * math.sqrt(4 * math.pi) / c.norm())
