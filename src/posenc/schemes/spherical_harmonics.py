"""SphericalHarmonics: a place on the globe becomes the values there of all real spherical harmonics up to a degree.

    Y_lm = sqrt(2) P_l|m|(sin lat) sin(|m| lon)  (m < 0),    P_l0(sin lat)  (m = 0),    sqrt(2) P_lm cos(m lon)  (m > 0)

orthonormal on the sphere, so that rows have length ``(degree + 1) / sqrt(4 pi)`` and inner products depend on the angle
between two places alone, ``sum_l (2l+1)/(4 pi) P_l(cos angle)``. By recurrence: any degree, differentiable, finite at
the poles and at degree 50.

Source: Russwurm et al. 2024, arXiv 2310.06743 (as an encoding of places). Conventions: positions are (longitude,
latitude), longitude first, in radians as ``posenc.sphere`` makes them; entry ``l^2 + l + m``, m = -l .. l; degree L has
``(L + 1)^2`` numbers (others call L + 1 the degree). ``condon_shortley=False`` leaves the sign (-1)^m out, degree 1 is
(y, z, x) times sqrt(3 / 4 pi) with plus signs; True puts it in, as tiny-cuda-nn has it (-y, z, -x). What goes past a
pole comes down on its other side; angles of more than one turn are refused.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posenc.kernels import harmonics
from posenc.kernels.harmonics import TURN, Unit
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SphericalHarmonics(Scheme):
    """``e(lon, lat) = (Y_00, Y_1-1, Y_10, Y_11, .. Y_LL)`` at that place.

    degree: the largest l. unit: of longitude and latitude, "radians" or "degrees". condon_shortley: with the sign
    ``(-1)^m``.
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
    def out_dim(self) -> int:
        return (self.degree + 1) ** 2

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, (degree + 1)^2)``."""
        harmonics.refuse_degrees(type(self).__name__, pos, self.unit)
        rows = harmonics.harmonics(*harmonics.lon_lat(self._take(pos), self.unit), self.degree)
        if self.condon_shortley:
            m = [abs(m) for l in range(self.degree + 1) for m in range(-l, l + 1)]  # noqa: E741
            rows = rows * (1 - 2 * (torch.tensor(m, device=rows.device) % 2))
        return harmonics.finish(rows, pos)

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        """The textbook's unnormalised Legendre functions, ``P_mm = (2m-1)!! cos^m lat`` and ``(l-m) P_lm = (2l-1) sin
        lat P_l-1,m - (l+m-1) P_l-2,m``, each divided by its norm; their explicit sum is off by 2e-6 at degree 30.
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
                size = math.sqrt((2 * l + 1) / (4 * math.pi)) * math.prod(k**-0.5 for k in range(l - a + 1, l + a + 1))
                around = 1 if m == 0 else math.sqrt(2) * ((a * lon).sin() if m < 0 else (m * lon).cos())
                row.append(P[l, a] * size * around * (-1 if self.condon_shortley and m % 2 else 1))
        return torch.stack(row)
