"""The Earth as a raster: which half-degree cell is land, and which country's.

Row r lies between latitudes 90 - r/2 and 90 - (r+1)/2, column c between longitudes -180 + c/2 and -180 + (c+1)/2: 360
rows from north to south, 720 columns from west to east. The data is Natural Earth at 1:110 million, public domain.
"""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

ROWS, COLUMNS, PER_DEGREE = 360, 720, 2
FILE = Path("geo") / "natural_earth_110m_raster.npz"  # in a folder of data
ANTARCTICA = 10  # ISO 3166-1 numeric, as all codes here
CUT_SOUTH_OF = -84.5
"""The polygon of Antarctica was closed along its coast and not at the pole: the file has sea where the pole is. What
lies south of this latitude is taken as Antarctica."""

Lon = Float64[Tensor, "N"]
Lat = Float64[Tensor, "N"]


@dataclasses.dataclass(frozen=True, eq=False)
class Raster:
    """``land`` says which cells are at least half land; ``country`` is the ISO numeric code of each cell, 0 at sea."""

    land: Bool[Tensor, "360 720"]
    country: Int64[Tensor, "360 720"]


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """What is to be told of a place: the class of its raster cell, -1 where the question is not asked.

    names: of the classes, in their order. macro: whether every class counts alike, however large, in the accuracy.
    """

    cells: Int64[Tensor, "360 720"]
    names: tuple[str, ...]
    macro: bool = False

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def asked(self) -> Bool[Tensor, "360 720"]:
        return self.cells >= 0

    def at(self, lon: Lon, lat: Lat) -> Int64[Tensor, "N"]:
        return self.cells[cell_of(lon, lat)]


def cell_of(lon: Lon, lat: Lat) -> tuple[Int64[Tensor, "N"], Int64[Tensor, "N"]]:
    """Row and column of the raster cells that places in degrees lie in; longitude 180 is -180."""
    row = ((90 - lat) * PER_DEGREE).floor().long().clamp(0, ROWS - 1)
    return row, ((lon + 180) * PER_DEGREE).floor().long() % COLUMNS


def row_areas() -> Float64[Tensor, "360"]:
    """The area of one cell of each row; all cells together have 1. It is the difference of sin(latitude)."""
    edges = torch.deg2rad(90 - torch.arange(ROWS + 1, dtype=torch.float64) / PER_DEGREE).sin()
    return (edges[:-1] - edges[1:]) / (2 * COLUMNS)


def read(path: Path) -> Raster:
    """The raster in a file, mended at the south pole. Raises ValueError where it is not there or is another."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; it holds Natural Earth's land and countries. Pass --data DIR with it.")
    try:
        # opened here, for numpy leaves a file open that turns out to be no archive
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            land, country = file["land"], file["country_iso"]
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no raster of land and country_iso: {error}. Copy the file again.") from error
    if not land.shape == country.shape == (ROWS, COLUMNS):
        raise ValueError(
            f"{path} should have {ROWS} rows of {COLUMNS} half-degree cells; land has the shape {land.shape}, "
            f"country_iso {country.shape}. Copy the file again."
        )
    south = round((90 - CUT_SOUTH_OF) * PER_DEGREE)
    is_land, codes = torch.from_numpy(land >= 128), torch.from_numpy(country.astype(np.int64))
    is_land[south:], codes[south:] = True, ANTARCTICA
    return Raster(is_land, codes)


def land_or_sea(raster: Raster) -> Labels:
    """Sea 0 and land 1, everywhere."""
    return Labels(raster.land.long(), ("sea", "land"))


def largest_countries(raster: Raster, most: int) -> Labels:
    """Which of the ``most`` largest countries (by area in the raster, Antarctica one of them); asked on them alone."""
    area = row_areas()[:, None].expand(ROWS, COLUMNS)
    codes, place = raster.country.unique(return_inverse=True)
    sizes = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, place.flatten(), area.flatten())
    sizes[codes == 0] = 0
    if not 2 <= most <= int((sizes > 0).sum()):
        raise ValueError(f"the raster has {int((sizes > 0).sum())} countries, and 2 to all can be told; got {most}.")
    largest = sizes.argsort(descending=True, stable=True)[:most]
    number = torch.full((len(codes),), -1).index_copy_(0, largest, torch.arange(most))
    return Labels(number[place], tuple(str(code) for code in codes[largest].tolist()), macro=True)
