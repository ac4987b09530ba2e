"""The places study: two splits side by side, variants that fit the coordinates, baselines on encodings, its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from posenc.workbench.advice.code import runs, torch_code
from posenc.workbench.executors.processes import InProcess
from posenc.workbench.report.number_format import number
from posenc.workbench.runner import run as execute_runs
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.places import STUDY, answer, settings
from posenc.workbench.studies.places.stored_places import load_table, read_parts
from posenc.workbench.studies.places.variants import BASELINES, ON_SPHERES, USUAL, WITH_FURTHER_AXES
from posenc.workbench.studies.shared import page_records, stored_runs
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tasks import places as task
from tiny_data import WRITERS, places

pytestmark = pytest.mark.bare
SMALL = {"made": 120, "epochs": 2}
QUICK = {"epochs": 2}


def own(folder: Path, name: str = "houses.csv") -> Path:
    WRITERS[name](folder / name)
    return folder / name


def planned(store: Store, *variants: str, **options: Any) -> list[Any]:
    request = Request(**{"preset": "quick", "schemes": variants or None, "seeds": [0], "changes": SMALL} | options)
    return STUDY.plan(request, store)


def on_houses(store: Store, folder: Path, *variants: str, **options: Any) -> list[Any]:
    usual = {"source": own(folder), "changes": QUICK, "panels": ["scores"], "reading": {"target": "price"}}
    return planned(store, *variants, **usual | options)


def execute(specs: list[Any], store: Store) -> list[dict[str, float]]:
    report = execute_runs(specs, store, InProcess(), emit=lambda event: None)
    assert not report.failed, report.failed
    return [store.read(spec.identity).metrics for spec in specs]


def test_both_splits_are_planned_and_no_block_is_in_both_halves(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    specs = [spec for spec in on_houses(store, tmp_path, "fourier") if spec.variant == "fourier"]
    full = {spec.condition: spec for spec in specs if "half" not in spec.condition}
    assert set(full) == {"houses, random split", "houses, split by blocks"}
    spec = full["houses, split by blocks"]
    data = spec.settings["data"]
    table = load_table(store.root, data["table"])
    parts, blocks = read_parts(table, data, 0), task.block_numbers(table.coords, data["side"])
    assert not set(blocks[parts.train]) & set(blocks[parts.test])
    assert spec.settings["items"] == {"train": len(parts.train), "validation": len(parts.validation),
                                      "test": len(parts.test), "unit": "rows"}  # fmt: skip
    assert {"r2", "rmse", "mae", "train_seconds", "predict_seconds"} <= execute([spec], store)[0].keys()
    lines = STUDY.announce(Request(preset="quick"), store, specs)
    assert any(line.startswith("Blocks have a side of 0.1 degrees") for line in lines)


def test_every_usual_variant_and_baseline_is_planned_and_some_need_a_sphere(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store = Store(tmp_path / "runs")
    request = {"seeds": [0], "panels": ["scores"]}
    labels = {spec.variant for spec in on_houses(store, tmp_path, **request)}
    assert labels == {*USUAL, *BASELINES}
    flat = {
        spec.variant for spec in on_houses(store, tmp_path, **request, reading={"target": "price", "geometry": "plane"})
    }
    assert labels - flat == {label for label in labels if label.split(" + ")[-1] in ON_SPHERES}
    sizes = [spec.settings["model"] for spec in planned(store, panels=["scores"]) if "model" in spec.settings]
    assert len({each["width"] for each in sizes}) > 3, "widths differ so that parameter counts match"


def quakes(path: Path, rows: int = 1500) -> Path:
    """A table whose target is a wave of the depth, of three cycles, and a slope of the longitude."""
    draw = np.random.default_rng(0)
    places = draw.uniform((4, 50), (6, 52), (rows, 2))
    depths, days = draw.uniform(0, 600, rows), draw.integers(0, 700, rows)
    target = np.sin(2 * np.pi * 3 * depths / 600) + 0.3 * places[:, 0] + 0.05 * draw.normal(size=rows)
    dates = np.datetime64("2020-01-01") + days
    columns = (*places.T.round(4), depths.round(2), dates, target.round(4))
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join(["longitude,latitude,depth,date,size", *lines]) + "\n")
    return path


def test_encodings_of_the_place_and_a_further_axis_find_a_planted_wave(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    reading = {"target": "size", "coordinates": "longitude,latitude,depth", "features": "none"}
    labels = ("sphere-c-plus", "sphere-c-plus-mixed")
    changes = {"epochs": 150, "parameters": 5000}
    source = quakes(tmp_path / "quakes.csv")
    every = planned(store, *labels, source=source, panels=["scores"], reading=reading, changes=changes)
    specs = [spec for spec in every if spec.condition == "quakes, random split" and spec.variant in labels]
    scores = {spec.variant: metrics["r2"] for spec, metrics in zip(specs, execute(specs, store), strict=True)}
    assert scores["sphere-c-plus-mixed"] > scores["sphere-c-plus"] + 0.5, scores
    spec = next(spec for spec in specs if spec.variant == "sphere-c-plus-mixed")
    assert spec.settings["row"]["view"] == "mixed_lonlat"
    calls = tuple(store.read(spec.identity).timing["calls"])
    code = torch_code("places", spec.variant, spec.settings, calls)
    assert "ConcatAxes" in code
    assert "further" in code
    assert runs(code), code
    assert "behind them the further axes" in STUDY.stored_model.convention(spec)


def test_time_is_a_further_axis_and_tables_without_one_leave_such_variants_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    reading = {"target": "size", "time": "date"}
    specs = planned(store, panels=["scores"], source=quakes(tmp_path / "q.csv", 200), reading=reading, changes=QUICK)
    assert {*WITH_FURTHER_AXES} <= {spec.variant for spec in specs}
    (span,) = next(spec for spec in specs if spec.variant == "fourier-joint").settings["data"]["spans"]
    assert span[0] - span[1] == pytest.approx(np.datetime64("2020-01-01", "s").astype(float), abs=90_000 * 10)
    assert not {*WITH_FURTHER_AXES} & {spec.variant for spec in on_houses(store, tmp_path)}
    with pytest.raises(ValueError, match="reads further axes as columns"):
        planned(store, "boosting + fourier-joint", source=tmp_path / "q.csv", reading=reading, panels=["scores"])


def test_the_page_has_the_coverage_of_the_intervals_of_kriging_by_split(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store = Store(tmp_path / "runs")
    specs = [spec for spec in on_houses(store, tmp_path, panels=["intervals"], seeds=[0, 1]) if spec.variant == "gp"]
    for metrics in execute(specs, store):
        assert 0 <= metrics["covered_50"] <= metrics["covered_80"] <= metrics["covered_95"] <= 1
    data = PageData(request=Request(preset="quick"), preset=STUDY.presets["quick"], store=store, specs=specs)
    (panel,) = STUDY.panels["intervals"].draw(data)
    (table,) = panel.blocks
    assert [row[:2] for row in table.rows] == [("gp", "random split"), ("gp", "split by blocks")]
    shares = [store.read(spec.identity).metrics["covered_80"] for spec in specs if "random" in spec.condition]
    assert table.rows[0][3].startswith(number(float(np.mean(shares)), 3))


@pytest.mark.full
def test_parameter_counts_match(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    specs = [spec for spec in on_houses(store, tmp_path, changes={"epochs": 1}) if "training" in spec.settings]
    specs = [spec for spec in specs if spec.condition == "houses, random split"]
    counts = [scores["parameters"] for scores in execute(specs, store)]
    assert max(counts) <= 10_000
    assert min(counts) >= 9_000


def test_schemes_as_text_read_the_view_that_fits(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")

    def row(text: str) -> dict[str, Any]:
        return next(spec for spec in planned(store, text, panels=["scores"]) if spec.variant == text).settings["row"]

    for text, view, axes in (
        ("FourierFeatures(dim=8)", "region", 2), ("FourierFeatures(dim=8)@xyz", "xyz", 3),
        ("SphereM(scales=4)", "lonlat", 2), ("LearnableFourier(dim=8, axes=3)", "xyz", 3),
    ):  # fmt: skip
        assert (row(text)["view"], row(text)["axes"]) == (view, axes), text
    for text, sentence in (
        ("fourrier", "fourier"), ("RoPE", "reads an embedding"), ("fourier@lonlatt", "there is no view"),
        ("boosting + LearnableFourier(dim=8)", "is trained with a network, and boosting reads fixed rows"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            planned(store, text, panels=["scores"])


def test_a_view_of_spheres_is_refused_for_planar_coordinates(tmp_path: Path) -> None:
    reading = {"target": "price", "geometry": "plane"}
    with pytest.raises(ValueError, match="these data have no view 'lonlat'"):
        on_houses(Store(tmp_path / "runs"), tmp_path, "SphereM(scales=4)@lonlat", reading=reading)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SphereC(4)", "SphereC needs longitude and latitude; the coordinates are of the kind plane"),
        ("sphere-c", "sphere-c needs longitude and latitude; the coordinates are of the kind plane"),
        ("ridge + sphere-c-plus", "sphere-c-plus needs longitude and latitude"),
        ("fourier-joint", "fourier-joint needs a further axis beside the place"),
    ],
)
def test_a_named_variant_that_fits_no_planar_coordinates_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    pytest.importorskip("sklearn")
    reading = {"target": "price", "geometry": "plane"}
    with pytest.raises(ValueError, match=sentence):
        on_houses(Store(tmp_path / "runs"), tmp_path, text, reading=reading)


def test_a_gaussian_process_is_refused_for_classes_only_where_it_is_named(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="'gp' cannot be built: it is for targets of numbers, and these are classes"):
        on_houses(Store(tmp_path / "runs"), tmp_path, "gp", reading={"target": "kind"})


def test_classes_times_and_groups(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store, path = Store(tmp_path / "runs"), tmp_path / "visits.csv"
    lines = [
        f"{x},{y},{n // 2},2024-{1 + n % 12:02d}-{1 + n % 28:02d},{kind}"
        for n, (x, y, _, kind, _) in enumerate(places())
    ]
    path.write_text("\n".join(["longitude,latitude,who,day,kind", *lines]) + "\n")
    reading = {"target": "kind", "time": "day", "groups": "who"}
    specs = planned(store, "fourier", "boosting", source=path, changes=QUICK, panels=["scores"], reading=reading)
    assert {spec.condition.split(", ")[1] for spec in specs} == {"random split", "split by blocks", "split by time"}
    chosen = [spec for spec in specs if spec.variant in ("fourier", "boosting") and spec.condition.endswith("split")]
    assert all(0 <= scores["accuracy"] <= 1 for scores in execute(chosen, store))
    assert "gp" not in {spec.variant for spec in specs}, "a Gaussian process is for values"
    table = load_table(store.root, specs[0].settings["data"]["table"])
    parts = read_parts(table, specs[0].settings["data"], 0)
    assert not set(table.groups[parts.train]) & set(table.groups[parts.test])
    said = [line for line in STUDY.remarks(store, specs) if "divides" in line]
    assert [line.partition(" divides")[0] for line in said] == ["The split by time"], "pairs of rows are near in space"
    assert "so test rows have training rows of their group." in said[0]


def test_conditions_with_fewer_rows_have_records_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    specs = on_houses(store, tmp_path, "fourier", panels=["rows"])
    counts = {}
    for spec in specs:
        record = store.record_of(spec)
        assert record is not None
        counts[spec.condition] = record.parts[0].counts["rows"]
    assert counts["houses, random split"] // 4 == counts["houses, random split, 1/4 of the rows"]


def test_rows_are_drawn_from_a_large_table_and_it_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    specs = on_houses(store, tmp_path, "none", changes={**QUICK, "rows": 60})
    assert any(line.startswith("Of 80 rows 60 are drawn at random") for line in STUDY.remarks(store, specs))
    data = specs[0].settings["data"]
    table = load_table(store.root, data["table"])
    assert sum(specs[0].settings["items"][part] for part in ("train", "validation", "test")) == 60
    assert len(table) == 80


def test_baselines_that_are_named_are_the_only_ones(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    for named, wanted in ((("none",), {"none", *BASELINES}), (("none", "knn"), {"none", "knn"})):
        specs = on_houses(Store(tmp_path / "runs"), tmp_path, *named)
        assert {spec.variant for spec in specs} == wanted


def test_without_scikit_learn_the_baselines_are_left_out_and_said(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(settings.task, "has_boosting", lambda: False)
    store = Store(tmp_path / "runs")
    specs = planned(store, panels=["scores"])
    assert not set(BASELINES) & {spec.variant for spec in specs}
    assert any("The baselines are left out" in line for line in STUDY.remarks(store, specs))


def test_the_best_model_is_named_alone_only_if_it_is_better_than_every_other(monkeypatch) -> None:
    """Before, the highest mean was called the best, also where the second was the same within its interval."""
    monkeypatch.setattr(answer, "held_out", lambda data, label: None)
    monkeypatch.setattr(answer, "class_count", lambda data, label: 0)
    split = SimpleNamespace(label="toy", split="random")

    def said(**scores: list[float]) -> str:
        values = {name: dict(enumerate(each)) for name, each in scores.items()}
        best = max(values, key=lambda name: sum(values[name].values()))
        return answer._best_sentence(None, split, best, values)

    clear, near = [0.90, 0.91, 0.92], [0.89, 0.92, 0.90]
    assert said(a=clear, b=[0.5, 0.52, 0.51]).startswith("Best of all models with the random split: a, R2 0.910 [")
    assert "split: a or b, not distinguishable. The highest is a, R2" in said(a=clear, b=near, c=[0.5, 0.52, 0.51])
    assert "any of a, b, c, not distinguishable" in said(a=clear, b=near, c=near)
    assert said(a=[0.9], b=[0.5]).endswith("inconclusive, because no two folds are finished.")


@pytest.mark.full
def test_the_page_answers_by_both_splits_and_draws_maps(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    store, source = Store(tmp_path / "runs"), own(tmp_path)
    request = Request(
        preset="quick", source=source, seeds=[0, 1], schemes=("none", "fourier", "harmonics"), changes=QUICK,
        reading={"target": "price"},
    )  # fmt: skip
    specs = STUDY.plan(request, store)
    execute(specs, store)
    page = STUDY.page(request, store, specs, {}).read_text()
    for text in ("Best of all models with the random split", "Against boosting with raw coordinates, split by blocks",
                 "Gap between", "Maps: random split", "Learning curve by number of rows", "Time to train",
                 "Variants"):  # fmt: skip
        assert text in page, text
    data = STUDY.page_data(request, store, specs)
    (first,) = STUDY.first(data)
    assert first.startswith("Best of all models with the random split: ")
    assert np.isfinite(data.arrays("houses, random split", "fourier")["predicted"]).all()


def test_pages_of_two_targets_of_a_table_are_told_apart_and_name_them(tmp_path: Path) -> None:
    """Before, a refusal named two digests, and the heading of both pages was "a column of a table"."""
    store, source, labels = Store(tmp_path / "runs"), own(tmp_path), {}
    for target in ("price", "rooms"):
        specs = on_houses(store, tmp_path, "none", reading={"target": target})
        execute(specs[:1], store)
        labels[target] = next(iter(page_records.records_of(store, specs))).label
    usual = Request(preset="quick", changes=QUICK, panels=["scores"])
    named = ", ".join(sorted(f"--source {label} (--target {target})" for target, label in labels.items()))
    for request in (usual, replace(usual, source=source)):
        with pytest.raises(ValueError, match="several data sets") as refused:
            STUDY.stored(request, store)
        assert named in str(refused.value)
    for target, label in labels.items():
        request = stored_runs.subject(STUDY, replace(usual, about=label), store)
        page = STUDY.page(request, store, STUDY.stored(request, store), {}).read_text()
        assert f"<h1>Which encoding of coordinates predicts {target}?</h1>" in page
