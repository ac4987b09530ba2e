"""Shared parts of the five Sphere2Vec encodings: angles at S scales, rows, claims, examples and citation.

    lon_s = lon / lambda_s,  lat_s = lat / lambda_s,   lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Source: Mai et al. 2023, arXiv 2306.17624.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from posenc.kernels import harmonics
from posenc.kernels.harmonics import TURN, Unit
from posenc.positions import Positions
from posenc.scheme import Claims

CITE = """@article{mai2023sphere2vec,
  title={Sphere2Vec: A General-Purpose Location Representation Learning over a Spherical Surface for Large-Scale
         Geospatial Predictions},
  author={Mai, Gengchen and Xuan, Yao and Zuo, Wenyun and He, Yutong and Song, Jiaming and Ermon, Stefano and
          Janowicz, Krzysztof and Lao, Ni},
  journal={ISPRS Journal of Photogrammetry and Remote Sensing}, year={2023}, note={arXiv:2306.17624}}"""
EXAMPLES = ({"scales": 3}, {"scales": 3, "r_min": 0.1}, {"scales": 3, "r_max": 0.5}, {"scales": 3, "unit": "degrees"})


class Angle(NamedTuple):
    """Sine and cosine of an angle: unscaled ``(.., N, 1)``, or at every scale ``(.., N, S)``."""

    sin: Tensor
    cos: Tensor


@dataclasses.dataclass(frozen=True)
class Globe:
    """Angles of places on the globe at ``scales`` scales from r_min to r_max; ``name`` is the scheme's, for errors."""

    name: str
    scales: int
    r_min: float
    r_max: float
    unit: Unit

    def __post_init__(self) -> None:
        harmonics.check_unit(self.name, self.unit)
        harmonics.check_scales(self.name, self.scales, self.r_min, self.r_max)

    def claims(self, *, translation: Literal["exact", "none"], isometric: bool) -> Claims:
        return Claims(
            translation=translation,
            isometric=isometric,
            learned=False,
            range=(-TURN[self.unit], TURN[self.unit]),
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def in_unit(self, pos: Positions) -> Positions:
        """The positions unchanged; raises ValueError for angles of more than one turn, which suggest the other unit."""
        harmonics.refuse_degrees(self.name, pos, self.unit)
        return pos

    def rows(self, terms: Sequence[Tensor], pos: Positions) -> Tensor:
        """Rows ``(.., N, T S)`` of T terms ``(.., N, S)``, scale by scale; zero for tokens without a position."""
        return harmonics.masked_rows(torch.stack(list(terms), -1).flatten(-2), pos)

    def unscaled(self, pos: Positions) -> tuple[Angle, Angle]:
        """Longitude and latitude."""
        lon, lat = (angle[..., None] for angle in harmonics.lon_lat(pos, self.unit))
        return Angle(lon.sin(), lon.cos()), Angle(lat.sin(), lat.cos())

    def scaled(self, pos: Positions) -> tuple[Angle, Angle]:
        """Longitude and latitude divided by every lambda_s."""
        angles = harmonics.lon_lat(pos, self.unit)
        lon, lat = (Angle(*harmonics.scaled(angle, self.scales, self.r_min, self.r_max)) for angle in angles)
        return lon, lat

    def define_unscaled(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Longitude and latitude of one place ``(2,)`` in radians, for scalar definitions."""
        lon, lat = (angle * (math.pi / 180 if self.unit == "degrees" else 1) for angle in p)
        return lon, lat

    def define_scaled(self, p: Tensor) -> list[tuple[Tensor, Tensor]]:
        """``(lon_s, lat_s)`` of one place for s = 0 .. S-1, by the formula."""
        lon, lat = self.define_unscaled(p)
        scaled = []
        for s in range(self.scales):
            lambda_s = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
            scaled.append((lon / lambda_s, lat / lambda_s))
        return scaled
