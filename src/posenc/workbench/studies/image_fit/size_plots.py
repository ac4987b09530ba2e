"""Panels of PSNR by parameter count, of hash collisions, and of the interpolation of grids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import torch

from posenc.kernels.domain import Points
from posenc.kernels.grid_levels import Level
from posenc.kernels.interpolation import rows_at
from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.report.score_plot import score_plots
from posenc.workbench.studies.image_fit.conditions import FIT, SIZES, same_image
from posenc.workbench.studies.image_fit.image_means import PSNR, conditions_of
from posenc.workbench.studies.image_fit.plots import SCORE, STEPS
from posenc.workbench.studies.image_fit.variants import COMPARED, GRIDS, INTERPOLATIONS
from posenc.workbench.studies.shared.field_variants import FieldVariant
from posenc.workbench.studies.shared.page_data import PageData

PSNRBySize = dict[float, BySeed]
"""Parameter count to seed to PSNR."""


def parameters(data: PageData) -> list[Panel]:
    """PSNR by parameter count for the compared variants, after the same training time."""
    series: dict[str, PSNRBySize] = {}
    conditions = conditions_of(data, SIZES)
    seconds = _seconds(data, conditions)
    for condition in conditions:
        for name in (condition, same_image(condition, FIT)):
            counts = values_by_scheme(data.rows, "parameters", name)
            for label, curve in data.over_time(name, PSNR).items():
                variant, at, _ = label.partition("@")
                if variant not in COMPARED or (name == condition) != bool(at):
                    continue
                moments = [moment for moment in curve if moment <= 1.001 * seconds]
                if moments:
                    size = mean(list(counts[label].values()))
                    series.setdefault(variant, {})[size] = dict(curve[max(moments)])
    duration = "." if math.isinf(seconds) else f" ({seconds:g} s)."
    return [
        line_plot(
            {label: points for label, points in series.items() if len(points) > 1},
            title="PSNR by parameter count",
            x_label="parameters",
            y_label="PSNR (dB), on a grid of pixels",
            bounds=None,
            log_x=True,
            caption=f"All encodings after the same training time on one core{duration}",
        )
    ]


def _seconds(data: PageData, conditions: Sequence[str]) -> float:
    """Time limit of the trainings of the sweep, in seconds; infinite if they are limited in steps."""
    limits = [spec.settings["training"].get("seconds") for spec in data.done if spec.condition in conditions]
    return min((limit for limit in limits if limit), default=math.inf)


def crossover(data: PageData) -> list[Panel]:
    """PSNR by parameter count for three kinds of grid, and the collisions of the hashed ones."""
    panels = []
    for condition in conditions_of(data, SIZES):
        series: dict[str, PSNRBySize] = {}
        counts = values_by_scheme(data.rows, "parameters", condition)
        for label, seeds in values_by_scheme(data.rows, PSNR, condition).items():
            variant, at, _ = label.partition("@")
            if at and variant in GRIDS:
                series.setdefault(variant, {})[mean(list(counts[label].values()))] = seeds
        panels.append(
            line_plot(
                series,
                title="PSNR by parameter count: dense, hashed and multi-resolution grids",
                x_label="parameters",
                y_label="PSNR (dB)",
                bounds=None,
                log_x=True,
                caption="A dense grid with one level, a hashed grid with one level, and a grid with many levels. The "
                "finest cells span two pixels. Parameters that a dense or multi-resolution grid does not need for "
                "vertices give it more features per vertex.",
            )
        )
        panels.append(Panel("Hash collisions on the finest level", (collision_table(data, condition),)))
    return panels


def collision_table(data: PageData, condition: str) -> Table:
    """Table of the vertices of the finest level that share a table entry, counted one by one."""
    body = []
    for label in data.labels(condition):
        spec = data.first(condition, label)
        if spec is None or "table_size" not in spec.settings["row"]["options"]:
            continue
        levels = _levels(msgspec.convert(spec.settings["row"], FieldVariant))
        finest = levels[-1]
        used, unshared = count_entries(finest)
        vertices = math.prod(finest.vertices)
        hashed = f"{sum(level.hashed for level in levels)} of {len(levels)}"
        shared = f"{vertices - unshared:,} ({(vertices - unshared) / vertices:.0%})"
        body.append((label, hashed, f"{vertices:,}", f"{finest.rows:,}", f"{used:,}", shared))
    return Table(
        "Collisions",
        ("Encoding", "Hashed levels", "Vertices", "Table entries", "Entries in use", "Vertices that share an entry"),
        tuple(body),
        note="On the finest level. hash has one level, which is always hashed. A multi-resolution grid hashes a level "
        "only if the level has more vertices than the table has entries.",
    )


def count_entries(level: Level) -> tuple[int, int]:
    """Table entries of a level that at least one vertex uses, and entries that exactly one vertex uses."""
    sides = [torch.arange(n, dtype=torch.float64) / scale for n, scale in zip(level.vertices, level.scale, strict=True)]
    numbered = torch.arange(level.rows, dtype=torch.float64)[:, None]
    entries = rows_at(numbered, Points(torch.cartesian_prod(*sides)), (level._replace(first=0),), "nearest")
    counts = torch.bincount(entries[:, 0].long(), minlength=level.rows)
    return int((counts > 0).sum()), int((counts == 1).sum())


def _levels(variant: FieldVariant) -> tuple[Level, ...]:
    with torch.device("meta"):
        return variant.field().scheme.levels  # type: ignore[return-value]


def interpolation(data: PageData) -> list[Panel]:
    """PSNR of a multi-resolution grid by its interpolation."""
    return [
        score_plots(
            [row for row in data.rows if row["scheme"] in INTERPOLATIONS],
            metrics={PSNR: SCORE, "steps": STEPS},
            condition=condition,
            title="PSNR by interpolation",
            caption="The same multi-resolution grid read at the nearest vertex, with linear interpolation, or with "
            "smoothstep interpolation, which has second derivatives.",
        )
        for condition in conditions_of(data, SIZES)
    ]
