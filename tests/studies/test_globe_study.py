"""The globe study: its rows, its units from plan to page, with and without an Earth, and its pictures."""

import dataclasses
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from posenc import runner, studies
from posenc.store import Store
from posenc.studies import globe
from posenc.studies.globe import STUDY, drawing, maps, presets, rows, work
from posenc.tasks import globe as task
from posenc.training.loop import TrainingConfig

BUDGET = {"outputs": 1, "parameters": 2**14, "detail": 1.0}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    """The quick preset made tiny; the same rows, settings and panels."""
    own = {
        "parameters": 2**12,
        "detail": 1.0,
        "degree": 4,
        "power": 2.0,
        "places": {"train": 400, "held": 200, "band": 10},
        "training": TrainingConfig(epochs=2, batch=200, lr=1e-2, optimiser="adam"),
    }
    found = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0, 1))
    monkeypatch.setitem(presets.PRESETS, "quick", found)
    assert STUDY.scales is presets.PRESETS
    return found


@pytest.fixture
def earth(tmp_path: Path) -> Path:
    """A folder of data: a country around the north pole, 48 of 20 x 20 degrees further south, sea between them."""
    land, country = np.zeros((360, 720), np.uint8), np.zeros((360, 720), np.int16)
    land[:40], country[:40] = 255, 99
    for number in range(48):
        row, column = 100 + number // 16 * 80, number % 16 * 45
        land[row : row + 40, column : column + 40], country[row : row + 40, column : column + 40] = 255, 100 + number
    folder = tmp_path / "data"
    (folder / "geo").mkdir(parents=True)
    np.savez(folder / task.FILE, land=land, country_iso=country)
    return folder


# rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", rows.NAMES)
def test_rows_have_about_alike_many_numbers_and_read_every_place(label: str) -> None:
    row = rows.row(label, **BUDGET)
    field = row.field.field()
    assert 0.97 * 2**14 < field.parameter_count <= 2**14
    lon = torch.tensor([-180.0, 180.0, 0.0, 12.3, 180.0], dtype=torch.float64)
    lat = torch.tensor([0.0, 90.0, -90.0, 45.6, -90.0], dtype=torch.float64)
    found = field(task.views(lon, lat)[row.view].coords.float())
    assert found.shape == (5, 1)
    assert bool(found.isfinite().all())


def _jump(label: str, meridian: float) -> float:
    row = rows.row(label, **BUDGET)
    field = row.field.field()
    if isinstance(getattr(field.scheme, "table", None), torch.nn.Parameter):
        torch.nn.init.normal_(field.scheme.table)  # the first rows are too small to see a seam
    with torch.no_grad():
        return task.jump(field(task.views(*task.beside(meridian))[row.view].coords.float()))


def test_the_rows_without_a_seam_are_those_that_say_so() -> None:
    """Untrained networks: what jumps at the date line is the encoding."""
    jumps = {label: _jump(label, task.DATE_LINE) for label in rows.NAMES}
    whole = {label for label, jump in jumps.items() if jump < 0.001}
    assert whole == {"hash-wrap", "xyz", "fourier-xyz", "hash-xyz", "sphere-c-plus-whole", "harmonics"}
    assert min(jumps[label] for label in rows.NAMES if label not in whole) > 0.01
    assert max(_jump(label, task.ELSEWHERE) for label in rows.NAMES) < 0.001


def test_every_row_is_of_one_kind() -> None:
    assert len(rows.NAMES) == len(set(rows.NAMES)) == 19
    known = {name for pair in drawing.COUNTERPARTS for name in pair} | set(presets.SHOWN)
    assert known <= set(rows.NAMES)
    assert all(better in rows.SPHERICAL and worse in rows.PLANAR for better, worse in drawing.COUNTERPARTS)


def test_a_scheme_as_text_is_a_row() -> None:
    row = rows.row("SphereC(scales=4)", **BUDGET)
    assert (row.view, row.field.scheme, row.field.options) == ("lonlat", "SphereC", {"scales": 4})
    assert rows.row("FourierFeatures(dim=8, axes=3)", **BUDGET).view == "xyz"
    assert rows.row("HARMONICS", **BUDGET) == rows.row("harmonics", **BUDGET)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("harmonic", "Did you mean harmonics"),
        ("SphereC(scale=4)", r"'SphereC\(scale=4\)' cannot be built: SphereC: .* Did you mean scales"),
        ("RoPE(head_dim=8)", r"RoPE acts at k, q"),
        ("Sinusoid(dim=8, axes=1)", r"it reads 1 axes, and a place has 2, or 3 as a vector"),
        (
            "FourierFeatures(dim=40000, axes=2)",
            r"cannot be built: the smallest field of this kind has 40005 parameters",
        ),
    ],
)
def test_what_is_no_row_is_said_in_a_sentence(label: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rows.row(label, **BUDGET)


def test_detail_makes_encodings_finer_alike() -> None:
    coarse, fine = (
        {label: rows.row(label, outputs=1, parameters=2**14, detail=d).field.options for label in rows.NAMES}
        for d in (1.0, 2.0)
    )
    assert fine["fourier"]["sigma"] == 2 * coarse["fourier"]["sigma"]
    assert fine["sphere-m"]["r_min"] == coarse["sphere-m"]["r_min"] / 2
    assert fine["hash-xyz"]["resolutions"][-1] == 2 * coarse["hash-xyz"]["resolutions"][-1]
    assert (coarse["harmonics"], fine["harmonics"]) == ({"degree": rows.DEGREE}, {"degree": 15})
    whole = fine["sphere-c-plus-whole"]
    assert [1 / (whole["r_min"] * 2**s) for s in range(whole["scales"])] == [16, 8, 4, 2, 1]


# from plan to page ---------------------------------------------------------------------------------------------------


def run(request: studies.Request, store: Store) -> list:
    units = STUDY.plan(request, store)
    report = runner.run(units, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return units


def test_without_an_earth_the_field_is_run_and_the_page_says_so(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["none", "harmonics", "fourier"], seeds=[0])
    units = run(request, store)
    assert {unit.setting for unit in units} == {"field"}
    metrics = store.read(units[0].key).metrics
    assert metrics.keys() >= {"rmse", "rmse_poles", "rmse_date_line", "jump_date_line", "jump_elsewhere", "parameters"}
    assert not metrics.keys() & {"accuracy", "loss"}
    page = STUDY.page(request, store, units, {}).read_text()
    assert "Natural Earth was not given" in page
    assert "so only the field was run" in " ".join(STUDY.verdict(request, store, units))
    for title in ("Scores by region", "Error by latitude", "Maps", "Across the date line", "The poles from above"):
        assert f"{title}: a smooth random field" in page
    assert "harmonics below fourier in rmse_poles" in page
    assert "Not measured" in page  # the hash grids were not asked for
    field = work.target_of(tmp_path, units[0])
    assert isinstance(field, task.Field)
    assert field.share(rows.DEGREE) == 1  # the small preset's field is no finer
    assert "100% of the variance lies in the span of what the row harmonics reads" in page
    assert "harmonics below fourier in jump_date_line" in page
    folder_without = studies.Request(preset="quick", data=tmp_path)
    assert {unit.setting for unit in STUDY.plan(folder_without, store)} == {"field"}


def test_with_an_earth_all_three_questions_are_asked(tmp_path: Path, earth: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz", "none"], seeds=[3], data=earth)
    units = run(request, store)
    assert [(unit.setting, unit.scheme) for unit in units[::2]] == [
        ("field", "xyz, field"),
        ("land", "xyz, land"),
        ("countries", "xyz, countries"),
    ]
    for unit in units[2:]:
        found = store.read(unit.key).metrics
        assert found.keys() >= {"accuracy", "loss", "accuracy_poles", "accuracy_date_line", "jump_date_line"}
        assert 0 <= found["accuracy"] <= 1
    bands = store.arrays(units[4].key)["error_by_latitude"]
    assert bands.shape == (18,)
    assert np.isnan(bands).any(), "no country reaches everywhere"
    assert not np.isnan(store.arrays(units[2].key)["error_by_latitude"]).any(), "land or sea is asked everywhere"
    page = STUDY.page(request, store, units, {}).read_text()
    assert "Natural Earth was not given" not in page
    assert page.index("Maps: a smooth random field") < page.index("Maps: land or sea") < page.index("Maps: the 40")
    assert STUDY.stored(request, store)


def test_a_store_does_not_need_the_folder_of_data_again(tmp_path: Path, earth: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    (unit,) = [
        unit
        for unit in STUDY.plan(studies.Request(preset="quick", schemes=["xyz"], seeds=[0], data=earth), store)
        if unit.setting == "land"
    ]
    (earth / task.FILE).unlink()
    outcome = work.train_unit(unit, store.workdir(unit.key), lambda *_: None)
    assert outcome.metrics["accuracy"] > 0.3
    with pytest.raises(ValueError, match="is not there; it holds Natural Earth"):
        work.target_of(tmp_path, unit)


def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path: Path, small: presets.Preset) -> None:
    (unit,) = STUDY.plan(studies.Request(preset="quick", schemes=["hash"], seeds=[0]), Store(tmp_path))

    def stop(step: int, *_: object) -> None:
        raise KeyboardInterrupt

    whole = work.train_unit(unit, tmp_path / "units" / "a", lambda *_: None)
    trained = work.Trained(unit, tmp_path)
    stopped = tmp_path / "units" / "b"
    stopped.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        work.train(trained.fit(), trained.training, seed=0, workdir=stopped, report=stop, checkpoint_seconds=0.0)
    again = work.train_unit(unit, stopped, lambda *_: None)
    assert again.metrics == whole.metrics
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_seeds_draw_their_own_places_and_rows_of_a_seed_share_them(tmp_path: Path, small: presets.Preset) -> None:
    units = STUDY.plan(studies.Request(preset="quick", schemes=["xyz", "none"]), Store(tmp_path))
    lon = {(unit.scheme, unit.seed): work.Trained(unit, tmp_path).samples.train.lon for unit in units}
    assert torch.equal(lon["xyz, field", 0], lon["none, field", 0])
    assert not torch.equal(lon["xyz, field", 0], lon["xyz, field", 1])


def test_seeds_have_their_own_field_and_none_the_one_that_was_chosen_by(tmp_path: Path, small: presets.Preset) -> None:
    units = STUDY.plan(studies.Request(preset="quick", schemes=["xyz", "none"]), Store(tmp_path))
    fields = {(unit.scheme, unit.seed): work.target_of(tmp_path, unit) for unit in units}
    chosen_by = task.random_field(4, 2.0, seed=0)
    lon, lat = task.beside(task.ELSEWHERE)
    told = {cell: field.at(lon, lat) for cell, field in fields.items()}
    assert torch.equal(told["xyz, field", 0], told["none, field", 0])
    assert not torch.equal(told["xyz, field", 0], told["xyz, field", 1])
    assert not any(torch.equal(each, chosen_by.at(lon, lat)) for each in told.values())


def test_the_estimate_is_of_this_machine(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path)
    units = STUDY.plan(studies.Request(preset="quick", schemes=["none"], seeds=[0]), store)
    threads = torch.get_num_threads()
    found = STUDY.estimate(units, store, 2)
    assert 0 < found.seconds < 60
    assert torch.get_num_threads() == threads


def test_an_error_by_latitude_is_the_mean_of_north_and_south(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz"], seeds=[0])
    units = run(request, store)
    errors = store.arrays(units[0].key)["error_by_latitude"]
    bands = drawing._bands(STUDY.found(request, store, units), "field", "xyz")
    assert list(bands) == [5.0, 15.0, 25.0, 35.0, 45.0, 55.0, 65.0, 75.0, 85.0]
    assert bands[5.0][0] == pytest.approx(errors[8:10].mean())
    assert bands[85.0][0] == pytest.approx((errors[0] + errors[17]) / 2)


def test_truths_are_those_of_the_seeds_that_are_shown(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    parts = [run(studies.Request(preset="quick", schemes=[s], seeds=[n]), store) for s, n in (("hash", 0), ("none", 1))]
    page = STUDY.page(studies.Request(preset="quick"), store, [unit for part in parts for unit in part], {}).read_text()
    assert ">The truth of seed 0<" in page
    assert ">The truth of seed 1<" in page


# pictures ------------------------------------------------------------------------------------------------------------


def test_polar_views_have_the_pole_in_the_middle_and_the_date_line_above_it() -> None:
    for region, pole in (("north", 1), ("south", -1)):
        lon, lat = maps.grid(region)
        assert float((lat * pole).nan_to_num(-99).max()) > 89
        assert float((lat * pole).nan_to_num(99).min()) == pytest.approx(60, abs=0.5)
        middle = maps.ACROSS // 2
        assert abs(float(lon[0, middle])) > 178
        assert abs(float(lon[-1, middle])) < 2
        assert float(lon[middle, -1]) == pytest.approx(90 * pole, abs=1)
        assert not lon[0, 0].isfinite()
        # equal areas: half the disc's area lies within a half of the cap's
        far = 90 - (lat * pole)
        half = math.degrees(math.acos((1 + math.cos(math.radians(30))) / 2))
        assert float((far[far.isfinite()] < half).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_the_strip_runs_across_the_date_line() -> None:
    lon, lat = maps.grid("strip")
    assert (lon[0] > 0).tolist() == [True] * 30 + [False] * 30
    assert lon[0, 29:31].tolist() == [179.5, -179.5]
    assert lat[:, 0].tolist()[:2] == [59.5, 58.5]


def test_pictures_show_the_truth_and_errors_against_it() -> None:
    field = task.random_field(3, 2.0, seed=0)
    places = maps.grid("north")
    told = maps.at(field.at, places)
    assert float(maps.wrong(field, told, places).nan_to_num(0).abs().max()) < 1e-12
    pixels = maps.coloured(field, torch.tensor([[-2.5, 0.0, 2.5, torch.nan]]))
    assert pixels[0, :, 3].tolist() == [1, 1, 1, 0]
    assert pixels[0, 0, 2] > pixels[0, 0, 0], "low is blue"
    assert pixels[0, 2, 0] > pixels[0, 2, 2], "high is red"
    cells = torch.zeros(360, 720, dtype=torch.int64)
    cells[:, 360:], cells[200:] = 1, -1
    labels = task.Labels(cells, ("a", "b"))
    whole = maps.grid("whole")
    wrong = maps.wrong(labels, torch.tensor([0.8, 0.2]).expand(*whole[0].shape, 2).double(), whole)
    assert wrong[0, 0].item() == pytest.approx(0.2)
    assert wrong[0, -1].item() == pytest.approx(0.8)
    assert wrong[-1].isnan().all()
    assert not maps.true_colours(labels, whole)[-1, :, 3].any()


def test_a_mean_over_a_flat_map_is_by_area() -> None:
    places = maps.grid("whole")
    error = (places[1].abs() > 60).double()
    assert maps._mean(error, places) == pytest.approx(1 - math.sin(math.radians(60)), abs=0.01)
    assert maps._mean(error, places, flat=False) == pytest.approx(1 / 3, abs=0.01)


def test_a_restored_field_is_the_trained_one(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path)
    (unit,) = run(studies.Request(preset="quick", schemes=["fourier"], seeds=[0]), store)
    again = work.restored(unit, store)
    with torch.no_grad():
        assert again.scores(again.samples.poles)["rmse"] == store.read(unit.key).metrics["rmse_poles"]


def test_settings_survive_their_way_through_json(small: presets.Preset, tmp_path: Path) -> None:
    (unit, *_) = STUDY.plan(studies.Request(preset="quick", schemes=["hash-wrap"]), Store(tmp_path))
    back = msgspec.json.decode(msgspec.json.encode(unit), type=type(unit))
    assert back.key == unit.key
    assert msgspec.convert(back.settings["row"], rows.GlobeRow).field.field().parameter_count <= 2**12


def test_every_panel_of_a_preset_is_drawn() -> None:
    assert set(presets.PANELS) == set(globe.PLANS)
    assert studies.find("globe") is STUDY
