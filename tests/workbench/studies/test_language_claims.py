"""The claims of the language study: the published numbers uphold them, and what would refute them does."""

import math

from posenc.workbench import studies
from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.studies.language import PANELS, STUDY, rows
from posenc.workbench.studies.language.claims import CLAIMS


def _stored(losses: dict[str, float], metric: str, *, seeds: int = 5) -> list[dict]:
    return [
        {"setting": "main", "scheme": label, "seed": seed, "metric": metric, "value": value + 1e-3 * (-1) ** seed}
        for label, value in losses.items()
        for seed in range(seeds)
    ]


def test_the_published_losses_uphold_the_published_order_and_turned_round_they_do_not() -> None:
    by_name = {claim.name: claim for claim in CLAIMS}
    relative = {label: float(label in rows.RELATIVE) for label in rows.PUBLISHED}
    for sign, verdict in ((1, "supported"), (-1, "contradicted")):
        losses = {label: sign * loss for label, loss in rows.PUBLISHED.items()}
        found = _stored(losses, "loss")
        found += [{**row, "value": relative[row["scheme"]]} for row in _stored(losses, "relative")]
        assert judge_claim(by_name["the published order of nine settings"], found).verdict == verdict
    found = _stored(dict(rows.PUBLISHED), "loss")
    for name in (
        "turning values and outputs is better than nothing",
        "queries and keys before values and outputs",
        "all four are near queries and keys",
        "queries, values or outputs alone harm",
    ):
        assert judge_claim(by_name[name], found).verdict == "supported", name


def test_reading_on_is_refuted_by_a_model_that_reads_nothing() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.name.startswith("ALiBi"))
    short = {"alibi": 2.0, "sinusoid": 2.0, "rope": 2.0}
    for far, verdict in ((1.98, "supported"), (2.6, "contradicted")):
        found = _stored(short, "loss_at_x1") + _stored(short, "loss")
        found += _stored({"alibi": far, "sinusoid": 3.0, "rope": 3.0, "bigram": 2.5}, "loss_at_x8")
        assert judge_claim(claim, found).verdict == verdict
    blind = _stored(dict.fromkeys(short, 2.5), "loss_at_x1") + _stored(dict.fromkeys(short, 2.5), "loss")
    blind += _stored({"alibi": 2.5, "sinusoid": 3.0, "rope": 3.0, "bigram": 2.4}, "loss_at_x8")
    assert judge_claim(claim, blind).verdict == "contradicted"


def test_copying_on_is_refuted_by_rows_that_never_copied_and_by_a_bag() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.name == "no encoding generalises in length")
    labels = ("nope", "sinusoid", "rope", "alibi", "t5")
    for learned, bag, verdict in ((0.97, 0.2, "supported"), (0.5, 0.2, "contradicted"), (0.97, 0.7, "contradicted")):
        found = _stored({"nope": 0.97, **dict.fromkeys(labels[1:], learned)}, "accuracy")
        found += _stored({"nope": 0.6, **dict.fromkeys(labels[1:], 0.3)}, "accuracy_at_x2")
        found += [{**row, "value": bag} for row in _stored({"nope": bag}, "bag_at_x2")]
        copied = [{**row, "setting": "copy", "scheme": row["scheme"]} for row in found]
        assert judge_claim(claim, copied).verdict == verdict


def test_every_claim_speaks_of_rows_and_panels_that_there_are() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.command.split("--panels ")[1] in PANELS
    assert all(math.isfinite(loss) for loss in rows.PUBLISHED.values())
    assert studies.find("language") is STUDY
    assert Prediction("loss", "rope", "nope", higher=False)
