"""Functions on the sphere: real spherical harmonics of any degree, and the scaled sines and cosines of Sphere2Vec.

    P_mm = sqrt((2m+1)/(2m)) cos(lat) P_{m-1,m-1},     P_{m+1,m} = sqrt(2m+3) sin(lat) P_mm,     P_00 = 1/sqrt(4 pi)
    P_lm = sqrt((4l^2-1)/(l^2-m^2)) (sin(lat) P_{l-1,m} - sqrt(((l-1)^2-m^2)/(4(l-1)^2-1)) P_{l-2,m})

These are the associated Legendre functions of the sine of latitude, normalized so that values stay bounded (Holmes and
Featherstone 2002). They are polynomials in sin and cos of latitude, so they and their derivatives are finite at the
poles too.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from posenc.positions import Positions, readable

Unit = Literal["radians", "degrees"]
TURN = {"radians": 6.2832, "degrees": 360.0}
"""One full turn, rounded up, because 2 pi in float32 is greater than 2 pi in float64."""


def check_unit(name: str, unit: str) -> None:
    """Raise ValueError for an unknown unit of angles."""
    if unit not in get_args(Unit):
        raise ValueError(f"{name} takes longitude and latitude in 'radians' or 'degrees'; got unit={unit!r}.")


def refuse_degrees(name: str, pos: Positions, unit: Unit) -> None:
    """Raise ValueError for angles above one full turn.

    Such angles are most likely in the other unit, or were accumulated along a track.
    """
    if not isinstance(pos, Positions) or not readable(pos.coords) or not pos.coords.numel():
        return
    coords = pos.coords.detach()
    coords = coords if pos.placed is None else coords * pos.placed[..., None]
    size = float(coords.abs().max())
    if size > TURN[unit]:
        raise ValueError(
            f"{name} reads (longitude, latitude) in {unit}, within one turn; got {size:g}. "
            + ("Make positions by posenc.sphere(lon, lat), or choose unit='degrees'." if unit == "radians" else
               "Reduce an accumulated longitude by lon % 360.")
        )  # fmt: skip


def lon_lat(pos: Positions, unit: Unit) -> tuple[Tensor, Tensor]:
    """Return longitude and latitude ``(.., N)`` in radians, float64."""
    radians = pos.precise() * (math.pi / 180 if unit == "degrees" else 1.0)
    return radians[..., 0], radians[..., 1]


def masked_rows(rows: Tensor, pos: Positions) -> Tensor:
    """Convert rows ``(.., N, dim)`` to ``pos.table_dtype``, with zeros for tokens without a position."""
    rows = rows.to(pos.table_dtype)
    return rows if pos.placed is None else rows * pos.placed[..., None]


def legendre(lat: Tensor, degree: int) -> list[Tensor]:
    """Compute ``P_lm(sin lat)`` for l = 0 .. degree, each ``(.., N, l + 1)`` over m = 0 .. l."""
    u, t = lat.cos()[..., None], lat.sin()[..., None]
    rows = [torch.full_like(t, math.sqrt(1 / (4 * math.pi)))]
    for l in range(1, degree + 1):  # noqa: E741
        before = rows[-1]
        near, edge = (
            before[..., -1:] * t * math.sqrt(2 * l + 1),
            before[..., -1:] * u * math.sqrt((2 * l + 1) / (2 * l)),
        )
        parts = [near, edge]
        if l > 1:
            m = torch.arange(l - 1, dtype=lat.dtype, device=lat.device)
            a = ((4 * l**2 - 1) / (l**2 - m**2)).sqrt()
            b = (((l - 1) ** 2 - m**2) / (4 * (l - 1) ** 2 - 1)).sqrt()
            parts = [a * (t * before[..., :-1] - b * rows[-2]), *parts]
        rows.append(torch.cat(parts, -1))
    return rows


def harmonics(lon: Tensor, lat: Tensor, degree: int) -> Tensor:
    """Compute real orthonormal spherical harmonics ``Y_lm`` without the factor (-1)^m, ``(.., N, (degree + 1)^2)``.

    Entry ``l^2 + l + m`` is ``Y_lm``, for m = -l .. l.
    """
    angle = lon[..., None] * torch.arange(1, degree + 1, dtype=lon.dtype, device=lon.device)
    cos, sin = math.sqrt(2) * angle.cos(), math.sqrt(2) * angle.sin()
    rows = []
    for l, p in enumerate(legendre(lat, degree)):  # noqa: E741
        rows += [(p[..., 1:] * sin[..., :l]).flip(-1), p[..., :1], p[..., 1:] * cos[..., :l]]
    return torch.cat(rows, -1)


def check_scales(name: str, scales: int, r_min: float, r_max: float) -> None:
    """Raise ValueError for an invalid number of scales or invalid limits r_min and r_max."""
    if scales < 1 or not 0 < r_min <= r_max < math.inf:
        raise ValueError(
            f"{name} has at least one scale, from r_min > 0 up to r_max >= r_min; got scales={scales}, "
            f"r_min={r_min:g}, r_max={r_max:g}."
        )


def wavelengths(scales: int, r_min: float, r_max: float, device: torch.device | None = None) -> Tensor:
    """Compute wavelengths ``lambda_s = r_min (r_max / r_min)^(s / (S - 1))``, s = 0 .. S - 1, float64."""
    step = torch.arange(scales, dtype=torch.float64, device=device) / max(scales - 1, 1)
    return r_min * (r_max / r_min) ** step


def scaled(angle: Tensor, scales: int, r_min: float, r_max: float) -> tuple[Tensor, Tensor]:
    """Compute sine and cosine of ``angle / lambda_s``, each ``(.., N, S)``."""
    angle = angle[..., None] / wavelengths(scales, r_min, r_max, angle.device)
    return angle.sin(), angle.cos()
