"""SphereC: a place on the globe becomes its unit vector, at every scale of longitude and latitude.

    [sin lat_s, cos lat_s cos lon_s, cos lat_s sin lon_s],   lat_s = lat / lambda_s,  lon_s = lon / lambda_s
    lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Where 1 / lambda_s is no whole number the row jumps at the date line, as the authors' does.

Source: Mai et al. 2023, arXiv 2306.17624 (first arXiv 2201.10489); order of numbers as in their code (github
gengchenmai/sphere2vec). Conventions: positions are (longitude, latitude), longitude first, in radians as
``posenc.sphere`` makes them; scale by scale.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posenc.kernels import harmonics
from posenc.kernels.harmonics import TURN, Unit
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class SphereC(Scheme):
    """``[sin lat_s, cos lat_s cos lon_s, cos lat_s sin lon_s]`` for every scale s.

    scales: S. r_min, r_max: the shortest and the longest lambda, which divide angles in radians; 1 is the globe itself.
    unit: of longitude and latitude, "radians" or "degrees".
    """

    cite = """@article{mai2023sphere2vec,
  title={Sphere2Vec: A General-Purpose Location Representation Learning over a Spherical Surface for Large-Scale
         Geospatial Predictions},
  author={Mai, Gengchen and Xuan, Yao and Zuo, Wenyun and He, Yutong and Song, Jiaming and Ermon, Stefano and
          Janowicz, Krzysztof and Lao, Ni},
  journal={ISPRS Journal of Photogrammetry and Remote Sensing}, year={2023}, note={arXiv:2306.17624}}"""
    examples = (
        {"scales": 3},
        {"scales": 3, "r_min": 0.1},
        {"scales": 3, "r_max": 0.5},
        {"scales": 3, "unit": "degrees"},
    )

    def __init__(self, scales: int = 16, *, r_min: float = 0.01, r_max: float = 1.0, unit: Unit = "radians") -> None:
        super().__init__()
        harmonics.check_unit("SphereC", unit)
        harmonics.check_scales("SphereC", scales, r_min, r_max)
        self.scales, self.r_min, self.r_max = scales, r_min, r_max
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
        return 3 * self.scales

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, out_dim)``."""
        harmonics.refuse_degrees(type(self).__name__, pos, self.unit)
        lon, lat = harmonics.lon_lat(self._take(pos), self.unit)
        sin_lon, cos_lon = harmonics.scaled(lon, self.scales, self.r_min, self.r_max)
        sin_lat, cos_lat = harmonics.scaled(lat, self.scales, self.r_min, self.r_max)
        rows = torch.stack([sin_lat, cos_lat * cos_lon, cos_lat * sin_lon], -1).flatten(-2)
        return harmonics.finish(rows, pos)

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        lon, lat = (angle * (math.pi / 180 if self.unit == "degrees" else 1) for angle in p)
        row = []
        for s in range(self.scales):
            shorter = self.r_min * (self.r_max / self.r_min) ** (s / max(self.scales - 1, 1))
            a, b = lon / shorter, lat / shorter
            row += [b.sin(), b.cos() * a.cos(), b.cos() * a.sin()]
        return torch.stack(row)
