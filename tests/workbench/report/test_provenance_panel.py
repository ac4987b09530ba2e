"""Table of the runs of a page."""

from posenc.workbench.report.provenance_panel import _runs


def test_seed_0_is_a_seed_and_what_is_absent_is_said() -> None:
    table = _runs([{"scheme": "rope", "setting": "main", "seed": 0, "unit": "1f3a", "key": ""}])
    assert table.rows == (("rope", "main", "0", "1f3a", "not recorded", "not recorded"),)
