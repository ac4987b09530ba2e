"""Every claim of every study names a panel of its study, so that a page can say where the claim is shown."""

from __future__ import annotations

import pytest

from posenc.workbench import studies

pytestmark = pytest.mark.bare

CLAIMS = [
    pytest.param(study, claim, id=f"{study.name}: {claim.name}")
    for study in studies.studies().values()
    for claim in study.claims
]


@pytest.mark.parametrize(("study", "claim"), CLAIMS)
def test_a_claim_names_a_panel_of_its_study(study, claim) -> None:
    assert claim.panel in study.panels
