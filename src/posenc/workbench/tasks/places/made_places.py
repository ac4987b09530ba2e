"""Generated places with a known answer: a target that depends on the place and on two other columns.

    target = f(x) + 0.5 c_1 + 0.3 n,    f a sum of random waves over the region,    c_1, c_2, n normal

Places lie in clusters, as those of people do. The column c_2 does not matter. The variance of f is 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.workbench.data.places import PlaceTable

CLUSTERS, WAVES = 40, 12
WEST, SOUTH, WIDTH, HEIGHT = 166.0, -48.0, 24.0, 14.0
"""Region in degrees. It crosses the meridian of 180 degrees."""
SPREAD = 0.7
"""Standard deviation of the places of a cluster, in degrees."""
SHORTEST = 4.0
"""Shortest wave length, in degrees."""
COLUMN_SHARE, NOISE = 0.5, 0.3


def made_places(count: int, seed: int) -> PlaceTable:
    """Generate places.

    Args:
        count: Number of rows.
        seed: Seed of the clusters, the waves and the noise.

    Returns:
        The places.
    """
    draw = np.random.default_rng([seed, 7])
    centers = draw.uniform((WEST, SOUTH), (WEST + WIDTH, SOUTH + HEIGHT), (CLUSTERS, 2))
    places = centers[draw.integers(CLUSTERS, size=count)] + SPREAD * draw.normal(size=(count, 2))
    smooth = _waves(places, draw)
    columns = draw.normal(size=(count, 2))
    targets = smooth + COLUMN_SHARE * columns[:, 0] + NOISE * draw.normal(size=count)
    coords = np.stack([(places[:, 0] + 180) % 360 - 180, places[:, 1]], 1)
    return PlaceTable(
        form="generated places",
        geometry="sphere",
        names=("longitude", "latitude"),
        coords=coords,
        numeric=columns,
        numeric_names=("first", "second"),
        codes=np.zeros((count, 0), np.int64),
        categories=(),
        targets=targets,
    )


def _waves(places: NDArray[np.float64], draw: np.random.Generator) -> NDArray[np.float64]:
    """A sum of waves of random directions at places, with variance 1 over them."""
    lengths = SHORTEST * (WIDTH / SHORTEST) ** draw.uniform(size=WAVES)
    angles, phases = draw.uniform(0, 2 * np.pi, (2, WAVES))
    directions = np.stack([np.cos(angles), np.sin(angles)], 1) / lengths[:, None]
    summed = (lengths * np.cos(2 * np.pi * (places @ directions.T + phases))).sum(1)
    return (summed - summed.mean()) / summed.std()
