"""Panels of the study of permuted images."""

from __future__ import annotations

import numpy as np

from posenc.positions import grid
from posenc.workbench.report.layout_plot import layout_plots
from posenc.workbench.report.page import Panel
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.studies.permuted.settings import ERROR, TASK, images_of, permuted_grid
from posenc.workbench.studies.permuted.variants import TRUE_GRID
from posenc.workbench.studies.shared.hidden_tokens import plots
from posenc.workbench.studies.shared.page_data import PageData

RECALL = "neighbours"  # a stored name
"""Stored name of the neighbor recall."""


def neighbor_recall(data: PageData) -> list[Panel]:
    """Neighbor recall of each table, and Procrustes disparity of its layout to the true grid."""
    scores = {
        RECALL: Score("Neighbor recall", "share of true neighbors"),
        "residual": Score("Isomap layout and the true grid", "Procrustes disparity", False),
        "residual_straight": Score("MDS layout and the true grid", "Procrustes disparity", False),
    }
    lines: dict[str, dict[str, float]] = {}
    for metric, null, name in (
        (RECALL, "neighbours_chance", "chance"),
        ("residual", "residual_null", "mean of permutations"),
        ("residual_straight", "residual_straight_null", "mean of permutations"),
    ):
        by_variant = values_by_scheme(data.rows, null)
        if by_variant:
            values = [value for seeds in by_variant.values() for value in seeds.values()]
            lines[metric] = {name: float(np.mean(values))}
    return [
        score_plots(
            data.rows,
            metrics=scores,
            lines=lines,
            title="Neighbor recall and Procrustes disparity",
            caption="Neighbor recall: share of a token's true neighbors, up to four, among as many nearest rows of the "
            f"table. {TRUE_GRID} encodes the true cells, so other encodings should not be better. {plots.LAYER}",
        )
    ]


def layouts(data: PageData) -> list[Panel]:
    """The Isomap layout of each table before and after training, aligned to the true grid."""
    items, residuals, shape = [], {}, (1, 1)
    for label, spec, arrays in plots.stored_tables(data):
        patches = permuted_grid(images_of(spec), spec.seed)
        shape, back = patches.shape, np.argsort(patches.order.numpy())  # From the permuted order to the grid's.
        items.append((label, arrays["before"][back], arrays["positions"][back]))
        metrics = data.store.read(spec.identity).metrics
        residuals[label] = (metrics["residual_initial"], metrics["residual_layer_0"])
    return [
        layout_plots(
            items,
            grid(*shape).coords.numpy().astype(float),
            shape=shape,
            title="Layouts of learned tables",
            caption="Isomap (4 neighbors) of the first layer's table, first seed, aligned to the true grid.",
            residuals=residuals,
        )
    ]


def prediction_error(data: PageData) -> list[Panel]:
    """Error on the hidden patches of held-out images."""
    return [
        plots.error_plots(
            data,
            TASK.test_rates,
            tokens="patches",
            unit="mean squared error (variance of all pixels = 1)",
            title="Prediction error on held-out images",
            caption="The baselines mean, ridge (ridge regression) and nearest train no network. nearest: mean of the "
            "three visible values with the largest covariance in training.",
        )
    ]


def learning_curves(data: PageData) -> list[Panel]:
    """Neighbor recall and prediction error by training step."""
    return [
        plots.learning_curves(data, RECALL, title="Learning curves: neighbor recall", y_label="neighbor recall"),
        plots.learning_curves(
            data,
            ERROR,
            title="Learning curves: prediction error",
            y_label="mean squared error",
            caption="Measured on at most 512 test images.",
        ),
    ]
