"""SphereMPlus: the sphereM+ variant of Sphere2Vec, sphereM with the sines and cosines of latitude and longitude.

    [sin lat_s, cos lat_s, sin lon_s, cos lon_s,
     cos lat_s cos lon, cos lat cos lon_s, cos lat_s sin lon, cos lat sin lon_s]   for s = 0 .. S-1
    lat_s = lat / lambda_s,  lon_s = lon / lambda_s,  lambda_s = r_min (r_max / r_min)^(s/(S-1)),  s = 0 .. S-1

Where 1 / lambda_s is not a whole number the row is discontinuous at the date line, as in the authors' code.

Source: Mai et al. 2023, arXiv 2306.17624 (first arXiv 2201.10489).

Conventions:
- Positions are (longitude, latitude), longitude first, in radians as ``posenc.sphere`` makes them.
- Numbers stand scale by scale, in the order of the authors' code (github gengchenmai/sphere2vec).
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels import sphere2vec
from posenc.kernels.harmonics import Unit
from posenc.kernels.sphere2vec import Globe
from posenc.positions import Positions
from posenc.scheme import Scheme


class SphereMPlus(Scheme):
    """Sphere2Vec sphereM+: eight numbers per scale, ``8 S`` in all.

        [sin lat_s, cos lat_s, sin lon_s, cos lon_s,
         cos lat_s cos lon, cos lat cos lon_s, cos lat_s sin lon, cos lat sin lon_s],   s = 0 .. S-1

    Args:
        scales: Number S of scales.
        r_min: Smallest lambda, by which angles are divided; it has no unit.
        r_max: Largest lambda; 1 leaves the angles as they are.
        unit: Unit of longitude and latitude, "radians" or "degrees".

    Raises:
        ValueError: If ``scales`` is below 1, not ``0 < r_min <= r_max``, or ``unit`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import SphereMPlus, sphere
        >>> scheme = SphereMPlus(scales=3)
        >>> scheme.embed(scheme.prepare(sphere(torch.tensor([0.0, 13.4]), torch.tensor([0.0, 52.5])))).shape
        torch.Size([2, 24])

    References:
        Mai, Xuan, Zuo, He, Song, Ermon, Janowicz and Lao, 2023, "Sphere2Vec: A General-Purpose Location Representation
        Learning over a Spherical Surface for Large-Scale Geospatial Predictions", arXiv 2306.17624.
    """

    cite = sphere2vec.CITE
    examples = sphere2vec.EXAMPLES

    def __init__(self, scales: int = 16, *, r_min: float = 0.01, r_max: float = 1.0, unit: Unit = "radians") -> None:
        super().__init__()
        self.globe = Globe("SphereMPlus", scales, r_min, r_max, unit)
        self.claims = self.globe.claims(translation="none", isometric=False)

    @property
    @override
    def out_dim(self) -> int:
        return 8 * self.globe.scales

    @override
    def prepare(self, pos: Positions) -> Tensor:
        """Compute the rows ``(.., N, out_dim)``, which depend on the positions alone."""
        pos = self._take(self.globe.in_unit(pos))
        (lon, lat), (lon_s, lat_s) = self.globe.unscaled(pos), self.globe.scaled(pos)
        terms = [lat_s.cos * lon.cos, lat.cos * lon_s.cos, lat_s.cos * lon.sin, lat.cos * lon_s.sin]
        return self.globe.rows([*lat_s, *lon_s, *terms], pos)

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        (lon, lat), row = self.globe.define_unscaled(p), []
        for lon_s, lat_s in self.globe.define_scaled(p):
            row += [lat_s.sin(), lat_s.cos(), lon_s.sin(), lon_s.cos()]
            row += [lat_s.cos() * lon.cos(), lat.cos() * lon_s.cos()]
            row += [lat_s.cos() * lon.sin(), lat.cos() * lon_s.sin()]
        return torch.stack(row)
