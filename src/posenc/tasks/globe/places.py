"""Places on the globe: drawn by area, trained ones and held-out ones never in one cell.

The sphere is divided into cells about a degree across, each a block of raster cells; a fifth of them, drawn, is held
out. A place is drawn by choosing a raster cell with probability proportional to its area and a point in it, uniform in
longitude and in the sine of latitude.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from posenc.positions import Positions, sphere
from posenc.tasks.globe.raster import COLUMNS, PER_DEGREE, ROWS, Lat, Lon, row_areas

CELL = PER_DEGREE  # rows of the raster in a cell of the split
HELD_OUT = 0.2
POLES, DATE_LINE = 10, 5
"""Degrees: how far from a pole, or in longitude from the date line, the numbers of their own are taken."""
BAND = 10  # degrees of latitude
BANDS = 180 // BAND
PICTURE = 181  # rows and columns of the view "picture"
BETWEEN = 1e-9  # degrees that a place keeps from the edge of its cell


class Target(Protocol):
    """What is to be told of a place, and where."""

    @property
    def asked(self) -> Bool[Tensor, "360 720"]: ...

    def at(self, lon: Lon, lat: Lat) -> Tensor: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Places:
    """Longitude and latitude in degrees ``(N,)``, and what is to be told there: class numbers, or float32 values."""

    lon: Lon
    lat: Lat
    target: Tensor

    def __len__(self) -> int:
        return len(self.lon)

    @classmethod
    def together(cls, parts: list[Places]) -> Places:
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("lon", "lat", "target")))


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Trained places, and held-out ones: everywhere, in each band of 10 degrees of latitude from the south on (empty
    where nothing is asked there), and near the date line. All are drawn by area from where the question is asked."""

    train: Places
    everywhere: Places
    bands: tuple[Places, ...]
    date_line: Places

    @property
    def poles(self) -> Places:
        """The places within 10 degrees of a pole: as many at each, where the question is asked at both."""
        return Places.together([self.bands[0], self.bands[-1]])


def views(lon: Lon, lat: Lat) -> dict[str, Positions]:
    """Places in degrees as positions: ``lonlat`` as ``posenc.sphere`` makes them, (longitude, latitude) in radians;
    ``xyz`` the unit vector (cos lat cos lon, cos lat sin lon, sin lat); ``picture`` (row, column) on a map of 181 x 181
    pixels, from 0, north at the top and the date line at its two sides."""
    a, b = torch.deg2rad(lon), torch.deg2rad(lat)
    return {
        "lonlat": sphere(lon, lat),
        "xyz": Positions(torch.stack([b.cos() * a.cos(), b.cos() * a.sin(), b.sin()], -1)),
        "picture": Positions(torch.stack([90 - lat, (lon + 180) / 2], -1)),
    }


def cells() -> Int64[Tensor, "360 720"]:
    """Which cell of the split each raster cell belongs to: two rows, and so many columns that it is about as wide as
    high (a divisor of 720, so that no cell lies across the date line)."""
    divisors = [n for n in range(1, COLUMNS + 1) if COLUMNS % n == 0]
    found, first = torch.empty(ROWS, COLUMNS, dtype=torch.int64), 0
    for top in range(0, ROWS, CELL):
        middle = math.radians(90 - (top + CELL / 2) / PER_DEGREE)
        wide = min(divisors, key=lambda n: abs(math.log(n * math.cos(middle) / CELL)))
        found[top : top + CELL] = first + torch.arange(COLUMNS) // wide
        first += COLUMNS // wide
    return found


def split(generator: torch.Generator, share: float = HELD_OUT) -> Bool[Tensor, "360 720"]:
    """True where a raster cell belongs to a cell that is held out."""
    number = cells()
    count = int(number.max()) + 1
    held = torch.zeros(count, dtype=torch.bool)
    held[torch.randperm(count, generator=generator)[: round(share * count)]] = True
    return held[number]


def draw(within: Bool[Tensor, "360 720"], count: int, generator: torch.Generator) -> tuple[Lon, Lat]:
    """Places drawn by area from the raster cells that are True, in degrees; none where no cell is."""
    weights = (row_areas()[:, None] * within).flatten().cumsum(0)
    chance = torch.rand(3, count, dtype=torch.float64, generator=generator)
    if not bool(within.any()):
        return chance[0, :0], chance[0, :0]
    last = int(within.flatten().nonzero()[-1])
    cell = torch.searchsorted(weights, chance[0] * weights[-1], right=True).clamp(max=last)
    top = 90 - (cell // COLUMNS) / PER_DEGREE
    west, bottom = -180 + (cell % COLUMNS) / PER_DEGREE, top - 1 / PER_DEGREE
    low, high = torch.deg2rad(bottom).sin(), torch.deg2rad(top).sin()
    lat = torch.rad2deg((low + (high - low) * chance[1]).clamp(-1, 1).asin())
    lon = west + chance[2] / PER_DEGREE
    # rounding must not carry a held-out place into a trained cell
    return (
        lon.clamp(west + BETWEEN, west + 1 / PER_DEGREE - BETWEEN),
        lat.clamp(bottom + BETWEEN, top - BETWEEN),
    )


def regions() -> dict[str, Bool[Tensor, "360 720"]]:
    """The raster cells of what has numbers of its own: the caps about the poles, the strip about the date line."""
    row, column = torch.arange(ROWS)[:, None], torch.arange(COLUMNS)[None]
    cap, edge = POLES * PER_DEGREE, DATE_LINE * PER_DEGREE
    return {
        "poles": ((row < cap) | (row >= ROWS - cap)).expand(ROWS, COLUMNS),
        "date_line": ((column < edge) | (column >= COLUMNS - edge)).expand(ROWS, COLUMNS),
    }


def sample(target: Target, *, train: int, held: int, band: int, seed: int) -> Samples:
    """The places of a seed: ``train`` to train on, ``held`` held out everywhere and as many near the date line, and
    ``band`` in each of the 18 bands of latitude.

    Raises ValueError where fewer than one of each is asked for, or the target asks nothing anywhere.
    """
    if min(train, held, band) < 1:
        raise ValueError(f"there is at least one place of each kind; got train={train}, held={held}, band={band}.")
    generator = torch.Generator().manual_seed(seed)
    out = split(generator)
    asked = target.asked
    northward = BANDS - 1 - torch.arange(ROWS)[:, None] // (BAND * PER_DEGREE)

    def places(within: Tensor, count: int) -> Places:
        lon, lat = draw(within & asked, count, generator)
        found = target.at(lon, lat)
        return Places(lon, lat, found.float() if found.is_floating_point() else found)

    if not bool((asked & out).any() and (asked & ~out).any()):
        raise ValueError("nothing is asked on the trained or on the held-out cells; give labels that cover more.")
    return Samples(
        places(~out, train),
        places(out, held),
        tuple(places(out & (northward == number), band) for number in range(BANDS)),
        places(out & regions()["date_line"], held),
    )
