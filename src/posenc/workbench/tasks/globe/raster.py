"""Raster of the Earth with half-degree cells: land or sea, and countries.

Row r lies between latitudes 90 - r/2 and 90 - (r+1)/2, column c between longitudes -180 + c/2 and -180 + (c+1)/2. There
are 360 rows from north to south and 720 columns from west to east. The data is Natural Earth at 1:110 million, which is
in the public domain.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import TooLargeError, refuse_special

ROWS, COLUMNS, PER_DEGREE = 360, 720, 2
FILE = Path("geo") / "natural_earth_110m_raster.npz"  # in a folder of data
ANTARCTICA = 10  # ISO 3166-1 numeric, as all codes here
ANTARCTICA_NORTH = -84.5
"""Cells south of this latitude are set to Antarctica.

In the file the polygon of Antarctica is closed along its coast and not at the pole, so that the pole lies in the sea.
"""

Lon = Float64[Tensor, "N"]
Lat = Float64[Tensor, "N"]


@dataclasses.dataclass(frozen=True, eq=False)
class Raster:
    """Land and countries by raster cell.

    Attributes:
        land: True where a cell is at least half land.
        country: ISO 3166-1 numeric code of the country, 0 at sea.
    """

    land: Bool[Tensor, "360 720"]
    country: Int64[Tensor, "360 720"]


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """Class labels by raster cell.

    Attributes:
        cells: ``(360, 720)`` class numbers; -1 where no class is defined.
        names: Names of the classes.
        macro: True for macro-averaged accuracy, in which every class has the same weight.
    """

    cells: Int64[Tensor, "360 720"]
    names: tuple[str, ...]
    macro: bool = False

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.names)

    @property
    def cell_mask(self) -> Bool[Tensor, "360 720"]:
        """True in the raster cells that have a class."""
        return self.cells >= 0

    def values_at(self, lon: Lon, lat: Lat) -> Int64[Tensor, "N"]:
        """Class numbers ``(N,)`` at places in degrees."""
        return self.cells[cell_index(lon, lat)]


def cell_index(lon: Lon, lat: Lat) -> tuple[Int64[Tensor, "N"], Int64[Tensor, "N"]]:
    """Row and column of the raster cells that contain places in degrees; longitude 180 is -180."""
    row = ((90 - lat) * PER_DEGREE).floor().long().clamp(0, ROWS - 1)
    return row, ((lon + 180) * PER_DEGREE).floor().long() % COLUMNS


def cell_areas() -> Float64[Tensor, "360"]:
    """Area of one cell of each row, the difference of sin(latitude); all cells of the globe together have area 1."""
    edges = torch.deg2rad(90 - torch.arange(ROWS + 1, dtype=torch.float64) / PER_DEGREE).sin()
    return (edges[:-1] - edges[1:]) / (2 * COLUMNS)


def read_raster(path: Path) -> Raster:
    """Read the raster and correct it at the south pole. Raises ValueError where the file is missing or no raster."""
    refuse_special(path, "a raster")
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist; it should hold Natural Earth's land and countries. Name its folder: --data DIR"
        )
    try:
        with open_arrays(path) as file:
            land, country = (file.array(name, (ROWS, COLUMNS), "iu") for name in ("land", "country_iso"))
    except TooLargeError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{path} is not a raster of land and country_iso, {ROWS} rows of {COLUMNS} half-degree cells: {error} "
            "Copy the file again."
        ) from error
    south = round((90 - ANTARCTICA_NORTH) * PER_DEGREE)
    is_land, codes = torch.from_numpy(land >= 128), torch.from_numpy(country.astype(np.int64))
    is_land[south:], codes[south:] = True, ANTARCTICA
    return Raster(is_land, codes)


def land_labels(raster: Raster) -> Labels:
    """Labels sea (0) and land (1), everywhere."""
    return Labels(raster.land.long(), ("sea", "land"))


def country_labels(raster: Raster, most: int) -> Labels:
    """Labels of the ``most`` largest countries by area in the raster, with Antarctica; no other cell has a label."""
    area = cell_areas()[:, None].expand(ROWS, COLUMNS)
    codes, code_index = raster.country.unique(return_inverse=True)
    sizes = torch.zeros(len(codes), dtype=torch.float64).index_add_(0, code_index.flatten(), area.flatten())
    sizes[codes == 0] = 0
    if not 2 <= most <= int((sizes > 0).sum()):
        raise ValueError(
            f"the raster has {int((sizes > 0).sum())} countries, and 2 to all of them can be classes; got {most}."
        )
    largest = sizes.argsort(descending=True, stable=True)[:most]
    number = torch.full((len(codes),), -1).index_copy_(0, largest, torch.arange(most))
    return Labels(number[code_index], tuple(str(code) for code in codes[largest].tolist()), macro=True)
