"""Views of places, as positions of an encoding.

region   coordinates with the middle of the region at 0 and its longer half side at 1; degrees of longitude are
         shortened as on a map of equal distances at the middle latitude
lonlat   longitude and latitude in radians, on a sphere
xyz      unit vector of a place, on a sphere

mixed, mixed_lonlat    region or lonlat, then the further axes of a row, such as depth and time, each between -1 and 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.positions import sphere
from posenc.workbench.data.place_coordinates import Geometry

PlaceView = Literal["region", "lonlat", "xyz", "mixed", "mixed_lonlat"]
MIXED: Mapping[str, PlaceView] = {"mixed": "region", "mixed_lonlat": "lonlat"}
"""View with further axes to the view of the place in it."""
Spans = Sequence[Sequence[float]]
"""Middle and half of the length of each further axis."""


class Region(NamedTuple):
    """Region of the places of a table.

    Attributes:
        geometry: Kind of the coordinates.
        middle: Coordinates ``(P,)`` of the middle.
        half: Half of the longer side in units of the coordinates; degrees of latitude on a sphere.
    """

    geometry: Geometry
    middle: tuple[float, ...]
    half: float

    def view(self, coords: NDArray[np.float64], view: PlaceView) -> Tensor:
        """Positions ``(N, P)`` of places on a view, float32."""
        if view == "region":
            return torch.from_numpy(_flat(self.geometry, self.middle, coords) / self.half).float()
        longitude, latitude = torch.from_numpy(coords).deg2rad().T
        if view == "xyz":
            level = latitude.cos()
            return torch.stack([level * longitude.cos(), level * longitude.sin(), latitude.sin()], -1).float()
        return sphere(longitude, latitude, unit="radians").coords.float()


def spans_of(further: NDArray[np.float64]) -> list[list[float]]:
    """Spans of the further axes of some rows.

    Args:
        further: Numbers ``(N, L)``.

    Returns:
        Middle and half of the length of each axis, with few digits.
    """
    low, high = further.min(0), further.max(0)
    middle, half = (low + high) / 2, (high - low) / 2
    return [[float(f"{a:.9g}"), float(f"{b:.9g}") or 1.0] for a, b in zip(middle, half, strict=True)]


def mixed_view(place: Tensor, further: NDArray[np.float64], spans: Spans) -> Tensor:
    """Positions on a view with further axes.

    Args:
        place: Positions ``(N, P)`` of the places.
        further: Numbers ``(N, L)`` of the further axes.
        spans: Their spans.

    Returns:
        Positions ``(N, P + L)``, float32.
    """
    middle, half = np.array(spans, float).reshape(-1, 2).T
    return torch.cat([place, torch.from_numpy((further - middle) / half).float()], 1)


def region_of(geometry: Geometry, coords: NDArray[np.float64]) -> Region:
    """Find the region of some places.

    Args:
        geometry: Kind of the coordinates.
        coords: Coordinates ``(N, P)``.

    Returns:
        The region. On a sphere it may cross the meridian of 180 degrees: the widest gap of longitudes is outside.
    """
    middle = (coords.min(0) + coords.max(0)) / 2
    if geometry == "sphere":
        longitudes = np.unique(coords[:, 0])
        gaps = np.diff(np.append(longitudes, longitudes[0] + 360))
        west = float(longitudes[(int(gaps.argmax()) + 1) % len(longitudes)])
        middle[0] = _turned(west + (360 - float(gaps.max())) / 2)
    centered = tuple(float(f"{each:.9g}") for each in middle)
    half = float(np.abs(_flat(geometry, centered, coords)).max())
    return Region(geometry, centered, float(f"{half:.9g}") or 1.0)


def _flat(geometry: Geometry, middle: tuple[float, ...], coords: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coordinates from the middle of a region, those of a sphere on a map."""
    apart = coords - np.array(middle)
    if geometry == "sphere":
        apart = np.stack([_turned(apart[:, 0]) * math.cos(math.radians(middle[1])), apart[:, 1]], 1)
    return apart


def _turned(degrees: Any) -> Any:
    """Degrees between -180 and 180."""
    return (degrees + 180) % 360 - 180
