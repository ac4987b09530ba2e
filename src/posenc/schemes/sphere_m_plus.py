"""SphereMPlus: SphereM beside the sines and cosines of latitude and longitude themselves, at every scale.

    [sin lat_s, cos lat_s, sin lon_s, cos lon_s,
     cos lat_s cos lon, cos lat cos lon_s, cos lat_s sin lon, cos lat sin lon_s]
    lat_s = lat / lambda_s,  lon_s = lon / lambda_s,  lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Where 1 / lambda_s is no whole number the row jumps at the date line, as the authors' does.

Source: Mai et al. 2023, arXiv 2306.17624 (first arXiv 2201.10489); order of numbers as in their code (github
gengchenmai/sphere2vec). Conventions: positions are (longitude, latitude), longitude first, in radians as
``posenc.sphere`` makes them; scale by scale.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.kernels import harmonics, sphere2vec
from posenc.kernels.harmonics import Unit
from posenc.kernels.sphere2vec import Globe
from posenc.positions import Positions
from posenc.scheme import Scheme


class SphereMPlus(Scheme):
    """``[sin lat_s, cos lat_s, sin lon_s, cos lon_s, cos lat_s cos lon, cos lat cos lon_s, ..]`` for every scale s.

    scales: S. r_min, r_max: the shortest and the longest lambda, which divide angles in radians; 1 is the globe itself.
    unit: of longitude and latitude, "radians" or "degrees".
    """

    cite = sphere2vec.CITE
    examples = sphere2vec.EXAMPLES

    def __init__(self, scales: int = 16, *, r_min: float = 0.01, r_max: float = 1.0, unit: Unit = "radians") -> None:
        super().__init__()
        self.globe = Globe("SphereMPlus", scales, r_min, r_max, unit)
        self.claims = self.globe.claims(translation="none", isometric=False)

    @property
    def out_dim(self) -> int:
        return 8 * self.globe.scales

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, out_dim)``."""
        self.globe.refuse_degrees(pos)
        (lon, lat), (lon_s, lat_s) = self.globe.whole(self._take(pos)), self.globe.scaled(pos)
        parts = [lat_s.sin, lat_s.cos, lon_s.sin, lon_s.cos]
        parts += [lat_s.cos * lon.cos, lat.cos * lon_s.cos, lat_s.cos * lon.sin, lat.cos * lon_s.sin]
        return harmonics.finish(torch.stack(parts, -1).flatten(-2), pos)

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        lon, lat, each = self.globe.define(p)
        row = []
        for a, b in each:
            row += [b.sin(), b.cos(), a.sin(), a.cos()]
            row += [b.cos() * lon.cos(), lat.cos() * a.cos(), b.cos() * lon.sin(), lat.cos() * a.sin()]
        return torch.stack(row)
