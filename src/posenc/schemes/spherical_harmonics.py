"""Spherical harmonics: all real spherical harmonics up to a degree, evaluated at a place on the globe.

    Y_lm = sqrt(2) P_l|m|(sin lat) sin(|m| lon)  (m < 0),    P_l0(sin lat)  (m = 0),    sqrt(2) P_lm cos(m lon)  (m > 0)

They are orthonormal on the sphere, so rows have length ``(degree + 1) / sqrt(4 pi)`` and inner products depend on the
angle between two places alone, ``sum_l (2l+1)/(4 pi) P_l(cos angle)``. They are computed by recurrence, for any degree;
they are differentiable, and finite at the poles and at degree 50.

Source: Russwurm et al. 2024, arXiv 2310.06743 (as a location encoding).

Conventions:
- Positions are (longitude, latitude), longitude first, in radians as ``posenc.sphere`` makes them.
- Entry ``l^2 + l + m`` is Y_lm, m = -l .. l. Degree L has ``(L + 1)^2`` numbers; some libraries call L + 1 the degree.
- ``condon_shortley=False`` omits the sign (-1)^m, so that degree 1 is (y, z, x) times sqrt(3 / 4 pi). True includes it,
  as tiny-cuda-nn does: (-y, z, -x).
- A latitude beyond a pole continues on the other side of it. Angles of more than one turn are refused.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import harmonics
from posenc.kernels.harmonics import TURN, Unit
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SphericalHarmonics(Scheme):
    """Real spherical harmonics as a location encoding, ``(degree + 1)^2`` numbers.

        e(lon, lat) = (Y_00, Y_1-1, Y_10, Y_11, .. Y_LL)(lon, lat)

    Args:
        degree: Largest degree L of a harmonic, at least 1.
        unit: Unit of longitude and latitude, "radians" or "degrees".
        condon_shortley: Whether to include the Condon-Shortley phase ``(-1)^m``.

    Raises:
        ValueError: If ``degree`` is below 1 or ``unit`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import SphericalHarmonics, sphere
        >>> scheme = SphericalHarmonics(degree=3)
        >>> scheme.embed(scheme.prepare(sphere(torch.tensor([0.0, 13.4]), torch.tensor([0.0, 52.5])))).shape
        torch.Size([2, 16])

    References:
        Russwurm, Klemmer, Rolf, Zbinden and Tuia, 2024, "Geographic Location Encoding with Spherical Harmonics and
        Sinusoidal Representation Networks", arXiv 2310.06743.
    """

    cite = """@inproceedings{russwurm2024geographic,
  title={Geographic Location Encoding with Spherical Harmonics and Sinusoidal Representation Networks},
  author={Russwurm, Marc and Klemmer, Konstantin and Rolf, Esther and Zbinden, Robin and Tuia, Devis},
  booktitle={ICLR}, year={2024}, note={arXiv:2310.06743}}"""
    examples = (
        {"degree": 3},
        {"degree": 6},
        {"degree": 3, "unit": "degrees"},
        {"degree": 3, "condon_shortley": True},
    )
    conventions = ("condon_shortley",)

    def __init__(self, degree: int, *, unit: Unit = "radians", condon_shortley: bool = False) -> None:
        super().__init__()
        harmonics.check_unit("SphericalHarmonics", unit)
        if degree < 1:
            raise ValueError(f"SphericalHarmonics needs degree >= 1, degree 0 is one constant; got {degree}.")
        self.degree, self.condon_shortley = degree, condon_shortley
        self.unit: Unit = unit
        self.claims = Claims(
            translation="none",
            isometric=True,
            learned=False,
            range=(-TURN[unit], TURN[unit]),
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    @override
    def out_dim(self) -> int:
        return (self.degree + 1) ** 2

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, out_dim)``, which depend on the positions alone."""
        harmonics.refuse_degrees(type(self).__name__, pos, self.unit)
        rows = harmonics.harmonics(*harmonics.lon_lat(self._take(pos), self.unit), self.degree)
        if self.condon_shortley:
            m = [abs(m) for l in range(self.degree + 1) for m in range(-l, l + 1)]  # noqa: E741
            rows = rows * (1 - 2 * (torch.tensor(m, device=rows.device) % 2))
        return harmonics.masked_rows(rows, pos)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        """Evaluate the textbook's unnormalized associated Legendre functions and divide each by its norm.

        ``P_mm = (2m-1)!! cos^m lat`` and ``(l-m) P_lm = (2l-1) sin lat P_l-1,m - (l+m-1) P_l-2,m``. The explicit sum of
        powers would be wrong by 2e-6 at degree 30.
        """
        lon, lat = (angle * (math.pi / 180 if self.unit == "degrees" else 1) for angle in p)
        P = {}
        for m in range(self.degree + 1):
            P[m - 1, m] = torch.zeros_like(lat)
            P[m, m] = float(math.prod(range(1, 2 * m, 2))) * lat.cos() ** m
            for l in range(m + 1, self.degree + 1):  # noqa: E741
                P[l, m] = ((2 * l - 1) * lat.sin() * P[l - 1, m] - (l + m - 1) * P[l - 2, m]) / (l - m)
        row = []
        for l in range(self.degree + 1):  # noqa: E741
            for m in range(-l, l + 1):
                a = abs(m)
                norm = math.sqrt((2 * l + 1) / (4 * math.pi)) * math.prod(k**-0.5 for k in range(l - a + 1, l + a + 1))
                around = 1 if m == 0 else math.sqrt(2) * ((a * lon).sin() if m < 0 else (m * lon).cos())
                row.append(P[l, a] * norm * around * (-1 if self.condon_shortley and m % 2 else 1))
        return torch.stack(row)
