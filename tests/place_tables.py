"""Small tables of places for tests: houses with a price between 4 and 6 degrees east, 50 and 52 north."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.data.places import PlaceTable
from posenc.workbench.data.readers import read
from posenc.workbench.data.reading_options import ReadingOptions

ROWS = 60
DRAW = np.random.default_rng(0)
LONGITUDES, LATITUDES = DRAW.uniform(4, 6, ROWS).round(3), DRAW.uniform(50, 52, ROWS).round(3)


def table(path: Path, **columns: Any) -> Path:
    """Write a CSV of some columns, each a list or one value for all rows."""
    count = max(len(each) for each in columns.values() if not isinstance(each, (str, int, float)))
    full = {name: [each] * count if isinstance(each, (str, int, float)) else each for name, each in columns.items()}
    lines = [",".join(full), *(",".join(map(str, row)) for row in zip(*full.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def houses(path: Path, **changes: Any) -> Path:
    usual = {"longitude": LONGITUDES, "latitude": LATITUDES, "price": np.arange(ROWS) + 1.5}
    return table(path, **(usual | changes))


def places(path: Path, **options: Any) -> PlaceTable:
    return read(path, "places", ReadingOptions(**{"target": "price", **options}))
