"""The image study: its plan, an image from end to end, its page, and what it refuses."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from posenc.workbench import runner, studies
from posenc.workbench.report import live_page
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.image_fit import (
    STUDY,
    claims,
    execute,
    held_out_plots,
    image_means,
    plots,
    presets,
    scale_selection,
    variants,
)
from posenc.workbench.studies.image_fit.presets import Limit
from posenc.workbench.studies.shared import planning
from posenc.workbench.studies.shared.field_variants import Budget, FieldVariant
from posenc.workbench.tasks import single_image
from posenc.workbench.training.config import EVALUATION_FRACTIONS
from posenc.workbench.training.loop import train

pytestmark = pytest.mark.bare


@pytest.fixture
def photo(tmp_path):
    """An image with an edge, a slope and fine stripes."""
    y, x = np.mgrid[0:24, 0:32]
    red, green = (x > 15) * 255, x * 8
    blue = 127 + 127 * np.sin(x * 2.5 + y)
    path = tmp_path / "photo.png"
    Image.fromarray(np.stack([red, green, blue], -1).astype(np.uint8)).save(path)
    return path


@pytest.fixture
def quick(monkeypatch):
    """The quick preset with short trainings, limited in steps."""
    small = dataclasses.replace(
        presets.PRESETS["quick"],
        seeds=(0, 1),
        parameters=9000,
        limit=Limit(steps=24, batch=64),
        held_out_parameters=9000,
        held_out_limit=Limit(steps=16, batch=64),
        sweep_limit=Limit(steps=8, batch=64),
        sweep_parameters=(8000, 9000),
        smaller_parameters=(8000,),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    return small


def photographs(data: Path, names: list[str]) -> None:
    """A data folder with pictures of noise of these names, the first seven of them among the large ones."""
    (data / "photos").mkdir()
    for size, kept in ((256, names), (512, names[:7])):
        images = np.random.default_rng(size).integers(0, 255, (len(kept), size, size, 3), dtype=np.uint8)
        np.savez(data / "photos" / f"photos_{size}.npz", images=images, names=np.array(kept))


def cropped(monkeypatch) -> None:
    """Corners of the photographs in their place, so that runs are short."""
    whole = single_image.load_photos
    monkeypatch.setattr(
        single_image,
        "load_photos",
        lambda folder, size: {name: image[:8, :8] for name, image in whole(folder, size).items()},
    )


def ran(request, tmp_path):
    store = Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, str(report)
    return store, specs


def test_the_quick_plan_is_six_rows_in_three_sizes_by_three_seeds(photo, tmp_path):
    specs = STUDY.plan(studies.Request(preset="quick", source=photo), Store(tmp_path / "runs"))
    smaller = [f"{label}@{size}" for size in presets.PRESETS["quick"].smaller_parameters for label in variants.COMPARED]
    assert [spec.variant for spec in specs[::3]] == [*variants.COMPARED, *smaller]
    assert len(specs) == 3 * 18
    one = STUDY.plan(studies.Request(preset="quick", source=photo, schemes=["dense"]), Store(tmp_path / "runs"))
    assert {spec.condition for spec in one} == {"main"}


def test_a_row_asked_for_among_the_sizes_has_those_of_the_panel(photo, tmp_path):
    def labels(*panels):
        request = studies.Request(preset="quick", source=photo, panels=panels, schemes=["dense"], seeds=[0])
        return [spec.variant for spec in STUDY.plan(request, Store(tmp_path / "runs"))]

    assert labels("sizes") == [f"dense@{size}" for size in presets.PRESETS["quick"].sweep_parameters]
    assert labels("sizes", "fit") == ["dense"]
    assert labels("interpolation") == ["dense"]


@pytest.mark.full
def test_an_image_is_fitted_and_shown(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, panels=list(STUDY.panels))
    store, specs = ran(request, tmp_path)
    data = STUDY.page_data(request, store, specs)
    psnr = image_means.mean_psnr(data, "main")
    assert set(psnr) == set(variants.COMPARED)
    first = {spec.variant: row["value"] for spec in specs if spec.condition == "main" and spec.seed == 0
             for row in store.read(spec.identity).curves if row["metric"] == "psnr" and row["epoch"] == 0}  # fmt: skip
    assert all(psnr[label] > first[label] + 1 for label in ("multires", "dense", "gaussian-10"))
    arrays = data.arrays("main", "multires")
    assert arrays["picture"].shape == (24, 32, 3)
    assert len(arrays["film"]) > 3
    text = STUDY.page(request, store, specs, {}).read_text()
    for title in ("PSNR by encoding", "PSNR on held-out pixels", "PSNR by sigma of the Gaussian features",
                  "PSNR by parameter count", "PSNR by interpolation", "PSNR with positions shifted by 100 image sides",
                  "Hash collisions on the finest level", "Conditions"):  # fmt: skip
        assert f">{title}</h2>" in text
    assert all(claim.panel in STUDY.panels for claim in claims.CLAIMS)
    assert "They are not judged on your data" in text
    assert "Shown in: <a href=" not in text
    assert "positions: shifted by 100 image sides along both axes" in text
    assert text.count("data:image/") >= 18
    assert "https://" not in text
    assert STUDY.verdict(request, store, specs)[0].startswith("Best")
    assert all(live_page.snapshot_path(store.root, spec.identity).exists() for spec in specs)  # also when all are done


@pytest.mark.full
def test_of_several_photographs_the_first_is_shown_in_full(quick, tmp_path, monkeypatch):
    several = dataclasses.replace(quick, photographs=3, held_out_photographs=6, seeds=(0,))
    monkeypatch.setitem(presets.PRESETS, "quick", several)
    photographs(tmp_path, [*scale_selection.SELECTION_PHOTOGRAPHS, "moon", "page"])
    cropped(monkeypatch)
    labels = ["multires", "gaussian-5", "gaussian-10", "gaussian-50", "none"]
    request = studies.Request(preset="quick", data=tmp_path, panels=["fit", "held-out", "sigma"], schemes=labels)
    store, specs = ran(request, tmp_path)
    text = STUDY.page(request, store, specs, {}).read_text()
    assert text.count(">PSNR by encoding</h2>") == text.count(">Predicted images during training</h2>") == 1
    assert "Of the photographs whose every pixel is fitted, astronaut, chelsea and coffee also served to choose" in text
    shown = sum(claim.panel in request.panels for claim in claims.CLAIMS)
    assert text.count("Shown in: <a href=") == shown > 0  # each claim links to the panel that shows it
    assert "(3 images)" in STUDY.verdict(request, store, specs)[0]
    data = STUDY.page_data(request, store, specs)
    table, strips = plots.photograph_panel(data, ["astronaut", "chelsea", "coffee"]).blocks
    assert table.columns[-3:] == ("astronaut", "chelsea", "coffee")
    assert {row[0] for row in table.rows} == set(labels)
    assert [figure.title for figure in strips.figures] == ["chelsea", "coffee"]
    (panel,) = held_out_plots.sigma(data)
    assert [row[0] for row in panel.blocks[-2].rows] == list(scale_selection.SELECTION_PHOTOGRAPHS)  # and on no other


def test_a_stored_score_is_that_of_the_stored_weights(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["dense"], seeds=[3])
    store, (spec,) = ran(request, tmp_path)
    built = execute.ImageField(spec, store.root, None)
    built.model.load_state_dict(store.weights(spec.identity))
    predicted, truth = built.predict(single_image.eval_pixels(built.image.shape, "all").reshape(-1))
    stored = store.read(spec.identity).metrics["psnr"]
    assert single_image.psnr(predicted.detach(), truth) == pytest.approx(stored, abs=1e-6)
    assert (truth.reshape(24, 32, 3).numpy() * 255 == single_image.read_image(photo)).all()


@pytest.mark.full
def test_levels_open_by_the_step_and_a_resumed_fit_ends_the_same(quick, tmp_path):
    photo = tmp_path / "wide.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 96), dtype=np.uint8)).save(photo)
    request = studies.Request(
        preset="quick", source=photo, panels=["held-out"], schemes=["multires-coarse-to-fine"], seeds=[0]
    )
    store = Store(tmp_path / "runs")
    (spec,) = STUDY.plan(request, store)

    def fit(stop_after: int, folder: Path | None = None) -> execute.ImageField:
        def report(step: int, *_: object) -> None:
            if step >= stop_after:
                raise InterruptedError

        built = execute.ImageField(spec, store.root, folder)
        with contextlib.suppress(InterruptedError):
            train(built.fit(), built.training, seed=0, workdir=folder, report=report, checkpoint_steps=1)
        return built

    first, early, whole = (fit(stop).model.state_dict() for stop in (0, 2, 99))
    rows_of_level = [level.rows for level in fit(0).model.scheme.levels]
    moved = [
        bool((a != b).any())
        for a, b in zip(*(each["scheme.table"].split(rows_of_level) for each in (first, early)), strict=True)
    ]
    assert moved == sorted(moved, reverse=True)
    assert moved[0]
    assert not moved[-1]
    folder = tmp_path / "resumed"
    folder.mkdir()
    fit(6, folder)
    resumed = fit(99, folder)
    assert resumed.level_weights is None
    assert all(torch.equal(value, whole[name]) for name, value in resumed.model.state_dict().items())


def test_rows_that_cannot_open_their_levels_are_refused(quick, photo, tmp_path):
    store = Store(tmp_path / "runs")
    field = variants.variant("multires", Budget(2, 3, 9000, 16))
    with pytest.raises(
        ValueError, match="'multires-coarse-to-fine' activates its levels by step number, and this fit is lim"
    ):
        variants.training("multires-coarse-to-fine", field, Limit(seconds=1.0))
    request = studies.Request(preset="quick", source=photo, panels=["held-out"], schemes=["dense-coarse-to-fine"])
    with pytest.raises(ValueError, match="'dense-coarse-to-fine' should be a grid of several levels"):
        STUDY.plan(request, store)


@pytest.mark.full
def test_of_a_large_picture_a_part_is_scored_and_waves_stay_small(tmp_path, monkeypatch):
    y, x = np.mgrid[0:4000, 0:5000]
    path = tmp_path / "large.png"
    Image.fromarray(((x + y) // 40).astype(np.uint8)).save(path, compress_level=1)
    small = dataclasses.replace(presets.PRESETS["standard"], parameters=5000, limit=Limit(steps=3, batch=2**12))
    monkeypatch.setitem(presets.PRESETS, "standard", small)
    request = studies.Request(preset="standard", source=path, panels=["fit"], schemes=["dense"], seeds=[0])
    store, specs = ran(request, tmp_path)
    metrics = store.read(specs[0].identity).metrics
    assert metrics["parameters"] > 300_000  # 5,000 for each 512 x 512 pixels
    assert 5 < metrics["psnr"] < 40
    (waves,) = STUDY.plan(dataclasses.replace(request, schemes=["gaussian-10"]), store)
    assert 18_000 < msgspec.convert(waves.settings["row"], FieldVariant).field().parameter_count <= 20_000
    assert max(store.arrays(specs[0].identity)["picture"].shape) <= execute.STORED_SIDE
    described, remark = STUDY.announce(request, store, [waves])
    assert "Size: 5,000 x 4,000 pixels. Channels: " in described
    assert "Of the image of 5,000 x 4,000 pixels, 1,048,576 are scored" in remark
    spent = STUDY.estimate(specs, store, 1).seconds
    assert 0 < spent < 120


@pytest.mark.full
def test_seeds_differ_and_runs_repeat(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["multires"], seeds=[0, 1])
    store, specs = ran(request, tmp_path / "a")
    again, _ = ran(request, tmp_path / "b")
    numbers = [[s.read(spec.identity).metrics["psnr"] for spec in specs] for s in (store, again)]
    assert numbers[0] == numbers[1]
    assert numbers[0][0] != numbers[0][1]


def test_a_deep_grey_picture_with_alpha(quick, tmp_path):
    path = tmp_path / "grey.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 8, 2), dtype=np.uint8), "LA").save(path)
    request = studies.Request(preset="quick", source=path, schemes=["dense"], seeds=[0])
    store, specs = ran(request, tmp_path)
    assert store.arrays(specs[0].identity)["picture"].shape == (9, 8, 2)
    assert STUDY.page(request, store, specs, {}).exists()


def test_without_a_picture_it_says_how_to_give_one(tmp_path):
    with pytest.raises(ValueError, match=r"this study needs an image: posenc run image-fit photo\.jpg"):
        STUDY.plan(studies.Request(preset="quick"), Store(tmp_path))


def test_unknown_panels_and_lacking_runs_are_named(photo, quick, tmp_path):
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"no panel 'fitt'\. Did you mean fit"):
        STUDY.plan(studies.Request(preset="quick", source=photo, panels=["fitt"]), store)
    with pytest.raises(
        ValueError, match=r"holds no results of image-fit --preset quick\. Make them: posenc run image-fit"
    ):
        STUDY.stored(studies.Request(preset="quick"), store)
    request = studies.Request(preset="quick", source=photo, schemes=["dense"], seeds=[0])
    store, _ = ran(request, tmp_path)
    with pytest.raises(ValueError, match=r"the panel sigma needs runs that .* lacks"):
        STUDY.stored(studies.Request(preset="quick", source=photo, panels=["sigma"]), store)
    assert len(STUDY.stored(studies.Request(preset="quick"), store)) == 1


def test_the_live_page_shows_the_newest_snapshots(quick, photo, tmp_path):
    request, store = studies.Request(preset="quick", source=photo, schemes=["dense"]), Store(tmp_path / "runs")
    specs = STUDY.plan(request, store)
    first, *others = specs
    live_page.write_snapshot(store.root, first.identity, np.zeros((2, 2, 3), np.uint8))
    live_page.write_snapshot(store.root, others[-1].identity, np.full((2, 2, 3), 9, np.uint8))  # of another seed
    live = STUDY.live_page(request, store, specs)
    assert f"Live page: {live.path.as_uri()}" == live.begin(specs, {})
    with live:
        data = base64.b64encode(live_page.snapshot_path(store.root, first.identity).read_bytes()).decode()
        assert re.findall(r'src="data:image/png;base64,([^"]+)"', live.path.read_text()) == [data]
    assert live.path.stem == STUDY.page_data(request, store, specs).page  # the address of the final page


def test_an_estimate_is_made_before_a_long_preset(photo, tmp_path):
    store = Store(tmp_path / "runs")
    specs = STUDY.plan(studies.Request(preset="standard", source=photo, panels=["fit"]), store)
    estimate = STUDY.estimate(specs, store, 2)
    assert estimate.runs == 18  # nothing is selected on a single image, so that one sigma is enough
    assert 18 * 120 / 2 < estimate.seconds < 1.1 * 18 * 120 / 2
    assert estimate.memory_bytes > 2 * 2**29  # two processes, and what they train


@pytest.mark.parametrize("preset", presets.PRESETS.values(), ids=list(presets.PRESETS))
def test_smaller_rows_train_until_a_moment_at_which_the_others_are_looked_at(preset):
    assert preset.sweep_limit.seconds / preset.limit.seconds in EVALUATION_FRACTIONS


def test_runs_of_equal_cost_are_timed_once(photo, tmp_path):
    timed: list[str] = []
    cost = dataclasses.replace(STUDY.cost, seconds=lambda spec, store: timed.append(spec.variant) or 5.0)
    study, store = dataclasses.replace(STUDY, cost=cost), Store(tmp_path / "runs")
    specs = study.plan(studies.Request(preset="standard", source=photo, panels=["held-out"]), store)
    assert len(specs) == 3 * len(variants.MAPPINGS)
    around = planning.START_SECONDS + planning.PAGE_SECONDS
    assert study.estimate(specs, store, 2).seconds == pytest.approx(5.0 * len(specs) / 2 + around)
    assert len(timed) == len(variants.MAPPINGS) - 1  # a step takes as long whichever levels are active


@pytest.mark.full
def test_the_standard_preset_chooses_sigma_on_four_and_reports_on_the_others(tmp_path, monkeypatch):
    names = [*scale_selection.SELECTION_PHOTOGRAPHS, *(f"other {n}" for n in range(6))]
    photographs(tmp_path, names)
    cropped(monkeypatch)
    request = studies.Request(preset="standard", data=tmp_path, panels=["fit", "held-out", "sigma"])
    cells: dict[str, set[str]] = {}
    for spec in STUDY.plan(request, Store(tmp_path / "runs")):
        cells.setdefault(spec.condition, set()).add(spec.variant)
    assert len(cells) == 7 + 10
    chosen_among = {*variants.POSENC_SCALES, variants.PUBLISHED_SIGMA, *variants.NEAR_SIGMAS}
    for name in names:
        reported = {*variants.MAPPINGS, *chosen_among} - {"posenc"}
        mappings = (
            {*variants.SIGMA_OF, *variants.POSENC_SCALES} if name in scale_selection.SELECTION_PHOTOGRAPHS else reported
        )
        assert cells[name + " held-out"] == mappings
    assert all(cells[name] == {*variants.COMPARED, *variants.NEAR_SIGMAS} for name in names[:7])
    quick = STUDY.plan(dataclasses.replace(request, preset="quick", panels=["held-out"]), Store(tmp_path / "quick"))
    assert {spec.condition for spec in quick} == {"astronaut held-out", "chelsea held-out"}


def test_a_field_that_fits_into_no_memory_is_refused(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["DenseGrid(axes=2, resolution=40000)"])
    with pytest.raises(ValueError, match=r"training DenseGrid\(.*\).* needs \d+\.\d\d GiB of memory, and .* are free"):
        STUDY.plan(request, Store(tmp_path / "runs"))


@pytest.mark.full
def test_the_time_to_equal_psnr_is_reported_from_runs_limited_in_time(photo, tmp_path, monkeypatch):
    small = dataclasses.replace(presets.PRESETS["quick"], limit=Limit(seconds=0.3), parameters=9000, seeds=(0,))
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    request = studies.Request(preset="quick", source=photo, schemes=["multires", "gaussian-10"], panels=["fit"])
    store, specs = ran(request, tmp_path)
    data = STUDY.page_data(request, store, specs)
    table = plots.time_panel(data).blocks[0]
    (line,) = table.rows
    assert line[:2] == ("your image", "gaussian-10")
    assert "0.3 s" in line[2]
    assert table.note.startswith("Median speed-up over 1 image: ")
    last = store.read(specs[0].identity).metrics["psnr@1"]
    assert last == next(row["value"] for row in reversed(data.curves) if row["metric"] == "psnr"
                        and row["unit"] == specs[0].identity)  # fmt: skip


def test_a_page_of_some_panels_reads_its_store_alone(quick, tmp_path, monkeypatch):
    """Neither the data folder nor the user's file is needed, and the time limit is that of the stored runs."""
    photographs(tmp_path, ["astronaut", "moon"])
    cropped(monkeypatch)
    request = studies.Request(preset="quick", data=tmp_path, panels=["fit", "held-out"], schemes=["none"], seeds=[0])
    store, _ = ran(request, tmp_path)
    for data in (None, tmp_path / "elsewhere"):
        shown = STUDY.stored(studies.Request(preset="quick", panels=["held-out"], data=data), store)
        assert {spec.condition for spec in shown} == {"astronaut held-out", "moon held-out"}
    bare = studies.Request(preset="quick", panels=["fit"])
    assert {spec.condition for spec in STUDY.stored(bare, store)} == {"astronaut"}
    page = STUDY.page(bare, store, STUDY.stored(bare, store), {})
    assert "photograph: astronaut" in page.read_text().lower()
    with pytest.raises(ValueError, match=r"the panel sizes needs runs that .* lacks"):
        STUDY.stored(studies.Request(preset="quick", panels=["sizes"]), store)


@pytest.mark.full
def test_a_run_of_two_variants_is_counted_once(quick, photo, tmp_path):
    """The finest size of a sweep is the field of the other panels too."""
    request = studies.Request(preset="quick", source=photo, panels=["sizes", "interpolation"], seeds=[0])
    store, specs = ran(request, tmp_path)
    runs = {spec.identity for spec in specs}
    assert len(runs) < len(specs)
    text = STUDY.page(request, store, specs, {}).read_text()
    assert f"{len(runs)} of {len(runs)} finished" in text
