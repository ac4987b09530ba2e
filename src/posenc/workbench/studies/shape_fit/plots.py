"""Panels of the shape study: surface errors, learning curves, the eikonal term, sigma."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from posenc.measure.statistics import mean
from posenc.workbench.report.line_plot import MAX_LINES_PER_PLOT, Points, line_plot
from posenc.workbench.report.number_format import join_words
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.shape_fit import surface_plots
from posenc.workbench.studies.shape_fit.conditions import CONDITIONS, EIKONAL, NORMALS, OCCUPANCY, stored_terms
from posenc.workbench.studies.shape_fit.surface_plots import CHAMFER, THOUSAND, finished_variants, reference_of
from posenc.workbench.studies.shape_fit.variants import COMPARED, FIT, GAUSSIAN, LATTICES, SIGMA_OF
from posenc.workbench.studies.shape_fit.variants import OCCUPANCY as OCCUPANCY_VARIANTS
from posenc.workbench.studies.shared.best_of_sweep import judge_choice
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData

SMALLEST = 1e-4
"""Smallest value whose logarithm is plotted."""
LOG_NOTE = "−3 is a thousandth of the shape's diagonal."
IN_THOUSANDTHS = (CHAMFER, "sdf_error")
MISSING_IOU = "iou_lost"
METRICS = {
    CHAMFER: Score("Chamfer distance", "thousandths of the diagonal", higher=False, log=True),
    MISSING_IOU: Score("1 − intersection over union", "%", higher=False, log=True),
    "normal_error": Score("Angle between normals", "degrees", higher=False, log=True),
    "sdf_error": Score("Error of the signed distance", "thousandths of the diagonal", higher=False, log=True),
    "eikonal_error": Score("Eikonal error", "mean of ||grad f| − 1|", higher=False, log=True),
    "seconds": Score("Training time", "s, one core", higher=False, log=True),
}
DISTANCE_METRICS = (CHAMFER, MISSING_IOU, "normal_error", "sdf_error", "eikonal_error", "seconds")
OCCUPANCY_METRICS = (CHAMFER, MISSING_IOU, "normal_error", "seconds")
EIKONAL_METRICS = ("normal_error", "eikonal_error", CHAMFER, "seconds")
INTERPOLATION = {"multires": "linear", "multires-smoothstep": "smooth"}
FLOOR = "marching cubes alone"


def fit(data: PageData) -> list[Panel]:
    """Fields of the signed distance."""
    return [
        _scores(data, MAIN, "Surface error by encoding", DISTANCE_METRICS, FIT),
        _learning_curves(
            data, MAIN, "Error of the signed distance by training time", "sdf_error", "log10 of the error (diagonals)"
        ),
        surface_plots.images(data, MAIN, "Reconstructed surfaces", FIT),
        surface_plots.sections(data, MAIN, "Cross-sections of the fields", FIT),
        surface_plots.frames(data, MAIN, "Surfaces during training", FIT),
        surface_plots.mesh_files(data, MAIN, FIT),
    ]


def lattices(data: PageData) -> list[Panel]:
    """Fields of the signed distance by planes and simplices, beside cubic grids."""
    return [
        _scores(data, MAIN, "Planes, simplices and cubic grids: surface error", DISTANCE_METRICS, LATTICES),
        surface_plots.images(data, MAIN, "Planes, simplices and cubic grids: reconstructed surfaces", LATTICES),
    ]


def occupancy(data: PageData) -> list[Panel]:
    """Fields of the occupancy."""
    return [
        _scores(data, OCCUPANCY, "Occupancy: surface error by encoding", OCCUPANCY_METRICS, OCCUPANCY_VARIANTS),
        _learning_curves(
            data, OCCUPANCY, "Occupancy: 1 − intersection over union by training time", "iou", "log10 of 1 − IoU"
        ),
        surface_plots.images(data, OCCUPANCY, "Occupancy: reconstructed surfaces", OCCUPANCY_VARIANTS),
        *([] if MAIN in data.conditions else [surface_plots.mesh_files(data, OCCUPANCY, OCCUPANCY_VARIANTS)]),
    ]


def eikonal(data: PageData) -> list[Panel]:
    """The same variants with and without the eikonal term and the normals."""
    variants = data.labels(EIKONAL)
    rows: list[Row] = []
    cells: dict[str, tuple[str, str]] = {}
    for condition in (MAIN, EIKONAL, NORMALS):
        for row in scaled(data.rows):
            if row["setting"] == condition and row["scheme"] in variants:
                rows.append({**row, "scheme": _name(row["scheme"], condition), "setting": MAIN})
        for label in finished_variants(data, condition, variants):
            if label in variants:
                cells[_name(label, condition)] = (condition, label)
    panel = score_plots(
        rows,
        metrics={name: METRICS[name] for name in EIKONAL_METRICS},
        title="Surface error with and without the eikonal term",
        caption=f"{_eikonal_loss(data)} A signed distance has a gradient of norm 1. The term is trained through the "
        "second derivatives of the encoding, which takes time. With linear interpolation, the gradient jumps from cell "
        "to cell. With smoothstep interpolation, the gradient of a level is 0 at its vertices.",
    )
    return [
        panel,
        surface_plots.images_of_cells(data, "Reconstructed surfaces with and without the eikonal term", cells),
    ]


def _eikonal_loss(data: PageData) -> str:
    """Sentence on the terms that the runs were trained with."""
    terms, normals = stored_terms(data, EIKONAL), stored_terms(data, NORMALS)
    sentence = ""
    if terms is not None:
        sentence = f"Eikonal term: {terms.eikonal:g} times the mean of (|grad f| − 1)² over random points of the cube."
    if normals is not None:
        sentence += f" Normals: in addition {normals.normals:g} times the mean of 1 − cos(grad f, n) on the surface."
    return sentence.strip()


def _name(label: str, condition: str) -> str:
    """A variant by its interpolation, with the terms that it was trained with."""
    return INTERPOLATION.get(label, label) + CONDITIONS[condition].ending


def sigma(data: PageData) -> list[Panel]:
    """Chamfer distance by sigma of the Gaussian features."""
    points: dict[float, BySeed] = {
        SIGMA_OF[label]: {seed: math.log10(max(value, SMALLEST)) for seed, value in seeds.items()}
        for label, seeds in values_by_scheme(data.rows, CHAMFER, MAIN).items()
        if label in SIGMA_OF
    }
    judgment = judge_choice(points, SIGMA_OF[GAUSSIAN], higher=False)
    return [
        line_plot(
            {"gaussian": points},
            title="Gaussian Fourier features: Chamfer distance by sigma",
            x_label="sigma (cycles across the cube)",
            y_label="log10 of the Chamfer distance (diagonals)",
            bounds=None,
            log_x=True,
            note=LOG_NOTE,
            caption=f"The other panels have {GAUSSIAN}, selected on Spot at the quick preset{judgment}. The published "
            "sigma for shapes is 12, with wider networks and longer trainings (arXiv 2006.10739).",
        )
    ]


def mean_scores(data: PageData, condition: str, metric: str) -> dict[str, float]:
    """Variant to mean score over seeds, the best first."""
    values = values_by_scheme(scaled(data.rows), metric, condition)
    sign = -1 if metric == "iou" else 1
    means = {label: mean(list(seeds.values())) for label, seeds in values.items()}
    return dict(sorted(means.items(), key=lambda pair: (sign * pair[1], pair[0])))


def _scores(data: PageData, condition: str, title: str, metrics: Sequence[str], variants: Sequence[str]) -> Panel:
    reference, terms = reference_of(data), stored_terms(data, condition)
    rows = [
        row
        for row in scaled(data.rows)
        if row["scheme"] in variants or not surface_plots.is_panel_variant(row["scheme"])
    ]
    caption = (
        "All encodings have about the same parameter count and the same number of steps. The Chamfer distance is the "
        f'mean exact distance of points on each surface to the other surface. "{FLOOR}": error of the true field after '
        "marching cubes at the same resolution."
    )
    if terms is not None and "sdf_error" in metrics:
        caption += f" Signed distances are clamped at {terms.clamp:g} of the cube's side."
    without = _without_surface(data, condition)
    caption += f" No surface in at least one seed: {', '.join(without)}." if without else ""
    floors = {} if reference is None else {
        CHAMFER: reference.chamfer * THOUSAND, "normal_error": reference.normal_error
    }  # fmt: skip
    panel = score_plots(
        rows,
        metrics={name: METRICS[name] for name in metrics},
        condition=condition,
        lines={name: {FLOOR: value} for name, value in floors.items() if np.isfinite(value)},
        title=title,
        caption=caption,
    )
    return dataclasses.replace(panel, blocks=(*panel.blocks, _parameter_table(data, condition)))


def _without_surface(data: PageData, condition: str) -> list[str]:
    """Variants with a fit that has no surface, and therefore no distance from the true one."""
    return sorted({
        row["scheme"]
        for row in data.rows
        if row["setting"] == condition and row["metric"] == CHAMFER and not np.isfinite(row["value"])
    })  # fmt: skip


def _parameter_table(data: PageData, condition: str) -> Table:
    """Table of each field's parameter count, scheme and hidden layers."""
    body = []
    for label in data.labels(condition):
        spec = data.first(condition, label)
        if spec is None:
            continue
        row, metrics = spec.settings["row"], data.store.read(spec.identity).metrics
        network = f"{row['network']['depth']} x {row['network']['width']}"
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        body.append((label, f"{metrics['parameters']:,.0f}", f"{row['scheme']}({options})", network))
    columns = ("Encoding", "Parameters", "Scheme", "Hidden layers x width")
    return Table("Parameter counts", columns, tuple(body), prose=True, folded=True)


def _learning_curves(data: PageData, condition: str, title: str, metric: str, y_label: str) -> Panel:
    """Logarithm of an error by training time; of an intersection over union, the logarithm of 1 − IoU."""
    order = [label for label in mean_scores(data, condition, metric) if label not in SIGMA_OF or label in FIT]
    plotted = sorted(order, key=lambda label: label not in COMPARED)[:MAX_LINES_PER_PLOT]
    others = [label for label in order if label not in plotted]
    over_time = data.over_time(condition, metric)

    def logarithm(value: float) -> float:
        return math.log10(max(1 - value if metric == "iou" else value, SMALLEST))

    series: Mapping[str, Points] = {
        label: {
            moment: {seed: logarithm(value) for seed, value in seeds.items()}
            for moment, seeds in over_time.get(label, {}).items()
        }
        for label in order
        if label in plotted
    }
    note = "On held-out points of the shape's bounding box." + ("" if metric == "iou" else f" {LOG_NOTE}")
    return line_plot(
        series,
        title=title,
        x_label="training time (s)",
        y_label=y_label,
        bounds=None,
        log_x=True,
        note=note + (f" Not shown: {join_words(others)}." if others else ""),
    )


def scaled(rows: Sequence[Row]) -> list[Row]:
    """Rows with small lengths in thousandths of the diagonal, and added rows with 1 − IoU in percent."""
    lengths = [{**row, "value": row["value"] * THOUSAND} if row["metric"] in IN_THOUSANDTHS else row for row in rows]
    missing = [
        {**row, "metric": MISSING_IOU, "value": 100 * (1 - row["value"])} for row in rows if row["metric"] == "iou"
    ]
    return [*lengths, *missing]
