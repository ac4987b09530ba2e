"""The scene study: its plan, a run from end to end, exact resume, its page, a user's folder, what it refuses."""

from __future__ import annotations

import dataclasses
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from small_scenes import folder_of, planned, shrink

from posenc.models.radiance import RadianceConfig
from posenc.workbench import memory, runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.scene import STUDY, execute, plots, presets, turntable, variants
from posenc.workbench.studies.shared import training_run
from posenc.workbench.studies.shared.field_variants import Budget
from posenc.workbench.studies.shared.training_run import restored
from posenc.workbench.tasks import scenes, shapes
from posenc.workbench.training import checkpoint

pytestmark = pytest.mark.bare


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both presets, every run of them over in a moment."""
    shrink(monkeypatch)


def test_the_quick_plan_is_seven_variants_by_three_seeds_of_about_equal_size(tmp_path, monkeypatch):
    monkeypatch.setattr(presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})
    specs = planned(tmp_path)
    assert {spec.variant for spec in specs} == set(variants.VARIANTS)
    assert len({spec.identity for spec in specs}) == len(specs) == 21
    assert [spec.identity for spec in planned(tmp_path)] == [spec.identity for spec in specs]
    assert len(list((tmp_path / "data").glob("scene-*"))) == 1
    sizes = {}
    for spec in specs[::3]:
        with torch.device("meta"):
            sizes[spec.variant] = execute.radiance_field(spec.settings).parameter_count
    small = [sizes.pop(label + variants.SMALL) for label in (variants.FOURIER, "none")]
    assert all(0.88 * 78_000 <= size <= 78_000 for size in sizes.values()), sizes
    assert max(small) < 20_000
    depths = {spec.variant: spec.settings["row"]["network"]["depth"] for spec in specs}
    assert {depth for name, depth in depths.items() if "small" in name or "multires" in name} == {1}
    assert {spec.settings["training"]["seconds"] for spec in specs} == {36.0}
    assert STUDY.estimate(specs, Store(tmp_path), 2).seconds <= 600


def test_the_standard_plan_has_sigma_on_the_torus_runs_without_directions_or_highlights_and_other_samples(
    tmp_path, tiny
):
    specs = planned(tmp_path, preset="standard", seeds=[0])
    assert {spec.variant for spec in specs if spec.condition == "torus without directions"} == {"multires"}
    of_sigma = {spec.settings["row"]["options"].get("sigma") for spec in specs if spec.condition == "torus"}
    assert set(variants.SIGMAS) <= of_sigma
    configs = {spec.condition: msgspec.convert(spec.settings["radiance"], RadianceConfig) for spec in specs}
    assert {name: (each.views, each.samples, each.fine, each.cells) for name, each in configs.items()} == {
        "torus": (True, 8, 0, 4),
        "torus without directions": (False, 8, 0, 4),
        "torus without highlights": (True, 8, 0, 4),
        "torus without highlights or directions": (False, 8, 0, 4),
        "torus without cells": (True, 8, 0, 0),
        "torus with importance samples": (True, 4, 4, 4),
        "torus with importance samples without cells": (True, 4, 4, 0),
    }
    assert variants.FOURIER in variants.BY_SIGMA
    matte = {spec.condition for spec in specs if spec.settings["scene"].get("shine") == 0}
    assert matte == {"torus without highlights", "torus without highlights or directions"}
    assert len(list((tmp_path / "data").glob("scene-*"))) == 2


@pytest.mark.parametrize(("finest", "highest"), [(128, 32), (8, 8)])
def test_the_positional_mapping_has_no_higher_frequency_than_images_can_show(finest, highest):
    encoding = variants.variant("positional", Budget(3, 16, 40_000, finest))
    assert encoding.options["sigma"] == 2 * highest  # 1, 2, 4, .. cycles up to half of it


def test_a_page_is_drawn_again_without_what_it_is_of(tmp_path, tiny):
    store, folder = Store(tmp_path / "store"), folder_of(tmp_path)
    wanted = {"panels": ["encodings", "sigma"], "schemes": [variants.FOURIER], "seeds": [0]}
    specs = STUDY.plan(studies.Request(preset="quick", source=folder, **wanted), store)
    assert {spec.condition for spec in specs} == {"ring", "torus"}
    assert runner.run(specs, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    data = tmp_path / "data"
    (data / "mesh").mkdir(parents=True)
    np.savez(data / "mesh" / "spot.npz", **dict(zip("vf", shapes.cuboid(1, 2, 3), strict=True)))
    for elsewhere in (None, data):
        stored = STUDY.stored(studies.Request(preset="quick", data=elsewhere), store)
        assert {spec.identity for spec in stored} == {spec.identity for spec in specs}
    spot = STUDY.plan(studies.Request(preset="quick", data=data, **wanted), store)
    assert runner.run(spot, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    for elsewhere in (data, None):  # A page knows what the store holds, not what data is at hand.
        with pytest.raises(ValueError, match=r"several data sets. .*: --source ring-\w{6}, --source spot-\w{6}"):
            STUDY.stored(studies.Request(preset="quick", data=elsewhere), store)
        for name in ("ring", "spot"):
            stored = STUDY.stored(studies.Request(preset="quick", data=elsewhere, about=name), store)
            assert {spec.condition for spec in stored} == {name, "torus"}


def test_a_report_about_panels_shows_the_stored_scene_whatever_is_named(tmp_path, tiny, monkeypatch):
    """The scene of a panel is the store's: no folder and no data is asked for again."""
    monkeypatch.chdir(tmp_path)
    store, folder = Store("store"), folder_of(tmp_path)
    wanted = {"panels": ["encodings", "directions", "sigma"], "schemes": ["multires"], "seeds": [0]}
    specs = STUDY.plan(studies.Request(preset="quick", source=folder, **wanted), store)
    assert runner.run(specs, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    shutil.rmtree(folder)
    request = studies.Request(preset="quick", panels=["directions"])
    stored = STUDY.stored(request, store)
    assert {spec.condition for spec in stored} - {"torus"} == {"ring", "ring without directions"}
    page = STUDY.page(request, store, stored, {})
    record = store.record_of(specs[0])
    assert record is not None
    assert page.name == f"scene-quick-ring-{record.digest[:6]}-directions.html"
    drawn = page.read_text()
    assert "12 x 12 pixels (width x height)" in drawn
    assert "--panels directions" in drawn
    assert "They are not judged on your data" in drawn
    assert "arXiv 2003.08934: NeRF: Representing Scenes" not in drawn  # the heading of judged claims
    named = dataclasses.replace(request, schemes=("multires",), seeds=(0,))
    assert "--seeds 0 --out store." in STUDY.page(named, store, stored, {}).read_text()
    assert "posenc run scene ring --preset quick --panels directions" in page.read_text()
    records = [store.record_of(spec) for spec in specs if spec.condition == "torus"]
    assert all(record and record.kind == "generated" for record in records)


def test_views_that_cannot_be_drawn_are_named(tmp_path, tiny):
    """A store without scene and weights, as a merged pack leaves it: the page stands, and says what it lacks."""
    store, request = Store(tmp_path), studies.Request(preset="quick", schemes=["none"], seeds=[0])
    specs = STUDY.plan(request, store)
    runner.run(specs, store, runner.InProcess(), stream=io.StringIO())
    execute.scene_path(tmp_path, specs[0].settings["scene"]).unlink()
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "The store lacks the scene or the rendered views of these runs" in page
    assert ">Scores on held-out views<" in page


@pytest.mark.parametrize("panels", [["sigma"], ["encodings", "sigma"]])
def test_a_torus_is_called_a_replacement_only_where_another_scene_was_asked_for(tmp_path, tiny, capsys, panels):
    planned(tmp_path, panels=panels)
    assert ("rendering a torus instead" in capsys.readouterr().out) is (panels != ["sigma"])


def test_a_run_from_end_to_end(tmp_path, tiny):
    store, specs = Store(tmp_path), planned(tmp_path, schemes=["multires", variants.FOURIER], seeds=[0])
    report = runner.run(specs, store, runner.InProcess(), stream=io.StringIO())
    assert report.exit_code == 0, str(report)
    stored = store.read(specs[0].identity)
    assert {"psnr", "psnr_mask", "ssim", "parameters", "steps", "seconds"} <= set(stored.metrics)
    assert stored.metrics["steps"] == 6
    scene = execute.stored_scene(tmp_path, specs[0].settings["scene"])
    assert stored.arrays["views"].shape == (2, 12, 12, 3)
    truth = scene.held.images.numpy().astype(np.float32) / 255
    again = scenes.psnr(stored.arrays["views"].astype(np.float32) / 255, truth)
    assert stored.metrics["psnr"] == pytest.approx(again, abs=0.05)
    assert {row["metric"] for row in stored.curves} >= {"psnr", "psnr_mask", "seconds", "loss_train"}
    model = restored(store, specs[0].identity, execute.build)
    color, _, opacity = model.render(scene.held, torch.arange(scene.held.pixels))
    assert np.abs(color.reshape(2, 12, 12, 3) * 255 - stored.arrays["views"]).max() <= 0.51
    assert ((opacity >= 0) & (opacity <= 1 + 1e-6)).all()


@pytest.mark.full
def test_training_raises_the_psnr_of_held_out_views(tmp_path, tiny, monkeypatch):
    longer = dataclasses.replace(presets.PRESETS["quick"], steps=150, rays=64)
    monkeypatch.setitem(presets.PRESETS, "quick", longer)
    store, (spec,) = Store(tmp_path), planned(tmp_path, schemes=["dense"], seeds=[0])
    runner.run([spec], store, runner.InProcess(), stream=io.StringIO())
    curves = store.read(spec.identity).curves
    psnr, loss = ([row["value"] for row in curves if row["metric"] == name] for name in ("psnr", "loss_train"))
    assert psnr[-1] > psnr[0] + 0.5  # four views of twelve pixels say little of the others
    assert loss[-1] < loss[0] / 2


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("label", ["multires", variants.FOURIER])
def test_an_interrupted_run_goes_on_to_the_same_last_digit(tmp_path, tiny, monkeypatch, label):
    (spec,) = planned(tmp_path, schemes=[label], seeds=[1])
    monkeypatch.setattr(execute, "OCCUPANCY_EVERY", 2)
    whole, parted = tmp_path / "work" / "whole", tmp_path / "work" / "parted"
    for folder in (whole, parted):
        folder.mkdir(parents=True)
    expected = execute.train(spec, whole, lambda *_: None)
    plain, saves = checkpoint.save, []

    def save(path: Path, content: dict) -> None:
        plain(path, content)
        saves.append(content["state"]["step"])
        if len(saves) == 3:
            raise StoppedError

    monkeypatch.setattr(checkpoint, "save", save)
    monkeypatch.setattr(training_run, "train_to_state", _often(training_run.train_to_state))
    with pytest.raises(StoppedError):
        execute.train(spec, parted, lambda *_: None)
    assert saves == [1, 2, 3]
    torch.rand(7)  # the generator stands elsewhere, as in another process
    result = execute.train(spec, parted, lambda *_: None)
    assert sorted(result.weights) == sorted(expected.weights)
    for name, value in expected.weights.items():
        assert torch.equal(result.weights[name], value), name
    assert np.array_equal(result.arrays["views"], expected.arrays["views"])


def _often(train: Callable[..., object]) -> Callable[..., object]:
    def often(*given: object, **named: object) -> object:
        return train(*given, **named, checkpoint_seconds=0.0)

    return often


def test_a_batch_is_a_function_of_seed_and_step(tmp_path, tiny):
    specs = planned(tmp_path, schemes=["none"], seeds=[0, 1])
    scene = execute.stored_scene(tmp_path, specs[0].settings["scene"])
    first, other = (execute.SceneModel(spec, scene) for spec in specs)
    assert torch.equal(first.draw(5), execute.SceneModel(specs[0], scene).draw(5))
    assert not torch.equal(first.draw(5), first.draw(6))
    assert not torch.equal(first.draw(5)[1:], other.draw(5)[1:])
    batch = first.draw(3)
    assert float(first.loss(batch).detach()) == float(first.loss(batch).detach())
    assert float(first.loss(batch).detach()) != float(first.loss(torch.cat([torch.tensor([4]), batch[1:]])).detach())


def test_a_training_that_is_limited_in_time_is_drawn_against_it(tmp_path, tiny, monkeypatch):
    timed = dataclasses.replace(presets.PRESETS["quick"], steps=None, seconds=0.2, seeds=(0,))
    monkeypatch.setitem(presets.PRESETS, "quick", timed)
    store, request = Store(tmp_path), studies.Request(preset="quick", schemes=["dense"])
    specs = STUDY.plan(request, store)
    assert runner.run(specs, store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    points = STUDY.page_data(request, store, specs).over_time("torus", "psnr_mask")["dense"]
    assert max(points) == 0.2
    assert len(points) >= 3
    assert store.read(specs[0].identity).metrics["seconds"] >= 0.2


def test_the_page_shows_targets_rendered_views_errors_depth_and_a_turntable(tmp_path, tiny, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    for name in ("quick", "standard"):
        monkeypatch.setitem(presets.PRESETS, name, dataclasses.replace(presets.PRESETS[name], steps=2))
    store, request = Store(tmp_path), studies.Request(preset="standard", panels=["all"], seeds=[0])
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), stream=io.StringIO())
    assert report.exit_code == 0, str(report)
    shown = STUDY.stored(request, store)
    page = STUDY.page(request, store, shown, {})
    assert "The turntable is rendered after the page was written" in page.read_text()
    lines = list(STUDY.after_page(STUDY.page_data(request, store, shown)))
    assert lines[-1] == "Turntable: 4 of 4 frames of 16 x 16 pixels."
    assert STUDY.page(request, store, shown, {}) == page
    text = page.read_text()
    for words in (">Scores on held-out views<", ">PSNR by training time<", ">Held-out views<", ">Predicted depth<",
                  ">Turntable of the trained scene<", ">Scores with and without view directions<",
                  ">Scores by sampling along rays<", "importance, occupied cells",
                  "PSNR by sigma of Gaussian features", "data:image/gif;base64,", "Only in the panel above: ",
                  "no highlights, without directions", "on the torus in the quick preset"):  # fmt: skip
        assert words in text, words
    curves = plots.time_curves(STUDY.page_data(request, store, specs), "torus")
    assert set(curves) == set(variants.CURVES)
    assert len(text) < 1_000_000
    (turn,) = page.parent.glob("*-turntable.png")
    with image.open(turn) as opened:
        assert opened.n_frames == 4
        assert opened.size == (turntable.SIDE, turntable.SIDE)
    assert not list(STUDY.after_page(STUDY.page_data(request, store, shown)))  # Nothing is rendered twice.
    answer = STUDY.verdict(request, store, specs)[0]
    assert answer.startswith("Best on held-out views of the torus ")
    assert "PSNR on the object" in answer


def test_a_page_before_anything_has_finished(tmp_path, tiny):
    store, request = Store(tmp_path), studies.Request(preset="quick")
    specs = STUDY.plan(request, store)
    page = STUDY.page(request, store, specs, {specs[0].identity: "the disk is full"})
    assert "No answer yet" in page.read_text()


@pytest.mark.parametrize("side", [100, 400])
def test_rays_of_an_evaluation_reach_every_row_and_column(side):
    blank = torch.zeros(8, side, side, 3, dtype=torch.uint8)
    rays = execute.evenly_spaced_rays(scenes.Views(blank, torch.zeros(8, 4, 4), torch.zeros(8, 9), ("",) * 8))
    assert 0.9 * execute.EVALUATION_RAYS < len(rays) <= execute.EVALUATION_RAYS
    assert len((rays % side).unique()) == side
    assert len((rays // side % side).unique()) > 0.9 * side
    assert (rays // side**2).unique().tolist() == list(range(8))


def test_scoring_takes_as_long_as_there_are_rays_and_sections(tmp_path, tiny):
    (spec,) = planned(tmp_path, schemes=["multires"], seeds=[0])
    own = {name: value for name, value in spec.settings["training"].items() if name != "epochs"}

    def scoring(scene: dict | None = None, radiance: dict | None = None) -> float:
        changes = {"scene": {**spec.settings["scene"], **(scene or {})}, "training": {**own, "seconds": 100.0}}
        changes["radiance"] = {**spec.settings["radiance"], **(radiance or {})}
        return execute.run_seconds(msgspec.structs.replace(spec, settings={**spec.settings, **changes})) - 110

    small, large = (scoring({"side": side, "held": 8}, {"samples": 96}) for side in (100, 400))
    assert 10 < large / small <= 16
    assert scoring({"side": 400, "held": 8}, {"samples": 48, "fine": 48}) == large
    assert scoring({"side": 400, "held": 8}, {"samples": 96, "cells": 0}) > 2 * large


def test_a_users_folder_is_a_scene_of_its_own(tmp_path, tiny):
    folder = folder_of(tmp_path)
    store = Store(tmp_path / "store")
    request = studies.Request(preset="quick", source=folder, schemes=["multires"], seeds=[0])
    (spec,) = STUDY.plan(request, store)
    assert (spec.condition, spec.variant) == ("ring", "multires")
    assert spec.settings["radiance"]["background"] == "random"
    assert runner.run([spec], store, runner.InProcess(), stream=io.StringIO()).exit_code == 0
    assert "psnr_mask" in store.read(spec.identity).metrics
    page = STUDY.page(request, store, [spec], {})
    assert ">Held-out views<" in page.read_text()
    (folder / "images" / "3.png").unlink()
    (spec,) = STUDY.plan(request, store)
    assert store.record_of(spec).left_out[0].startswith("1 of ")
    for path in (folder / "images").glob("*.png"):
        path.unlink()
    with pytest.raises(ValueError, match=r"transforms\.json: none of its \d+ frames has an image"):
        STUDY.plan(request, store)


def test_what_does_not_fit_in_memory_is_refused_with_the_number(tmp_path, tiny, monkeypatch):
    with pytest.raises(ValueError, match=r"training DenseGrid\(.*\) needs \d+\.\d\d GiB of memory, and .* are free"):
        planned(tmp_path, schemes=["DenseGrid(axes=3, resolution=1200)"])
    monkeypatch.setattr(memory, "free_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"training none needs \d\.\d\d GiB of memory, and 0\.00 are free"):
        planned(tmp_path, schemes=["none"])


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("multiress", "there is no variant 'multiress'.*multires"),
        (
            "dense-small",
            "'dense-small' names neither Fourier features nor bare coordinates.* as gaussian-2-small or none-small",
        ),
        ("Shaw(4)", "."),
        ("DenseGrid(axes=2, resolution=4)", "."),
    ],
)
def test_an_encoding_that_cannot_be_built_is_refused(tmp_path, tiny, label, message):
    with pytest.raises(ValueError, match=message):
        planned(tmp_path, schemes=[label])


def test_a_scene_that_is_gone_is_reported(tmp_path, tiny):
    (spec,) = planned(tmp_path, schemes=["none"], seeds=[0])
    execute.scene_path(tmp_path, spec.settings["scene"]).unlink()
    with pytest.raises(ValueError, match=r"the scene is no longer at .* Run the same command again"):
        execute.train(spec, tmp_path / "work" / "x", lambda *_: None)
