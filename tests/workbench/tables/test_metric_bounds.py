"""Bounds of metrics by name, against every value that the committed results store."""

import csv
import math
from pathlib import Path

import pytest

from posenc.workbench.report.estimators import difference, equivalence, mean_over_seeds
from posenc.workbench.report.page import FigureGroup
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.tables.metric_bounds import metric_bounds

pytestmark = pytest.mark.bare

RESULTS = Path(__file__).parents[3] / "results"


def stored_values():
    for path in sorted(RESULTS.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            yield from ((row["metric"], float(row["value"] or "nan")) for row in csv.DictReader(file))


def test_every_stored_value_lies_within_the_bounds_of_its_metric():
    outside = {
        metric
        for metric, value in stored_values()
        if value < metric_bounds(metric)[0] - 1e-6 or value > metric_bounds(metric)[1] + 1e-6
    }
    assert outside == set()


@pytest.mark.parametrize(
    "metric",
    ["accuracy", "accuracy_ood_noise_0.5", "accuracy_at_x2.29", "auc", "auc_initial", "position_same_line_auc", "iou",
     "neighbours", "ari_p"],
)  # fmt: skip
def test_accuracies_aucs_and_shares_lie_between_0_and_1(metric):
    assert metric_bounds(metric) == (0, 1)


def test_others_have_their_own_bounds_or_none():
    assert metric_bounds("accuracy_ood_lost_to_noise_1") == (-1, 1)
    assert metric_bounds("mse_50") == metric_bounds("ari_null_sd") == metric_bounds("loss_at_x8") == (0, math.inf)
    assert metric_bounds("psnr") == metric_bounds("procrustes_z") == metric_bounds("my_own") == (-math.inf, math.inf)


ROWS = [
    {"setting": "main", "scheme": label, "seed": seed, "metric": "auc", "value": value}
    for label, values in {"a": (0.999, 0.9), "b": (0.02, 0.5)}.items()
    for seed, value in enumerate(values)
]


def test_estimates_of_claims_stay_within_the_bounds():
    assert mean_over_seeds("auc", "a")(ROWS).high == 1
    assert mean_over_seeds("auc", "b")(ROWS).low == 0
    assert difference("auc", "a", "b")(ROWS).high == 1
    assert equivalence("auc", "a", "b")(ROWS).low == -1


def test_a_score_plot_knows_the_bounds_by_the_name_of_the_metric():
    (block,) = score_plots(ROWS, metrics={"auc": Score("AUC", "AUC")}).blocks
    assert isinstance(block, FigureGroup)
    assert block.table is not None
    assert [row[3].replace("\u00a0", " ") for row in block.table.rows] == ["[0.321, 1.000]", "[0.000, 1.000]"]
