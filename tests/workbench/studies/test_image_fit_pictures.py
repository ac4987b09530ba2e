"""The image study on a user's image: pictures beside the page, panels that some variants cannot be in, scales."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from posenc.workbench import Store, draw_image, run
from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit import STUDY, picture_files, presets
from posenc.workbench.studies.shared.page_file import files_beside

pytestmark = pytest.mark.bare

image = pytest.importorskip("PIL.Image")
SHORT = {"limit.steps": 2, "limit.batch": 16, "sweep_limit.steps": 2, "sweep_limit.batch": 16, "parameters": 6000}


def photo(folder: Path, width: int, height: int) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    image.fromarray(pixels).save(folder / "photo.png")
    return folder / "photo.png"


@pytest.mark.full
def test_each_encoding_has_a_picture_in_full_size_and_the_terminal_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"panels": ["fit"], "seeds": 1, "changes": SHORT, "jobs": 1, "out": tmp_path / "runs"}
    result = run("image-fit", photo(tmp_path, 20, 12), schemes=["multires", "none"], **options)
    printed = capsys.readouterr().out
    files = sorted((tmp_path / "runs" / "pages").glob("*.png"))
    assert len(files) == 2
    assert all(f"\n  {path.name}\n" in printed for path in files)
    assert "Predicted images in full size" in (page := result.path.read_text())
    for spec, path in zip(sorted(result.specs, key=lambda spec: spec.variant), files, strict=True):
        assert path.name in page
        assert f"{spec.variant}-{spec.identity[:8]}" in path.name
        field = posenc.load(tmp_path / "runs", variant=spec.variant)
        with image.open(path) as opened:
            assert np.array_equal(np.asarray(opened.convert("RGB")), draw_image(field, 12, 20).mul(255).round())
    monkeypatch.setattr(picture_files, "picture", None)  # a picture that exists is not drawn again
    STUDY.page(result.request, result.store, result.specs, {})
    monkeypatch.setattr(picture_files, "MOST_PIXELS", 100)
    page = STUDY.page(result.request, result.store, result.specs, {}).read_text()
    assert "Predicted images in full size" not in page


def test_the_files_of_another_page_are_left_out(tmp_path: Path) -> None:
    for name in ("a.html", "a-x.png", "a-b.html", "a-b-y.png", "c-z.png"):
        (tmp_path / name).touch()
    assert files_beside(tmp_path / "a.html") == ["a-x.png"]
    assert files_beside(tmp_path / "a-b.html") == ["a-b-y.png"]


@pytest.mark.full
def test_a_page_says_which_variants_are_left_out_of_the_panel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {
        "preset": "standard",
        "seeds": 1,
        "changes": SHORT,
        "yes": True,
        "out": tmp_path / "runs",
    }
    source = photo(tmp_path, 20, 12)
    result = run("image-fit", source, schemes=["multires"], panels=["fit", "shifted"], **options)
    assert result.exit_code == 0
    sentence = "multires is left out of the panel shifted, which moves every position by 100: MultiResolutionGrid is"
    assert sentence in capsys.readouterr().out
    text = result.path.read_text()
    assert "Left out: multires. An encoding that covers a fixed box" in text
    assert "about the same parameter count and the same number of steps" in text  # SHORT limits the steps
    assert {spec.condition for spec in result.specs} == {"main"}
    result = run("image-fit", source, schemes=["multires", "none"], panels=["fit", "shifted"], **options)
    assert {spec.condition for spec in result.specs if spec.variant == "none"} == {"main", "main shifted"}
    assert "Without a shifted run: multires." in result.path.read_text()
    with pytest.raises(ValueError, match="no run is left: the panels asked for have no run of multires"):
        run("image-fit", source, schemes=["multires"], panels=["shifted"], **{**options, "out": tmp_path / "none"})
    assert not (tmp_path / "none").exists()


def test_a_grid_is_left_out_of_the_panel_that_shifts_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemes = ("multires", "gaussian-10", "none", "FourierFeatures(dim=8)")
    request = Request(preset="quick", source=photo(tmp_path, 20, 12), panels=["fit", "shifted"], schemes=schemes)
    specs = STUDY.plan(request, Store(tmp_path / "runs"))
    assert {spec.variant for spec in specs if spec.condition == "main"} == {*schemes}
    assert {spec.variant for spec in specs if spec.condition == "main shifted"} == {*schemes[1:]}
    assert capsys.readouterr().out.count("multires is left out of the panel shifted") == 1


@pytest.mark.parametrize("size", [(30, 20), (700, 400)])
def test_standard_is_never_smaller_than_quick_on_an_own_image(size: tuple[int, int], tmp_path: Path) -> None:
    source, store = photo(tmp_path, *size), Store(tmp_path / "runs")
    planned = {
        preset: STUDY.plan(Request(preset=preset, source=source, panels=["fit"], schemes=["none"]), store)
        for preset in presets.PRESETS
    }
    quick, standard = planned["quick"], planned["standard"]
    assert len(standard) >= len(quick)
    small, large = (specs[0].settings for specs in (quick, standard))
    assert math.prod(large["size"]) >= math.prod(small["size"])
    assert large["row"]["network"]["width"] >= small["row"]["network"]["width"]
    assert large["training"]["seconds"] >= small["training"]["seconds"]
    panels = {name: {*preset.panels} for name, preset in presets.PRESETS.items()}
    assert panels["quick"] <= panels["standard"]
    fields = (each.name for each in dataclasses.fields(presets.ImagePreset))
    sizes = [name for name in fields if isinstance(getattr(presets.PRESETS["quick"], name), int)]
    assert "parameters" in sizes
    for name in sizes:
        value = getattr(presets.PRESETS["standard"], name)
        assert value is None or value >= getattr(presets.PRESETS["quick"], name), name  # None is no limit
