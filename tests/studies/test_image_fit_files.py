"""The image study on a picture of the user's own: read once, fitted in the size that is told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from posenc import studies
from posenc.store import Store
from posenc.studies.image_fit import STUDY, presets, work
from posenc.tasks import pictures


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 52, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.fixture
def small(monkeypatch):
    own = presets.PRESETS["quick"].own | {"longest": 48, "parameters": 9000}
    monkeypatch.setitem(presets.PRESETS, "quick", dataclasses.replace(presets.PRESETS["quick"], own=own))


def test_a_picture_is_decoded_once_for_all_rows(tmp_path, monkeypatch, photo, small, capsys):
    read, seen = pictures.read, []
    monkeypatch.setattr(work.pictures, "read", lambda path: seen.append(path) or read(path))
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", source=photo, panels=["fit"])
    units = STUDY.plan(request, store)
    assert len(units) == 18
    assert seen == [photo]
    assert "photo.png has 52 x 40 pixels and is fitted with 48 x 37." in capsys.readouterr().out
    assert {tuple(unit.settings["size"]) for unit in units} == {(37, 48)}
    assert [unit.key for unit in STUDY.plan(request, store)] == [unit.key for unit in units]
    assert seen == [photo]
    for kept in (store.root / "data").glob("picture-*"):
        kept.unlink()
    assert [unit.key for unit in STUDY.plan(request, store)] == [unit.key for unit in units]
    assert seen == [photo, photo]


def test_another_picture_under_the_same_name_is_another_picture(tmp_path, photo, small):
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", source=photo, schemes=["none"])
    before = STUDY.plan(request, store)
    Image.fromarray(255 - np.asarray(Image.open(photo))).save(photo)
    after = STUDY.plan(request, store)
    assert not {unit.key for unit in before} & {unit.key for unit in after}
