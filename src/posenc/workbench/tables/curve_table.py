"""Table of curves: learning curves, and stored losses or errors by position, with one row per point."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import ARRAYS

COLUMNS: tuple[str, ...] = ("study", "preset", "setting", "scheme", "seed", "metric", "axis", "x", "value", "unit")
EPOCH = "epoch"
"""Axis of learning curves. An epoch of a model that draws its batches is one training step."""


class ArrayAxis(NamedTuple):
    """Meaning of a stored array with one value per position.

    Attributes:
        metric: Name of its values.
        axis: Name and unit of the positions.
        first: Position of the first value.
        step: Distance of two values.
    """

    metric: str
    axis: str
    first: float
    step: float


def curve_rows(
    store: Store,
    arrays: Mapping[str, Mapping[str, ArrayAxis]],
    study: str | None = None,
    preset: str | None = None,
) -> list[dict[str, Any]]:
    """Collect the points of all curves of a store.

    Args:
        store: The store.
        arrays: Study to the name of a stored array to its meaning.
        study: Only this study; None for all.
        preset: Only this preset; None for all.

    Returns:
        Rows with the columns "study", "preset", "setting" (the condition), "scheme" (the variant), "seed", "metric",
        "axis", "x", "value" and "unit" (the identity): learning curves first, then values by position.
    """
    learning = (row | {"axis": EPOCH, "x": row["epoch"]} for row in store.curves(study, preset))
    rows = [*learning, *_by_position(store, arrays, study, preset)]
    return [{name: row[name] for name in COLUMNS} for row in rows]


def _by_position(
    store: Store, arrays: Mapping[str, Mapping[str, ArrayAxis]], study: str | None, preset: str | None
) -> Iterator[dict[str, Any]]:
    for spec in store.specs(study, preset):
        stored, known = store.read(spec.identity), arrays.get(spec.study, {})
        if not known or ARRAYS not in stored.files:
            continue
        labels = {"study": spec.study, "preset": spec.preset, "setting": spec.condition, "scheme": spec.variant}
        labels |= {"seed": spec.seed, "unit": stored.name}
        for name, about in known.items():
            for place, value in enumerate(stored.arrays.get(name, ())):
                point = {"metric": about.metric, "axis": about.axis, "x": about.first + place * about.step}
                yield labels | point | {"value": float(value)}


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Encode the rows of ``curve_rows`` as CSV with a header line.

    Args:
        rows: The rows.

    Returns:
        The text of the file.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
