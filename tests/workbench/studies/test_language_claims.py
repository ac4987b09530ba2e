"""The claims of the language study: published numbers support them, and results that should refute them do."""

import math

import pytest

from posenc.workbench import studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.studies.language import STUDY, published, variants
from posenc.workbench.studies.language.claims import CLAIMS

BY_NAME = {claim.name: claim for claim in CLAIMS}


def _stored(values: dict[str, float], metric: str, *, condition: str = "main", seeds: int = 5) -> list[dict]:
    """Result rows with a value of each variant, and a small noise over seeds."""
    return [
        {"setting": condition, "scheme": label, "seed": seed, "metric": metric, "value": value + 1e-3 * (-1) ** seed}
        for label, value in values.items()
        for seed in range(seeds)
    ]


@pytest.mark.parametrize(("sign", "verdict"), [(1, "supported"), (-1, "contradicted")])
def test_the_published_losses_support_the_published_order_and_their_negatives_do_not(sign: int, verdict: str) -> None:
    losses = {label: sign * loss for label, loss in published.LOSSES.items()}
    rows = _stored(losses, "loss")
    rows += [{**row, "value": float(row["scheme"] in variants.RELATIVE)} for row in _stored(losses, "relative")]
    assert judge_claim(BY_NAME["the published order of nine rotary encodings"], rows).verdict == verdict


@pytest.mark.parametrize(
    "name",
    [
        "rotation of values and outputs is better than no encoding",
        "rotation of queries and keys is better than of values and outputs",
        "rotation of all four is equivalent to that of queries and keys",
        "rotation of queries, values or outputs alone is worse than no encoding",
    ],
)
def test_the_published_losses_support_the_published_differences(name: str) -> None:
    assert judge_claim(BY_NAME[name], _stored(dict(published.LOSSES), "loss")).verdict == "supported"


def test_extrapolation_is_refuted_by_a_model_that_ignores_its_context() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.name.startswith("ALiBi"))
    near = {"alibi": 2.0, "sinusoid": 2.0, "rope": 2.0}
    for far, verdict in ((1.98, "supported"), (2.6, "contradicted")):
        rows = _stored(near, "loss_at_x1") + _stored(near, "loss")
        rows += _stored({"alibi": far, "sinusoid": 3.0, "rope": 3.0, "bigram": 2.5}, "loss_at_x8")
        assert judge_claim(claim, rows).verdict == verdict
    without_context = dict.fromkeys(near, 2.5)
    rows = _stored(without_context, "loss_at_x1") + _stored(without_context, "loss")
    rows += _stored({"alibi": 2.5, "sinusoid": 3.0, "rope": 3.0, "bigram": 2.4}, "loss_at_x8")
    assert judge_claim(claim, rows).verdict == "contradicted"


@pytest.mark.parametrize(
    ("learned", "order_free", "verdict"),
    [(0.97, 0.2, "supported"), (0.5, 0.2, "contradicted"), (0.97, 0.7, "contradicted")],
)
def test_length_generalization_is_refuted_by_models_that_never_copied_and_by_the_order_free_predictor(
    learned: float, order_free: float, verdict: str
) -> None:
    (claim,) = (claim for claim in CLAIMS if claim.name == "a model without an encoding generalizes best in length")
    others = ("sinusoid", "rope", "alibi", "t5")
    rows = _stored({"nope": 0.97, **dict.fromkeys(others, learned)}, "accuracy", condition="copy")
    rows += _stored({"nope": 0.6, **dict.fromkeys(others, 0.3)}, "accuracy_at_x2", condition="copy")
    rows += [{**row, "value": order_free} for row in _stored({"nope": 0.0}, "bag_at_x2", condition="copy")]
    assert judge_claim(claim, rows).verdict == verdict


def test_every_claim_has_its_own_name_and_the_command_of_a_panel() -> None:
    assert len(BY_NAME) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.command.split("--panels ")[1] == claim.panel
        assert claim.panel in STUDY.panels
    assert all(math.isfinite(loss) for loss in published.LOSSES.values())
    assert studies.find("language") is STUDY
