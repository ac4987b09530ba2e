"""Checks of a request that need no torch."""

import pytest

from posenc.workbench import studies
from posenc.workbench.request_checks import RENAMED_PANELS, refuse_panels


@pytest.mark.parametrize("study", RENAMED_PANELS)
def test_an_old_name_of_a_panel_names_the_present_one(study: str) -> None:
    panels = list(studies.find(study).panels)
    for old, new in RENAMED_PANELS[study].items():
        assert old not in panels
        with pytest.raises(ValueError, match=f"the panel {old} is now {new}"):
            refuse_panels(study, [old], panels)
        refuse_panels(study, [new], panels)


def test_an_unknown_panel_has_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"Did you mean curves\? The panels are accuracy, curves\."):
        refuse_panels("gridpe", ["curvs"], ["accuracy", "curves"])
