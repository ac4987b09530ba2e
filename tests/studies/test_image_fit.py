"""The image study: its plan, a picture from end to end, its page, what it refuses."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

from posenc import runner, studies
from posenc.models.field import Field
from posenc.report import watching
from posenc.store import Store
from posenc.studies import field_rows
from posenc.studies.field_rows import Budget, FieldRow
from posenc.studies.image_fit import STUDY, choosing, claims, comparing, fitting, held_out, presets, rows, work
from posenc.tasks import pictures
from posenc.training.loop import MOMENTS, train


@pytest.fixture
def photo(tmp_path):
    """A picture with an edge, a slope and fine stripes."""
    y, x = np.mgrid[0:24, 0:32]
    red, green = (x > 15) * 255, x * 8
    blue = 127 + 127 * np.sin(x * 2.5 + y)
    path = tmp_path / "photo.png"
    Image.fromarray(np.stack([red, green, blue], -1).astype(np.uint8)).save(path)
    return path


@pytest.fixture
def quick(monkeypatch):
    """The quick preset, every fit over in a moment and of a number of steps."""
    own = {
        "longest": 512,
        "parameters": 9000,
        "fit": {"steps": 24, "batch": 64},
        "photographs": 1,
        "held": {"longest": 128, "parameters": 9000, "steps": 16, "batch": 64, "photographs": 2},
        "sizes": {"steps": 8, "batch": 64, "parameters": (8000, 9000), "smaller": (8000,)},
    }
    small = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0, 1))
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    return small


def photographs(data: Path, names: list[str]) -> None:
    """A data folder with small pictures of these names, the first seven of them among the large ones."""
    (data / "photos").mkdir()
    for size, kept in ((256, names), (512, names[:7])):
        images = np.random.default_rng(size).integers(0, 255, (len(kept), 8, 8, 3), dtype=np.uint8)
        np.savez(data / "photos" / f"photos_{size}.npz", images=images, names=np.array(kept))


def ran(request, tmp_path):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, str(report)
    return store, units


def test_the_quick_plan_is_six_rows_in_three_sizes_by_three_seeds(photo, tmp_path):
    units = STUDY.plan(studies.Request(preset="quick", source=photo), Store(tmp_path / "runs"))
    smaller = [f"{label}@{size}, main sizes" for size in presets.SMALLER for label in rows.SIX]
    assert [unit.scheme for unit in units[::3]] == [*rows.SIX, *smaller]
    assert len(units) == 3 * 18
    one = STUDY.plan(studies.Request(preset="quick", source=photo, schemes=["dense"]), Store(tmp_path / "runs"))
    assert {unit.setting for unit in one} == {"main"}


def test_a_row_asked_for_among_the_sizes_has_those_of_the_panel(photo, tmp_path):
    def labels(*panels):
        request = studies.Request(preset="quick", source=photo, panels=panels, schemes=["dense"], seeds=[0])
        return [unit.scheme for unit in STUDY.plan(request, Store(tmp_path / "runs"))]

    assert labels("sizes") == [f"dense@{size}, main sizes" for size in presets.CROSSING]
    assert labels("sizes", "fit") == ["dense"]
    assert labels("interpolation") == ["dense, main sizes"]


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("label", [name for name in field_rows.NAMES if name not in ("dense", "hash")])
def test_rows_are_about_as_large_as_they_may_be(label, axes):
    budget = Budget(axes, 3, 60_000, 64)
    field = field_rows.row(label, budget).field()
    assert isinstance(field, Field)
    assert 0.5 * 60_000 < field.parameter_count <= 60_000
    assert field.scheme.claims.axes == axes


@pytest.mark.parametrize("label", ["dense", "hash", "multires"])
@pytest.mark.parametrize("finest", [64, 512])
def test_grids_meet_their_budget_and_are_no_finer_than_allowed(label, finest):
    for parameters in (15_000, 60_000, 1_000_000):
        row = field_rows.row(label, Budget(2, 3, parameters, finest))
        assert 0.75 * parameters < row.field().parameter_count <= parameters
        assert max(row.options.get("resolutions", [row.options.get("resolution")])) <= finest


def test_scales_are_named_or_follow_the_picture():
    budget = Budget(2, 3, 60_000, 64, released=8.0)
    found = {label: field_rows.row(label, budget).options["sigma"] for label in ("posenc", "posenc-32", "gaussian-5")}
    assert found == {"posenc": 8.0, "posenc-32": 32.0, "gaussian-5": 5.0}
    with pytest.raises(ValueError, match=r"'posenc-x' should name posenc by its scale, as posenc-10; 'x' is no number"):
        field_rows.row("posenc-x", budget)


def test_rates_are_those_of_the_authors_and_the_rest_is_shared():
    budget, own = Budget(2, 3, 60_000, 64), {"steps": 8, "batch": 64}
    found = {
        label: rows.training(label, rows.row(label, budget), own) for label in (*rows.MAPPINGS, "siren", "none@15000")
    }
    rates = {label: training.lr for label, training in found.items()}
    assert rates["none"] == rates["basic"] == rates["multires"] == rates["dense"] == rates["none@15000"] == 1e-2
    assert rates["posenc"] == rates["gaussian-10"] == 1e-3
    assert rates["siren"] == 1e-4
    assert all((each.betas, each.eps, each.batch) == ((0.9, 0.99), 1e-15, 64) for each in found.values())


def test_rows_that_nobody_has_are_refused_with_the_nearest():
    budget = Budget(2, 3, 60_000, 64)
    with pytest.raises(ValueError, match=r"no encoding 'multiress'\. Did you mean multires"):
        field_rows.row("multiress", budget)
    with pytest.raises(ValueError, match="'x' is no number"):
        field_rows.row("gaussian-x", budget)
    with pytest.raises(ValueError, match=r"multires@60000; got 'many'"):
        rows.row("multires@many", budget)
    with pytest.raises(ValueError, match="the row 'RoPE' cannot be built"):
        field_rows.row("RoPE", budget)
    with pytest.raises(ValueError, match="100 are allowed"):
        field_rows.row("gaussian-10", budget._replace(parameters=100))
    assert field_rows.row("SIREN(dim=32)", budget).field().scheme.out_dim == 32


def test_a_row_survives_its_way_through_json():
    row = field_rows.row("multires", Budget(2, 3, 60_000, 64))
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(row)), FieldRow)
    assert again.field().parameter_count == row.field().parameter_count


def test_a_picture_is_learned_and_shown(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, panels=list(STUDY.plans))
    store, units = ran(request, tmp_path)
    found = STUDY.found(request, store, units)
    reached = comparing.reached(found, "main")
    assert set(reached) == set(rows.SIX)
    first = {row["scheme"]: row["value"] for unit in units if unit.setting == "main" and unit.seed == 0
             for row in store.read(unit.key).curves if row["metric"] == "psnr" and row["epoch"] == 0}  # fmt: skip
    assert all(reached[label] > first[label] + 1 for label in ("multires", "dense", "gaussian-10"))
    arrays = found.arrays("main", "multires")
    assert arrays["picture"].shape == (24, 32, 3)
    assert len(arrays["film"]) > 3
    page = STUDY.page(request, store, units, {})
    text = page.read_text()
    for title in ("How near", "Held out", "How fast the features should turn", "PSNR against parameters",
                  "Between the vertices", "Moved by 100 pictures", "Collisions"):  # fmt: skip
        assert f">{title}</h2>" in text
    for claim in claims.CLAIMS:
        assert f">{claim.panel}</a>" in text  # each says where it is shown, and leads there
    assert text.count("data:image/") >= 18
    assert "https://" not in text
    assert STUDY.verdict(request, store, units)[0].startswith("multires comes nearest") or reached
    assert all(watching.newest(store.root, unit.key).exists() for unit in units)  # also when all are done


def test_of_several_photographs_the_first_is_shown_in_full(quick, tmp_path, monkeypatch):
    several = dataclasses.replace(
        quick, own=quick.own | {"photographs": 3, "held": quick.own["held"] | {"photographs": 6}}, seeds=(0,)
    )
    monkeypatch.setitem(presets.PRESETS, "quick", several)
    photographs(tmp_path, [*choosing.CHOSEN_ON, "moon", "page"])
    labels = ["multires", "gaussian-5", "gaussian-10", "gaussian-50", "none"]
    request = studies.Request(preset="quick", data=tmp_path, panels=["fit", "held-out", "sigma"], schemes=labels)
    store, units = ran(request, tmp_path)
    text = STUDY.page(request, store, units, {}).read_text()
    assert text.count(">How near</h2>") == text.count(">While it trains</h2>") == 1
    assert "Of the photographs that are fitted, astronaut, chelsea and coffee had a part in choosing" in text
    assert "in the mean of 3 pictures" in STUDY.verdict(request, store, units)[0]
    found = STUDY.found(request, store, units)
    table, strips = fitting.each_photograph(found, ["astronaut", "chelsea", "coffee"]).blocks
    assert table.columns[-3:] == ("astronaut", "chelsea", "coffee")
    assert {row[0] for row in table.rows} == set(labels)
    assert [picture.title for picture in strips.pictures] == ["chelsea", "coffee"]
    (panel,) = held_out.sigma(found)
    assert [row[0] for row in panel.blocks[-2].rows] == list(choosing.CHOSEN_ON)  # and on no other


def test_what_is_stored_of_a_fit_is_what_the_field_says(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["dense"], seeds=[3])
    store, (unit,) = ran(request, tmp_path)
    fitted = work.Fitted(unit, store.root, None)
    fitted.field.load_state_dict(store.weights(unit.key))
    said, truth = fitted.at(pictures.scored(fitted.picture.shape, "all").reshape(-1))
    assert pictures.psnr(said.detach(), truth) == pytest.approx(store.read(unit.key).metrics["psnr"], abs=1e-6)
    assert (truth.reshape(24, 32, 3).numpy() * 255 == pictures.read(photo)).all()


def test_levels_open_by_the_step_and_a_resumed_fit_ends_the_same(quick, tmp_path):
    photo = tmp_path / "wide.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 96), dtype=np.uint8)).save(photo)
    request = studies.Request(
        preset="quick", source=photo, panels=["held-out"], schemes=["multires-coarse-to-fine"], seeds=[0]
    )
    store = Store(tmp_path / "runs")
    (unit,) = STUDY.plan(request, store)

    def fit(stop_after: int, folder: Path | None = None) -> work.Fitted:
        def report(step: int, *_: object) -> None:
            if step >= stop_after:
                raise InterruptedError

        fitted = work.Fitted(unit, store.root, folder)
        with contextlib.suppress(InterruptedError):
            train(fitted.fit, fitted.training, seed=0, workdir=folder, report=report, checkpoint_steps=1)
        return fitted

    first, early, whole = (fit(stop).field.state_dict() for stop in (0, 2, 99))
    rows_of_level = [level.rows for level in fit(0).field.scheme.levels]
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
    assert resumed.opened is None
    assert all(torch.equal(value, whole[name]) for name, value in resumed.field.state_dict().items())


def test_rows_that_cannot_open_their_levels_are_refused(quick, photo, tmp_path):
    store = Store(tmp_path / "runs")
    limited = dataclasses.replace(quick, own=quick.own | {"fit": {"seconds": 1.0}})
    with pytest.raises(ValueError, match="'multires-coarse-to-fine' opens its levels by the step, and this fit is lim"):
        rows.training("multires-coarse-to-fine", rows.row("multires", Budget(2, 3, 9000, 16)), limited.own["fit"])
    request = studies.Request(preset="quick", source=photo, panels=["held-out"], schemes=["dense-coarse-to-fine"])
    with pytest.raises(ValueError, match="'dense-coarse-to-fine' should be a grid of several levels"):
        STUDY.plan(request, store)


def test_of_a_large_picture_a_part_is_scored_and_waves_stay_small(tmp_path, monkeypatch):
    y, x = np.mgrid[0:4000, 0:5000]
    path = tmp_path / "large.png"
    Image.fromarray(((x + y) // 40).astype(np.uint8)).save(path, compress_level=1)
    own = presets.PRESETS["standard"].own | {"parameters": 5000, "fit": {"steps": 3, "batch": 2**12}}
    monkeypatch.setitem(presets.PRESETS, "standard", dataclasses.replace(presets.PRESETS["standard"], own=own))
    request = studies.Request(preset="standard", source=path, panels=["fit"], schemes=["dense"], seeds=[0])
    store, units = ran(request, tmp_path)
    found = store.read(units[0].key).metrics
    assert found["parameters"] > 300_000  # 5,000 for each 512 x 512 pixels
    assert 5 < found["psnr"] < 40
    (waves,) = STUDY.plan(dataclasses.replace(request, schemes=["gaussian-10"]), store)
    assert 18_000 < msgspec.convert(waves.settings["row"], FieldRow).field().parameter_count <= 20_000
    assert max(store.arrays(units[0].key)["picture"].shape) <= work.KEPT
    told, _ = STUDY.announce(request, store, [waves])
    assert "Of the picture of 5,000 x 4,000 pixels 1,048,576 are scored" in told
    spent = STUDY.estimate(units, store, 1).seconds
    assert 0 < spent < 120


def test_seeds_differ_and_runs_repeat(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["multires"], seeds=[0, 1])
    store, units = ran(request, tmp_path / "a")
    again, _ = ran(request, tmp_path / "b")
    numbers = [[s.read(unit.key).metrics["psnr"] for unit in units] for s in (store, again)]
    assert numbers[0] == numbers[1]
    assert numbers[0][0] != numbers[0][1]


def test_a_deep_grey_picture_with_alpha(quick, tmp_path):
    path = tmp_path / "grey.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 8, 2), dtype=np.uint8), "LA").save(path)
    request = studies.Request(preset="quick", source=path, schemes=["dense"], seeds=[0])
    store, units = ran(request, tmp_path)
    assert store.arrays(units[0].key)["picture"].shape == (9, 8, 2)
    assert STUDY.page(request, store, units, {}).exists()


def test_without_a_picture_it_says_how_to_give_one(tmp_path):
    with pytest.raises(ValueError, match=r"this study needs a picture: posenc run image-fit photo\.jpg"):
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


def test_what_is_left_to_watch_is_announced(quick, photo, tmp_path, monkeypatch):
    request, store = studies.Request(preset="quick", source=photo, schemes=["dense"]), Store(tmp_path / "runs")
    units = STUDY.plan(request, store)
    (line,) = STUDY.announce(request, store, units)
    live = store.root / "pages" / "image-fit-live.html"
    assert str(live) in line
    assert f"now/{units[0].key}.png" in live.read_text()
    first, second, *_ = units
    watching.keep_newest(store.root, first.key, np.zeros((2, 2, 3), np.uint8))
    monkeypatch.setattr(Store, "finished", lambda store, key: key == first.key)
    STUDY.announce(request, store, units)
    assert f"now/{second.key}.png" in live.read_text()  # what trains before what is done


def test_an_estimate_is_made_before_a_long_preset(photo, tmp_path):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(studies.Request(preset="standard", source=photo, panels=["fit"]), store)
    estimate = STUDY.estimate(units, store, 2)
    assert estimate.runs == 18  # nothing is chosen on a single picture, so that one sigma is enough
    assert 18 * 120 / 2 < estimate.seconds < 1.1 * 18 * 120 / 2
    assert estimate.memory_bytes > 2 * 2**29  # two processes, and what they train


@pytest.mark.parametrize("preset", presets.PRESETS.values(), ids=list(presets.PRESETS))
def test_smaller_rows_train_until_a_moment_at_which_the_others_are_looked_at(preset):
    assert preset.own["sizes"]["seconds"] / preset.own["fit"]["seconds"] in MOMENTS


def test_units_that_are_alike_are_timed_once(photo, tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(work, "seconds_of", lambda unit, root: asked.append(unit.scheme) or 5.0)
    store = Store(tmp_path / "runs")
    units = STUDY.plan(studies.Request(preset="standard", source=photo, panels=["held-out"]), store)
    assert len(units) == 3 * len(rows.MAPPINGS)
    assert STUDY.estimate(units, store, 2).seconds == pytest.approx(5.0 * len(units) / 2)
    assert len(asked) == len(rows.MAPPINGS) - 1  # a step takes as long whichever levels are open


def test_the_standard_preset_chooses_sigma_on_four_and_reports_on_the_others(tmp_path):
    names = [*choosing.CHOSEN_ON, *(f"other {n}" for n in range(6))]
    photographs(tmp_path, names)
    request = studies.Request(preset="standard", data=tmp_path, panels=["fit", "held-out", "sigma"])
    cells: dict[str, set[str]] = {}
    for unit in STUDY.plan(request, Store(tmp_path / "runs")):
        cells.setdefault(unit.setting, set()).add(unit.scheme.removesuffix(f", {unit.setting}"))
    assert len(cells) == 7 + 10
    chosen_among = {*rows.SCALES, rows.AUTHORS, *rows.NEAR}
    for name in names:
        reported = {*rows.MAPPINGS, *chosen_among} - {"posenc"}
        mappings = {*rows.OF_SIGMA, *rows.SCALES} if name in choosing.CHOSEN_ON else reported
        assert cells[name + choosing.HELD] == mappings
    assert all(cells[name] == {*rows.SIX, *rows.NEAR} for name in names[:7])
    quick = STUDY.plan(dataclasses.replace(request, preset="quick", panels=["held-out"]), Store(tmp_path / "quick"))
    assert {unit.setting for unit in quick} == {"astronaut held-out", "chelsea held-out"}


def test_a_field_that_fits_into_no_memory_is_refused(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["DenseGrid(axes=2, resolution=40000)"])
    with pytest.raises(ValueError, match=r"training DenseGrid\(.*\).* needs \d+\.\d\d GiB of memory, and .* are free"):
        STUDY.plan(request, Store(tmp_path / "runs"))


def test_how_much_sooner_is_told_from_limited_runs(photo, tmp_path, monkeypatch):
    own = presets.PRESETS["quick"].own | {"fit": {"seconds": 0.3}, "parameters": 9000}
    monkeypatch.setitem(presets.PRESETS, "quick", dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0,)))
    request = studies.Request(preset="quick", source=photo, schemes=["multires", "gaussian-10"])
    store, units = ran(request, tmp_path)
    found = STUDY.found(request, store, units)
    panel = fitting.sooner(found)
    (line,) = panel.blocks[0].rows
    assert line[:2] == ("main", "gaussian-10")
    assert "0.3 s" in line[2]
    assert "at least 5 x was aimed for: " in panel.blocks[0].note
    last = store.read(units[0].key).metrics["psnr@1"]
    assert last == next(row["value"] for row in reversed(found.curves) if row["metric"] == "psnr"
                        and row["unit"] == units[0].key)  # fmt: skip
