"""The claims document finds a claim by its paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from posenc.workbench.report.claims_by_paper import ClaimAtScales, claims_by_paper
from posenc.workbench.report.claims_table import Claim, Quantity, judge_claim
from posenc.workbench.report.estimators import difference
from posenc.workbench.report.publications import publication_of
from posenc.workbench.studies import studies

pytestmark = pytest.mark.bare

CLAIM = Claim(
    name="two axes are better than one",
    source="arXiv 2406.08272, Table 1",
    quote="2d-fixed generalizes best.",
    about="2d-fixed has a higher accuracy than 1d-fixed.",
    quantities=(Quantity("2d − 1d", difference("accuracy", "2d", "1d"), low=0),),
    control="An encoding of random numbers is as accurate.",
    controls=(Quantity("random − 2d", difference("accuracy", "random", "2d"), high=0),),
    panel="accuracy",
    command="posenc run toy",
    published="97.7% against 46.9%",
)


def rows(seeds: Sequence[int]) -> list[dict[str, Any]]:
    values = {"2d": 0.9, "1d": 0.5, "random": 0.6}
    return [
        {
            "setting": "main",
            "scheme": name,
            "seed": seed,
            "metric": "accuracy",
            "value": value + 0.01 * seed * len(name),
        }
        for name, value in values.items()
        for seed in seeds
    ]


def entry(claim: Claim = CLAIM) -> ClaimAtScales:
    scales = {"quick": rows((0, 1, 2)), "standard": rows((0, 1)), "paper": []}
    return ClaimAtScales(
        claim,
        {scale: judge_claim(claim, some) for scale, some in scales.items()},
        {"quick": "../results/toy-quick.html"},
        {"quick": ("posenc run toy --seeds 0 1 2",)},
        {"quick": "two minutes"},
    )


def test_a_claim_stands_under_its_paper_with_a_row_for_each_measured_scale() -> None:
    text = claims_by_paper([entry()])
    title = "arXiv 2406.08272: Learning positional encodings in transformers depends on initialization"
    assert f"\n## {title}\n" in text
    quick, standard = (line for line in text.splitlines() if line.startswith("| [two axes"))
    assert "97.7% against 46.9%" in quick
    assert "2d − 1d: 0.400" in quick
    assert "[quick](../results/toy-quick.html)" in quick
    assert "`posenc run toy --seeds 0 1 2`<br>Own panels and seeds of the preset: two minutes." in quick
    assert "| standard | `posenc run toy` |" in standard


def test_a_claim_without_runs_and_numbers_has_one_row() -> None:
    claim = dataclasses.replace(CLAIM, published="")
    bare = dataclasses.replace(entry(claim), judged={"paper": judge_claim(claim, [])})
    (line,) = (line for line in claims_by_paper([bare]).splitlines() if line.startswith("| [two axes"))
    assert "| in words | 2d − 1d: not measured | **not measured** |" in line


def test_every_claim_of_every_study_names_a_listed_publication() -> None:
    sources = [claim.source for study in studies().values() for claim in study.claims]
    assert len({publication_of(source) for source in sources}) > 5
    with pytest.raises(ValueError, match="No publication is listed"):
        publication_of("arXiv 0000.00000")
