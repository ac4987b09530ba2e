"""First sentences of pages: references under their name, baselines alone, and pages without a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from posenc.workbench.studies import find
from posenc.workbench.studies.shared.best_variant import best_variant
from posenc.workbench.studies.shared.page_data import PageData


def page(values: Mapping[str, Mapping[str, Sequence[float]]], **others: Any) -> PageData:
    """Data of a page: metric to label to the values of seeds 0, 1, ..."""
    rows = [
        {"setting": "main", "scheme": label, "seed": seed, "metric": metric, "value": value}
        for metric, by_label in values.items()
        for label, seeds in by_label.items()
        for seed, value in enumerate(seeds)
    ]
    labels = list(dict.fromkeys(row["scheme"] for row in rows))
    done = [SimpleNamespace(condition="main", variant=label, settings=SETTINGS) for label in labels]
    known = {"rows": rows, "done": done, "specs": done, "conditions": ["main"] if rows else [], **others}
    known["labels"] = lambda condition: labels
    known |= {"budget": lambda condition: "", "preset": None}
    known["first"] = lambda condition, label: label
    return cast(PageData, SimpleNamespace(**known))


SETTINGS: dict[str, Any] = {"text": {"multiple": 8}, "window": 64}
OF_LEARNED = {
    "row": {"scheme": "Learned"},
    "data": {"tokens": 15},
    "model": {"channels": 1, "classes": 1, "dim": 12, "depth": 1, "hidden": 16},
}
"""Settings of a run with a learned table."""


def headline(study: str, data: PageData) -> str:
    return find(study).headline(data).replace("\u00a0", " ")


def test_a_loss_above_that_of_the_bigram_is_not_called_the_lowest() -> None:
    far = {"sinusoid": (3.04, 3.06), "rope": (3.2, 3.36), "nope": (3.6, 3.6201), "bigram": (2.48, 2.48)}
    answer = headline("language", page({"loss": far, "loss_at_x8": far}))
    assert "Best at 8 times the training length: sinusoid or rope, not distinguishable." in answer
    reference = "For reference, the bigram: 2.480 nats, better than sinusoid (difference −0.570 nats [−0.697, −0.443]"
    assert answer.count(reference) == 2
    assert answer.endswith("compares lengths on the same tokens.")
    assert "lowest" not in answer


def test_a_single_encoding_is_not_called_the_best_and_counted_models_alone_are_reported() -> None:
    single = headline("language", page({"loss": {"rope": (2.1, 2.2)}}))
    assert single == (
        "Best at the training length: inconclusive, rope is the only trained variant with results (loss 2.150 nats)."
    )
    counted = headline("language", page({"loss": {"unigram": (3.3,), "bigram": (2.48,)}}))
    assert counted == "No encoding has results at the training length. For reference: the bigram, loss 2.480 nats."


def test_digits_hide_no_sign_and_a_distance_is_not_negative() -> None:
    near = {"a": dict(enumerate((0.5004, 0.5005, 0.5003))), "b": dict(enumerate((0.5001, 0.5002, 0.4999)))}
    assert "from the second, b: +0.0003 [0.0002, 0.0005] (3 seeds)" in best_variant(
        near, metric="accuracy", unit="", digits=3
    ).replace("\u00a0", " ")
    answer = headline(
        "shape-fit", page({"chamfer": {"a": (1e-4, 2e-4, 1e-4), "b": (4e-4, 5e-4, 6e-4), "none": (1e-3, 9e-3, 2e-3)}})
    )
    assert "Without an encoding: 4.00 thousandths of the diagonal [0.00, " in answer


@pytest.mark.parametrize(
    ("study", "metric"), [("masked", "mse_90"), ("permuted", "mse_50"), ("nmar", "mse_over_linear")]
)
def test_baselines_alone_are_reported(study: str, metric: str) -> None:
    answer = headline(study, page({metric: {"ridge": (1.0, 1.01), "mean": (2.0, 2.1)}}, specs=[]))
    assert "No answer yet: no encoding with a" in answer or "Modules not measured" in answer
    assert "No encoding has results in predicting" in answer or "Only baselines have results." in answer
    assert "no run has finished" not in answer
    assert headline(study, page({})) == "No answer yet: no run has finished."


def test_a_reference_of_hidden_channels_is_compared_by_its_paired_difference() -> None:
    errors = {"rope": (0.62, 0.63, 0.61), "nope": (0.9, 0.91, 0.92), "ridge": (0.58, 0.58, 0.58)}
    answer = headline("permuted", page({"mse_50": errors}))
    assert "Best in predicting hidden patches: rope, mean squared error 0.620" in answer
    assert "For reference, ridge regression: 0.580, better than every variant (difference −0.040 [" in answer


def test_a_single_table_does_not_have_the_highest_auc() -> None:
    values = {"auc": {"learned-1": (0.5, 0.6)}, "auc_null_high": {"learned-1": (0.62, 0.62)}}
    values |= {"mse_over_linear": {"learned-1": (1.01, 1.02)}}
    specs = [SimpleNamespace(condition="main", variant="learned-1", settings=OF_LEARNED)]
    answer = headline("nmar", page(values, specs=specs))
    assert answer.startswith(
        "No: no learned table separates the modules beyond chance. AUC of learned-1 0.55 [0.00, 1.00]"
    )
    assert answer.endswith("Prediction errors are 1.5% (learned-1) above that of the best linear prediction.")


def test_finished_runs_without_an_answer_are_not_called_unfinished() -> None:
    lost = page({"chamfer": {"none": (math.nan,)}})
    assert headline("shape-fit", lost) == "None: no field has a surface (none)."
    others = page({"accuracy": {"gridpe, 4 heads": (0.5,)}})
    assert "no run has finished" not in headline("gridpe", others)
    assert headline("shape-fit", page({})) == headline("gridpe", page({})) == "No answer yet: no run has finished."
