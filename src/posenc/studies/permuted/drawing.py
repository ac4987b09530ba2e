"""The numbers of the study of permuted pictures as panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc.positions import grid
from posenc.report.expectations import Expected
from posenc.report.layouts import layouts
from posenc.report.page import Panel
from posenc.report.rows import number, values
from posenc.report.scores import Score, scores
from posenc.studies.found import Found
from posenc.studies.masking import drawing
from posenc.studies.masking.rows import BASELINES
from posenc.studies.permuted.claims import ERROR
from posenc.studies.permuted.presets import MAIN_RATE, grid_shape, order_of

NEAR = "True neighbours found"


def headline(found: Found) -> str:
    near = [pair for pair in drawing.best(found, "neighbours", higher=True) if pair[0] != "2d-fixed"]
    errors = [pair for pair in drawing.best(found, ERROR) if pair[0] not in BASELINES]
    if not near or not errors:
        return "Nothing can be said yet: no unit has finished."
    chance = drawing.best(found, "neighbours_chance")[0][1]
    last = near[-1]
    told = (
        f"{near[0][0]} places {number(100 * near[0][1], 0)} % of the true neighbours nearest, {last[0]} "
        f"{number(100 * last[1], 0)} %, chance {number(100 * chance, 0)} %. Least error: {errors[0][0]}, "
        f"{number(errors[0][1], 3)}"
    )
    ridge = dict(drawing.best(found, ERROR)).get("ridge")
    return f"{told}; ridge regression has {number(ridge, 3)}." if ridge is not None else f"{told}."


def expected(found: Found) -> Sequence[Expected]:
    return [
        *(Expected("neighbours", "learned-0.1", other, words="true neighbours") for other in ("learned-2", "random")),
        Expected(ERROR, "2d-fixed", "nope", higher=False, words="error"),
    ]


def neighbours(found: Found) -> list[Panel]:
    """Which tables put patches beside those that they touch, and how well the whole sheet unrolls."""
    named = {
        "neighbours": Score("True neighbours among the nearest", "part", True, (0.0, 1.0)),
        "residual": Score("What the sheet leaves, unrolled along itself", "Procrustes disparity", False, (0.0, 1.0)),
        "residual_straight": Score("The same by straight distances", "Procrustes disparity", False, (0.0, 1.0)),
    }
    lines: dict[str, dict[str, float]] = {}
    for metric, null, name in (
        ("neighbours", "neighbours_chance", "chance"),
        ("residual", "residual_null", "chance, mean"),
        ("residual_straight", "residual_straight_null", "chance, mean"),
    ):
        by_row = values(found.rows, null)
        if by_row:
            lines[metric] = {name: float(np.mean([v for seeds in by_row.values() for v in seeds.values()]))}
    return [
        scores(
            found.rows,
            metrics=named,
            lines=lines,
            title=NEAR,
            caption="A token looks at as many nearest rows of its table as it has true neighbours, up to four. "
            f"2d-fixed is told the true cells and shows how near each measure can come. {drawing.LAYER}",
        )
    ]


def maps(found: Found) -> list[Panel]:
    """The plane that each table unrolls to, turned onto the true grid, beside that of the table before training."""
    shape = grid_shape()
    truth = grid(*shape).coords.numpy().astype(float)
    items, left = [], {}
    for label, unit, arrays in drawing.shown(found):
        back = np.argsort(order_of(unit.seed))  # from the scrambled order to the grid's
        items.append((label, arrays["before"][back], arrays["positions"][back]))
        metrics = found.store.read(unit.key).metrics
        left[label] = (metrics["residual_initial"], metrics["residual_layer_0"])
    return [
        layouts(
            items,
            truth,
            shape=shape,
            title="The sheet that was learned",
            caption="The first layer's table of the first seed, unrolled along itself (Isomap, 4 neighbours) and "
            "turned onto the true grid.",
            residuals=left,
        )
    ]


def errors(found: Found) -> list[Panel]:
    return [drawing.errors(found, (MAIN_RATE,), title="Errors", caption="In units of the spread of all pixels.")]


def curves(found: Found) -> list[Panel]:
    return [
        drawing.over_steps(
            found, "neighbours", title="When neighbours are found", y_label="true neighbours found", bounds=(0.0, 1.0)
        ),
        drawing.over_steps(found, ERROR, title="Errors over time", y_label="mean squared error, some test pictures"),
    ]
