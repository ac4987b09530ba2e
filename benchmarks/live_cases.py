"""Data of live races of `posenc advise`: tables, pictures, meshes, recordings and folders that a user may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from own_data import CLASSES, channels, meshes, photograph, photographs, text
from posenc.workbench.tasks.shapes import Mesh, write_mesh


def california(path: Path, data: Path) -> None:
    """Copy the table of census blocks."""
    path.write_bytes((data / "places" / "california.csv").read_bytes())


def quakes(path: Path, data: Path) -> None:
    """Write a table of earthquakes: longitude, latitude, depth in km and magnitude."""
    with np.load(data / "geo" / "natural_earth_110m_raster.npz") as packed:
        rows = packed["quakes_lon_lat_depth_mag"]
    path.write_text("longitude,latitude,depth,magnitude\n" + "\n".join(",".join(f"{v:g}" for v in row) for row in rows))


def magnitudes(path: Path, data: Path) -> None:
    """Write a table of earthquakes: longitude, latitude and magnitude."""
    with np.load(data / "geo" / "natural_earth_110m_raster.npz") as packed:
        rows = packed["quakes_lon_lat_depth_mag"][:, [0, 1, 3]]
    path.write_text("longitude,latitude,magnitude\n" + "\n".join(",".join(f"{v:g}" for v in row) for row in rows))


def land(path: Path, data: Path) -> None:
    """Write a table of 2,000 random places on the globe and the share of land in the half degree around each."""
    with np.load(data / "geo" / "natural_earth_110m_raster.npz") as packed:
        share = packed["land"]
    draw = np.random.default_rng(0)
    latitude = np.degrees(np.arcsin(draw.uniform(-1, 1, 2000)))
    longitude = draw.uniform(-180, 180, 2000)
    rows, columns = ((90 - latitude) * 2).astype(int).clip(0, 359), ((longitude + 180) * 2).astype(int).clip(0, 719)
    made = zip(longitude, latitude, share[rows, columns], strict=True)
    path.write_text("longitude,latitude,land\n" + "\n".join(f"{x:.4f},{y:.4f},{v / 255:.3f}" for x, y, v in made))


def spot(path: Path, data: Path) -> None:
    """Write the mesh of the cow Spot."""
    with np.load(data / "mesh" / "spot.npz") as packed:
        write_mesh(Mesh(packed["v"].astype(np.float64), packed["f"].astype(np.int64)), path)


def weather(path: Path, data: Path) -> None:
    """Copy the daily weather of Seattle."""
    path.write_bytes((data / "series" / "seattle-weather.csv").read_bytes())


@dataclass(frozen=True)
class Case:
    """Data of a user and the question on them.

    Attributes:
        make: Writes the data to a path, from the folder of real data.
        file: Name of the file or folder.
        target: Column to predict.
        question: Question of the kind of data.
    """

    make: Callable[[Path, Path], None]
    file: str
    target: str | None = None
    question: str | None = None


CASES: Mapping[str, Case] = {
    "quakes": Case(quakes, "quakes.csv", "depth"),
    "quakes-new": Case(quakes, "quakes.csv", "depth", "new"),
    "california": Case(california, "california.csv", "median_house_value"),
    "california-new": Case(california, "california.csv", "median_house_value", "new"),
    "magnitude": Case(magnitudes, "magnitudes.csv", "magnitude"),
    "magnitude-new": Case(magnitudes, "magnitudes.csv", "magnitude", "new"),
    "land": Case(land, "land.csv", "land"),
    "land-new": Case(land, "land.csv", "land", "new"),
    "photograph": Case(photograph, "photograph.png"),
    "spot": Case(spot, "spot.obj"),
    "weather": Case(weather, "seattle-weather.csv"),
    "channels": Case(channels, "channels.npz"),
    "meshes": Case(meshes, "meshes"),
    "photographs": Case(photographs(CLASSES, 80), "photographs"),
    "text": Case(text, "text.txt"),
}
