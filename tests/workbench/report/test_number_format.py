"""Counts with their nouns, as pages and the terminal print them."""

import pytest

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.report import data_panel

pytestmark = pytest.mark.bare


def test_one_item_is_no_plural():
    assert [count_of(1, "series"), count_of(1, "classes")] == ["1 series", "1 class"]
    assert [count_of(n, "recordings") for n in (0, 1, 12345)] == ["0 recordings", "1 recording", "12,345 recordings"]
    parts = (Part(name="training", counts={"recordings": 2}), Part(name="test", counts={"recordings": 1}))
    record = DatasetRecord(kind="recordings", name="own.npz", digest="0" * 64, parts=parts)
    assert data_panel._parts(record) == ["training: 2 recordings", "test: 1 recording"]


def test_a_stated_column_of_a_table_of_series_is_shown_once():
    options = {"form": "table of series", "time": "when", "target": "y", "columns": "time when, target y, level"}
    record = DatasetRecord(kind="series", name="own.csv", digest="0" * 64, options=options)
    assert data_panel._options(record) == ["form: table of series", "columns: times in when, values in y, level"]
