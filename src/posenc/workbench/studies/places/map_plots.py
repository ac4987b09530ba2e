"""Maps of places: the target, predictions of every fold at its held-out rows, and their residuals.

Coastlines are those of Natural Earth in the folder of real data (--data DIR or POSENC_DATA), if it has them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from posenc.measure.statistics import mean
from posenc.workbench.data.places import PlaceTable
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel
from posenc.workbench.report.raster_image import image_figures
from posenc.workbench.studies.places.answer import NAMES, metric_of
from posenc.workbench.studies.places.conditions import PlacesCondition, finished
from posenc.workbench.studies.places.stored_places import read_table
from posenc.workbench.studies.shared.classification_panels import empty_panel, seeds_by_label
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import globe
from posenc.workbench.tasks import places as task

SIDE = 150
"""Pixels along the longer side of a map."""
ENLARGED = 2
"""Pixels of the image along a side of a pixel of the map."""
LOW, MIDDLE, HIGH = (33, 90, 165), (245, 245, 240), (180, 40, 40)
SEA, LAND, COAST = (226, 234, 241), (255, 255, 255), (150, 160, 170)
STEPS = 16
"""Steps of a color scale: more steps make larger files and are hardly visible."""
FOLDS_SHOWN = range(task.FOLDS)


class MapFrame(NamedTuple):
    """Pixels of a map.

    Attributes:
        rows: Row of the pixel of each place ``(N,)``.
        columns: Column of the pixel of each place ``(N,)``.
        shape: Height and width in pixels.
        background: Colors ``(H, W, 3)`` between 0 and 1.
        has_coast: True if the background has coastlines.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    shape: tuple[int, int]
    background: NDArray[np.float64]
    has_coast: bool


def maps(data: PageData) -> list[Panel]:
    """Maps of the best network and of the best baseline with each split."""
    panels = [panel for each in finished(data) for panel in _panel(data, each)]
    return panels or empty_panel("Maps")


def _panel(data: PageData, each: PlacesCondition) -> list[Panel]:
    metric = metric_of(data, each.label)
    scores = seeds_by_label(data, metric, each.label)
    if not scores:
        return []
    best = max(scores, key=lambda label: mean(list(scores[label].values())))
    spec = next(spec for spec in data.done if spec.condition == each.label)
    table = read_table(data.store.root, spec.settings["data"], 0)
    region = task.Region(
        **{**spec.settings["data"]["region"], "middle": tuple(spec.settings["data"]["region"]["middle"])}
    )
    predicted = _predictions(data, each, best, len(table))
    held = np.isfinite(predicted)
    if not held.any():
        return []
    frame = map_frame(region, table, data)
    raw = np.log(table.targets) if spec.settings["data"]["logarithm"] else table.targets.astype(float)
    images, notes = {}, {}
    if table.classes:
        wrong = (predicted != raw).astype(float)
        images["Share of wrong predictions"] = painted(frame, wrong, held, (0.0, 1.0))
        notes["Share of wrong predictions"] = f"{number(float(wrong[held].mean()), 3)} of all rows"
        scale = "Blue is a share of 0, red of 1."
    else:
        low, high = (float(value) for value in np.quantile(raw, (0.02, 0.98)))
        reach = float(np.quantile(np.abs(predicted - raw)[held], 0.98)) or 1.0
        images["Target"] = painted(frame, raw, held, (low, high))
        images["Prediction"] = painted(frame, predicted, held, (low, high))
        images["Residual"] = painted(frame, raw - predicted, held, (-reach, reach))
        notes["Residual"] = f"red: the target is higher than predicted; white 0, ends ±{number(reach, 2)}"
        notes["Target"] = notes["Prediction"] = f"blue {number(low, 2)}, red {number(high, 2)}"
        scale = "Values are logarithms of the target." if spec.settings["data"]["logarithm"] else ""
    coast = " Coastlines: Natural Earth, half a degree." if frame.has_coast else ""
    key = (
        f"Mean over the rows in a pixel. Predictions of {best}, each at the rows that its fold held out "
        f"({NAMES[metric]} {number(mean(list(scores[best].values())), 3)}). North, or the larger second coordinate, is "
        f"at the top. {scale}{coast}"
    )
    return [Panel(f"Maps: {each.title}", (image_figures(images, key=key, notes=notes, size="wide"),))]


def _predictions(data: PageData, each: PlacesCondition, label: str, rows: int) -> NDArray[np.float64]:
    """Prediction of each row by the fold that held it out, NaN for rows of folds that are missing."""
    predicted = np.full(rows, np.nan)
    for spec in data.done:
        if spec.condition == each.label and spec.variant == label and spec.seed in FOLDS_SHOWN:
            arrays = data.store.arrays(spec.identity)
            if {"tested", "predicted"} <= arrays.keys():
                predicted[arrays["tested"]] = arrays["predicted"]
    return predicted


def map_frame(region: task.Region, table: PlaceTable, data: PageData) -> MapFrame:
    """Pixels of the places of a table, with coastlines if there are any.

    Args:
        region: Region of the places.
        table: The places.
        data: Data of the page.

    Returns:
        The frame.
    """
    flat = region.view(table.coords, "region").numpy()[:, :2].astype(float)
    low, high = flat.min(0), flat.max(0)
    step = float((high - low).max()) / (SIDE - 1) or 1.0
    width, height = (int(value) + 1 for value in np.floor((high - low) / step))
    columns = np.floor((flat[:, 0] - low[0]) / step).astype(np.int64)
    rows = height - 1 - np.floor((flat[:, 1] - low[1]) / step).astype(np.int64)
    background, has_coast = np.ones((height, width, 3)), False
    if region.geometry == "sphere":
        x = low[0] + step * (np.arange(width) + 0.5)
        y = high[1] - step * (np.arange(height) + 0.5)
        coast = _coast(region, x, y, data)
        background, has_coast = (background, False) if coast is None else (coast, True)
    return MapFrame(rows, columns, (height, width), background, has_coast)


def _coast(
    region: task.Region, x: NDArray[np.float64], y: NDArray[np.float64], data: PageData
) -> NDArray[np.float64] | None:
    """Land and sea at the pixels of a map; None without the raster."""
    path = None if data.request.data is None else data.request.data / globe.FILE
    if path is None or not path.is_file():
        return None
    land = globe.read_raster(path).land
    shrunk = float(np.cos(np.deg2rad(region.middle[1])))
    longitude = region.middle[0] + x * region.half / max(shrunk, 1e-6)
    latitude = np.clip(region.middle[1] + y * region.half, -90, 90)
    at = globe.cell_index(
        torch.from_numpy((longitude + 180) % 360 - 180).expand(len(y), -1),
        torch.from_numpy(latitude)[:, None].expand(-1, len(x)),
    )
    is_land = land[at].numpy()
    edge = np.zeros_like(is_land)
    edge[:, 1:] |= is_land[:, 1:] != is_land[:, :-1]
    edge[1:] |= is_land[1:] != is_land[:-1]
    colors = np.where(is_land[..., None], np.array(LAND), np.array(SEA))
    return np.where(edge[..., None], np.array(COAST), colors) / 255


def painted(
    frame: MapFrame, values: NDArray[np.float64], held: NDArray[np.bool_], ends: tuple[float, float]
) -> NDArray[np.float64]:
    """Colors of the mean of values in each pixel: blue at the low end, red at the high one.

    Args:
        frame: Pixels of the map.
        values: Values of the places ``(N,)``.
        held: Places that have a value ``(N,)``.
        ends: Values at the ends of the color scale.

    Returns:
        Colors ``(H, W, 3)`` between 0 and 1.
    """
    height, width = frame.shape
    at = frame.rows[held] * width + frame.columns[held]
    counts = np.bincount(at, minlength=height * width)
    sums = np.bincount(at, values[held], height * width)
    share = (sums / np.maximum(counts, 1) - ends[0]) / max(ends[1] - ends[0], 1e-12)
    share = np.round(np.clip(share, 0, 1) * STEPS) / STEPS
    stops = np.array([LOW, MIDDLE, HIGH]) / 255
    colors = np.stack([np.interp(share, (0, 0.5, 1), stop) for stop in stops.T], -1).reshape(height, width, 3)
    shown = np.where((counts > 0).reshape(height, width, 1), colors, frame.background)
    return shown.repeat(ENLARGED, 0).repeat(ENLARGED, 1)
