"""SphereDFS: a double Fourier series on the globe: every scale of longitude times every scale of latitude.

    [sin lon_n; cos lon_n] x [sin lat_m; cos lat_m]  for all n, m,   then [sin lat_s, cos lat_s, sin lon_s, cos lon_s]
    lat_s = lat / lambda_s,  lon_s = lon / lambda_s,  lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Inner products depend on the differences of longitude and of latitude alone, as on a torus and not on a sphere. Where
1 / lambda_s is no whole number the row jumps at the date line, as the authors' does.

Source: Mai et al. 2023, arXiv 2306.17624 (first arXiv 2201.10489); order of numbers as in their code (github
gengchenmai/sphere2vec). Conventions: positions are (longitude, latitude), longitude first, in radians as
``posenc.sphere`` makes them; products first, ``4 S^2`` of them, longitude slowest and sines before cosines, then the
``4 S`` others scale by scale.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posenc.kernels import harmonics, sphere2vec
from posenc.kernels.harmonics import Unit
from posenc.kernels.sphere2vec import Globe
from posenc.positions import Positions
from posenc.scheme import Scheme


class SphereDFS(Scheme):
    """``{sin, cos}(lon_n) {sin, cos}(lat_m) for all n, m``, and SphereCPlus' first four numbers.

    scales: S. r_min, r_max: the shortest and the longest lambda, which divide angles in radians; 1 is the globe itself.
    unit: of longitude and latitude, "radians" or "degrees".
    """

    cite = sphere2vec.CITE
    examples = sphere2vec.EXAMPLES

    def __init__(self, scales: int = 16, *, r_min: float = 0.01, r_max: float = 1.0, unit: Unit = "radians") -> None:
        super().__init__()
        self.globe = Globe("SphereDFS", scales, r_min, r_max, unit)
        self.claims = self.globe.claims(translation="exact", isometric=True)

    @property
    def out_dim(self) -> int:
        return 4 * self.globe.scales**2 + 4 * self.globe.scales

    def prepare(self, pos: Positions) -> Tensor:
        """The finished rows ``(.., N, out_dim)``."""
        self.globe.refuse_degrees(pos)
        lon, lat = self.globe.scaled(self._take(pos))
        by_lon, by_lat = torch.cat(lon, -1), torch.cat(lat, -1)
        products = (by_lon[..., :, None] * by_lat[..., None, :]).flatten(-2)
        rows = torch.cat([products, torch.stack([*lat, *lon], -1).flatten(-2)], -1)
        return harmonics.finish(rows, pos)

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        _, _, each = self.globe.define(p)
        by_lon = [a.sin() for a, _ in each] + [a.cos() for a, _ in each]
        by_lat = [b.sin() for _, b in each] + [b.cos() for _, b in each]
        row = [x * y for x in by_lon for y in by_lat]
        for a, b in each:
            row += [b.sin(), b.cos(), a.sin(), a.cos()]
        return torch.stack(row)
