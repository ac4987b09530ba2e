"""The scene study: its plan, a unit from end to end, exact resume, its page, a user's folder, what it refuses."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from posenc import runner, studies
from posenc.models.radiance import RadianceConfig
from posenc.store import Store, Unit
from posenc.studies.field_rows import Budget
from posenc.studies.scene import STUDY, drawing, presets, rows, turning, work
from posenc.tasks import room, scenes, shapes
from posenc.tasks.scenes import views
from posenc.training import checkpoint

OWN = {
    "longest": 12, "held": 2, "steps": 6, "parameters": 12_000, "rays": 16, "points": 256, "samples": 8, "cells": 4,
    "coarsest": 2, "finest": 8, "levels": 3,
}  # fmt: skip


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both presets, every unit of them over in a moment."""
    for name, preset in presets.PRESETS.items():
        monkeypatch.setitem(presets.PRESETS, name, dataclasses.replace(preset, own=OWN, seeds=(0, 1)))
    monkeypatch.setattr(presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    monkeypatch.setattr(turning, "FRAMES", 4)
    monkeypatch.setattr(turning, "SIDE", 16)


def planned(root: Path, **asked: object) -> list[Unit]:
    return STUDY.plan(studies.Request(**{"preset": "quick", **asked}), Store(root))


def test_the_quick_plan_is_seven_rows_by_three_seeds_of_about_equal_size(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    units = planned(tmp_path)
    assert {unit.scheme for unit in units} == {f"{label}, torus" for label in rows.ROWS}
    assert len({unit.key for unit in units}) == len(units) == 21
    assert [unit.key for unit in planned(tmp_path)] == [unit.key for unit in units]
    assert len(list((tmp_path / "data").iterdir())) == 1
    sizes = {}
    for unit in units[::3]:
        with torch.device("meta"):
            sizes[unit.scheme.removesuffix(", torus")] = work.build(unit.settings).parameter_count
    small = [sizes.pop(label + rows.SMALL) for label in (rows.FOURIER, "none")]
    assert all(0.88 * 78_000 <= size <= 78_000 for size in sizes.values()), sizes
    assert max(small) < 20_000
    depths = {unit.scheme: unit.settings["row"]["network"]["depth"] for unit in units}
    assert {depth for name, depth in depths.items() if "small" in name or "multires" in name} == {1}
    assert {unit.settings["training"]["seconds"] for unit in units} == {36.0}
    assert STUDY.estimate(units, Store(tmp_path), 2).seconds <= 600


def test_the_standard_plan_has_sigma_on_the_other_solid_blind_rows_a_matte_twin_and_other_samples(tmp_path, tiny):
    units = planned(tmp_path, preset="standard", seeds=[0])
    assert {unit.scheme for unit in units if unit.setting == "torus without directions"} == {
        "multires, torus without directions"
    }
    of_sigma = {unit.settings["row"]["options"].get("sigma") for unit in units if unit.setting == "torus"}
    assert set(rows.SIGMAS) <= of_sigma
    told = {unit.setting: msgspec.convert(unit.settings["radiance"], RadianceConfig) for unit in units}
    assert {name: (known.views, known.samples, known.fine, known.cells) for name, known in told.items()} == {
        "torus": (True, 8, 0, 4),
        "torus without directions": (False, 8, 0, 4),
        "torus without highlights": (True, 8, 0, 4),
        "torus without highlights or directions": (False, 8, 0, 4),
        "torus without cells": (True, 8, 0, 0),
        "torus with importance samples": (True, 4, 4, 4),
        "torus with importance samples without cells": (True, 4, 4, 0),
    }
    assert rows.FOURIER in rows.OF_SIGMA
    matte = {unit.setting for unit in units if unit.settings["scene"].get("shine") == 0}
    assert matte == {"torus without highlights", "torus without highlights or directions"}
    assert len(list((tmp_path / "data").iterdir())) == 2


@pytest.mark.parametrize(("finest", "highest"), [(128, 32), (8, 8)])
def test_the_positional_row_turns_no_faster_than_pictures_can_show(finest, highest):
    found = rows.row("positional", Budget(3, 16, 40_000, finest))
    assert found.options["sigma"] == 2 * highest  # 1, 2, 4, .. cycles up to half of it


def test_a_page_is_drawn_again_without_what_it_is_of(tmp_path, tiny):
    store, folder = Store(tmp_path / "store"), folder_of(tmp_path)
    wanted = {"panels": ["encodings", "sigma"], "schemes": [rows.FOURIER], "seeds": [0]}
    units = STUDY.plan(studies.Request(preset="quick", source=folder, **wanted), store)
    assert {unit.setting for unit in units} == {"ring", "torus"}
    assert runner.run(units, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    data = tmp_path / "data"
    (data / "mesh").mkdir(parents=True)
    np.savez(data / "mesh" / "spot.npz", **dict(zip("vf", shapes.cuboid(1, 2, 3), strict=True)))
    for elsewhere in (None, data):
        stored = STUDY.stored(studies.Request(preset="quick", data=elsewhere), store)
        assert {unit.key for unit in stored} == {unit.key for unit in units}
    spot = STUDY.plan(studies.Request(preset="quick", data=data, **wanted), store)
    assert runner.run(spot, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    for elsewhere, settings in ((data, {"spot", "torus"}), (None, {"ring", "spot", "torus"})):
        stored = STUDY.stored(studies.Request(preset="quick", data=elsewhere), store)
        assert {unit.setting for unit in stored} == settings


@pytest.mark.parametrize("panels", [["sigma"], ["encodings", "sigma"]])
def test_a_torus_is_called_a_makeshift_only_where_something_else_was_asked_for(tmp_path, tiny, capsys, panels):
    planned(tmp_path, panels=panels)
    assert ("rendering a torus instead" in capsys.readouterr().out) is (panels != ["sigma"])


def test_a_unit_from_end_to_end(tmp_path, tiny):
    store, units = Store(tmp_path), planned(tmp_path, schemes=["multires", rows.FOURIER], seeds=[0])
    report = runner.run(units, store, runner.InProcess(), stream=io.StringIO())
    assert report.exit_code == 0, str(report)
    stored = store.read(units[0].key)
    assert {"psnr", "psnr_mask", "ssim", "parameters", "steps", "seconds"} <= set(stored.metrics)
    assert stored.metrics["steps"] == 6
    scene = work.kept(tmp_path, units[0].settings["scene"])
    assert stored.arrays["views"].shape == (2, 12, 12, 3)
    truth = scene.held.pictures.numpy().astype(np.float32) / 255
    again = scenes.psnr(stored.arrays["views"].astype(np.float32) / 255, truth)
    assert stored.metrics["psnr"] == pytest.approx(again, abs=0.05)
    assert {row["metric"] for row in stored.curves} >= {"psnr", "psnr_mask", "seconds", "loss_train"}
    restored = work.restore(units[0], scene, stored.weights)
    colour, _, opacity = restored.look(scene.held, torch.arange(scene.held.pixels))
    assert np.abs(colour.reshape(2, 12, 12, 3) * 255 - stored.arrays["views"]).max() <= 0.51
    assert ((opacity >= 0) & (opacity <= 1 + 1e-6)).all()


def test_training_brings_views_nearer(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(
        presets.PRESETS, "quick", dataclasses.replace(presets.PRESETS["quick"], own={**OWN, "steps": 150, "rays": 64})
    )
    store, (unit,) = Store(tmp_path), planned(tmp_path, schemes=["dense"], seeds=[0])
    runner.run([unit], store, runner.InProcess(), stream=io.StringIO())
    curves = store.read(unit.key).curves
    near, wrong = ([row["value"] for row in curves if row["metric"] == name] for name in ("psnr", "loss_train"))
    assert near[-1] > near[0] + 0.5  # four views of twelve pixels say little of the others
    assert wrong[-1] < wrong[0] / 2


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("label", ["multires", rows.FOURIER])
def test_an_interrupted_run_goes_on_to_the_same_last_digit(tmp_path, tiny, monkeypatch, label):
    (unit,) = planned(tmp_path, schemes=[label], seeds=[1])
    monkeypatch.setattr(work, "LOOK_EVERY", 2)
    whole, parted = tmp_path / "work" / "whole", tmp_path / "work" / "parted"
    for folder in (whole, parted):
        folder.mkdir(parents=True)
    expected = work.train_unit(unit, whole, lambda *_: None)
    plain, saves = checkpoint.save, []

    def save(path: Path, content: dict) -> None:
        plain(path, content)
        saves.append(content["state"]["step"])
        if len(saves) == 3:
            raise StoppedError

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr(work, "train", _often(work.train))
    with pytest.raises(StoppedError):
        work.train_unit(unit, parted, lambda *_: None)
    assert saves == [1, 2, 3]
    torch.rand(7)  # the generator stands elsewhere, as in another process
    found = work.train_unit(unit, parted, lambda *_: None)
    assert sorted(found.weights) == sorted(expected.weights)
    for name, value in expected.weights.items():
        assert torch.equal(found.weights[name], value), name
    assert np.array_equal(found.arrays["views"], expected.arrays["views"])


def _often(train: Callable[..., object]) -> Callable[..., object]:
    def often(*given: object, **named: object) -> object:
        return train(*given, **named, checkpoint_seconds=0.0)

    return often


def test_a_batch_is_a_function_of_seed_and_step(tmp_path, tiny):
    units = planned(tmp_path, schemes=["none"], seeds=[0, 1])
    scene = work.kept(tmp_path, units[0].settings["scene"])
    first, other = (work.Trained(unit, scene) for unit in units)
    assert torch.equal(first.draw(5), work.Trained(units[0], scene).draw(5))
    assert not torch.equal(first.draw(5), first.draw(6))
    assert not torch.equal(first.draw(5)[1:], other.draw(5)[1:])
    batch = first.draw(3)
    assert float(first.loss(batch).detach()) == float(first.loss(batch).detach())
    assert float(first.loss(batch).detach()) != float(first.loss(torch.cat([torch.tensor([4]), batch[1:]])).detach())


def test_a_training_that_is_limited_in_time_is_drawn_against_it(tmp_path, tiny, monkeypatch):
    own = {name: value for name, value in OWN.items() if name != "steps"} | {"seconds": 0.2}
    monkeypatch.setitem(presets.PRESETS, "quick", dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0,)))
    store, request = Store(tmp_path), studies.Request(preset="quick", schemes=["dense"])
    units = STUDY.plan(request, store)
    assert runner.run(units, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    points = STUDY.found(request, store, units).over_time("torus", "psnr_mask")["dense"]
    assert max(points) == 0.2
    assert len(points) >= 3
    assert store.read(units[0].key).metrics["seconds"] >= 0.2


def test_the_page_shows_truth_predictions_errors_depth_and_a_turning_picture(tmp_path, tiny, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    own = {**OWN, "steps": 2}
    for name in ("quick", "standard"):
        monkeypatch.setitem(presets.PRESETS, name, dataclasses.replace(presets.PRESETS[name], own=own))
    store, request = Store(tmp_path), studies.Request(preset="standard", panels=["all"], seeds=[0])
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), stream=io.StringIO())
    assert report.exit_code == 0, str(report)
    page = STUDY.page(request, store, STUDY.stored(request, store), {})
    text = page.read_text()
    for words in (">How near<", ">Sharper with time<", ">Views that were held out<", ">Depth<",
                  ">From all around<", ">Spherical harmonics of the direction<",
                  ">Where along a ray the field is asked<", "importance + cells",
                  "How fast the features should turn", "data:image/gif;base64,", "In the panel above alone: ",
                  "matte, without", "on the torus at the quick scale"):  # fmt: skip
        assert words in text, words
    curves = drawing.compared(STUDY.found(request, store, units), "torus")
    assert set(curves) == set(rows.COMPARED)
    assert len(text) < 1_000_000
    (turn,) = page.parent.glob("*-turntable.png")
    with image.open(turn) as opened:
        assert opened.n_frames == 4
        assert opened.size == (turning.SIDE, turning.SIDE)
    monkeypatch.setattr(turning, "frames", None)  # a page that is drawn again does not render it again
    assert STUDY.page(request, store, units, {}) == page
    told = STUDY.verdict(request, store, units)
    assert "torus:" in told[0]
    assert "comes nearest, PSNR on the object" in told[0]


def test_a_page_before_anything_has_finished(tmp_path, tiny):
    store, request = Store(tmp_path), studies.Request(preset="quick")
    units = STUDY.plan(request, store)
    page = STUDY.page(request, store, units, {units[0].key: "the disk is full"})
    assert "Nothing can be said yet" in page.read_text()


@pytest.mark.parametrize("side", [100, 400])
def test_rays_that_are_asked_while_it_trains_come_through_every_row_and_column(side):
    blank = torch.zeros(8, side, side, 3, dtype=torch.uint8)
    asked = work.strewn(scenes.Views(blank, torch.zeros(8, 4, 4), torch.zeros(8, 9), ("",) * 8))
    assert 0.9 * work.ASKED < len(asked) <= work.ASKED
    assert len((asked % side).unique()) == side
    assert len((asked // side % side).unique()) > 0.9 * side
    assert (asked // side**2).unique().tolist() == list(range(8))


def test_scoring_takes_as_long_as_there_are_rays_and_sections(tmp_path, tiny):
    (unit,) = planned(tmp_path, schemes=["multires"], seeds=[0])
    own = {name: value for name, value in unit.settings["training"].items() if name != "epochs"}

    def scoring(scene: dict | None = None, radiance: dict | None = None) -> float:
        changes = {"scene": {**unit.settings["scene"], **(scene or {})}, "training": {**own, "seconds": 100.0}}
        changes["radiance"] = {**unit.settings["radiance"], **(radiance or {})}
        return work.seconds_of(msgspec.structs.replace(unit, settings={**unit.settings, **changes})) - 110

    small, large = (scoring({"side": side, "held": 8}, {"samples": 96}) for side in (100, 400))
    assert 10 < large / small <= 16
    assert scoring({"side": 400, "held": 8}, {"samples": 48, "fine": 48}) == large
    assert scoring({"side": 400, "held": 8}, {"samples": 96, "cells": 0}) > 2 * large


def folder_of(root: Path, frames: int = 9) -> Path:
    """A scene as a user has it: pictures with alpha, and where they were taken from."""
    image = pytest.importorskip("PIL.Image")
    made = scenes.make(scenes.torus(24, 12), train=frames - 1, held=1, side=12, fine=1)
    folder = root / "ring"
    (folder / "images").mkdir(parents=True)
    entries = []
    assert made.train.mask is not None
    for number in range(frames - 1):
        alpha = made.train.mask[number, ..., None].numpy().astype(np.uint8) * 255
        pixels = np.concatenate([made.train.pictures[number].numpy(), alpha], -1)
        image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        pose = made.train.poses[number].tolist()
        entries.append({"file_path": f"images/{number}.png", "transform_matrix": pose})
    lens = made.train.lenses[0].tolist()
    told = dict(zip(views.LENS[:4], lens[:4], strict=True)) | {"scale": 1 / 2.2, "offset": 0.5, "frames": entries}
    (folder / "transforms.json").write_text(json.dumps(told))
    return folder


def test_a_users_folder_is_a_scene_of_its_own(tmp_path, tiny):
    folder = folder_of(tmp_path)
    store = Store(tmp_path / "store")
    request = studies.Request(preset="quick", source=folder, schemes=["multires"], seeds=[0])
    (unit,) = STUDY.plan(request, store)
    assert (unit.setting, unit.scheme) == ("ring", "multires, ring")
    assert unit.settings["radiance"]["background"] == "random"
    assert runner.run([unit], store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    assert "psnr_mask" in store.read(unit.key).metrics
    page = STUDY.page(request, store, [unit], {})
    assert ">Views that were held out<" in page.read_text()
    (folder / "images" / "3.png").unlink()
    with pytest.raises(ValueError, match=r"transforms\.json, frame 3 \(images/3\.png\): there is no picture"):
        STUDY.plan(request, store)


def test_what_does_not_fit_in_memory_is_refused_with_the_number(tmp_path, tiny, monkeypatch):
    with pytest.raises(ValueError, match=r"training DenseGrid\(.*\) needs \d+\.\d\d GiB of memory, and .* are free"):
        planned(tmp_path, schemes=["DenseGrid(axes=3, resolution=1200)"])
    monkeypatch.setattr(room, "available", lambda: 1000)
    with pytest.raises(ValueError, match=r"training none needs \d\.\d\d GiB of memory, and 0\.00 are free"):
        planned(tmp_path, schemes=["none"])


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("multiress", "there is no encoding 'multiress'.*multires"),
        ("dense-small", "'dense-small' names no waves and no bare coordinates; .* as gaussian-2-small or none-small"),
        ("Shaw(4)", "."),
        ("DenseGrid(axes=2, resolution=4)", "."),
    ],
)
def test_a_row_that_cannot_be_is_refused(tmp_path, tiny, label, message):
    with pytest.raises(ValueError, match=message):
        planned(tmp_path, schemes=[label])


def test_a_scene_that_is_gone_is_told(tmp_path, tiny):
    (unit,) = planned(tmp_path, schemes=["none"], seeds=[0])
    work.scene_path(tmp_path, unit.settings["scene"]).unlink()
    with pytest.raises(ValueError, match=r"the scene is no longer at .* Run the same command again"):
        work.train_unit(unit, tmp_path / "work" / "x", lambda *_: None)
