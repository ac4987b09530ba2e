"""Places in a table: folds at random, by blocks and by time, views of coordinates, columns, targets and baselines.

>>> import numpy as np
>>> table = made_places(400, seed=0)
>>> usual_side(table.coords, region_of(table.geometry, table.coords))
1.0
>>> parts = fold_parts(table, "blocks", side=1.0, seed=0)
>>> blocks = block_numbers(table.coords, 1.0)
>>> set(blocks[parts.train]) & set(blocks[parts.test])
set()
>>> region = region_of(table.geometry, table.coords)
>>> float(region.view(table.coords, "region").abs().max())
1.0
>>> standardized_columns(table, parts.train).shape
(400, 2)
"""

from __future__ import annotations

from posenc.workbench.tasks.boosting import has_boosting
from posenc.workbench.tasks.places.baselines import PROCESS_ROWS, BaselineRows, Predictions, predicted
from posenc.workbench.tasks.places.folds import (
    FOLDS,
    DividedUnits,
    Split,
    block_numbers,
    divided_units,
    fold_parts,
    units_of,
    usual_side,
)
from posenc.workbench.tasks.places.inputs import cycles_of, plain_columns, standardized_columns
from posenc.workbench.tasks.places.interval_coverage import LEVELS, interval_coverage
from posenc.workbench.tasks.places.made_places import made_places
from posenc.workbench.tasks.places.place_views import MIXED, PlaceView, Region, mixed_view, region_of, spans_of
from posenc.workbench.tasks.places.targets import TINY, Targets, wants_logarithm

__all__ = [
    "FOLDS",
    "LEVELS",
    "MIXED",
    "PROCESS_ROWS",
    "TINY",
    "BaselineRows",
    "DividedUnits",
    "PlaceView",
    "Predictions",
    "Region",
    "Split",
    "Targets",
    "block_numbers",
    "cycles_of",
    "divided_units",
    "fold_parts",
    "has_boosting",
    "interval_coverage",
    "made_places",
    "mixed_view",
    "plain_columns",
    "predicted",
    "region_of",
    "spans_of",
    "standardized_columns",
    "units_of",
    "usual_side",
    "wants_logarithm",
]
