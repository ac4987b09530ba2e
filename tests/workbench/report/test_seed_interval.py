"""Intervals that plots show: on a user's data they cover the held-out items, and none has width 0."""

from __future__ import annotations

import math
from typing import Any

import pytest

from posenc.measure.held_out_interval import HeldOut
from posenc.measure.statistics import t_interval
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import NO_BREAK
from posenc.workbench.report.page import FigureGroup
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.seed_interval import seed_interval
from posenc.workbench.tables.metric_bounds import SHARE

FIXED, DRAWN = HeldOut(36, 108, split_by_seed=False), HeldOut(36, 108, split_by_seed=True)


def test_without_held_out_items_it_is_the_t_interval() -> None:
    assert seed_interval([0.5, 0.7, 0.6], bounds=SHARE) == t_interval([0.5, 0.7, 0.6], bounds=SHARE)


@pytest.mark.parametrize("held_out", [FIXED, DRAWN])
def test_equal_seeds_have_the_term_of_the_items(held_out: HeldOut) -> None:
    found = seed_interval([1.0, 1.0, 1.0], bounds=SHARE, held_out=held_out)
    assert round(found.low, 2) == 0.95  # as docs/own-data.md computes it
    loss = seed_interval([0.4, 0.4], held_out=held_out)  # the variance of an item is not known
    assert not loss.known
    assert math.isnan(loss.low)
    assert not seed_interval([1.0, 1.0], bounds=SHARE, held_out=held_out, trained=True).known


def rows(metric: str) -> list[dict[str, Any]]:
    return [{"scheme": "rope", "setting": "main", "seed": seed, "metric": metric, "value": 1.0} for seed in range(3)]


def cells(panel) -> list[str]:
    (group,) = panel.blocks
    assert isinstance(group, FigureGroup)
    return [str(cell).replace(NO_BREAK, " ") for row in group.table.rows for cell in row]


def test_the_tables_of_plots_show_it() -> None:
    """Before, a page on own data stood at [1.000, 1.000] beside the verdict's [0.950, 1.000]."""
    found = score_plots(rows("accuracy"), metrics={"accuracy": Score("Held-out", "accuracy")}, held_out=FIXED)
    assert "[0.946, 1.000]" in cells(found)
    lines = line_plot({"rope": {1.0: {0: 1.0, 1: 1.0}}}, title="t", x_label="x", y_label="y", held_out=DRAWN)
    assert "[0.946, 1.000]" in cells(lines)


def drawn(panel) -> tuple[str, str]:
    """Key and SVG of the first figure."""
    (group,) = panel.blocks
    assert isinstance(group, FigureGroup)
    return group.key, group.figures[0].svg


def test_two_seeds_are_drawn_without_an_interval() -> None:
    """Before, a band 13 times as long as the distance between two seeds made the curves hard to see."""
    values = {0: 0.50, 1: 0.52, 2: 0.51}
    for number, shown in ((2, False), (3, True)):
        seeds = {seed: values[seed] for seed in range(number)}
        key, svg = drawn(line_plot({"rope": {1.0: seeds, 2.0: seeds}}, title="t", x_label="x", y_label="y"))
        assert ("Band: 95%" in key) == ("opacity: 0.14" in svg) == shown
        assert ("Two seeds give no band: run at least 3." in key) != shown
        table = [{**row, "value": values[row["seed"]]} for row in rows("psnr") if row["seed"] in seeds]
        key, svg = drawn(score_plots(table, metrics={"psnr": Score("PSNR", "dB")}, over="fold"))
        assert ("Bar: 95%" in key) == ("opacity: 0.3" in svg) == shown
        assert ("Two folds give no bar: run at least 3." in key) != shown
