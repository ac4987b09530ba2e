"""The globe study: its encodings, its runs from plan to page, with and without Natural Earth, and its map_plots."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import numpy as np
import pytest
import torch

from posenc.workbench import runner, studies
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.globe import STUDY, claims, execute, map_plots, plots, presets, settings, variants
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.training_run import restored
from posenc.workbench.tasks import globe as task
from posenc.workbench.training import loop
from posenc.workbench.training.loop import TrainingConfig

pytestmark = pytest.mark.bare

BUDGET = {"outputs": 1, "parameters": 2**14, "detail": 1.0}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.GlobePreset:
    """The quick preset made tiny; the same variants, conditions and panels."""
    tiny = dataclasses.replace(
        presets.PRESETS["quick"],
        seeds=(0, 1),
        parameters=2**13,
        degree=4,
        places=presets.PlaceCounts(train=400, held=200, band=10),
        training=TrainingConfig(epochs=2, batch=200, lr=1e-2, optimizer="adam"),
        limits=(),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", tiny)
    assert STUDY.presets is presets.PRESETS
    return tiny


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


# variants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", variants.VARIANTS)
def test_variants_have_about_the_same_number_of_parameters_and_read_every_place(label: str) -> None:
    encoding = variants.variant(label, **BUDGET)
    field = encoding.field.field()
    assert 0.97 * 2**14 < field.parameter_count <= 2**14
    lon = torch.tensor([-180.0, 180.0, 0.0, 12.3, 180.0], dtype=torch.float64)
    lat = torch.tensor([0.0, 90.0, -90.0, 45.6, -90.0], dtype=torch.float64)
    outputs = field(task.views(lon, lat)[encoding.view].coords.float())
    assert outputs.shape == (5, 1)
    assert bool(outputs.isfinite().all())


def _jump(label: str, meridian: float) -> float:
    encoding = variants.variant(label, **BUDGET)
    field = encoding.field.field()
    if isinstance(getattr(field.scheme, "table", None), torch.nn.Parameter):
        torch.nn.init.normal_(field.scheme.table)  # the initial tables are too small to see a seam
    with torch.no_grad():
        return task.seam_jump(field(task.views(*task.seam_places(meridian))[encoding.view].coords.float()))


def test_the_variants_without_a_seam_are_those_that_claim_it() -> None:
    """Untrained networks: a jump at the date line is due to the encoding."""
    jumps = {label: _jump(label, task.DATE_LINE) for label in variants.VARIANTS}
    whole = {label for label, jump in jumps.items() if jump < 0.001}
    assert whole == {"hash-wrap", "xyz", "fourier-xyz", "hash-xyz", "sphere-c-plus-whole", "harmonics"}
    assert min(jumps[label] for label in variants.VARIANTS if label not in whole) > 0.01
    assert max(_jump(label, task.ELSEWHERE) for label in variants.VARIANTS) < 0.001


def test_every_variant_is_of_one_kind() -> None:
    assert len(variants.VARIANTS) == len(set(variants.VARIANTS)) == 20
    known = {name for pair in claims.COUNTERPARTS for name in pair} | set(map_plots.MAPPED_ENCODINGS)
    assert known <= set(variants.VARIANTS)
    assert all(better in variants.SPHERICAL and worse in variants.PLANAR for better, worse in claims.COUNTERPARTS)


def test_a_panel_draws_all_of_a_few_encodings_and_otherwise_those_of_the_user_first() -> None:
    preferred = ("none", "fourier", "harmonics")
    assert variants.drawn(["geoclip", "none", "hash"], preferred) == ["none", "geoclip", "hash"]
    assert variants.drawn([*variants.VARIANTS, "SphereC(scales=4)"], preferred) == [
        "SphereC(scales=4)",
        "none",
        "fourier",
    ]
    assert variants.drawn(variants.VARIANTS, preferred) == list(preferred)


def test_a_scheme_as_text_is_a_variant() -> None:
    encoding = variants.variant("SphereC(scales=4)", **BUDGET)
    assert (encoding.view, encoding.field.scheme, encoding.field.options) == ("lonlat", "SphereC", {"scales": 4})
    assert variants.variant("FourierFeatures(dim=8, axes=3)", **BUDGET).view == "xyz"
    assert variants.variant("HARMONICS", **BUDGET) == variants.variant("harmonics", **BUDGET)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("harmonic", "Did you mean harmonics"),
        ("SphereC(scale=4)", r"'SphereC\(scale=4\)' cannot be built: SphereC: .* Did you mean scales"),
        ("RoPE(head_dim=8)", r"RoPE acts at k, q"),
        ("Sinusoid(dim=8, axes=1)", r"it reads 1 axis, and a place has 2, or 3 as a vector\. .* The views of this"),
        (
            "FourierFeatures(dim=40000, axes=2)",
            r"cannot be built: the smallest field of this kind has 40005 parameters",
        ),
    ],
)
def test_an_unknown_encoding_is_refused_in_a_sentence(label: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        variants.variant(label, **BUDGET)


def test_detail_makes_encodings_finer_alike() -> None:
    coarse, fine = (
        {
            label: variants.variant(label, outputs=1, parameters=2**14, detail=d).field.options
            for label in variants.VARIANTS
        }
        for d in (1.0, 2.0)
    )
    assert fine["fourier"]["sigma"] == 2 * coarse["fourier"]["sigma"]
    assert fine["sphere-m"]["r_min"] == coarse["sphere-m"]["r_min"] / 2
    assert fine["hash-xyz"]["resolutions"][-1] == 2 * coarse["hash-xyz"]["resolutions"][-1]
    assert (coarse["harmonics"], fine["harmonics"]) == ({"degree": variants.DEGREE}, {"degree": 15})
    whole = fine["sphere-c-plus-whole"]
    assert [1 / (whole["r_min"] * 2**s) for s in range(whole["scales"])] == [16, 8, 4, 2, 1]


# from plan to page ---------------------------------------------------------------------------------------------------


def run(request: studies.Request, store: Store) -> list:
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


@pytest.mark.full
def test_without_an_earth_the_field_is_run_and_the_page_says_so(tmp_path: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["none", "harmonics", "fourier"], seeds=[0])
    specs = run(request, store)
    assert {spec.condition for spec in specs} == {"field"}
    metrics = store.read(specs[0].identity).metrics
    assert metrics.keys() >= {"rmse", "rmse_poles", "rmse_date_line", "jump_date_line", "jump_elsewhere", "parameters"}
    assert not metrics.keys() & {"accuracy", "loss"}
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Land and countries were not run: they need Natural Earth" in page
    assert "Land and countries were not run" in " ".join(STUDY.verdict(request, store, specs))
    for title in ("Scores by region", "Error by latitude", "Prediction maps", "Date line maps", "Polar maps"):
        assert f"{title}: smooth random field" in page
    assert "harmonics below fourier in RMSE within 10° of a pole" in page
    assert "Not measured" in page  # the hash grids were not asked for
    field = execute.target_of(tmp_path, specs[0])
    assert isinstance(field, task.Field)
    assert field.variance_share(variants.DEGREE) == 1  # the small preset's field is no finer
    assert "the encoding harmonics represents 100% of the variance" in page
    assert "harmonics below fourier in jump across the date line" in page
    folder_without = studies.Request(preset="quick", data=tmp_path)
    assert {spec.condition for spec in STUDY.plan(folder_without, store)} == {"field"}


def test_with_an_earth_all_three_questions_are_asked(tmp_path: Path, earth: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz", "none"], seeds=[3], data=earth)
    specs = run(request, store)
    assert [(spec.condition, spec.variant) for spec in specs[::2]] == [
        ("field", "xyz"),
        ("land", "xyz"),
        ("countries", "xyz"),
    ]
    for spec in specs[2:]:
        metrics = store.read(spec.identity).metrics
        assert metrics.keys() >= {"accuracy", "loss", "accuracy_poles", "accuracy_date_line", "jump_date_line"}
        assert 0 <= metrics["accuracy"] <= 1
    bands = store.arrays(specs[4].identity)["error_by_latitude"]
    assert bands.shape == (18,)
    assert np.isnan(bands).any(), "no country reaches everywhere"
    assert not np.isnan(store.arrays(specs[2].identity)["error_by_latitude"]).any(), "land or sea is asked everywhere"
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "they need Natural Earth" not in page
    assert page.index("maps: smooth random field") < page.index("maps: land or sea") < page.index("maps: 40 largest")
    assert STUDY.stored(request, store)


def test_a_store_does_not_need_the_folder_of_data_again(
    tmp_path: Path, earth: Path, small: presets.GlobePreset
) -> None:
    store = Store(tmp_path / "runs")
    (spec,) = [
        spec
        for spec in STUDY.plan(studies.Request(preset="quick", schemes=["xyz"], seeds=[0], data=earth), store)
        if spec.condition == "land"
    ]
    (earth / task.FILE).unlink()
    result = execute.train(spec, store.workdir(spec), lambda *_: None)
    assert result.metrics["accuracy"] > 0.3
    with pytest.raises(ValueError, match="does not exist; it should hold Natural Earth"):
        execute.target_of(tmp_path, spec)


def test_a_stopped_run_goes_on_to_the_same_last_digit(tmp_path: Path, small: presets.GlobePreset) -> None:
    (spec,) = STUDY.plan(studies.Request(preset="quick", schemes=["hash"], seeds=[0]), Store(tmp_path))

    def stop(step: int, *_: object) -> None:
        raise KeyboardInterrupt

    whole = execute.train(spec, tmp_path / "units" / "a", lambda *_: None)
    model = execute.GlobeModel(spec, tmp_path)
    stopped = tmp_path / "units" / "b"
    stopped.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        loop.train(model.fit(), model.training, seed=0, workdir=stopped, report=stop, checkpoint_seconds=0.0)
    again = execute.train(spec, stopped, lambda *_: None)
    assert again.metrics == whole.metrics
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_seeds_draw_their_own_places_and_variants_of_a_seed_share_them(
    tmp_path: Path, small: presets.GlobePreset
) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["xyz", "none"]), Store(tmp_path))
    lon = {(spec.variant, spec.seed): execute.GlobeModel(spec, tmp_path).samples.train.lon for spec in specs}
    assert torch.equal(lon["xyz", 0], lon["none", 0])
    assert not torch.equal(lon["xyz", 0], lon["xyz", 1])


def test_seeds_have_their_own_field_and_none_the_one_that_was_chosen_by(
    tmp_path: Path, small: presets.GlobePreset
) -> None:
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["xyz", "none"]), Store(tmp_path))
    fields = {(spec.variant, spec.seed): execute.target_of(tmp_path, spec) for spec in specs}
    chosen_by = task.random_field(4, 2.0, seed=0)
    lon, lat = task.seam_places(task.ELSEWHERE)
    values = {cell: field.values_at(lon, lat) for cell, field in fields.items()}
    assert torch.equal(values["xyz", 0], values["none", 0])
    assert not torch.equal(values["xyz", 0], values["xyz", 1])
    assert not any(torch.equal(each, chosen_by.values_at(lon, lat)) for each in values.values())


def test_the_estimate_is_of_this_machine(tmp_path: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path)
    specs = STUDY.plan(studies.Request(preset="quick", schemes=["none"], seeds=[0]), store)
    threads = torch.get_num_threads()
    estimate = STUDY.estimate(specs, store, 2)
    assert 0 < estimate.seconds < 60
    assert torch.get_num_threads() == threads


def test_an_error_by_latitude_is_the_mean_of_north_and_south(tmp_path: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz"], seeds=[0])
    specs = run(request, store)
    errors = store.arrays(specs[0].identity)["error_by_latitude"]
    bands = plots._bands(STUDY.page_data(request, store, specs), "field", "xyz")
    assert list(bands) == [5.0, 15.0, 25.0, 35.0, 45.0, 55.0, 65.0, 75.0, 85.0]
    assert bands[5.0][0] == pytest.approx(errors[8:10].mean())
    assert bands[85.0][0] == pytest.approx((errors[0] + errors[17]) / 2)


@pytest.mark.full
def test_truths_are_those_of_the_seeds_that_are_shown(tmp_path: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path / "runs")
    parts = [run(studies.Request(preset="quick", schemes=[s], seeds=[n]), store) for s, n in (("hash", 0), ("none", 1))]
    page = STUDY.page(studies.Request(preset="quick"), store, [spec for part in parts for spec in part], {}).read_text()
    assert ">Target of seed 0<" in page
    assert ">Target of seed 1<" in page


# maps ---------------------------------------------------------------------------------------------------------------


def test_polar_views_have_the_pole_in_the_middle_and_the_date_line_above_it() -> None:
    for region, pole in (("north", 1), ("south", -1)):
        lon, lat = map_plots.grid(region)
        assert float((lat * pole).nan_to_num(-99).max()) > 89
        assert float((lat * pole).nan_to_num(99).min()) == pytest.approx(60, abs=0.5)
        middle = map_plots.CAP_PIXELS // 2
        assert abs(float(lon[0, middle])) > 178
        assert abs(float(lon[-1, middle])) < 2
        assert float(lon[middle, -1]) == pytest.approx(90 * pole, abs=1)
        assert not lon[0, 0].isfinite()
        # equal areas: half the disc's area lies within a half of the cap's
        far = 90 - (lat * pole)
        half = math.degrees(math.acos((1 + math.cos(math.radians(30))) / 2))
        assert float((far[far.isfinite()] < half).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_the_strip_runs_across_the_date_line() -> None:
    lon, lat = map_plots.grid("strip")
    assert (lon[0] > 0).tolist() == [True] * 30 + [False] * 30
    assert lon[0, 29:31].tolist() == [179.5, -179.5]
    assert lat[:, 0].tolist()[:2] == [59.5, 58.5]


def test_pictures_show_the_truth_and_errors_against_it() -> None:
    field = task.random_field(3, 2.0, seed=0)
    places = map_plots.grid("north")
    values = map_plots.evaluate(field.values_at, places)
    assert float(map_plots.error_of(field, values, places).nan_to_num(0).abs().max()) < 1e-12
    pixels = map_plots.prediction_colors(field, torch.tensor([[-2.5, 0.0, 2.5, torch.nan]]))
    assert pixels[0, :, 3].tolist() == [1, 1, 1, 0]
    assert pixels[0, 0, 2] > pixels[0, 0, 0], "low is blue"
    assert pixels[0, 2, 0] > pixels[0, 2, 2], "high is red"
    cells = torch.zeros(360, 720, dtype=torch.int64)
    cells[:, 360:], cells[200:] = 1, -1
    labels = task.Labels(cells, ("a", "b"))
    whole = map_plots.grid("whole")
    wrong = map_plots.error_of(labels, torch.tensor([0.8, 0.2]).expand(*whole[0].shape, 2).double(), whole)
    assert wrong[0, 0].item() == pytest.approx(0.2)
    assert wrong[0, -1].item() == pytest.approx(0.8)
    assert wrong[-1].isnan().all()
    assert not map_plots.true_colors(labels, whole)[-1, :, 3].any()


def test_a_mean_over_a_flat_map_is_by_area() -> None:
    places = map_plots.grid("whole")
    error = (places[1].abs() > 60).double()
    assert map_plots._mean(error, places) == pytest.approx(1 - math.sin(math.radians(60)), abs=0.01)
    assert map_plots._mean(error, places, plate_carree=False) == pytest.approx(1 / 3, abs=0.01)


def test_a_restored_field_is_the_trained_one(tmp_path: Path, small: presets.GlobePreset) -> None:
    store = Store(tmp_path)
    (spec,) = run(studies.Request(preset="quick", schemes=["fourier"], seeds=[0]), store)
    again = restored(store, spec.identity, execute.build)
    with torch.no_grad():
        assert again.scores(again.samples.poles)["rmse"] == store.read(spec.identity).metrics["rmse_poles"]


def test_settings_survive_their_way_through_json(small: presets.GlobePreset, tmp_path: Path) -> None:
    (spec, *_) = STUDY.plan(studies.Request(preset="quick", schemes=["hash-wrap"]), Store(tmp_path))
    back = msgspec.json.decode(msgspec.json.encode(spec), type=type(spec))
    assert back.identity == spec.identity
    field = msgspec.convert(back.settings["row"], variants.GlobeEncoding).field.field()
    assert field.parameter_count <= small.parameters


def test_every_panel_of_a_preset_is_drawn() -> None:
    assert all(list(preset.panels) == list(STUDY.panels) for preset in presets.PRESETS.values())
    assert studies.find("globe") is STUDY


def test_the_answer_is_the_paired_difference_of_the_best_planar_and_spherical_encoding() -> None:
    def rows(poles: dict[str, list[float]], date_line: dict[str, list[float]]) -> list[dict]:
        return [
            {"setting": "field", "scheme": label, "seed": seed, "metric": metric, "value": value}
            for metric, scores in (("rmse_poles", poles), ("rmse_date_line", date_line))
            for label, values in scores.items()
            for seed, value in enumerate(values)
        ]

    apart = {"fourier": [0.5, 0.51, 0.52], "none": [0.9, 0.9, 0.9], "harmonics": [0.1, 0.12, 0.11]}
    alike = {"fourier": [0.5, 0.4, 0.45], "harmonics": [0.4, 0.5, 0.45]}
    reversed_ = {"fourier": [0.1, 0.12, 0.11], "harmonics": [0.5, 0.51, 0.52]}

    def answer(poles: dict[str, list[float]], date_line: dict[str, list[float]]) -> str:
        return claims.answer(cast(PageData, SimpleNamespace(rows=rows(poles, date_line))))

    assert answer(apart, apart).startswith(
        "Yes. RMSE of the best planar encoding minus RMSE of the best spherical encoding, on random"
    )
    assert "within 10° of a pole +0.400 SD [" in answer(apart, apart)
    assert "(fourier − harmonics)" in answer(apart, apart)
    assert answer(apart, alike).startswith("Only within 10° of a pole. ")
    assert answer(alike, alike).startswith("Inconclusive. ")
    assert answer(reversed_, reversed_).startswith("No. ")
    assert answer({"fourier": [0.5]}, {}).startswith("No answer yet: this needs a planar and a spherical encoding")


def test_a_report_shows_what_is_stored_whatever_data_is_named(
    tmp_path: Path, earth: Path, small: presets.GlobePreset
) -> None:
    store = Store(tmp_path / "runs")
    run(studies.Request(preset="quick", schemes=["xyz"], seeds=[0], data=earth), store)
    stored = STUDY.stored(studies.Request(preset="quick", panels=["scores"]), store)
    assert {spec.condition for spec in stored} == {"field", "land", "countries"}


@pytest.mark.full
def test_maps_that_cannot_be_drawn_are_named(tmp_path: Path, earth: Path, small: presets.GlobePreset) -> None:
    """A store without the raster, as a merged pack leaves it: the page stands, and its maps say what they need."""
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", schemes=["xyz", "none"], seeds=[0], data=earth)
    specs = run(request, store)
    next((store.root / "data").glob("globe-*.npz")).unlink()
    page = STUDY.page(studies.Request(preset="quick"), store, specs, {}).read_text()
    assert page.count("No map: no run has finished") == 4  # the field's maps are drawn


def test_settings_of_land_need_natural_earth(tmp_path: Path) -> None:
    request = studies.Request(preset="quick")
    with pytest.raises(ValueError, match="land and countries need --data DIR"):
        settings.run_settings(request, Store(tmp_path), "land", "none")
