"""Counts with their nouns, as pages and the terminal print them."""

import pytest

from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.report import data_panel
from posenc.workbench.report.number_format import count_of

pytestmark = pytest.mark.bare


def test_one_item_is_no_plural():
    assert [count_of(n, "recordings") for n in (0, 1, 12345)] == ["0 recordings", "1 recording", "12,345 recordings"]
    parts = (Part(name="training", counts={"recordings": 2}), Part(name="test", counts={"recordings": 1}))
    record = DatasetRecord(kind="recordings", name="own.npz", digest="0" * 64, parts=parts)
    assert data_panel._parts(record) == ["training: 2 recordings", "test: 1 recording"]
