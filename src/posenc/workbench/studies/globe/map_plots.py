"""Maps of the globe study: the prediction and error of a trained field, the date line, and the poles."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.raster_image import error_colors, image_figure
from posenc.workbench.studies.globe.claims import conditions_of
from posenc.workbench.studies.globe.conditions import GlobeCondition
from posenc.workbench.studies.globe.execute import GlobeModel, Target, trained_models
from posenc.workbench.studies.globe.variants import drawn
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.globe import Field, Labels

Pixels = NDArray[np.float64]
Grid = tuple[Tensor, Tensor]  # longitudes and latitudes (H, W) in degrees, nan outside

MAPPED_ENCODINGS = ("none", "fourier", "hash", "sphere-c-plus", "hash-xyz", "harmonics")
"""Encodings whose maps a page of more encodings shows."""
STEP = 2.5
"""Side of a map's pixel in degrees."""
STRIP, REACH = 30.0, 60.0
"""Strip at the date line, in degrees: half of its width, and its reach to the north and south."""
CAP, CAP_PIXELS = 30.0, 96
"""Polar view: degrees from the pole to its edge, and its side in pixels."""
LARGEST_ERROR = 0.5
"""Error drawn as white: in standard deviations of the field, or as 1 − probability of the true class."""
COLORS = 16
"""Steps of a color scale: more steps make larger files and are hardly visible."""
LOW, MIDDLE, HIGH = (33, 90, 165), (245, 245, 240), (180, 40, 40)
SEA, LAND = (190, 215, 235), (120, 105, 60)
GAP, GAP_GRAY = 2, 0.5
NO_ERROR = "–"
NO_MAPS = (
    "No map: no run has finished, or the results came from a pack, which contains no weights. For the maps, train the "
    "runs in a new store: posenc run globe --data DIR --out NEW."
)


def grid(region: str) -> Grid:
    """Longitudes and latitudes of the pixels of a map, in degrees.

    Args:
        region: "whole" for the globe in plate carrée, north at the top; "strip" for the strip around the date line;
            "north" or "south" for a polar cap in Lambert's equal-area projection, the date line above the pole.

    Returns:
        Longitudes and latitudes; nan for pixels outside the cap.
    """
    if region == "whole":
        lat, lon = torch.arange(90 - STEP / 2, -90, -STEP), torch.arange(-180 + STEP / 2, 180, STEP)
        return (lon.expand(len(lat), -1), lat[:, None].expand(-1, len(lon)))
    if region == "strip":
        lat, lon = torch.arange(REACH - 0.5, -REACH, -1.0), torch.arange(180 - STRIP + 0.5, 180 + STRIP, 1.0)
        lon = torch.where(lon > 180, lon - 360, lon)
        return (lon.expand(len(lat), -1), lat[:, None].expand(-1, len(lon)))
    along = (torch.arange(CAP_PIXELS) + 0.5) * 2 / CAP_PIXELS - 1
    x, y = along[None, :], -along[:, None]
    rho = (x**2 + y**2).sqrt()
    far = torch.rad2deg(2 * torch.asin((rho * math.sin(math.radians(CAP / 2))).clamp(max=1)))
    pole = 1 if region == "north" else -1
    # Longitude 0 points down and 180 up. East is counterclockwise from above the north pole, clockwise at the south.
    lon = torch.rad2deg(torch.atan2(pole * x, -y))
    outside = torch.full_like(far, torch.nan)
    return (torch.where(rho <= 1, lon, outside), torch.where(rho <= 1, pole * (90 - far), outside))


def evaluate(function: Callable[[Tensor, Tensor], Tensor], places: Grid) -> Tensor:
    """Values of a function of longitude and latitude at the pixels of a map, ``(H, W, ..)``, nan outside."""
    lon, lat = (axis.double().flatten() for axis in places)
    inside = lon.isfinite()
    values = function(lon[inside], lat[inside]).double()
    whole = torch.full((len(lon), *values.shape[1:]), torch.nan, dtype=torch.float64)
    whole[inside] = values
    return whole.reshape(*places[0].shape, *values.shape[1:])


def prediction_of(model: GlobeModel) -> Callable[[Tensor, Tensor], Tensor]:
    """Function from places to the predicted value, or to the probabilities of the classes."""

    def predict(lon: Tensor, lat: Tensor) -> Tensor:
        with torch.no_grad():
            outputs = model.outputs(lon, lat)
        return outputs.softmax(-1) if isinstance(model.target, Labels) else outputs[:, 0]

    return predict


def prediction_colors(target: Target, values: Tensor) -> Pixels:
    """Colors of predicted values ``(H, W, 4)``, transparent outside the map.

    A field is colored from blue over white to red, land by its probability, and countries by the most probable one.
    """
    known = values.isfinite() if values.dim() == 2 else values[..., 0].isfinite()
    if isinstance(target, Field):
        colors = _ramp(values / 5 + 0.5, (LOW, MIDDLE, HIGH))
    elif target.classes == 2:
        colors = _ramp(values[..., 1], (SEA, LAND))
    else:
        wheel = np.array(
            [colorsys.hsv_to_rgb(n * 0.618 % 1, 0.45 + 0.35 * (n % 2), 0.85) for n in range(values.shape[-1])]
        )
        colors = wheel[values.nan_to_num(0).argmax(-1).numpy()]
    return np.concatenate([colors, known[..., None].numpy().astype(np.float64)], -1)


def true_colors(target: Target, places: Grid) -> Pixels:
    """The target itself at the pixels of a map."""
    truth = evaluate(target.values_at, places)
    if isinstance(target, Field):
        return prediction_colors(target, truth)
    labeled = truth >= 0  # False for nan, too.
    one_hot = torch.nn.functional.one_hot(truth.where(labeled, 0).long(), target.classes).double()
    return prediction_colors(target, one_hot.where(labeled[..., None], torch.nan))


def error_of(target: Target, values: Tensor, places: Grid) -> Tensor:
    """Absolute error of a value, or 1 − probability of the true class, ``(H, W)``; nan without a target."""
    truth = evaluate(target.values_at, places)
    if isinstance(target, Field):
        return (values - truth).abs()
    missing = 1 - values.gather(-1, truth.nan_to_num(0).clamp(min=0).long()[..., None])[..., 0]
    return missing.where(truth >= 0, torch.nan)


def _zero_error(target: Target, places: Grid) -> Tensor:
    """Zero ``(H, W)``, nan without a target."""
    truth = evaluate(target.values_at, places)
    return torch.zeros_like(truth).where(truth.isfinite() if isinstance(target, Field) else truth >= 0, torch.nan)


def _ramp(t: Tensor, stops: tuple[tuple[int, int, int], ...]) -> Pixels:
    """Colors along equidistant stops, in steps."""
    place = (t.nan_to_num(0.5).clamp(0, 1) * COLORS).round().numpy() / COLORS * (len(stops) - 1)
    along = np.arange(len(stops))
    return np.stack([np.interp(place, along, [stop[c] / 255 for stop in stops]) for c in range(3)], -1)


def _stack_vertically(above: Pixels, below: Pixels) -> Pixels:
    """Two maps, one above the other, with a gap between them."""
    return np.concatenate([above, np.full((GAP, *above.shape[1:]), GAP_GRAY), below])


def _figure(pixels: Pixels, title: str, alt: str, note: str) -> Figure:
    """Figure of a map; without an alpha channel where no pixel is transparent, which halves the file."""
    return image_figure(pixels[..., :3] if pixels[..., 3].all() else pixels, title, alt, note)


def _error_pixels(error: Tensor) -> Pixels:
    steps = (error / LARGEST_ERROR * COLORS / 2).round() / COLORS * 2
    colors = error_colors(steps.numpy(), 1.0)
    return np.concatenate([colors, error.isfinite()[..., None].numpy().astype(np.float64)], -1)


def mapped_models(data: PageData, condition: str) -> dict[str, GlobeModel]:
    """Trained models whose maps a page shows: all of a few, else the user's own and those of ``MAPPED_ENCODINGS``."""
    labels = [label for label in data.labels(condition) if data.first(condition, label)]
    firsts = [data.first(condition, label) for label in drawn(labels, MAPPED_ENCODINGS)]
    return trained_models(data.store, [spec for spec in firsts if spec is not None])


def prediction_maps(data: PageData) -> list[Panel]:
    """The globe in plate carrée: the target, and of each encoding its prediction and its error."""
    panels = []
    for condition in conditions_of(data):
        models, title = mapped_models(data, condition.label), f"Prediction maps: {condition.title}"
        if not models:
            panels.append(Panel(title, (Text((NO_MAPS,)),)))
            continue
        places = grid("whole")
        figures = []
        for name, target in _targets(models).items():
            pixels = _stack_vertically(true_colors(target, places), _error_pixels(_zero_error(target, places)))
            figures.append(_figure(pixels, name, f"{name}.", NO_ERROR))
        body = []
        for label, model in models.items():
            values, target = evaluate(prediction_of(model), places), model.target
            error = error_of(target, values, places)
            if values.dim() == 3:  # Predictions of a class are shown only where the target is defined.
                values = values.where(error.isfinite()[..., None], torch.nan)
            mean_error, largest = number(_mean(error, places), 3), number(float(error[error.isfinite()].max()), 2)
            size = f"mean {mean_error}, largest {largest}"
            pixels = _stack_vertically(prediction_colors(target, values), _error_pixels(error))
            figures.append(_figure(pixels, label, f"Prediction of {label}, and its error below: {size}.", size))
            body.append((label, mean_error, largest))
        key = (
            f"Plate carrée, north at the top, the date line at both sides. Upper map: prediction; {_scale(models)} "
            f"Lower map: {condition.error}, from black (0) to white ({LARGEST_ERROR} and more). Below each map: error "
            f"over its pixels. Seed {_seeds(models)}. The maps include training places."
        )
        columns = ("Encoding", f"Mean by area ({condition.error})", f"Largest ({condition.error})")
        table = Table("Error over the pixels of the map", columns, tuple(body))
        panels.append(Panel(title, (FigureGroup(tuple(figures), key, table, "wide"),)))
    return panels


def date_line_maps(data: PageData) -> list[Panel]:
    """The strip around the date line, without a cut."""
    return [_regional_maps(data, each, ("strip",)) for each in conditions_of(data) if each.everywhere]


def polar_maps(data: PageData) -> list[Panel]:
    """Both polar caps from above."""
    return [_regional_maps(data, each, ("north", "south")) for each in conditions_of(data) if each.everywhere]


def _regional_maps(data: PageData, condition: GlobeCondition, regions: tuple[str, ...]) -> Panel:
    at_seam = regions == ("strip",)
    title = f"{'Date line maps' if at_seam else 'Polar maps'}: {condition.title}"
    models = mapped_models(data, condition.label)
    if not models:
        return Panel(title, (Text((NO_MAPS,)),))
    figures: list[Figure] = []
    body: list[tuple[str, ...]] = []
    for region in regions:
        places = grid(region)
        ending = "" if at_seam else f", {region}"
        figures += [
            _figure(true_colors(target, places), f"{name}{ending}", f"{name}{ending}.", NO_ERROR)
            for name, target in _targets(models).items()
        ]
        for label, model in models.items():
            values = evaluate(prediction_of(model), places)
            size = number(_mean(error_of(model.target, values, places), places, plate_carree=at_seam), 3)
            alt = f"{label}{ending}: mean error {size}."
            figures.append(_figure(prediction_colors(model.target, values), f"{label}{ending}", alt, size))
            body.append((label, region, size))
    key = (
        f"From {180 - STRIP:g}° E to {180 - STRIP:g}° W and from {REACH:g}° N to {REACH:g}° S. The date line is the "
        "vertical middle line; a jump there is due to the encoding."
        if at_seam
        else f"Lambert's equal-area projection within {CAP:g}° of each pole, the date line straight up from it. Rays "
        "from a pole are due to the encoding: the target has none."
    )
    key += f" Prediction; {_scale(models)} Below each map: mean {condition.error}. Seed {_seeds(models)}."
    table = Table("Mean error of each map", ("Encoding", "Map", f"Mean ({condition.error})"), tuple(body))
    return Panel(title, (FigureGroup(tuple(figures), key, table, "tiny"),))


def _mean(error: Tensor, places: Grid, *, plate_carree: bool = True) -> float:
    """Mean by area: in plate carrée, pixels of equal size in degrees differ in area."""
    weights = torch.deg2rad(places[1]).cos() if plate_carree else torch.ones_like(places[1])
    known = error.isfinite()
    return float((error[known] * weights[known]).sum() / weights[known].sum())


def _targets(models: Mapping[str, GlobeModel]) -> dict[str, Target]:
    """Title to target: one field for each seed, where the lowest seeds of the encodings differ."""
    targets = {model.spec.seed: model.target for model in models.values()}
    if len(targets) == 1 or any(isinstance(target, Labels) for target in targets.values()):
        return {"Target": next(iter(targets.values()))}
    return {f"Target of seed {seed}": targets[seed] for seed in sorted(targets)}


def _seeds(models: Mapping[str, GlobeModel]) -> str:
    return " or ".join(map(str, sorted({model.spec.seed for model in models.values()})))


def _scale(models: Mapping[str, GlobeModel]) -> str:
    target = next(iter(models.values())).target
    if isinstance(target, Field):
        return "blue is −2.5 SD of the field, white its mean, red +2.5 SD."
    if target.classes == 2:
        return "blue is sea, brown is land, colors between them give the probability of land."
    return "each color is the country with the highest probability; other places are blank."
