"""The series study: what variants are told, own tables, no value of the future, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc import cli
from posenc.frequencies import periods
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.runner import run as execute_runs
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.series import STUDY, plots, settings, variants
from posenc.workbench.studies.series.execute import SeriesModel
from posenc.workbench.studies.series.stored_series import scales_of
from posenc.workbench.tasks.series import TimeScales
from tiny_data import WRITERS

pytestmark = pytest.mark.bare

SMALL = {"series": 2, "readings": 150, "context": 12, "horizon": 4, "epochs": 2}
OWN = {"context": 6, "horizon": 2, "epochs": 2}


def planned(store: Store, variant: str, **options: Any) -> dict[str, Any]:
    request = Request(**{"preset": "quick", "schemes": [variant], "seeds": [0], "changes": SMALL} | options)
    return {spec.condition: spec for spec in STUDY.plan(request, store) if spec.variant == variant}


def test_periods_of_a_written_scheme_are_physical_in_any_unit(tmp_path: Path) -> None:
    """Times are counted in shortest gaps; a day in hours was read as a day in gaps, 24 times 15 minutes."""
    spec = planned(Store(tmp_path), "time-rotation")["periods"]
    config, scales, found = STUDY.presets["quick"].model, scales_of(spec.settings), []
    for text in ("'day', unit='hour'", "24, unit='hour'", f"'day', unit={scales.shortest!r}", "'day'"):
        chosen = variants.variant(f"RoPE(frequencies=periods({text}, harmonics=8))", config, 16, scales)
        assert chosen is not None
        stated = dict(chosen.options["frequencies"]["options"])
        found.append(periods(*stated.pop("names"), **stated).numpy())
    wanted = 2 * np.pi * np.arange(1, 9) * scales.shortest / 86400
    assert all(np.allclose(each, wanted) for each in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RoPE(2, of=16, frequencies=periods('day'))", "1 day"),
        ("Sinusoid(4, frequencies=[3.14159265, 1.0471975512])", "30 minutes, 1.5 hours"),
        ("RoPE(frequencies=geometric(base=100))", "those of its schedule"),
        ("RoPE", "those of the scheme"),
        ("ALiBi(heads=2)", "none"),
        ("time-bias", "none"),
        ("calendar-rows", "12 hours, 1 day"),
    ],
)
def test_the_table_of_variants_names_the_periods_of_every_form_of_frequencies(text: str, words: str) -> None:
    scales = TimeScales(900.0, 2 * 86400.0, 30 * 86400.0, 0.0, ("day",))
    made = variants.variant(text, STUDY.presets["quick"].model, 16, scales)
    assert made is not None
    assert plots._periods(made, scales.shortest) == words


def readings(folder: Path, name: str = "readings.csv") -> Path:
    WRITERS[name](folder / name)
    return folder / name


def test_variants_differ_in_positions_and_frequencies_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    rows = {label: planned(store, label)["periods"].settings for label in ("time-rows", "calendar-rows", "both-rows")}
    rest = [{name: value for name, value in each.items() if name != "row"} for each in rows.values()]
    assert rest[0] == rest[1] == rest[2]
    scales = scales_of(rest[0])
    periods = {
        label: 2 * np.pi * scales.shortest / np.array(each["row"]["frequencies"]) for label, each in rows.items()
    }
    assert scales.periods == ("day", "week")
    assert sorted(periods["calendar-rows"] / 86400) == pytest.approx([0.5, 1, 3.5, 7])
    assert periods["time-rows"].min() == pytest.approx(2 * scales.shortest)
    assert periods["time-rows"].max() == pytest.approx(scales.longest)
    assert sorted(periods["both-rows"]) == pytest.approx(sorted([*periods["calendar-rows"], *periods["time-rows"]]))
    index = planned(store, "index-bias")["periods"].settings["row"]
    assert (index["scheme"], index["view"]) == ("KERPLELog", "index")


def test_the_calendar_is_left_out_where_no_period_of_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    values = np.random.default_rng(0).normal(size=90)
    path.write_text("time,y\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values)))
    store, options = Store(tmp_path / "runs"), {"changes": OWN, "source": path, "reading": {"unit": "second"}}
    assert planned(store, "calendar-rows", **options) == {}
    assert set(planned(store, "time-rows", **options)) == {
        "seconds", "seconds, fill in", "seconds, half budget", "seconds, fill in, half budget",
    }  # fmt: skip


def test_a_scheme_with_a_table_reads_the_index(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert planned(store, "Learned")["periods"].settings["row"]["view"] == "index"
    assert planned(store, "FIRE")["periods"].settings["row"]["view"] == "time"
    with pytest.raises(ValueError, match=r"it reads the rows of a table\. Write it with @index"):
        planned(store, "Learned@time")
    with pytest.raises(ValueError, match="it reads 2 axes, and a reading has one"):
        planned(store, "AxialRoPE(axes=2)")


@pytest.mark.parametrize("variant", ["none", "index-rows", "time-rotation", "time-bias", "both-rows"])
def test_values_after_an_origin_change_no_forecast_made_there(variant: str, tmp_path: Path) -> None:
    """Leakage: the whole training is repeated on data whose values after t differ."""
    store = Store(tmp_path / "runs")
    path, made = tmp_path / "one.csv", []
    lines = readings(tmp_path).read_text().splitlines()
    for factor in (1.0, -50.0):
        changed = [
            line if line[:10] <= "2024-03-22" else f"{line[:10]},{factor * float(line.split(',')[1])},0,0"
            for line in lines[1:]
        ]
        path.write_text("\n".join([lines[0], *changed]) + "\n")
        options = {"changes": OWN, "source": path, "reading": {"target": "flow"}}
        spec = planned(store, variant, **options)["one"]
        report = execute_runs([spec], store, InProcess(), emit=lambda event: None)
        assert not report.failed, report.failed
        model = SeriesModel(spec, store.root)
        model.model.load_state_dict(store.read(spec.identity).weights)
        with torch.no_grad():
            predicted = model.predictions("test")[0]
        times = model.data.readings(model.data.parts["test"]).times[:, model.data.context - 1]
        made.append((predicted, times <= float(np.datetime64("2024-03-22").astype("datetime64[s]").astype(int))))
    (first, known), (second, _) = made
    assert 2 <= int(known.sum()) < len(known)
    assert torch.equal(first[known], second[known])
    assert not torch.equal(first[~known], second[~known])


def test_own_tables_state_their_parts_and_scales(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    spec = planned(store, "none", changes=OWN, source=readings(tmp_path))["readings"]
    record = store.record_of(spec)
    assert record is not None
    assert record.options["shortest scale"] == "1 day"
    assert record.options["periods of the calendar"] == "week"
    assert record.options["parts"].startswith("in the order of time: 70%")
    assert spec.settings["split"] == "given"
    assert spec.settings["items"]["unit"] == "windows"
    assert spec.settings["items"]["test"] == record.parts[2].counts["windows"]
    assert any("Not read: the column note." in each for each in record.left_out)


def test_a_table_of_ett_has_its_standard_parts_by_the_same_command(tmp_path: Path) -> None:
    start, names = np.datetime64("2016-07-01T00:00:00"), "HUFL,HULL,MUFL,MULL,LUFL,LULL,OT"
    times = [str(start + np.timedelta64(4 * each, "h")).replace("T", " ") for each in range(3700)]
    rows = [f"{time},1,2,3,4,5,6,{each % 7}" for each, time in enumerate(times)]
    path = tmp_path / "ETTh1.csv"
    path.write_text("\n".join([f"date,{names}", *rows]) + "\n")
    store = Store(tmp_path / "runs")
    spec = planned(store, "none", changes=OWN, source=path)["ETTh1"]
    record = store.record_of(spec)
    assert record is not None
    assert record.options["parts"] == "the standard ones of ETT: 12, 4 and 4 months of 30 days"
    assert [part.counts["windows"] for part in record.parts] == [360 * 6 - 7, 360, 360]


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("date,y\n" + "".join(f"2024-01-{day:02},{day % 4}\n" for day in range(1, 11)), [], "has 10 readings, and its"),
        ("date,y\n" + "".join(f"2024-01-{day:02},7\n" for day in range(1, 31)), [], "has the value 7 at all times"),
        ("date,y,y\n2024-01-01,1,2\n", [], "line 1 names the column 'y' twice"),
        ("date,y\n2024-01-01,1\n", ["--target", "x"], "there is no column 'x'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(text, words, sentence, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text(text)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "series", "few.csv", *words, "--out", "runs"])
    printed = capsys.readouterr()
    assert leaving.value.code == 2
    assert "few.csv" in printed.err
    assert sentence in printed.err
    assert "Traceback" not in printed.err


def test_options_of_series_are_for_series(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["run", "points", str(tmp_path), "--target", "y"])
    assert leaving.value.code == 2
    assert "--target y is for time series" in capsys.readouterr().err


def test_without_scikit_learn_boosting_is_left_out_and_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(settings.task, "has_boosting", lambda: False)
    request = Request(preset="quick", panels=["forecasts"], seeds=[0], changes=SMALL)
    specs = STUDY.plan(request, Store(tmp_path / "runs"))
    assert "boosting" not in {spec.variant for spec in specs}
    assert any("boosting is left out" in line for line in STUDY.announce(request, Store(tmp_path / "runs"), specs))


@pytest.mark.full
def test_the_page_of_all_panels_answers_and_shows_the_scales(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store, request = Store(tmp_path / "runs"), Request(preset="quick", seeds=[0, 1], changes=SMALL)
    specs = STUDY.plan(request, store)
    assert {spec.condition for spec in specs} == {"periods", "no periods", "periods, fill in"}
    report = execute_runs(specs, store, InProcess(), emit=lambda event: None)
    assert not report.failed, report.failed
    page = STUDY.page(request, store, specs, {}).read_text()
    for title in ("Forecast errors", "Errors of filled-in readings", "Learning curves", "Examples", "MASE by horizon"):
        assert title in page, title
    assert "Shortest scale, the fifth percentile of the gaps of the training part: 2." in page
    assert "A calendar helps where the series have its periods" in page
    metrics = store.read(specs[0].identity).metrics
    assert {"mse", "mase", "mse_at_1", "mse_at_4", "mase_at_2", "parameters"} <= metrics.keys()


def test_learned_encodings_stand_beside_rows_of_sines(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    request = Request(preset="quick", panels=["learned"], seeds=[0], changes=SMALL)
    specs = STUDY.plan(request, store)
    assert {spec.variant for spec in specs} == {*variants.BESIDE_LEARNED, *variants.LEARNED}
    views = {spec.variant: spec.settings["row"]["view"] for spec in specs}
    assert (views["time2vec"], views["convolution"]) == ("time-in-windows", "index")
    assert execute_runs(specs, store, InProcess(), emit=lambda event: None).exit_code == 0
    page = STUDY.page(request, store, specs, {}).read_text(encoding="utf-8")
    assert "Forecast errors of learned encodings" in page
    assert "time2vec" in page


def test_the_rows_of_time2vec_start_at_the_size_of_the_tokens(tmp_path: Path) -> None:
    store, sizes = Store(tmp_path / "runs"), {}
    for label in ("time2vec", "Time2Vec@time"):
        size = SeriesModel(planned(store, label)["periods"], store.root).embedding_scale()
        assert size is not None
        sizes[label] = size
    assert 0.1 < sizes["time2vec"] < 10
    assert sizes["Time2Vec@time"] > 100  # times in shortest gaps are too long for its linear term


def test_times_in_windows_are_times_in_the_longest_scale() -> None:
    scales, config = TimeScales(900.0, 2 * 86400.0, 30 * 86400.0, 7.0, ("day",)), STUDY.presets["quick"].model
    for text in ("Sinusoid(2, frequencies=periods('day'))", "RoPE(2, of=16, frequencies=periods('day'))"):
        made = [variants.variant(f"{text}@{view}", config, 16, scales) for view in ("time", "time-in-windows")]
        stated = [dict(each.options["frequencies"]["options"]) for each in made if each is not None]
        frequencies = [periods(*each.pop("names"), **each) for each in stated]
        assert float(frequencies[1] / frequencies[0]) == pytest.approx(2 * 86400 / 900)
        assert plots._periods(made[1], scales.longest) == "1 day"
    times = 7.0 + 86400.0 * torch.tensor([[0.0, 2.0, 5.0]], dtype=torch.float64)
    chosen = variants.variant("time2vec", config, 16, scales)
    assert chosen is not None
    assert chosen.positions(times, scales).coords[0, :, 0].tolist() == [0.0, 1.0, 2.5]
    with pytest.raises(ValueError, match=r"it reads the rows of a table\. Write it with @index"):
        variants.variant("Learned@time-in-windows", config, 16, scales)


def test_scales_are_stored_as_they_are_read() -> None:
    scales = TimeScales(1.5, 100.0, 400.0, 7.0, ("day", "week"))
    assert scales_of({"scales": scales.plain}) == scales
