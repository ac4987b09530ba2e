"""The image study: its plan, a picture from end to end, its page, what it refuses."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from PIL import Image

from posenc import runner, studies
from posenc.models.field import Field
from posenc.report.ledger import judge_claim
from posenc.store import Store
from posenc.studies import field_rows
from posenc.studies.field_rows import Budget, FieldRow
from posenc.studies.image_fit import STUDY, choosing, claims, drawing, presets, rows, work
from posenc.tasks import pictures


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
        "sizes": {"steps": 8, "batch": 64, "parameters": (8000, 9000)},
    }
    small = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0, 1))
    monkeypatch.setitem(presets.PRESETS, "quick", small)
    return small


def ran(request, tmp_path):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, str(report)
    return store, units


def test_the_quick_plan_is_six_rows_by_three_seeds(photo, tmp_path):
    units = STUDY.plan(studies.Request(preset="quick", source=photo), Store(tmp_path / "runs"))
    assert [unit.scheme for unit in units[::3]] == list(rows.SIX)
    assert len(units) == 18
    assert {unit.setting for unit in units} == {"main"}


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("label", [name for name in field_rows.NAMES if name not in ("dense", "hash")])
def test_rows_are_about_as_large_as_they_may_be(label, axes):
    budget = Budget(axes, 3, 60_000, 64)
    field = field_rows.row(label, budget).field()
    assert isinstance(field, Field)
    assert 0.5 * 60_000 < field.parameter_count <= 60_000
    assert field.scheme.claims.axes == axes


@pytest.mark.parametrize("label", ["dense", "hash"])
def test_grids_of_one_level_meet_their_budget(label):
    for parameters in (5_000, 60_000, 1_000_000):
        count = field_rows.row(label, Budget(2, 3, parameters, 512)).field().parameter_count
        assert 0.8 * parameters < count <= parameters


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
    reached = drawing.reached(found, "main")
    assert set(reached) == set(rows.SIX)
    first = {row["scheme"]: row["value"] for unit in units if unit.setting == "main" and unit.seed == 0
             for row in store.read(unit.key).curves if row["metric"] == "psnr" and row["epoch"] == 0}  # fmt: skip
    assert all(reached[label] > first[label] + 1 for label in ("multires", "dense", "gaussian-10"))
    arrays = found.arrays("main", "multires")
    assert arrays["picture"].shape == (24, 32, 3)
    assert len(arrays["film"]) > 3
    page = STUDY.page(request, store, units, {})
    text = page.read_text()
    for title in ("How near", "Held out", "How fast the features should turn", "Parameters", "Between the vertices",
                  "Moved by 100 pictures", "Collisions"):  # fmt: skip
        assert title in text
    assert text.count("data:image/") >= 18
    assert "https://" not in text
    assert STUDY.verdict(request, store, units)[0].startswith("multires comes nearest") or reached
    assert not list((store.root / "work").glob("*/now.png"))


def test_what_is_stored_of_a_fit_is_what_the_field_says(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["dense"], seeds=[3])
    store, (unit,) = ran(request, tmp_path)
    fitted = work.Fitted(unit, store.root, None)
    fitted.field.load_state_dict(store.weights(unit.key))
    said, truth = fitted.at(pictures.scored(fitted.picture.shape, "all").reshape(-1))
    assert pictures.psnr(said.detach(), truth) == pytest.approx(store.read(unit.key).metrics["psnr"], abs=1e-6)
    assert (truth.reshape(24, 32, 3).numpy() * 255 == pictures.read(photo)).all()


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


def test_what_is_left_to_watch_is_announced(quick, photo, tmp_path):
    request, store = studies.Request(preset="quick", source=photo, schemes=["dense"]), Store(tmp_path / "runs")
    units = STUDY.plan(request, store)
    (line,) = STUDY.announce(request, store, units)
    live = store.root / "pages" / "image-fit-live.html"
    assert str(live) in line
    assert f"../work/{units[0].key}/now.png" in live.read_text()


def test_an_estimate_is_made_before_a_long_preset(photo, tmp_path):
    store = Store(tmp_path / "runs")
    units = STUDY.plan(studies.Request(preset="standard", source=photo, panels=["fit"]), store)
    estimate = STUDY.estimate(units, store, 2)
    assert estimate.runs == 24
    assert estimate.seconds == pytest.approx(24 * 1.2 * 120 / 2)
    assert estimate.memory_bytes > 2 * 2**29  # two processes, and what they train


def test_units_that_are_alike_are_timed_once(photo, tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(work, "seconds_of", lambda unit, root: asked.append(unit.scheme) or 5.0)
    store = Store(tmp_path / "runs")
    units = STUDY.plan(studies.Request(preset="standard", source=photo, panels=["held-out"]), store)
    assert len(units) == 3 * len(rows.MAPPINGS)
    assert STUDY.estimate(units, store, 2).seconds == pytest.approx(5.0 * len(units) / 2)
    assert len(asked) == len(rows.MAPPINGS)


def test_the_standard_preset_chooses_sigma_on_four_and_reports_on_the_others(tmp_path):
    names = [*choosing.CHOSEN_ON, *(f"other {n}" for n in range(6))]
    for size, count in ((256, 10), (512, 7)):
        folder = tmp_path / "photos"
        folder.mkdir(exist_ok=True)
        images = np.random.default_rng(size).integers(0, 255, (count, 8, 8, 3), dtype=np.uint8)
        np.savez(folder / f"photos_{size}.npz", images=images, names=np.array(names[:count]))
    request = studies.Request(preset="standard", data=tmp_path, panels=["fit", "held-out", "sigma"])
    cells: dict[str, set[str]] = {}
    for unit in STUDY.plan(request, Store(tmp_path / "runs")):
        cells.setdefault(unit.setting, set()).add(unit.scheme.removesuffix(f", {unit.setting}"))
    assert len(cells) == 7 + 10
    sigmas = set(rows.OF_SIGMA)
    for name in names:
        mappings = sigmas if name in choosing.CHOSEN_ON else {*rows.MAPPINGS, *rows.NEAR}
        assert cells[name + choosing.HELD] == mappings
    assert all(cells[name] == {*rows.SIX, *rows.NEAR} for name in names[:7])
    quick = STUDY.plan(dataclasses.replace(request, preset="quick", panels=["held-out"]), Store(tmp_path / "quick"))
    assert {unit.setting for unit in quick} == {"astronaut held-out", "chelsea held-out"}


def test_sigma_is_chosen_on_some_photographs_and_reported_on_others():
    def at(picture: str, **reached: float) -> list[dict]:
        return rows_of({name.replace("_", "-"): value for name, value in reached.items()}, f"{picture} held-out")

    on = at("astronaut", gaussian_5=24.0, gaussian_10=22.0) + at("coffee", gaussian_5=20.0, gaussian_10=21.0)
    others = at("moon", gaussian_5=20.0, gaussian_10=30.0, posenc=25.0) + at("page", gaussian_5=21.0, gaussian_10=30.0)
    chosen = choosing.choose(on + others)
    assert chosen.label == "gaussian-5"  # though 10 is better on those that are reported
    assert choosing.choose([*at("astronaut", gaussian_1=40.0), *at("coffee", gaussian_1=40.0), *on, *others]) == chosen
    assert chosen.on == ("astronaut held-out", "coffee held-out")
    assert chosen.reported == ("moon held-out", "page held-out")
    assert "gaussian-5: the best on pixels not learned, in the mean of astronaut, coffee" in chosen.words
    assert choosing.choose(on).label == rows.AUTHORS  # nothing is left to report on
    assert choosing.choose(on).reported == chosen.on
    assert choosing.choose(at("astronaut", gaussian_5=24.0) + others).label == rows.AUTHORS  # one alone is no choice
    assert choosing.choose(others).reported == chosen.reported
    order = next(claim for claim in claims.CLAIMS if claim.name.startswith("Gaussian above"))
    found = judge_claim(order, on + others)
    assert "not measured" in found.verdict
    first = next(reading for reading in found.readings if reading.quantity.says.startswith("gaussian - posenc"))
    assert first.estimate is not None
    assert first.estimate.mean == pytest.approx(20.0 - 25.0)


def test_a_field_that_fits_into_no_memory_is_refused(quick, photo, tmp_path):
    request = studies.Request(preset="quick", source=photo, schemes=["DenseGrid(axes=2, resolution=40000)"])
    with pytest.raises(ValueError, match=r"fitting DenseGrid\(.*\) needs \d+\.\d\d GiB of memory, and .* are free"):
        STUDY.plan(request, Store(tmp_path / "runs"))


def rows_of(table, setting="main"):
    end = "" if setting == "main" else f", {setting}"
    return [
        {"setting": setting, "scheme": label + end, "seed": seed, "metric": "psnr", "value": value + seed / 10}
        for label, value in table.items()
        for seed in range(3)
    ]


def test_the_time_to_a_height_is_interpolated():
    curve = {1.0: 10.0, 2.0: 20.0, 8.0: 30.0}
    assert drawing._crossing(curve, 20.0) == pytest.approx(2.0)
    assert drawing._crossing(curve, 25.0) == pytest.approx(4.0)
    assert drawing._crossing(curve, 9.0) == 1.0
    assert drawing._crossing(curve, 31.0) == float("inf")


def test_how_much_sooner_is_told_from_limited_runs(photo, tmp_path, monkeypatch):
    own = presets.PRESETS["quick"].own | {"fit": {"seconds": 0.3}, "parameters": 9000}
    monkeypatch.setitem(presets.PRESETS, "quick", dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0,)))
    request = studies.Request(preset="quick", source=photo, schemes=["multires", "gaussian-10"])
    store, units = ran(request, tmp_path)
    panel = drawing.sooner(STUDY.found(request, store, units), ["main"])
    (line,) = panel.blocks[0].rows
    assert line[:2] == ("main", "gaussian-10")
    assert "0.3 s" in line[2]


def test_claims_follow_the_numbers():
    grids, mends, invariant, order = claims.CLAIMS
    near = rows_of({"multires": 30.0, "hash": 25.0, "dense": 26.0, "gaussian-10": 22.0})
    assert judge_claim(grids, near).verdict == "not measured"
    held = rows_of({"multires": 20.0, "gaussian-10": 22.0}, "main held-out")
    assert judge_claim(grids, near + held).verdict == "not upheld"
    moved = rows_of({"gaussian-10": 22.01, "none": 10.0}, "main shifted")
    plain = rows_of({"none": 15.0})
    assert judge_claim(invariant, near + moved + plain).verdict == "upheld"
    assert judge_claim(mends, near).verdict == judge_claim(order, near).verdict == "not measured"
