"""Panels of learned positions: their distance from the true grid, before and after training."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import torch

from posenc.measure.distances import How, token_distances
from posenc.measure.procrustes import aligned
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.layout_plot import layout_plots
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.page import Panel
from posenc.workbench.report.raster_image import image_figures
from posenc.workbench.report.result_rows import Row, values_by_scheme
from posenc.workbench.report.scatter_plot import scatter_plot
from posenc.workbench.studies.latin_squares.attention_plots import absent_panel
from posenc.workbench.studies.latin_squares.execute import OOD
from posenc.workbench.studies.latin_squares.measure import SHAPE, true_positions
from posenc.workbench.studies.latin_squares.results import (
    by_sigma,
    measured_arrays,
    measured_metrics,
    rows_of,
    settings_of,
    sigmas_of,
)
from posenc.workbench.studies.latin_squares.sigma_plots import OOD_ACCURACY, SIGMA
from posenc.workbench.studies.latin_squares.variants import ALIGNED_VARIANTS, LAYOUT_VARIANTS, learned
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import latin_squares as task

AGAINST_ACCURACY = (
    ("procrustes_distance", "Procrustes distance from 2d-fixed", "The paper reports rho = −0.98 (Fig. 3F)."),
    (
        "procrustes_disparity",
        "scale-free disparity from 2d-fixed",
        "The paper does not report this control.",
    ),
)
"""Metric, its name on the page, and a sentence on the correlation with accuracy that the paper reports."""


NULL_TABLES = (
    "The same 20 random tables serve for every run. The error of their mean, 0.22 of their standard deviation, does "
    "not become smaller with more seeds."
)
PIXELS, MAX_PIXELS = 4, 1024
"""Side of a value of a drawn table in pixels, and longest side of its image."""
READINGS: tuple[tuple[How, str, str], ...] = (
    ("norm_only", "Procrustes of two rows", "| |a| − |b| |: two 1 x d matrices, any rotation allowed."),
    ("sign", "Procrustes of two columns", "min(|a − b|, |a + b|): two d x 1 matrices, a change of sign allowed."),
)
"""Literal readings of "Procrustes between every pair of tokens": name, title, and formula for two encodings a and b."""


def positions(data: PageData) -> list[Panel]:
    """Figs. 1F-H and 3D-F."""
    sigmas = sigmas_of(data)
    rows = rows_of(data, [learned(sigma) for sigma in sigmas], MAIN)
    if not values_by_scheme(rows, "procrustes_distance"):
        return [absent_panel("Learned positions", "measured learned tables")]
    return [
        line_plot(
            {
                "trained": by_sigma(data, "procrustes_distance", sigmas),
                "before training": by_sigma(data, "procrustes_distance_initial", sigmas),
            },
            title="Procrustes distance from 2d-fixed by initial standard deviation",
            x_label=SIGMA,
            y_label="Procrustes distance (Frobenius norm)",
            bounds=None,
            note=(
                "The paper's distance (orthogonal Procrustes, no scaling). Where both curves coincide, the distance "
                "measures the norm of the table and not what was learned."
            ),
        ),
        line_plot(
            {
                "trained": by_sigma(data, "procrustes_disparity", sigmas),
                "before training": by_sigma(data, "procrustes_disparity_initial", sigmas),
                "random tables": by_sigma(data, "procrustes_null_disparity", sigmas),
            },
            title="Procrustes disparity from 2d-fixed by initial standard deviation",
            x_label=SIGMA,
            y_label="Procrustes disparity",
            bounds=None,
            note="Both tables are centered and scaled to norm 1, so their norms do not matter. At 0 the arrangements "
            f"are equal. {NULL_TABLES}",
        ),
        *_against_accuracy(rows),
        _distances(data),
        *_readings(data),
        _tables(data),
        _planes(data),
    ]


def _against_accuracy(rows: Sequence[Row]) -> list[Panel]:
    """Accuracy by each distance, with the norm of the table as control."""
    accuracies = values_by_scheme(rows, OOD)
    norms = {label: fmean(seeds.values()) for label, seeds in values_by_scheme(rows, "position_norm").items()}
    panels = []
    for metric, name, published in AGAINST_ACCURACY:
        x = values_by_scheme(rows, metric)
        panels.append(
            scatter_plot(
                x,
                {label: accuracies[label] for label in x},
                title=f"Accuracy by {name}",
                x_label=name,
                y_label=OOD_ACCURACY,
                null=_null(rows) if metric == "procrustes_disparity" else None,
                control={label: norms[label] for label in x},
                control_label="the norm of the table",
                published=published,
                caption=NULL_TABLES if metric == "procrustes_disparity" else "",
            )
        )
    return panels


def _null(rows: Sequence[Row]) -> tuple[float, float]:
    """Mean and standard deviation of the disparity of random tables."""
    return _overall_mean(rows, "procrustes_null_disparity"), _overall_mean(rows, "procrustes_null_disparity_sd")


def _overall_mean(rows: Sequence[Row], metric: str) -> float:
    return fmean(value for seeds in values_by_scheme(rows, metric).values() for value in seeds.values())


def _distances(data: PageData) -> Panel:
    """Matrices of the distances between tokens: true grid, sinusoids, learned tables before and after training."""
    grid = task.views()["grid"].coords.double()
    groups = [("true grid", token_distances(grid).numpy())]
    groups.append(("2d-fixed", token_distances(true_positions(settings_of(data)["model"]["dim"])).numpy()))
    for label in LAYOUT_VARIANTS:
        arrays = measured_arrays(data, label, "distances_after")
        if "distances_after" not in arrays:
            continue
        if label.startswith("learned"):
            groups += [(f"{label}, {when}", arrays[f"distances_{when}"]) for when in ("before", "after")]
        else:
            groups.append((label, arrays["distances_after"]))
    return heat_maps(
        groups,
        title="Distances between tokens",
        caption=(
            "Euclidean distance between the encodings of every two cells (row-major), each matrix on its own scale. "
            "Learned tables: first layer, first stored seed, before and after training."
        ),
        low_label="0",
        high_label="largest distance of each matrix",
        shared_scale=False,
    )


def _readings(data: PageData) -> list[Panel]:
    """The two literal readings of the paper's Procrustes distance of two tokens, from the stored tables."""
    panels = []
    for how, title, formula in READINGS:
        groups = [
            (label, token_distances(torch.from_numpy(arrays["table_after"]).double(), how).numpy())
            for label in ("2d-fixed", *ALIGNED_VARIANTS)
            if "table_after" in (arrays := measured_arrays(data, label, "table_after"))
        ]
        if groups:
            caption = (
                f"{formula} The paper names this distance without a formula. First layer, first stored seed, trained."
            )
            panels.append(
                heat_maps(
                    groups, title=f"Distances between tokens: {title}", caption=caption, low_label="0",
                    high_label="largest distance of each matrix", shared_scale=False,
                )
            )  # fmt: skip
    return panels


def _tables(data: PageData) -> Panel:
    """Fig. 3D: tables of the first layer before and after their alignment with 2d-fixed."""
    groups, title = [], "Learned tables before and after alignment with 2d-fixed"
    for label in ALIGNED_VARIANTS:
        arrays = measured_arrays(data, label, "table_after")
        if "table_after" in arrays:
            table = torch.from_numpy(arrays["table_after"]).double()
            turned = aligned(table, true_positions(table.shape[1]))
            groups += [(f"{label}, as trained", table.numpy()), (f"{label}, aligned", turned.numpy())]
    if not groups:
        return absent_panel(title, "the tables of measured models")
    truth = true_positions(groups[0][1].shape[1])
    images = {name: _pixels(table) for name, table in [("2d-fixed", truth.numpy()), *groups]}
    ranges = {name: f"{table.min():.2g} (dark) to {table.max():.2g} (light)" for name, table in groups}
    figures = image_figures(
        images, notes=ranges, size="wide", max_side=MAX_PIXELS, columns=("Table", "Values"),
        key="Rows are the 16 tokens, columns the channels. Aligned: rotated, or rotated and reflected, to the least "
        "Frobenius distance from 2d-fixed (orthogonal Procrustes).",
    )  # fmt: skip
    return Panel(title, (figures,), "First layer, first stored seed.")


def _pixels(table: np.ndarray) -> np.ndarray:
    """A table as gray pixels, each value a square of the same size, from its lowest value to its highest."""
    low, high = float(table.min()), float(table.max())
    gray = (table - low) / (high - low or 1.0)
    return np.kron(gray, np.ones((PIXELS, PIXELS)))[..., None].repeat(3, -1)


def _planes(data: PageData) -> Panel:
    items, residuals = [], {}
    for label in (*LAYOUT_VARIANTS, "2d-fixed"):
        arrays = measured_arrays(data, label, "plane_after")
        if "plane_after" in arrays:
            items.append((label, _x_y(arrays["plane_before"]), _x_y(arrays["plane_after"])))
            metrics = measured_metrics(data, label, "plane_after")
            residuals[label] = (metrics["position_residual_initial_layer_0"], metrics["position_residual_layer_0"])
    return layout_plots(
        items,
        _x_y(np.asarray(task.views()["grid"].coords, dtype=float)),
        shape=SHAPE,
        title="Layouts of learned tables by multidimensional scaling",
        caption=(
            "The two directions in which the first layer's encodings differ most (classical multidimensional scaling), "
            "rotated, reflected and scaled onto the true grid; first stored seed. Lines join neighbors of the grid."
        ),
        residuals=residuals,
    )


def _x_y(places: np.ndarray) -> np.ndarray:
    """(row, column) as (x, y): columns to the right, rows downwards."""
    return places[:, ::-1]
