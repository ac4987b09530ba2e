"""The image study on the user's own image: read once, and fitted in the size that is printed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.image_fit import STUDY, presets, stored_image
from posenc.workbench.tasks import single_image


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 52, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.fixture
def small(monkeypatch):
    smaller = dataclasses.replace(presets.PRESETS["quick"], longest_side=48, parameters=9000)
    monkeypatch.setitem(presets.PRESETS, "quick", smaller)


def test_an_image_is_decoded_once_for_all_variants(tmp_path, monkeypatch, photo, small, capsys):
    read, seen = single_image.read_image, []
    monkeypatch.setattr(stored_image.single_image, "read_image", lambda path: seen.append(path) or read(path))
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", source=photo, panels=["fit"])
    specs = STUDY.plan(request, store)
    assert len(specs) == 18
    assert seen == [photo]
    assert "photo.png has 52 x 40 pixels. Runs with a longest side of 48 pixels fit 48 x 37." in capsys.readouterr().out
    assert {tuple(spec.settings["size"]) for spec in specs} == {(37, 48)}
    assert [spec.identity for spec in STUDY.plan(request, store)] == [spec.identity for spec in specs]
    assert seen == [photo]
    for kept in (store.root / "data").glob("picture-*"):
        kept.unlink()
    assert [spec.identity for spec in STUDY.plan(request, store)] == [spec.identity for spec in specs]
    assert seen == [photo, photo]


def test_another_image_under_the_same_name_is_another_image(tmp_path, photo, small):
    store, request = Store(tmp_path / "runs"), studies.Request(preset="quick", source=photo, schemes=["none"])
    before = STUDY.plan(request, store)
    Image.fromarray(255 - np.asarray(Image.open(photo))).save(photo)
    after = STUDY.plan(request, store)
    assert not {spec.identity for spec in before} & {spec.identity for spec in after}


def test_a_page_on_ones_own_image_judges_no_claims_of_papers(tmp_path, monkeypatch, photo, small):
    """It said "Not upheld" of claims that were made for other images, other sizes and longer training."""
    limited = dataclasses.replace(presets.PRESETS["quick"], limit=presets.Limit(steps=2))
    monkeypatch.setitem(presets.PRESETS, "quick", limited)
    store, request = (
        Store(tmp_path / "runs"),
        studies.Request(preset="quick", source=photo, panels=["fit"], schemes=["none", "multires"], seeds=[0]),
    )
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "They are not judged on your data." in page
    assert "Published claims at this scale" not in page
    assert "upheld" not in page.lower()
