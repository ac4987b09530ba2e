"""SphereDFS: the dfs variant of Sphere2Vec, a double Fourier series over scales of longitude and latitude.

    [sin lon_n; cos lon_n] x [sin lat_m; cos lat_m]  for all n, m,   then [sin lat_s, cos lat_s, sin lon_s, cos lon_s]
    lat_s = lat / lambda_s,  lon_s = lon / lambda_s,  lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Inner products depend on the differences of longitude and of latitude alone, as on a torus and not on a sphere.
Where 1 / lambda_s is not a whole number the row is discontinuous at the date line, as in the authors' code.

Source: Mai et al. 2023, arXiv 2306.17624 (first arXiv 2201.10489).

Conventions:
- Positions are (longitude, latitude), longitude first, in radians as ``posenc.sphere`` makes them.
- The ``4 S^2`` products come first, longitude slowest and sines before cosines, then the ``4 S`` others scale by scale,
  in the order of the authors' code (github gengchenmai/sphere2vec).
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import harmonics, sphere2vec
from posenc.kernels.harmonics import Unit
from posenc.kernels.sphere2vec import Globe
from posenc.positions import Positions
from posenc.scheme import Scheme


class SphereDFS(Scheme):
    """Sphere2Vec dfs (double Fourier series): ``4 S^2 + 4 S`` numbers.

        {sin, cos}(lon_n) {sin, cos}(lat_m)  for all n, m,   then  sin lat_s, cos lat_s, sin lon_s, cos lon_s

    Args:
        scales: Number S of scales.
        r_min: Smallest lambda, by which angles are divided; it has no unit.
        r_max: Largest lambda; 1 leaves the angles as they are.
        unit: Unit of longitude and latitude, "radians" or "degrees".

    Raises:
        ValueError: If ``scales`` is below 1, not ``0 < r_min <= r_max``, or ``unit`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import SphereDFS, sphere
        >>> scheme = SphereDFS(scales=3)
        >>> scheme.embed(scheme.prepare(sphere(torch.tensor([0.0, 13.4]), torch.tensor([0.0, 52.5])))).shape
        torch.Size([2, 48])

    References:
        Mai, Xuan, Zuo, He, Song, Ermon, Janowicz and Lao, 2023, "Sphere2Vec: A General-Purpose Location Representation
        Learning over a Spherical Surface for Large-Scale Geospatial Predictions", arXiv 2306.17624.
    """

    cite = sphere2vec.CITE
    examples = sphere2vec.EXAMPLES

    def __init__(self, scales: int = 16, *, r_min: float = 0.01, r_max: float = 1.0, unit: Unit = "radians") -> None:
        super().__init__()
        self.globe = Globe("SphereDFS", scales, r_min, r_max, unit)
        self.claims = self.globe.claims(translation="exact", isometric=True)

    @property
    @override
    def out_dim(self) -> int:
        return 4 * self.globe.scales**2 + 4 * self.globe.scales

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, out_dim)``, which depend on the positions alone."""
        pos = self._take(self.globe.in_unit(pos))
        lon_s, lat_s = self.globe.scaled(pos)
        by_lon, by_lat = torch.cat(lon_s, -1), torch.cat(lat_s, -1)
        products = (by_lon[..., :, None] * by_lat[..., None, :]).flatten(-2)
        return torch.cat([harmonics.masked_rows(products, pos), self.globe.rows([*lat_s, *lon_s], pos)], -1)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        scaled = self.globe.define_scaled(p)
        by_lon = [lon_s.sin() for lon_s, _ in scaled] + [lon_s.cos() for lon_s, _ in scaled]
        by_lat = [lat_s.sin() for _, lat_s in scaled] + [lat_s.cos() for _, lat_s in scaled]
        row = [x * y for x in by_lon for y in by_lat]
        for lon_s, lat_s in scaled:
            row += [lat_s.sin(), lat_s.cos(), lon_s.sin(), lon_s.cos()]
        return torch.stack(row)
