"""Pictures of the globe: what a trained field tells, where it is wrong, the strip at the seam, and the poles."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.pixels import error_map, picture
from posenc.report.rows import number
from posenc.studies.found import Found
from posenc.studies.globe.presets import SETTINGS, SHOWN, settings
from posenc.studies.globe.work import Target, Trained, restored
from posenc.tasks.globe import Field, Labels

Pixels = NDArray[np.float64]
Grid = tuple[Tensor, Tensor]  # longitudes and latitudes (H, W) in degrees, nan outside

STEP = 2.5
STRIP, REACH = 30.0, 60.0  # degrees: half of the strip's width, and how far from the equator it reaches
CAP, ACROSS = 30.0, 96  # degrees from the pole at the edge of a polar view, and its pixels
WORST = 0.5
"""Where the colour of an error ends: in standard deviations of the field, or in missing probability."""
COLOURS = 16
"""Steps of a scale: more make larger files and are hardly seen."""
LOW, MIDDLE, HIGH = (33, 90, 165), (245, 245, 240), (180, 40, 40)
SEA, LAND = (190, 215, 235), (120, 105, 60)
GAP, BETWEEN = 2, 0.5
NO_ERROR = "–"


def grid(region: str) -> Grid:
    """The places of a picture's pixels: the whole globe (north up, west left), the strip around the date line, or a
    polar cap in Lambert's equal-area projection, the date line running up from the pole."""
    if region == "whole":
        lat, lon = torch.arange(90 - STEP / 2, -90, -STEP), torch.arange(-180 + STEP / 2, 180, STEP)
        return (lon.expand(len(lat), -1), lat[:, None].expand(-1, len(lon)))
    if region == "strip":
        lat, lon = torch.arange(REACH - 0.5, -REACH, -1.0), torch.arange(180 - STRIP + 0.5, 180 + STRIP, 1.0)
        lon = torch.where(lon > 180, lon - 360, lon)
        return (lon.expand(len(lat), -1), lat[:, None].expand(-1, len(lon)))
    along = (torch.arange(ACROSS) + 0.5) * 2 / ACROSS - 1
    x, y = along[None, :], -along[:, None]
    rho = (x**2 + y**2).sqrt()
    far = torch.rad2deg(2 * torch.asin((rho * math.sin(math.radians(CAP / 2))).clamp(max=1)))
    pole = 1 if region == "north" else -1
    # 0 degrees points down and 180 up; east is anticlockwise seen from above the north pole, clockwise at the south
    lon = torch.rad2deg(torch.atan2(pole * x, -y))
    outside = torch.full_like(far, torch.nan)
    return (torch.where(rho <= 1, lon, outside), torch.where(rho <= 1, pole * (90 - far), outside))


def at(tell: Callable[[Tensor, Tensor], Tensor], places: Grid) -> Tensor:
    """What is told at the pixels of a picture, ``(H, W, ..)``, nan outside."""
    lon, lat = (side.double().flatten() for side in places)
    inside = lon.isfinite()
    found = tell(lon[inside], lat[inside]).double()
    whole = torch.full((len(lon), *found.shape[1:]), torch.nan, dtype=torch.float64)
    whole[inside] = found
    return whole.reshape(*places[0].shape, *found.shape[1:])


def predicted(trained: Trained) -> Callable[[Tensor, Tensor], Tensor]:
    """From places to the field's value, or to the probabilities of its classes."""

    def tell(lon: Tensor, lat: Tensor) -> Tensor:
        with torch.no_grad():
            found = trained.outputs(lon, lat)
        return found.softmax(-1) if isinstance(trained.target, Labels) else found[:, 0]

    return tell


def coloured(target: Target, told: Tensor) -> Pixels:
    """Values from blue by white to red; land's probability from sea to land; the likeliest country. Clear outside."""
    known = told.isfinite() if told.dim() == 2 else told[..., 0].isfinite()
    if isinstance(target, Field):
        colours = _ramp(told / 5 + 0.5, (LOW, MIDDLE, HIGH))
    elif target.classes == 2:
        colours = _ramp(told[..., 1], (SEA, LAND))
    else:
        wheel = np.array(
            [colorsys.hsv_to_rgb(n * 0.618 % 1, 0.45 + 0.35 * (n % 2), 0.85) for n in range(told.shape[-1])]
        )
        colours = wheel[told.nan_to_num(0).argmax(-1).numpy()]
    return np.concatenate([colours, known[..., None].numpy().astype(np.float64)], -1)


def true_colours(target: Target, places: Grid) -> Pixels:
    if isinstance(target, Field):
        return coloured(target, at(target.at, places))
    labels = at(target.at, places)
    asked = labels >= 0  # and not nan
    told = torch.nn.functional.one_hot(labels.where(asked, 0).long(), target.classes).double()
    return coloured(target, told.where(asked[..., None], torch.nan))


def wrong(target: Target, told: Tensor, places: Grid) -> Tensor:
    """The size of the error ``(H, W)``: of a value, or the probability that the true class lacks; nan where nothing is
    asked."""
    truth = at(target.at, places)
    if isinstance(target, Field):
        return (told - truth).abs()
    missing = 1 - told.gather(-1, truth.nan_to_num(0).clamp(min=0).long()[..., None])[..., 0]
    return missing.where(truth >= 0, torch.nan)


def _none_of(target: Target, places: Grid) -> Tensor:
    """No error ``(H, W)``, nan where nothing is asked."""
    truth = at(target.at, places)
    return torch.zeros_like(truth).where(truth.isfinite() if isinstance(target, Field) else truth >= 0, torch.nan)


def _ramp(t: Tensor, stops: tuple[tuple[int, int, int], ...]) -> Pixels:
    """Colours along equidistant stops, in steps."""
    place = (t.nan_to_num(0.5).clamp(0, 1) * COLOURS).round().numpy() / COLOURS * (len(stops) - 1)
    along = np.arange(len(stops))
    return np.stack([np.interp(place, along, [stop[c] / 255 for stop in stops]) for c in range(3)], -1)


def _over(above: Pixels, below: Pixels) -> Pixels:
    """Two pictures with a gap between them."""
    return np.concatenate([above, np.full((GAP, *above.shape[1:]), BETWEEN), below])


def _drawn(pixels: Pixels, title: str, alt: str, note: str) -> Picture:
    """Where no pixel is clear, in few colours and no more: half as large a file."""
    return picture(pixels[..., :3] if pixels[..., 3].all() else pixels, title, alt, note)


def _errors(found: Tensor) -> Pixels:
    steps = (found / WORST * COLOURS / 2).round() / COLOURS * 2
    colours = error_map(steps.numpy(), 1.0)
    return np.concatenate([colours, found.isfinite()[..., None].numpy().astype(np.float64)], -1)


def shown(found: Found, setting: str) -> list[str]:
    """The rows whose pictures a page shows: a choice of the named ones, or all of a few others."""
    labels = [label for label in found.labels(setting) if found.first(setting, label)]
    chosen = [label for label in SHOWN if label in labels]
    return chosen or labels[: len(SHOWN)]


def maps(found: Found) -> list[Panel]:
    """The whole globe in plate carrée: the truth, and of each row what it tells and its error."""
    panels = []
    for setting in settings(found):
        rows, title = shown(found, setting), f"Maps: {SETTINGS[setting].title}"
        if not rows:
            panels.append(Panel(title, (Text(("No unit of this setting has finished.",)),)))
            continue
        places, every = grid("whole"), _trained(found, setting, rows)
        pictures = [
            _drawn(_over(true_colours(target, places), _errors(_none_of(target, places))), name, f"{name}.", NO_ERROR)
            for name, target in _truths(every).items()
        ]
        body = []
        for label, trained in every.items():
            told, target = at(predicted(trained), places), trained.target
            error = wrong(target, told, places)
            if told.dim() == 3:  # what is told where nothing was asked means nothing
                told = told.where(error.isfinite()[..., None], torch.nan)
            size = f"mean {number(_mean(error, places), 3)}, largest {number(float(error[error.isfinite()].max()), 2)}"
            pixels = _over(coloured(target, told), _errors(error))
            pictures.append(_drawn(pixels, label, f"What {label} tells, and where it is wrong: {size}.", size))
            body.append((label, size))
        key = (
            "Plate carrée, north at the top, the date line at both sides. Above what is told: "
            f"{_scale(every)} Below the error, from black, none, to white, {WORST} {SETTINGS[setting].unit} and more. "
            f"Seed {_seeds(every)}; trained and held-out places alike."
        )
        table = Table("Error over the pixels of the map, its mean by area", ("Encoding", "Error"), tuple(body))
        panels.append(Panel(title, (Pictures(tuple(pictures), key, table, "wide"),)))
    return panels


def seam(found: Found) -> list[Panel]:
    """The strip around the date line, continued across it."""
    return [
        panel
        for setting in settings(found)
        if SETTINGS[setting].everywhere
        for panel in _views(found, setting, ("strip",))
    ]


def poles(found: Found) -> list[Panel]:
    """Both poles from above."""
    return [
        p
        for setting in settings(found)
        if SETTINGS[setting].everywhere
        for p in _views(found, setting, ("north", "south"))
    ]


def _views(found: Found, setting: str, regions: tuple[str, ...]) -> list[Panel]:
    at_seam = regions == ("strip",)
    title = f"{'Across the date line' if at_seam else 'The poles from above'}: {SETTINGS[setting].title}"
    rows = shown(found, setting)
    if not rows:
        return [Panel(title, (Text(("No unit of this setting has finished.",)),))]
    every = _trained(found, setting, rows)
    pictures: list[Picture] = []
    body: list[tuple[str, ...]] = []
    for region in regions:
        places = grid(region)
        where = "" if at_seam else f", {region}"
        pictures += [
            _drawn(true_colours(target, places), f"{name}{where}", f"{name}{where}.", NO_ERROR)
            for name, target in _truths(every).items()
        ]
        for label, each in every.items():
            told = at(predicted(each), places)
            size = number(_mean(wrong(each.target, told, places), places, flat=at_seam), 3)
            pictures.append(
                _drawn(coloured(each.target, told), f"{label}{where}", f"{label}{where}: mean error {size}.", size)
            )
            body.append((label, region, size))
    key = (
        f"From {180 - STRIP:g} degrees east to {180 - STRIP:g} west, {REACH:g} north to {REACH:g} south: the date line "
        "runs down the middle, and a seam there is the encoding's own."
        if at_seam
        else f"Lambert's equal-area projection within {CAP:g} degrees of each pole, the date line running straight up "
        "from it. Rays from a pole are the encoding's own: the truth has none."
    )
    key += f" In colours: {_scale(every)} Below each: the mean error in it. Seed {_seeds(every)}."
    table = Table("Mean error in each view", ("Encoding", "View", "Mean error"), tuple(body))
    return [Panel(title, (Pictures(tuple(pictures), key, table, "tiny"),))]


def _mean(error: Tensor, places: Grid, *, flat: bool = True) -> float:
    """By area: where the pixels of a picture are alike in degrees (flat), they are not alike in area."""
    weights = torch.deg2rad(places[1]).cos() if flat else torch.ones_like(places[1])
    known = error.isfinite()
    return float((error[known] * weights[known]).sum() / weights[known].sum())


def _trained(found: Found, setting: str, rows: list[str]) -> dict[str, Trained]:
    firsts = {label: found.first(setting, label) for label in rows}
    return {label: restored(unit, found.store) for label, unit in firsts.items() if unit is not None}


def _truths(every: Mapping[str, Trained]) -> dict[str, Target]:
    """What was there, by its title: of each seed its own field, where the rows' lowest seeds differ."""
    targets = {trained.unit.seed: trained.target for trained in every.values()}
    if len(targets) == 1 or any(isinstance(target, Labels) for target in targets.values()):
        return {"The truth": next(iter(targets.values()))}
    return {f"The truth of seed {seed}": targets[seed] for seed in sorted(targets)}


def _seeds(every: Mapping[str, Trained]) -> str:
    return " or ".join(map(str, sorted({trained.unit.seed for trained in every.values()})))


def _scale(every: Mapping[str, Trained]) -> str:
    target = next(iter(every.values())).target
    if isinstance(target, Field):
        return "blue is −2.5 standard deviations of the field, white its mean, red +2.5."
    if target.classes == 2:
        return "blue where the sea is told, brown where land, between them the probability."
    return "each colour is one country, the likeliest; nothing was asked outside of them all."
