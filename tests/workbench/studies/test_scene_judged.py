"""Judgments of the scene study: its answer, its claims, and the PSNR of earlier full runs that stored results keep."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from posenc.workbench.report.claims_table import judge_claims
from posenc.workbench.studies.scene import STUDY, claims, conditions, variants
from posenc.workbench.studies.scene.claims import CLAIMS
from posenc.workbench.studies.shared.page_data import PageData


class Bar(NamedTuple):
    """Mean steps and PSNR on the object of multires in an earlier full run on Spot in the quick preset."""

    steps: float
    psnr: float


BARS = (Bar(1899, 28.77), Bar(987, 28.11))
"""The second is of one seed of earlier code, on a machine that takes half as many steps in that time."""
SLACK_DB, FEWEST_STEPS = 0.5, 0.9
"""PSNR below a bar that a run may stay, and the part of a bar's steps that a run needs to be judged by it."""


def reaches_bar(run: Bar) -> bool | None:
    """Whether a run reaches the bar with the most steps of those it can be judged by; None without one."""
    bars = [bar for bar in BARS if run.steps >= FEWEST_STEPS * bar.steps]
    return run.psnr >= max(bars).psnr - SLACK_DB if bars else None


@pytest.mark.parametrize(
    ("psnr", "steps", "reached"),
    [(28.5, 1800, True), (28.0, 1800, False), (27.7, 1000, True), (27.5, 1700, False), (29.0, 800, None)],
)
def test_a_run_is_judged_by_an_earlier_run_of_no_more_steps(psnr, steps, reached):
    assert reaches_bar(Bar(steps, psnr)) is reached


def test_the_stored_results_reach_the_psnr_of_earlier_code():
    with (Path(__file__).parents[3] / "results" / "scene-quick.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["setting"] == "spot"]
    of_multires = [row for row in rows if row["scheme"].removesuffix(", spot") == "multires"]
    psnr, steps = ([float(r["value"]) for r in of_multires if r["metric"] == name] for name in ("psnr_mask", "steps"))
    assert len(psnr) >= 3
    assert reaches_bar(Bar(sum(steps) / len(steps), sum(psnr) / len(psnr)))


def made_up(scheme: str, values: list[float], condition: str = "spot", metric: str = "psnr_mask") -> list[dict]:
    return [
        {"study": "scene", "preset": "quick", "setting": condition, "scheme": scheme, "seed": seed, "metric": metric,
         "value": value}
        for seed, value in enumerate(values)
    ]  # fmt: skip


def test_the_answer_is_the_best_encoding_against_the_second():
    def headline(rows: list[dict]) -> str:
        data = SimpleNamespace(rows=rows, budget=lambda scene: "after 36 s of training each")
        return claims.headline(cast(PageData, data))

    second = made_up(variants.FOURIER, [25.0, 25.1, 25.3])
    answer = headline([*made_up("multires", [27.0, 27.2, 27.1]), *second, *made_up("none", [20.0, 20.1, 20.2])])
    assert answer.startswith(
        "Best on held-out views of spot after 36 s of training each: multires, PSNR on the object 27.10 dB; difference"
    )
    assert "Without an encoding: 20.10 dB [19.85,\xa020.35]. Fourier features (gaussian-2): 25.13 dB." in answer
    assert headline([*made_up("multires", [24.0, 27.2, 25.1]), *second]).startswith(
        "Best on held-out views of spot after 36 s of training each: multires or gaussian-2, not distinguishable."
    )
    assert headline([]) == "No answer yet: no run has finished."


def test_a_stored_label_is_a_scene_and_a_change():
    for change in (*conditions.DIRECTION_CHANGES, *conditions.SAMPLING_CHANGES):
        for scene in ("spot", "your torus", "lego without a name"):
            condition = conditions.condition(scene + change.ending)
            assert condition == change.for_scene(scene)
            assert STUDY.condition(condition.label).changes == change.changes
    assert all(bool(each.changes) is bool(each.ending) for each in conditions.SAMPLING_CHANGES)


def test_every_claim_names_a_panel():
    assert {claim.panel for claim in CLAIMS} <= STUDY.panels.keys()


def test_the_claims_follow_the_intervals():
    small = variants.FOURIER + variants.SMALL
    means = {
        "multires": 27.0,
        "hash": 26.0,
        "dense": 25.5,
        small: 22.0,
        variants.FOURIER: 21.0,
        "none": 18.0,
        "none-small": 18.5,
    }
    table = [row for label, mean in means.items() for row in made_up(label, [mean, mean + 0.1, mean - 0.1])]
    for change, mean in (("without directions", 25.0), ("without highlights", 28.0),
                          ("without highlights or directions", 27.9)):  # fmt: skip
        table += made_up("multires", [mean, mean + 0.1, mean - 0.2], f"spot {change}")
    assert [each.verdict for each in judge_claims(CLAIMS, table)] == ["supported"] * len(CLAIMS)
    matte = "spot without highlights or directions"
    as_much = [row for row in table if row["setting"] != matte] + made_up("multires", [25.5, 25.6, 25.3], matte)
    (judged,) = [each for each in judge_claims(CLAIMS, as_much) if each.claim.name.startswith("color depends")]
    assert judged.verdict == "contradicted"
    assert "the control gain from directions with − without highlights" in judged.reason
    table = [
        row for row in table if (row["scheme"], row["setting"]) != ("multires", "spot") and row["scheme"] != "hash"
    ]
    behind = [*table, *made_up("multires", [21.5, 21.6, 21.4]), *made_up("hash", [20.0, 20.1, 19.9])]
    verdicts = {each.claim.name.split(" suit")[0]: each for each in judge_claims(CLAIMS, behind)}
    # ahead of the wide network, behind the small one
    assert verdicts["multi-resolution hash grids"].verdict == "contradicted"
    assert "the control multires" in verdicts["multi-resolution hash grids"].reason
    assert verdicts["single hashed levels"].verdict == "contradicted"
    assert verdicts["dense grids"].verdict == "supported"
    assert {each.verdict for each in judge_claims(CLAIMS, [])} == {"not measured"}
