"""Panels of PSNR against parameters, of vertices that share a row, and of what is between the vertices."""

from __future__ import annotations

import math

import msgspec
import torch

from posenc.kernels.domain import Points
from posenc.kernels.interpolation import rows_at
from posenc.kernels.levels import Level
from posenc.measure.statistics import mean
from posenc.report.lines import lines
from posenc.report.page import Panel, Table
from posenc.report.rows import values
from posenc.report.scores import scores
from posenc.studies.field_rows import FieldRow
from posenc.studies.found import Found
from posenc.studies.image_fit import rows
from posenc.studies.image_fit.comparing import PSNR, of_kind
from posenc.studies.image_fit.fitting import SCORE, STEPS
from posenc.studies.image_fit.presets import SUFFIX, SWEEP

CROSSOVER = "Where dense and hashed grids cross"
Sizes = dict[float, dict[int, float]]


def parameters(found: Found) -> list[Panel]:
    """Each encoding in several sizes, as near as it is after the same seconds."""
    series: dict[str, Sizes] = {}
    seconds = found.preset.own["sizes"].get("seconds", math.inf)
    for setting in of_kind(found, SWEEP):
        for name in (setting, setting.removesuffix(SUFFIX[SWEEP])):
            curves, counted = found.over_time(name, PSNR), values(found.rows, "parameters", name)
            for label, curve in curves.items():
                row, at, _ = label.partition("@")
                if row not in rows.SIX or (name == setting) != bool(at):
                    continue
                looks = [x for x in curve if x <= 1.001 * seconds]
                size = mean([n for scheme, seeds in counted.items() for n in seeds.values()
                             if scheme.removesuffix(f", {name}") == label])  # fmt: skip
                series.setdefault(row, {}).update({size: curve[max(looks)]} if looks else {})
    return [
        lines(
            {label: points for label, points in series.items() if len(points) > 1},
            title="PSNR against parameters",
            x_label="parameters",
            y_label="PSNR in dB, on a grid of pixels",
            bounds=None,
            log_x=True,
            caption="Every encoding in several sizes, after as many seconds of one core"
            + ("." if math.isinf(seconds) else f": {seconds:g}."),
        )
    ]


def crossover(found: Found) -> list[Panel]:
    panels = []
    for setting in of_kind(found, SWEEP):
        series: dict[str, Sizes] = {}
        counted = values(found.rows, "parameters", setting)
        for name, seeds in values(found.rows, PSNR, setting).items():
            label, at, _ = name.removesuffix(f", {setting}").partition("@")
            if at and label in rows.GRIDS:
                series.setdefault(label, {})[mean(list(counted[name].values()))] = seeds
        panels.append(
            lines(
                series,
                title=CROSSOVER,
                x_label="parameters",
                y_label="PSNR in dB",
                bounds=None,
                log_x=True,
                caption="A dense grid of one level, a hashed one and many levels, none finer than every second pixel. "
                "What a dense grid or one of many levels does not need for vertices makes its rows longer.",
            )
        )
        panels.append(Panel("Collisions", (collisions(found, setting),)))
    return panels


def collisions(found: Found, setting: str) -> Table:
    """Of the finest level of each hash table: how many vertices share their row with another, counted one by one."""
    body = []
    for label in found.labels(setting):
        unit = found.first(setting, label)
        if unit is None or "table_size" not in unit.settings["row"]["options"]:
            continue
        levels = _levels(msgspec.convert(unit.settings["row"], FieldRow))
        finest = levels[-1]
        used, alone = vertices_a_row(finest)
        vertices = math.prod(finest.vertices)
        hashed = f"{sum(level.hashed for level in levels)} of {len(levels)}"
        shared = f"{vertices - alone:,} ({(vertices - alone) / vertices:.0%})"
        body.append((label, hashed, f"{vertices:,}", f"{finest.rows:,}", f"{used:,}", shared))
    return Table(
        "Vertices that share a row",
        ("Encoding", "Hashed levels", "Vertices", "Rows for them", "Rows in use", "Vertices that share theirs"),
        tuple(body),
        note="On the finest level. hash has one level, and hashes it also where there is a row for every vertex; many "
        "levels are hashed only where there is not.",
    )


def vertices_a_row(level: Level) -> tuple[int, int]:
    """Rows of a level that some vertex has, and rows that one alone has."""
    sides = [torch.arange(n, dtype=torch.float64) / scale for n, scale in zip(level.vertices, level.scale, strict=True)]
    numbered = torch.arange(level.rows, dtype=torch.float64)[:, None]
    taken = rows_at(numbered, Points(torch.cartesian_prod(*sides)), (level._replace(first=0),), "nearest")
    counts = torch.bincount(taken[:, 0].long(), minlength=level.rows)
    return int((counts > 0).sum()), int((counts == 1).sum())


def _levels(row: FieldRow) -> tuple[Level, ...]:
    with torch.device("meta"):
        return row.field().scheme.levels  # type: ignore[return-value]


def interpolation(found: Found) -> list[Panel]:
    return [
        scores(
            [row for row in found.rows if row["scheme"].removesuffix(f", {setting}") in rows.INTERPOLATIONS],
            metrics={PSNR: SCORE, "steps": STEPS},
            setting=setting,
            title="Between the vertices",
            caption="The same levels and rows, read at the nearest vertex, linearly, or smoothly (which has second "
            "derivatives).",
        )
        for setting in of_kind(found, SWEEP)
    ]
