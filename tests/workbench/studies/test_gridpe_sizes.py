"""Accuracy by image size: labels and axis are the pixels that were measured. Conditions that are asked for alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from posenc.workbench import studies
from posenc.workbench.report.page import FigureGroup, Table
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.gridpe import STUDY, conditions, plots, presets
from posenc.workbench.studies.shared import image_sizes
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks.images import data_sets
from small_images import packed_photographs


def test_sizes_are_told_in_the_pixels_that_were_shown() -> None:
    sides = {name: image_sizes.measured_side(32, 4, scale) for name, scale in presets.SCALES.items()}
    # 32 pixels in patches of 4: x0.71 is 24 pixels (0.75), x1.43 is 44 (1.375), x2.29 is 72 (2.25)
    assert (sides["x0.71"], sides["x1.43"], sides["x2.29"]) == (24, 44, 72)
    record = {"name": "p", "digest": "d", "classes": 2, "shape": [3, 32, 32], "train": 8, "test": 8}
    settings = {"pictures": record, "row": {"config": {"stages": [{"patch": 4}]}}}
    rows = [
        {"setting": "main", "scheme": "gridpe", "seed": seed, "metric": metric, "value": 0.5}
        for seed in (0, 1)
        for metric in ("accuracy", *(f"accuracy_at_{name}" for name in presets.SCALES))
    ]
    spec = SimpleNamespace(condition="main", variant="gridpe", settings=settings)
    panel = plots.accuracy_by_size(cast(PageData, SimpleNamespace(rows=rows, specs=[spec], done=[spec])))[0]
    group, relative = panel.blocks
    assert isinstance(group, FigureGroup)
    assert group.table is not None
    assert [row[1] for row in group.table.rows] == ["24", "28", "32", "36", "44", "56", "64", "72"]
    assert "Side of the images (pixels)" in group.table.columns
    assert "Training images have 32 x 32 pixels." in group.key
    assert isinstance(relative, Table)
    assert relative.columns[1] == "160 px published, 24 px here (0.75 times)"


def test_conditions_can_be_chosen_and_photographs_need_no_other_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_sets, "cache_folder", lambda: tmp_path / "cache")
    packed_photographs(tmp_path / "caltech100")
    request = studies.Request(preset="standard", data=tmp_path, panels=["accuracy"], schemes=["nope"], seeds=[0])
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match="Caltech-100 is there; for it alone: --conditions photographs"):
        STUDY.plan(request, store)
    specs = STUDY.plan(dataclasses.replace(request, conditions=[conditions.PHOTOGRAPHS]), store)
    assert [(each.condition, each.variant) for each in specs] == [(conditions.PHOTOGRAPHS, "nope")]
    with pytest.raises(ValueError, match=r"there is no condition 'photos'\. .*'main', 'photographs'"):
        STUDY.plan(dataclasses.replace(request, conditions=["photos"]), store)
