"""Plots and tables of the globe study: scores by region, error by latitude, the encodings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import msgspec
import numpy as np
import torch
from torch import Tensor

from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import decimals, number
from posenc.workbench.report.page import Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.globe.claims import NO_RASTER, conditions_of, scores_of
from posenc.workbench.studies.globe.conditions import FIELD, GlobeCondition
from posenc.workbench.studies.globe.execute import target_of
from posenc.workbench.studies.globe.variants import DEGREE, KINDS, VARIANTS, GlobeEncoding, drawn
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import SHARE, SIZE
from posenc.workbench.tasks.globe import BAND, BANDS, Field, draw_places, regions

CURVES = ("fourier", "hash", "sphere-c-plus", "sphere-m", "hash-xyz", "harmonics")
"""Encodings whose error a page of more encodings plots by latitude; "none" would flatten the others."""
SAMPLED_PLACES = 4000
"""Places of a region over which the standard deviation of a field is taken."""


def scores_by_region(data: PageData) -> list[Panel]:
    """Scores over the globe, near the poles and near the date line, and the jump across the date line."""
    panels = []
    for each in conditions_of(data):
        jumps = [value for seeds in scores_of(data, each, "jump_elsewhere").values() for value in seeds.values()]
        caption = "Errors are in standard deviations (SD) of the field. " if each is FIELD else ""
        if jumps and each.everywhere:
            caption += (
                "Jump: mean absolute difference between places 0.001° on either side of the date line. Across the "
                f"prime meridian, without a seam, it is at most {number(max(jumps), decimals(max(jumps)))}."
            )
        title = f"Scores by region: {each.title}"
        panel = score_plots(data.rows, metrics=_scores(each), condition=each.label, title=title, caption=caption)
        if each is FIELD and scores_of(data, each, each.metric):
            panel = dataclasses.replace(panel, blocks=(*panel.blocks, field_variance(data)))
        panels.append(panel)
    if conditions_of(data) == [FIELD]:
        panels.append(Panel("Scores by region: land and countries", (Text((NO_RASTER,)),)))
    return panels


def _scores(condition: GlobeCondition) -> dict[str, Score]:
    """Metric to its description, for the plots of a condition."""
    unit = f"{condition.score}, {condition.unit}" if condition.unit else condition.score
    titles = {"": "Everywhere", "_poles": "Within 10° of a pole"}
    titles |= {"_date_line": "Within 5° of the date line"} if condition.everywhere else {}
    scores = {
        f"{condition.metric}{region}": Score(title, unit, condition.higher, log=not condition.higher)
        for region, title in titles.items()
    }
    jump_unit = "total variation distance" if condition.higher else "SD of the field"
    jump = Score("Jump across the date line", jump_unit, False, SHARE if condition.higher else SIZE)
    return {**scores, **({"jump_date_line": jump} if condition.everywhere else {})}


def field_variance(data: PageData) -> Table:
    """Standard deviation of each seed's field by region, and the share of its variance that harmonics represent."""
    spec = data.first(FIELD.label, "harmonics")
    degree = DEGREE if spec is None else spec.settings["row"]["field"]["options"]["degree"]
    specs = {spec.seed: spec for spec in data.done if spec.condition == FIELD.label}
    body, shares = [], []
    for seed in sorted(specs):
        field = target_of(data.store.root, specs[seed])
        assert isinstance(field, Field)
        shares.append(field.variance_share(degree))
        sds = [_deviation(field, cells) for cells in regions().values()]
        body.append((str(seed), *(number(sd) for sd in sds), f"{shares[-1]:.0%}"))
    share = " to ".join(dict.fromkeys(f"{end:.0%}" for end in (min(shares), max(shares))))
    columns = (
        "Seed",
        "SD within 10° of a pole",
        "SD within 5° of the date line",
        f"Variance in degrees 0 to {degree} (share)",
    )
    note = (
        f"Over the globe the SD is 1. A linear function of the encoding harmonics represents {share} of the variance "
        "exactly. This is one reason for its low error on these fields."
    )
    return Table("Random fields: standard deviation by region", columns, tuple(body), note)


def _deviation(field: Field, cells: Tensor) -> float:
    return float(field.values_at(*draw_places(cells, SAMPLED_PLACES, torch.Generator().manual_seed(0))).std())


def error_by_latitude(data: PageData) -> list[Panel]:
    """Error in bands of 10 degrees of distance from the equator, for targets that every place has."""
    panels = []
    for each in conditions_of(data):
        if not each.everywhere:
            continue
        trained = data.labels(each.label)
        plotted = drawn([label for label in trained if label != "none"] or trained, CURVES)
        series = {label: _bands(data, each.label, label) for label in plotted}
        panels.append(
            line_plot(
                series,
                title=f"Error by latitude: {each.title}",
                x_label="distance from the equator (degrees, middle of a 10° band)",
                y_label="error rate" if each.higher else f"{each.score} ({each.unit})",
                bounds=SHARE if each.higher else SIZE,
                limits=(0.0, _top(series)),
                note="Held-out places, equally many in each band; mean of the northern and the southern band.",
            )
        )
    return panels


def _top(series: Mapping[str, Mapping[float, BySeed]]) -> float:
    """A round number above every plotted value."""
    largest = max((v for points in series.values() for seeds in points.values() for v in seeds.values()), default=1.0)
    step = 10 ** math.floor(math.log10(largest or 1.0)) / 2
    return step * math.ceil(1.05 * largest / step)


def _bands(data: PageData, condition: str, label: str) -> dict[float, BySeed]:
    """Middle of a band in degrees from the equator to seed to error, the mean of both hemispheres."""
    by_band: dict[float, BySeed] = {BAND * (index + 0.5): {} for index in range(BANDS // 2)}
    for spec in data.done:
        if spec.condition == condition and spec.variant == label:
            southern, northern = np.split(data.store.arrays(spec.identity)["error_by_latitude"], 2)
            for middle, error in zip(by_band, ((northern + southern[::-1]) / 2).tolist(), strict=True):
                if math.isfinite(error):
                    by_band[middle][spec.seed] = error
    return by_band


def variant_table(data: PageData) -> list[Panel]:
    """The scheme of each encoding, the width of its network and its parameters."""
    body = []
    for label, encoding in _encodings(data).items():
        kind = next((name for name, labels in KINDS.items() if label in labels), "scheme by name")
        options = ", ".join(f"{name}={_short(value)}" for name, value in encoding.field.options.items())
        counts = [n for c in conditions_of(data) for n in scores_of(data, c, "parameters").get(label, {}).values()]
        parameters = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (min(counts), max(counts))))
        body.append((label, kind, f"{encoding.field.scheme}({options})", str(encoding.field.network.width), parameters))
    columns = ("Encoding", "Geometry", "Scheme", "Network width (units)", "Trained parameters")
    width_of = f" The width is that of the target {conditions_of(data)[0].title}." if body else ""
    note = "Every network has two hidden layers, as wide as the common budget of trained parameters allows." + width_of
    return [Panel("Encodings", (Table("Schemes and sizes", columns, tuple(body), note, prose=True),))]


def _encodings(data: PageData) -> dict[str, GlobeEncoding]:
    """Variant to its encoding: the variants of the study first, then schemes given by name."""
    first = {}
    for condition in conditions_of(data):
        for spec in data.done:
            if spec.condition == condition.label:
                first.setdefault(spec.variant, spec)
    order = [*(label for label in VARIANTS if label in first), *(label for label in first if label not in VARIANTS)]
    return {label: msgspec.convert(first[label].settings["row"], GlobeEncoding) for label in order}


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(value)
