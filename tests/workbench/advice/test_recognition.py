"""Recognition of data by path, refusals in one sentence, budgets, and the candidates of each kind of data."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from posenc.workbench.advice import budget
from posenc.workbench.advice.advise import advise
from posenc.workbench.advice.kinds import KINDS
from posenc.workbench.advice.race import RacePlan, Rung
from posenc.workbench.advice.recognition import by_name, recognize
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.data.readers import series_table
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, find
from tiny_data import WRITERS

pytestmark = pytest.mark.bare
FILES = {
    "places": "houses.csv", "image-fit": "photo.png", "language": "book.txt", "gridpe": "photos", "points": "clouds",
    "masked": "recordings.npz", "series": "readings.csv", "graphs": "molecules", "shape-fit": "solid.off",
}  # fmt: skip
OPTIONS = {"places": {"target": "price"}}


def written(folder: Path, name: str) -> Path:
    WRITERS[name](folder / name)
    return folder / name


def test_every_kind_has_a_file() -> None:
    assert {kind.study for kind in KINDS} == set(FILES)


@pytest.mark.parametrize(("study", "name"), FILES.items())
def test_a_path_is_read_as_its_kind(study: str, name: str, tmp_path: Path) -> None:
    found = recognize(written(tmp_path, name), None, OPTIONS.get(study, {}).get("target"))
    assert found.kind.study == study
    assert "is read as" in found.sentence


def test_the_order_of_the_candidates_follows_the_question() -> None:
    for kind in KINDS:
        names = {candidate.name for candidate in kind.candidates if not candidate.control}
        assert kind.early.keys() <= kind.questions.keys()
        assert all(names >= set(early) for early in kind.early.values())
    places = next(kind for kind in KINDS if kind.study == "places")
    between, new = list(by_name(places)), list(by_name(places, "new"))
    assert between[:4] == ["coordinates", "none", "fourier", "fourier (detail 16)"]
    assert new[:4] == ["coordinates", "none", "sphere-c-plus", "sphere-dfs"]
    assert sorted(between) == sorted(new)
    assert between == list(by_name(places, "between"))


@pytest.mark.full
@pytest.mark.parametrize(("study", "name"), FILES.items())
def test_every_candidate_of_a_kind_can_be_built_or_is_left_out_for_a_reason(study, name, tmp_path: Path) -> None:
    kind = next(kind for kind in KINDS if kind.study == study)
    request = Request(preset="quick", source=written(tmp_path, name), reading=OPTIONS.get(study, {}))
    trainer = StudyTrainer(find(study), kind, request, next(iter(kind.questions)), by_name(kind))
    store, built = Store(tmp_path / "runs"), []
    for candidate in trainer.candidates:
        if trainer.settings(store, candidate) is not None and trainer.settings(store, candidate, 0.5) is not None:
            whole, half = (
                trainer.specs(store, candidate, rung)[0] for rung in (RacePlan().rungs[2], RacePlan().rungs[0])
            )
            assert whole.identity != half.identity
            built.append(candidate)
    assert len(built) >= 5
    assert trainer.candidates[built[0]].control


def refusal(path: Path, folder: Path, **options) -> str:
    with pytest.raises(ValueError) as refused:
        advise(path, out=folder / "runs", **options)
    assert not (folder / "runs").exists()
    assert list(folder.glob(".runs*")) == []
    return str(refused.value)


def test_bad_paths_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "absent.csv", tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("a.csv", "x,y\n1,2\n")
    assert "Unpack it" in refusal(tmp_path / "all.zip", tmp_path)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in ("photo.png", "book.txt", "solid.off"):
        written(mixed, name)
    assert "several kinds of data" in refusal(mixed, tmp_path)
    assert "a column to predict is one of a table" in refusal(mixed, tmp_path, target="price")
    assert "no advice is given on 'globe'" in refusal(mixed, tmp_path, study="globe")
    assert "there is no column 'cost'" in refusal(written(tmp_path, "houses.csv"), tmp_path, target="cost")
    assert "the questions on" in refusal(tmp_path / "houses.csv", tmp_path, target="price", question="old")


ROWS = [f"{4 + number / 100},{50 + number / 90},{number % 7}.5" for number in range(60)]
BAD = {
    "an empty file": ([], {}, "t.csv is empty. A table of places has a header and a line for each place"),
    "one column": (["price", "1", "2"], {}, "t.csv has 1 column, price. A table of places has"),
    "no coordinate": (["town,price", "Gent,1", "Brugge,2"], {}, "has 1 column of numbers, price, and a place has two"),
    "other names": (["a,b,c", *ROWS], {}, "a, b, c: --coordinates a b; or, if a column has times, --time COLUMN"),
    "no header": (ROWS, {"target": "price"}, "line 1 has the number 4.0, and names of columns are needed"),
    "no target": (["x,y", "1,2", "2,3"], {}, "has coordinates alone, and a target to predict is needed"),
}
"""Name to the lines of a table, options, and a part of the sentence."""


@pytest.mark.parametrize("name", BAD)
def test_a_table_without_known_columns_is_refused_for_its_fault(name: str, tmp_path: Path) -> None:
    """Before, all of these were "a table, on which no advice is given"."""
    lines, options, sentence = BAD[name]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert sentence in refusal(tmp_path / "t.csv", tmp_path, **options)


def test_stated_columns_make_a_table_one_of_places(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["date,a,b,price", *(f"2024-01-01,{row}" for row in ROWS)]))
    assert recognize(path, None, None).kind.study == "series"
    for columns in ("a,b", ("a", "b")):
        found = recognize(path, None, "price", {"coordinates": columns})
        assert found.kind.study == "places"
        assert "--coordinates names the columns of its coordinates" in found.sentence
    path.write_text(path.read_text().replace("date", "when"))
    assert recognize(path, None, None, {"time": "when"}).kind.study == "series"


def test_a_table_of_coordinates_and_times_is_one_of_places_unless_it_names_series(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join(["site,date,lon,lat,ph", *(f"{day % 2},2024-01-{day + 1:02d},{ROWS[day]}" for day in range(30))])
    )
    for options in ({}, {"id": "site"}):
        found = recognize(path, None, None, options)
        chosen, other = ("series", "places") if options else ("places", "series")
        assert found.kind.study == chosen
        assert f"too: --study {other}" in found.sentence
        assert recognize(path, other, None).kind.study == other
    assert series_table.read(path, ReadingOptions()).options["target"] == "ph", "coordinates are no values"


def test_a_budget_that_is_too_small_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    houses = written(tmp_path, "houses.csv")
    sentence = refusal(houses, tmp_path, target="price", budget="1s", jobs=1)
    assert "a budget of 1 s ends before the race can start" in sentence
    assert "--budget" in sentence


def test_an_unknown_option_of_reading_is_refused(tmp_path: Path) -> None:
    """It was ignored, and the race began with the columns that it found itself."""
    houses = written(tmp_path, "houses.csv")
    with pytest.raises(ValueError, match=r"Did you mean coordinates"):
        advise(houses, target="price", reading={"coordinate": ["longitude", "latitude"]}, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("90s", 90), ("1h", 3600), ("2m30s", 150), ("1.5m", 90)])
def test_budgets_are_read(text: str, seconds: float) -> None:
    assert budget.budget_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "10", "soon", "-5m", "5 minutes"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a budget is a time above 0"):
        budget.budget_seconds(text)


def test_shorter_trainings_take_less_time_but_for_their_fixed_part() -> None:
    plan, fixed = RacePlan(processes=2), RacePlan(processes=2, fixed=1.0)
    assert budget.race_seconds(3.0, plan.shorter()) < budget.race_seconds(3.0, plan)
    assert budget.race_seconds(3.0, fixed.shorter()) > budget.race_seconds(3.0, plan.shorter())
    assert budget.least_seconds(3.0, plan) < 2 * budget.race_seconds(3.0, plan)
    assert plan.shorter().rungs == tuple(Rung(0.5, seeds) for seeds in (3, 5, 10, 20, 30))


def test_half_of_a_training_is_that_of_its_steps_or_seconds(tmp_path: Path) -> None:
    for name, of in (("houses.csv", "epochs"), ("photo.png", "seconds")):
        found = recognize(written(tmp_path, name), None, "price" if name == "houses.csv" else None)
        reading = {"target": "price"} if name == "houses.csv" else {}
        request = Request(preset="quick", source=found.path, reading=reading)
        question = next(iter(found.kind.questions))
        trainer = StudyTrainer(find(found.kind.study), found.kind, request, question, by_name(found.kind))
        store, control = Store(tmp_path / f"runs-{of}"), next(iter(trainer.candidates))
        whole, half = (trainer.settings(store, control, fraction) for fraction in (1.0, 0.5))
        assert whole is not None
        assert half is not None
        assert half["training"][of] == whole["training"][of] / 2
        assert (
            trainer.specs(store, control, Rung(0.5, 1))[0].identity
            != trainer.specs(store, control, Rung(1.0, 1))[0].identity
        )
