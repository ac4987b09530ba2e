"""What scenes are judged by: the bar of earlier full runs, and the claims."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from posenc import studies
from posenc.report.ledger import judge_claims
from posenc.studies.found import Found
from posenc.studies.scene import drawing, rows
from posenc.studies.scene.claims import CLAIMS


def made_up(scheme: str, values: list[float], setting: str = "spot", metric: str = "psnr_mask") -> list[dict]:
    return [
        {"study": "scene", "preset": "quick", "setting": setting, "scheme": f"{scheme}, {setting}", "seed": seed,
         "metric": metric, "value": value}
        for seed, value in enumerate(values)
    ]  # fmt: skip


def of(table: list[dict]) -> Found:
    return cast(Found, SimpleNamespace(rows=table, request=studies.Request(preset="quick")))


def test_the_results_that_are_kept_hold_the_bar_of_earlier_code():
    kept = Path(__file__).parents[2] / "results" / "scene-quick.csv"
    with kept.open() as file:
        table = [{**row, "value": float(row["value"]), "seed": int(row["seed"])} for row in csv.DictReader(file)]
    assert len([row for row in table if row["metric"] == "psnr_mask" and row["scheme"] == "multires, spot"]) >= 3
    assert drawing.bar(of(table), "spot").endswith(": held.")


@pytest.mark.parametrize(
    ("level", "steps", "words"),
    [
        (28.5, 1800, ("28.77 dB after 1,899 steps", "28.50 dB after 1,800 steps: held.")),
        (28.0, 1800, ("28.00 dB after 1,800 steps: not held: more than 0.5 dB less.",)),
        (27.7, 1000, ("28.11 dB after 987 steps", "27.70 dB after 1,000 steps: held.")),
        (27.5, 1700, ("27.50 dB after 1,700 steps: not held",)),
        (29.0, 800, ("29.00 dB after 800 steps: not judged, none took so few steps.",)),
    ],
)
def test_a_page_says_whether_what_earlier_code_reached_in_as_many_steps_is_held(level, steps, words):
    table = made_up("multires", [level, level]) + made_up("multires", [steps, steps], metric="steps")
    for part in words:
        assert part in drawing.bar(of(table), "spot")
    assert drawing.bar(of(table), "torus") == ""
    assert drawing.bar(of(made_up("hash", [27.0])), "spot") == ""


def test_the_claims_follow_the_intervals():
    small = rows.FOURIER + rows.SMALL
    means = {
        "multires": 27.0,
        "hash": 26.0,
        "dense": 25.5,
        small: 22.0,
        rows.FOURIER: 21.0,
        "none": 18.0,
        "none-small": 18.5,
    }
    table = [row for label, mean in means.items() for row in made_up(label, [mean, mean + 0.1, mean - 0.1])]
    for setting, mean in (("without directions", 25.0), ("without highlights", 28.0),
                          ("without highlights or directions", 27.9)):  # fmt: skip
        table += made_up("multires", [mean, mean + 0.1, mean - 0.2], f"spot {setting}")
    assert [each.verdict for each in judge_claims(CLAIMS, table)] == ["upheld"] * len(CLAIMS)
    matte = "spot without highlights or directions"
    as_much = [row for row in table if row["setting"] != matte] + made_up("multires", [25.5, 25.6, 25.3], matte)
    (told,) = [each for each in judge_claims(CLAIMS, as_much) if each.claim.name.startswith("colour depends")]
    assert told.verdict == "not upheld"
    assert "the control how much more directions bring" in told.because
    table = [row for row in table if not row["scheme"].startswith(("multires, spot", "hash"))]
    behind = [*table, *made_up("multires", [21.5, 21.6, 21.4]), *made_up("hash", [20.0, 20.1, 19.9])]
    verdicts = {each.claim.name.split(" suit")[0]: each for each in judge_claims(CLAIMS, behind)}
    assert (
        verdicts["multi-resolution hash grids"].verdict == "not upheld"
    )  # ahead of the wide network, behind the small
    assert "the control multires" in verdicts["multi-resolution hash grids"].because
    assert verdicts["single hashed levels"].verdict == "not upheld"
    assert verdicts["dense grids"].verdict == "upheld"
    assert {each.verdict for each in judge_claims(CLAIMS, [])} == {"not measured"}
