"""GeoCLIP: location encoder of GeoCLIP; Fourier features of a map at several scales, a network for each, summed.

    v = (x, y) of the Equal Earth projection,  divided so that x is -1 to 1 along the equator
    r_s = [cos 2 pi B_s v | sin 2 pi B_s v],   B_s in R^{F/2 x 2} ~ N(0, sigma_s^2), never trained
    e = sum_s W_s3 h_s + b_s3,   h_s = relu(W_s2 relu(W_s1 relu(W_s0 r_s + b_s0) + b_s1) + b_s2)

    sin theta = sqrt(3)/2 sin lat,   y = A_1 theta + A_2 theta^3 + A_3 theta^7 + A_4 theta^9
    x = 2 sqrt(3) lon cos theta / (3 (A_1 + 3 A_2 theta^2 + 7 A_3 theta^6 + 9 A_4 theta^8))

The map keeps areas. It is cut along the meridian of 180 degrees, where rows are discontinuous, and its poles are lines,
so the rows of a pole differ by longitude.

Source: Vivanco Cepeda et al. 2023, arXiv 2309.16020, and the released code (github VicenteVivan/geo-clip,
location_encoder.py); Savric, Patterson and Jenny 2018 for the projection.

Conventions:
- Positions are (longitude, latitude), longitude first, in radians as ``posenc.sphere`` makes them. The authors have
  (latitude, longitude) in degrees.
- sigma is in cycles per unit of the map, which is half of the equator: 1 is one cycle in 20,000 km.
- The authors' widths are dim 512, features 512 and hidden 1024: 9.4 million parameters. Weights and biases start as in
  ``torch.nn.Linear``.
- B (``directions``) is saved with the model. It stays in float32 when the module is cast.
- A shift of all places changes inner products, because the map stretches by latitude. With sigma of 1 and more, rows
  differ so much between draws that the contract does not see this in its thousands of draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels import harmonics
from posenc.kernels.harmonics import TURN, Unit
from posenc.kernels.wave_vectors import angles
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.whole_numbers import are_whole

A_1, A_2, A_3, A_4 = 1.340264, -0.081106, 0.000893, 0.003796
"""Coefficients of the Equal Earth projection."""
SCALE = 66.50336 / 180
"""Factor of the map in the released code: 1 at the end of the equator."""


class Features(NamedTuple):
    """Fourier features ``(.., S, N, F)`` of S scales, and ``placed`` as in Positions."""

    r: Tensor
    placed: Tensor | None


class GeoCLIP(Scheme):
    """Location encoder of GeoCLIP, for places on the globe.

        e = sum_s MLP_s([cos 2 pi B_s v | sin 2 pi B_s v]),   v the Equal Earth projection of a place

    Args:
        dim: Width of the embedding.
        sigma: Standard deviations of the frequencies B_s, positive, in cycles per half of the equator; one network for
            each. Default: (1, 16, 256).
        features: Number F of cosines and sines of a scale, even. Default: 512.
        hidden: Width of the three hidden layers of a network. Default: 1024.
        unit: Unit of the positions, "radians" or "degrees". Default: "radians", which ``posenc.sphere`` returns for
            longitude and latitude in either unit.
        generator: Random generator of the frequencies and initial weights. Default: torch's global generator.

    Raises:
        ValueError: If a size is less than 1, ``features`` is odd, ``sigma`` is empty or not positive and finite, or
            ``unit`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import GeoCLIP, sphere
        >>> scheme = GeoCLIP(dim=16, features=32, hidden=8)
        >>> scheme.embed(scheme.prepare(sphere(torch.tensor([0.0, 13.4]), torch.tensor([0.0, 52.5])))).shape
        torch.Size([2, 16])

    References:
        Vivanco Cepeda, Nayak and Shah, 2023, "GeoCLIP: Clip-Inspired Alignment between Locations and Images for
        Effective Worldwide Geo-localization", arXiv 2309.16020.
        Savric, Patterson and Jenny, 2018, "The Equal Earth map projection".
    """

    cite = """@inproceedings{vivanco2023geoclip,
  title={{GeoCLIP}: Clip-Inspired Alignment between Locations and Images for Effective Worldwide Geo-localization},
  author={Vivanco Cepeda, Vicente and Nayak, Gaurav Kumar and Shah, Mubarak},
  booktitle={NeurIPS}, year={2023}, note={arXiv:2309.16020}}"""
    examples = (
        {"dim": 12, "features": 64, "hidden": 32, "sigma": (0.2, 0.6)},
        {"dim": 12, "features": 64, "hidden": 32, "sigma": (0.3,)},
        {"dim": 12, "features": 96, "hidden": 24, "sigma": (0.3,), "unit": "degrees"},
    )
    wide = frozenset({"directions"})

    directions: Tensor

    def __init__(
        self, dim: int, *, sigma: Sequence[float] = (1.0, 16.0, 256.0), features: int = 512, hidden: int = 1024,
        unit: Unit = "radians", generator: torch.Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        harmonics.check_unit("GeoCLIP", unit)
        if not are_whole(dim, features, hidden) or features % 2:
            raise ValueError(
                f"GeoCLIP needs whole numbers of at least 1, and even features; got dim={dim!r}, "
                f"features={features!r}, hidden={hidden!r}. Write GeoCLIP(dim=64, features=64, hidden=32)."
            )
        if not len(sigma) or not all(0 < each < math.inf for each in sigma):
            raise ValueError(f"sigma are positive numbers, as (1, 16, 256); got {tuple(sigma)}.")
        self.sigma = tuple(float(each) for each in sigma)
        self.unit: Unit = unit
        widths = (features, hidden, hidden, hidden, dim)
        self.directions = nn.Buffer(torch.empty(len(sigma), features // 2, 2))
        layers = [(len(sigma), wide, narrow) for narrow, wide in itertools.pairwise(widths)]
        self.weights = nn.ParameterList(torch.empty(layer) for layer in layers)
        self.biases = nn.ParameterList(torch.empty(layer[:2]) for layer in layers)
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=True,
            range=(-TURN[unit], TURN[unit]),
            axes=2,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the frequencies, weights and biases again, also after the module was built on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            for own, sigma in zip(self.directions, self.sigma, strict=True):
                own.normal_(0, sigma, generator=generator)
            for weight, bias in zip(self.weights, self.biases, strict=True):
                for each in (weight, bias):
                    each.uniform_(-(weight.shape[-1] ** -0.5), weight.shape[-1] ** -0.5, generator=generator)

    @property
    @override
    def out_dim(self) -> int:
        return self.biases[-1].shape[-1]

    @override
    def prepare(self, pos: Positions) -> Features:
        harmonics.refuse_degrees("GeoCLIP", pos, self.unit)
        place = equal_earth(*harmonics.lon_lat(self._take(pos), self.unit))
        angle = angles(place.unsqueeze(-3) @ self.directions.double().mT, pos.table_dtype)
        return Features(torch.cat([angle.cos(), angle.sin()], -1), pos.placed)

    @override
    def embed(self, where: Features) -> Tensor:
        rows = where.r.to(self.weights[0].dtype)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = (rows.relu() if layer else rows) @ weight.mT + bias[:, None]
        rows = rows.sum(-3)
        return rows if where.placed is None else rows * where.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        lon, lat = p * (math.pi / 180 if self.unit == "degrees" else 1)
        t = torch.asin(3**0.5 / 2 * torch.sin(lat))
        by = 3 * (A_1 + 3 * A_2 * t**2 + 7 * A_3 * t**6 + 9 * A_4 * t**8)
        y = A_1 * t + A_2 * t**3 + A_3 * t**7 + A_4 * t**9
        v, row = SCALE * torch.stack([2 * 3**0.5 * lon * torch.cos(t) / by, y]), torch.zeros(self.out_dim)
        for s, own in enumerate(self.directions):
            turns = [2 * math.pi * (b @ v) for b in own]
            h = torch.stack([torch.cos(a) for a in turns] + [torch.sin(a) for a in turns])
            for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
                h = torch.stack(
                    [(h.clamp(min=0) if layer else h) @ w + b for w, b in zip(weight[s], bias[s], strict=True)]
                )
            row = row + h
        return row


def equal_earth(lon: Tensor, lat: Tensor) -> Tensor:
    """Equal Earth projection, divided so that x is -1 to 1 along the equator.

    Args:
        lon: Longitudes ``(..)`` in radians.
        lat: Latitudes ``(..)`` in radians.

    Returns:
        Places on the map ``(.., 2)``, x and y.
    """
    theta = (math.sqrt(3) / 2 * lat.sin()).asin()
    square = theta.square()
    sixth = square**3
    slope = A_1 + 3 * A_2 * square + sixth * (7 * A_3 + 9 * A_4 * square)
    y = theta * (A_1 + A_2 * square + sixth * (A_3 + A_4 * square))
    x = 2 / math.sqrt(3) * lon * theta.cos() / slope
    return SCALE * torch.stack([x, y], -1)
