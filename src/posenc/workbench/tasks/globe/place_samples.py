"""Places on the globe, sampled uniformly by area; training and held-out places never share a cell.

The sphere is divided into cells about one degree wide, each a block of raster cells. A random fifth of the cells is
held out. A place is sampled by choosing a raster cell with probability proportional to its area, and then a point in
it, uniform in longitude and in the sine of latitude.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from posenc.positions import Positions, sphere
from posenc.workbench.tasks.globe.raster import COLUMNS, PER_DEGREE, ROWS, Lat, Lon, cell_areas

CELL = PER_DEGREE  # raster rows of a cell of the split
HELD_OUT = 0.2
POLES, DATE_LINE = 10, 5
"""Half-widths in degrees of the regions scored separately: latitude at the poles, longitude at the date line."""
BAND = 10  # degrees of latitude
BANDS = 180 // BAND
MAP_SIDE = 181  # rows and columns of the map, the view "picture"
EDGE_MARGIN = 1e-9  # distance in degrees of a place from the edge of its cell


class Target(Protocol):
    """The quantity to predict."""

    @property
    def cell_mask(self) -> Bool[Tensor, "360 720"]:
        """True in the raster cells where the target is defined."""
        ...

    def values_at(self, lon: Lon, lat: Lat) -> Tensor:
        """Target values ``(N,)`` at places in degrees."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Places:
    """N places and their target values.

    Attributes:
        lon: ``(N,)`` longitude in degrees.
        lat: ``(N,)`` latitude in degrees.
        target: ``(N,)`` class numbers, or float32 values.
    """

    lon: Lon
    lat: Lat
    target: Tensor

    def __len__(self) -> int:
        return len(self.lon)

    @classmethod
    def concatenate(cls, parts: list[Places]) -> Places:
        """All places of a list, in order."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("lon", "lat", "target")))


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """Training places and held-out places. All are sampled by area from the cells where the target is defined.

    Attributes:
        train: Training places.
        everywhere: Held-out places on the whole globe.
        bands: Held-out places in each band of 10 degrees of latitude, from the south; empty where no target is defined.
        date_line: Held-out places within 5 degrees of longitude of the date line.
    """

    train: Places
    everywhere: Places
    bands: tuple[Places, ...]
    date_line: Places

    @property
    def poles(self) -> Places:
        """Places within 10 degrees of a pole: equally many at both, where the target is defined at both."""
        return Places.concatenate([self.bands[0], self.bands[-1]])


def views(lon: Lon, lat: Lat) -> dict[str, Positions]:
    """Position views of places in degrees.

    Returns:
        ``lonlat``: (longitude, latitude) in radians, as ``posenc.sphere`` makes them. ``xyz``: the unit vector (cos lat
        cos lon, cos lat sin lon, sin lat). ``picture``: (row, column) from 0 on a map of 181 x 181 pixels, with north
        at the top and the date line at both sides.
    """
    a, b = torch.deg2rad(lon), torch.deg2rad(lat)
    return {
        "lonlat": sphere(lon, lat),
        "xyz": Positions(torch.stack([b.cos() * a.cos(), b.cos() * a.sin(), b.sin()], -1)),
        "picture": Positions(torch.stack([90 - lat, (lon + 180) / 2], -1)),
    }


def split_cells() -> Int64[Tensor, "360 720"]:
    """Number of the split's cell that each raster cell belongs to.

    A cell has two raster rows, and as many columns as make it about as wide as high. The number of columns divides 720,
    so no cell crosses the date line.
    """
    divisors = [n for n in range(1, COLUMNS + 1) if COLUMNS % n == 0]
    cells, first = torch.empty(ROWS, COLUMNS, dtype=torch.int64), 0
    for top in range(0, ROWS, CELL):
        middle = math.radians(90 - (top + CELL / 2) / PER_DEGREE)
        wide = min(divisors, key=lambda n: abs(math.log(n * math.cos(middle) / CELL)))
        cells[top : top + CELL] = first + torch.arange(COLUMNS) // wide
        first += COLUMNS // wide
    return cells


def held_out_cells(generator: torch.Generator, share: float = HELD_OUT) -> Bool[Tensor, "360 720"]:
    """Draw the held-out cells of the split: True for raster cells in them."""
    number = split_cells()
    count = int(number.max()) + 1
    held = torch.zeros(count, dtype=torch.bool)
    held[torch.randperm(count, generator=generator)[: round(share * count)]] = True
    return held[number]


def draw_places(within: Bool[Tensor, "360 720"], count: int, generator: torch.Generator) -> tuple[Lon, Lat]:
    """Sample places by area from the raster cells that are True, in degrees; none where no cell is True."""
    weights = (cell_areas()[:, None] * within).flatten().cumsum(0)
    uniform = torch.rand(3, count, dtype=torch.float64, generator=generator)
    if not bool(within.any()):
        return uniform[0, :0], uniform[0, :0]
    last = int(within.flatten().nonzero()[-1])
    cell = torch.searchsorted(weights, uniform[0] * weights[-1], right=True).clamp(max=last)
    top = 90 - (cell // COLUMNS) / PER_DEGREE
    west, bottom = -180 + (cell % COLUMNS) / PER_DEGREE, top - 1 / PER_DEGREE
    low, high = torch.deg2rad(bottom).sin(), torch.deg2rad(top).sin()
    lat = torch.rad2deg((low + (high - low) * uniform[1]).clamp(-1, 1).asin())
    lon = west + uniform[2] / PER_DEGREE
    # rounding must not carry a held-out place into a trained cell
    return (
        lon.clamp(west + EDGE_MARGIN, west + 1 / PER_DEGREE - EDGE_MARGIN),
        lat.clamp(bottom + EDGE_MARGIN, top - EDGE_MARGIN),
    )


def regions() -> dict[str, Bool[Tensor, "360 720"]]:
    """Raster cells of the regions that are scored separately: the polar caps and the strip along the date line."""
    row, column = torch.arange(ROWS)[:, None], torch.arange(COLUMNS)[None]
    cap, edge = POLES * PER_DEGREE, DATE_LINE * PER_DEGREE
    return {
        "poles": ((row < cap) | (row >= ROWS - cap)).expand(ROWS, COLUMNS),
        "date_line": ((column < edge) | (column >= COLUMNS - edge)).expand(ROWS, COLUMNS),
    }


def sample_places(target: Target, *, train: int, held: int, band: int, seed: int) -> Samples:
    """Sample the training and held-out places of a seed.

    Args:
        target: The quantity to predict.
        train: Number of training places.
        held: Number of held-out places everywhere, and of those near the date line.
        band: Number of held-out places in each of the 18 bands of latitude.
        seed: Seed of the split and of the places.

    Raises:
        ValueError: A number is below 1, or the target is defined on no training cell or on no held-out cell.
    """
    if min(train, held, band) < 1:
        raise ValueError(f"there is at least one place of each kind; got train={train}, held={held}, band={band}.")
    generator = torch.Generator().manual_seed(seed)
    held_out = held_out_cells(generator)
    defined = target.cell_mask
    northward = BANDS - 1 - torch.arange(ROWS)[:, None] // (BAND * PER_DEGREE)

    def places(within: Tensor, count: int) -> Places:
        lon, lat = draw_places(within & defined, count, generator)
        values = target.values_at(lon, lat)
        return Places(lon, lat, values.float() if values.is_floating_point() else values)

    if not bool((defined & held_out).any() and (defined & ~held_out).any()):
        raise ValueError(
            "the target is defined on no training cell or on no held-out cell; give labels that cover more."
        )
    return Samples(
        places(~held_out, train),
        places(held_out, held),
        tuple(places(held_out & (northward == number), band) for number in range(BANDS)),
        places(held_out & regions()["date_line"], held),
    )
