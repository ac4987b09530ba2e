"""The numbers of the globe study as panels: scores by region, error by latitude, what each row is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.measure.statistics import mean, paired_difference, t_interval
from posenc.report.expectations import Expected
from posenc.report.lines import lines
from posenc.report.page import Panel, Table, Text
from posenc.report.rows import NO_BREAK, BySeed, capital, interval, listed, number, values
from posenc.report.scores import scores
from posenc.studies.found import Found, plain_label
from posenc.studies.globe.presets import CURVES, SETTINGS, Setting, settings
from posenc.studies.globe.rows import DEGREE, NAMES, PICTURES, PLANAR, SPHERICAL, GlobeRow
from posenc.studies.globe.work import target_of
from posenc.tasks.globe import BAND, BANDS, Field, draw, regions

COUNTERPARTS = (
    ("xyz", "none"),
    ("fourier-xyz", "fourier"),
    ("hash-xyz", "hash"),
    ("sphere-c-plus", "space2vec-grid"),
    ("harmonics", "fourier"),
)
"""(spherical, planar): what was expected before anything was run, that the first errs less at the poles and across the
date line."""
NO_GEO = (
    "Natural Earth was not given (--data DIR with geo/natural_earth_110m_raster.npz), so only the field was run, which "
    "needs no data."
)
MOST_NAMED = 3
DRAWN = 4000
"""Places of a region that its field's standard deviation is taken over."""


def expected(found: Found) -> list[Expected]:
    """Spherical ahead of planar, where the plane is torn or stretched; of the field, and of the Earth if it was run."""
    told = []
    for name in settings(found):
        setting = SETTINGS[name]
        pairs = COUNTERPARTS if name == "field" else (("harmonics", "fourier"),)
        regions = ("_poles", "_date_line") if setting.everywhere else ("",)
        for better, worse in pairs:
            told += [Expected(f"{setting.metric}{r}", better, worse, setting.higher, (name,)) for r in regions]
        if name == "field":
            told.append(Expected("rmse_date_line", "hash-wrap", "hash", False, (name,)))
            told += [Expected("jump_date_line", better, worse, False, (name,)) for better, worse in COUNTERPARTS]
    return told


def headline(found: Found) -> str:
    """The best row of each question, and on the field the best of the plane and of the sphere at the poles."""
    told = []
    for name in settings(found):
        setting = SETTINGS[name]
        everywhere = _of(found, name, setting.metric)
        if not everywhere:
            continue
        best = _best(everywhere, setting)
        told.append(
            f"{capital(setting.title)}: {best} has the best mean, {setting.metric} {_size(everywhere[best])}"
            f"{_tied(everywhere, best)}."
        )
        poles = _of(found, name, f"{setting.metric}_poles")
        sides = [
            _best({label: poles[label] for label in side if label in poles}, setting) for side in (PLANAR, SPHERICAL)
        ]
        if name == "field" and all(sides):
            sizes = [f"{_size(poles[side])} for {side}" for side in sides]
            told.append(f"Within 10° of a pole the best planar encoding has {sizes[0]}, the best spherical {sizes[1]}.")
    if not told:
        return "Nothing can be said yet: no unit has finished."
    return " ".join([*told, *([NO_GEO] if settings(found) == ["field"] else [])])


def _of(found: Found, setting: str, metric: str) -> dict[str, BySeed]:
    return {row.removesuffix(f", {setting}"): seeds for row, seeds in values(found.rows, metric, setting).items()}


def _best(by_row: dict[str, BySeed], setting: Setting) -> str:
    """The row of the best mean; empty where there is none."""
    sign = -1 if setting.higher else 1
    return min(by_row, key=lambda row: (sign * mean(list(by_row[row].values())), row), default="")


def _tied(by_row: dict[str, BySeed], best: str) -> str:
    """Which rows the best cannot be told from, by the intervals of the differences."""
    tied = []
    for row, seeds in by_row.items():
        if row != best and seeds.keys() & by_row[best].keys():
            difference = paired_difference(by_row[best], seeds)
            tied += [] if difference.above(0) or difference.below(0) else [row]
    if not tied:
        return ""
    return f", not told apart from {listed(tied) if len(tied) <= MOST_NAMED else f'{len(tied)} others'}"


def _size(seeds: BySeed) -> str:
    found = t_interval(list(seeds.values()))
    return f"{number(found.mean, 3)}{NO_BREAK}{interval(found, 3)}"


def by_region(found: Found) -> list[Panel]:
    """Scores everywhere, at the poles, at the date line, and the jump across it."""
    panels = []
    for name in settings(found):
        setting = SETTINGS[name]
        everywhere = _of(found, name, setting.metric)
        elsewhere = [v for seeds in _of(found, name, "jump_elsewhere").values() for v in seeds.values()]
        caption = ""
        if elsewhere and setting.everywhere:
            caption = (
                "The jump is the mean difference between places a thousandth of a degree on either side of the date "
                f"line; across Greenwich's meridian it is at most {number(max(elsewhere), 4)}."
            )
        title = f"Scores by region: {setting.title}"
        panel = scores(found.rows, metrics=setting.scores(), setting=name, title=title, caption=caption)
        if name == "field" and everywhere:
            panel = dataclasses.replace(panel, blocks=(*panel.blocks, fields(found)))
        panels.append(panel)
    if settings(found) == ["field"]:
        panels.append(Panel("Land and countries", (Text((NO_GEO,)),)))
    return panels


def fields(found: Found) -> Table:
    """How much the field of each seed varies in each region, and how much of it the row of harmonics can say."""
    row = found.first("field", "harmonics")
    degree = DEGREE if row is None else row.settings["row"]["field"]["options"]["degree"]
    units = {unit.seed: unit for unit in found.done if unit.setting == "field"}
    body, shares = [], []
    for seed in sorted(units):
        field = target_of(found.store.root, units[seed])
        assert isinstance(field, Field)
        shares.append(field.share(degree))
        sds = [_deviation(field, cells) for cells in regions().values()]
        body.append((str(seed), *(number(sd) for sd in sds), f"{shares[-1]:.0%}"))
    reach = " to ".join(dict.fromkeys(f"{end:.0%}" for end in (min(shares), max(shares))))
    columns = ("Seed", "Sd within 10° of a pole", "Sd within 5° of the date line", f"Variance up to degree {degree}")
    note = (
        f"The sd everywhere is 1. {reach} of the variance lies in the span of what the row harmonics reads. So much "
        "is built into it: where it errs less on these fields than Fourier features, this is a reason."
    )
    return Table("The fields", columns, tuple(body), note)


def _deviation(field: Field, cells: Tensor) -> float:
    return float(field.at(*draw(cells, DRAWN, torch.Generator().manual_seed(0))).std())


def by_latitude(found: Found) -> list[Panel]:
    """Error against the distance from the equator, in bands of 10 degrees, of what is asked at every latitude."""
    panels = []
    for name in settings(found):
        setting = SETTINGS[name]
        if not setting.everywhere:
            continue
        run = found.labels(name)
        series = {label: _bands(found, name, label) for label in CURVES if label in run} or {
            label: _bands(found, name, label) for label in run[: len(CURVES)]
        }
        panels.append(
            lines(
                series,
                title=f"Error by latitude: {setting.title}",
                x_label="degrees from the equator, middle of a band of 10",
                y_label="rmse" if not setting.higher else "error rate",
                bounds=(0.0, _top(series)),
                note="Held-out places, as many in each band; the mean of north and south.",
            )
        )
    return panels


def _top(series: Mapping[str, Mapping[float, BySeed]]) -> float:
    """A round number above every value that is drawn."""
    most = max((v for points in series.values() for seeds in points.values() for v in seeds.values()), default=1.0)
    step = 10 ** math.floor(math.log10(most or 1.0)) / 2
    return step * math.ceil(1.05 * most / step)


def _bands(found: Found, setting: str, label: str) -> dict[float, BySeed]:
    """Both hemispheres together, from the equator on."""
    by_band: dict[float, BySeed] = {BAND * (number_ + 0.5): {} for number_ in range(BANDS // 2)}
    for unit in found.done:
        if unit.setting == setting and plain_label(unit) == label:
            southern, northern = np.split(found.store.arrays(unit.key)["error_by_latitude"], 2)
            for middle, error in zip(by_band, ((northern + southern[::-1]) / 2).tolist(), strict=True):
                if math.isfinite(error):
                    by_band[middle][unit.seed] = error
    return by_band


def rows(found: Found) -> list[Panel]:
    """What each row is, and how many numbers it trains."""
    kinds = {"plane": PLANAR, "sphere": SPHERICAL, "map's pixels": PICTURES}
    body, units = [], [unit for name in settings(found) for unit in found.done if unit.setting == name]
    run = dict.fromkeys(map(plain_label, units))
    for label in [*(name for name in NAMES if name in run), *(name for name in run if name not in NAMES)]:
        unit = next(unit for unit in units if plain_label(unit) == label)
        row = msgspec.convert(unit.settings["row"], GlobeRow)
        kind = next((name for name, labels in kinds.items() if label in labels), "by name")
        options = ", ".join(f"{name}={_short(value)}" for name, value in row.field.options.items())
        counts = [n for s in settings(found) for n in _of(found, s, "parameters").get(label, {}).values()]
        told = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (min(counts), max(counts))))
        body.append((label, kind, f"{row.field.scheme}({options})", str(row.field.network.width), told))
    columns = ("Encoding", "Thought on", "Scheme", "Width", "Trained numbers")
    note = (
        "Every row has two hidden layers, as wide as the common budget of trained numbers allows; the width is that of "
        f"{SETTINGS[settings(found)[0]].title}."
    )
    return [Panel("The rows", (Table("What each row is", columns, tuple(body), note, prose=True),))]


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(value)
