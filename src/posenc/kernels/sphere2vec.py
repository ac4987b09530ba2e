"""What the five encodings of Sphere2Vec share: longitude and latitude at S scales, their claims, examples and paper.

    lon_s = lon / lambda_s,  lat_s = lat / lambda_s,   lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Mai et al. 2023, arXiv 2306.17624.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

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
    """Sine and cosine of an angle, ``(.., N, 1)``, or of it at every scale, ``(.., N, S)``."""

    sin: Tensor
    cos: Tensor


@dataclasses.dataclass(frozen=True)
class Globe:
    """Places in ``unit``, read at ``scales`` scales from r_min to r_max, which divide radians. name: of the scheme."""

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

    def refuse_degrees(self, pos: Positions) -> None:
        harmonics.refuse_degrees(self.name, pos, self.unit)

    def whole(self, pos: Positions) -> tuple[Angle, Angle]:
        """Longitude and latitude as they are."""
        lon, lat = (angle[..., None] for angle in harmonics.lon_lat(pos, self.unit))
        return Angle(lon.sin(), lon.cos()), Angle(lat.sin(), lat.cos())

    def scaled(self, pos: Positions) -> tuple[Angle, Angle]:
        """``lon_s`` and ``lat_s``."""
        angles = harmonics.lon_lat(pos, self.unit)
        lon, lat = (Angle(*harmonics.scaled(angle, self.scales, self.r_min, self.r_max)) for angle in angles)
        return lon, lat

    def define(self, p: Tensor) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
        """One place by the formula, for scalar definitions: lon, lat in radians, and ``(lon_s, lat_s)`` for every s."""
        lon, lat = (angle * (math.pi / 180 if self.unit == "degrees" else 1) for angle in p)
        each = []
        for s in range(self.scales):
            shorter = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
            each.append((lon / shorter, lat / shorter))
        return lon, lat, each
