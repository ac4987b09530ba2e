"""Advice from data to page: each kind of data at a small size, the code of the page, interruption and budget."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from posenc.workbench.advice import advise as advise_module
from posenc.workbench.advice.advise import Advice, advise
from posenc.workbench.advice.code import TableColumns
from posenc.workbench.advice.kinds import KINDS, Kind
from posenc.workbench.advice.race import Rung
from posenc.workbench.advice.recognition import by_name, recognize
from posenc.workbench.advice.trainer import Deadline
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.executors.processes import Local
from posenc.workbench.executors.stop_requests import TimeIsOver
from posenc.workbench.progress import Event
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.places.stored_places import store_table
from posenc.workbench.studies.places.variants import WITH_FURTHER_AXES
from tiny_data import WRITERS
from toy_work import toys

pytestmark = [pytest.mark.bare]
SMALL = {
    "houses.csv": {"epochs": 10, "parameters": 3000},
    "photo.png": {"limit.seconds": 0.1, "parameters": 6000},
    "book.txt": {"epochs": 4, "window": 8, "max_multiple": 2, "targets": 16, "dim": 16, "depth": 1, "hidden": 16},
    "photos": {"own_steps": 4},
    "clouds": {"own_steps": 4, "points": 8},
    "recordings.npz": {"epochs": 4},
    "readings.csv": {"epochs": 4, "context": 6, "horizon": 2},
    "molecules": {"epochs": 4},
    "solid.off": {"steps": 4, "batch": 64, "resolution": 20, "pools.held": 256, "parameters": 6000},
}
"""File to settings that make a training a matter of a second."""
ENCODINGS = {candidate.name for kind in KINDS for candidate in kind.candidates if not candidate.control}


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control and two encodings of each kind, with the settings of the preset."""

    def few(kind: Kind, question: str | None):
        every = by_name(kind, question)
        names = [name for name in every if not every[name].changes and name not in WITH_FURTHER_AXES]
        return {name: every[name] for name in (names[0], *names[2:4])}

    monkeypatch.setattr(advise_module, "by_name", few)


def advised(folder: Path, name: str, **options) -> Advice:
    path = folder / name
    if not path.exists():
        WRITERS[name](path)
    target = {"target": "price"} if name == "houses.csv" else {}
    given = {"changes": SMALL[name], "budget": "1h", "jobs": 1, "out": folder / "runs"}
    return advise(path, **target, **given | options)


def answer_of(advice: Advice) -> str:
    """Start of the first sentence: the trainings of an image end by the clock, and any of the three may come."""
    if advice.recommended is not None:
        return "Take "
    disagree = advice.race.verdict.above or advice.race.looks[-1].rung.fraction < 1
    return "Nothing is recommended yet" if disagree else "This budget cannot tell "


def page_text(advice: Advice) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", advice.path.read_text()))


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process", "small_surfaces")
@pytest.mark.parametrize("name", SMALL)
def test_advice_on_a_kind_of_data(name: str, tmp_path: Path, capsys) -> None:
    advice = advised(tmp_path, name)
    out = capsys.readouterr().out
    assert "is read as" in out
    assert "Controls: " in out
    assert name != "houses.csv" or "Found by name: " in out
    assert advice.sentences[0].startswith(answer_of(advice))
    assert (advice.recommended is None) == (advice.kind == "undecided")
    assert advice.kind == "equal" or advice.equal_to == ()
    control = next(name for name in advice.race.looks[0].scores if name not in ENCODINGS)
    assert control == advice.ahead or f"({control})" in advice.sentences[1], "compared with the control"
    assert control == advice.ahead or "95% interval" in advice.sentences[1]
    text = page_text(advice)
    assert all(title in text for title in ("Recommendation", "Race", "Costs", "Code", "Data of the runs"))
    assert "What would change the advice" in text
    assert advice.ahead in text
    again = advised(tmp_path, name)
    assert "to execute, 0 finished" not in capsys.readouterr().out
    assert (again.ahead, again.sentences) == (advice.ahead, advice.sentences)


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process")
def test_the_code_of_a_table_predicts_in_scikit_learn(tmp_path: Path) -> None:
    """Every view of a place: a region, the sphere; and bare coordinates."""
    WRITERS["houses.csv"](tmp_path / "houses.csv")
    frame = pd.read_csv(tmp_path / "houses.csv").dropna(subset=["longitude", "latitude", "price"])
    advice = advised(tmp_path, "houses.csv")
    store = Store(tmp_path / "runs")
    seen = set()
    for spec in store.specs():
        calls = tuple(store.read(spec.identity).timing.get("calls", ()))
        if not calls or spec.settings["row"]["view"] in seen:
            continue
        seen.add(spec.settings["row"]["view"])
        code = advise_module.torch_code("places", spec.variant, spec.settings, calls)
        assert advise_module.runs(code), code
        names: dict = {}
        exec(advise_module.sklearn_code(spec.settings, calls, advise_module._columns(store, spec.settings)), names)
        model = names["model"]
        table, target = frame.drop(columns="price"), frame["price"]
        assert len(model.fit(table, target).predict(table)) == len(table)
    assert seen == {"region", "lonlat"}
    assert advice.study == "places"


@pytest.mark.full
def test_a_spent_budget_ends_the_runs_and_the_same_call_goes_on(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(advise_module.budgets, "least_seconds", lambda *arguments: 0.0)
    began = time.monotonic()
    slow = {**SMALL["houses.csv"], "epochs": 100_000}
    with pytest.raises(ValueError, match="ended before two seeds of each candidate"):
        advised(tmp_path, "houses.csv", changes=slow, budget="12s")
    assert time.monotonic() - began < 10 * 12, "the runs take minutes"
    assert "The budget is spent" in capsys.readouterr().out
    assert (tmp_path / "runs").exists()


def test_the_device_is_that_of_every_run(tmp_path: Path) -> None:
    WRITERS["houses.csv"](tmp_path / "houses.csv")
    found = recognize(tmp_path / "houses.csv", None, "price")
    trainer = advise_module._trainer(found, None, {"target": "price"}, SMALL["houses.csv"], "cuda")
    trained = trainer.specs(Store(tmp_path / "runs"), next(iter(trainer.candidates)), Rung(0.5, 2))
    assert [spec.device for spec in trained] == ["cuda", "cuda"]
    with pytest.raises(ValueError, match="there is no device 'gpu'"):
        advise(tmp_path / "houses.csv", target="price", device="gpu")


class Elsewhere:
    """An engine that executes nothing, and notes when it is to end."""

    ends_at: float | None = None

    def prepare(self, specs: object, store_root: Path) -> str:
        return ""

    def run(self, specs: object, store_root: Path, emit: object) -> None:
        raise TimeIsOver


def test_an_engine_is_told_when_the_budget_ends(tmp_path: Path, capsys) -> None:
    WRITERS["houses.csv"](tmp_path / "houses.csv")
    found = recognize(tmp_path / "houses.csv", None, "price")
    trainer = advise_module._trainer(found, None, {"target": "price"}, SMALL["houses.csv"], "cpu")
    trainer.executor, trainer.deadline = Elsewhere(), Deadline(100.0, 1.0)
    store = Store(tmp_path / "runs")
    trainer.execute(store, trainer.specs(store, next(iter(trainer.candidates)), Rung(0.5, 2)))
    assert trainer.executor.ends_at is not None
    assert 85 < trainer.executor.ends_at - time.monotonic() < 100
    assert "The budget is spent" in capsys.readouterr().out


def test_the_deadline_raises_in_the_midst_of_a_run() -> None:
    deadline = Deadline(0.0, 0.0)
    with pytest.raises(TimeIsOver):
        deadline.emit(Event(key="1f", kind="progress"))
    late = Deadline(100.0, 1.0)
    late.emit(Event(key="1f", kind="progress"))
    late.keep(50.0, 100.0)
    assert 85 < late.remaining() < 90, "a tenth of the budget at most is kept for baselines"
    [spec] = toys(1)
    late.names[spec.identity] = "line (detail 4)"
    assert (late.shown(spec).variant, late.shown(spec).identity) == ("line (detail 4)", spec.identity)
    late.release()
    assert late.remaining() > 95
    late.slow_down(3.0)
    assert 95 < late.remaining() < 97, "the page takes longer on a busy machine"
    late.slow_down(1000.0)
    assert 78 < late.remaining() < 81, "a fifth of the budget at most"
    assert str(Local(1)).startswith("one process")


def test_the_code_of_a_table_reads_dates_of_eight_digits_as_times(tmp_path: Path) -> None:
    """The code read 20240131 and 20240201 as numbers that are 70 apart, and the race as times a day apart."""
    days = pd.date_range("2023-12-01", periods=80).strftime("%Y%m%d")
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({
        "lon": draw.uniform(6, 15, 80), "lat": draw.uniform(47, 54, 80), "height": draw.normal(size=80),
        "sold": days[::-1].astype(int), "built": days.astype(int), "price": draw.uniform(1, 2, 80),
    })  # fmt: skip
    frame["built"] = frame["built"].astype("Int64").where(frame.index != 7)
    frame.to_csv(tmp_path / "houses.csv", index=False)
    options = ReadingOptions(target="price", time="sold")
    digest, table = store_table(tmp_path / "store", tmp_path / "houses.csv", options)
    columns = advise_module._columns(Store(tmp_path / "store"), {"data": {"table": digest}})
    assert columns.dates == ("built", "sold")
    settings = {"row": {"view": "lonlat"}, "data": {}}
    code = advise_module.sklearn_code(settings, ("Coordinates(axes=2)",), columns)
    names: dict = {}
    exec(code, names)
    for read in (frame, pd.read_csv(tmp_path / "houses.csv"), pd.read_csv(tmp_path / "houses.csv", dtype=str)):
        seconds = names["numbers"](read[["built", "sold"]]).to_numpy(float)
        assert np.array_equal(seconds, np.stack([table.numeric[:, 1], table.times], 1), equal_nan=True)


@pytest.mark.parametrize("view", ["region", "lonlat"])
def test_the_code_of_a_table_reads_texts_dates_and_missing_numbers(view: str) -> None:
    """The printed code refused the columns that the race had read."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({
        "lon": draw.uniform(6, 15, 80), "lat": draw.uniform(47, 54, 80), "height": draw.normal(size=80),
        "soil": draw.choice(["sand", "clay"], 80),
        "day": pd.date_range("2023-01-01", periods=80, freq="7h").astype(str), "note": [f"n{i}" for i in range(80)],
    })  # fmt: skip
    frame.loc[:5, "height"], frame.loc[3, "soil"], frame.loc[4, "day"] = np.nan, None, None
    frame["target"] = frame["lat"]
    region = {"geometry": "plane", "middle": [10.0, 50.0], "half": 5.0}
    columns = TableColumns(("lon", "lat"), ("height", "day"), ("soil",), "target")
    call = "Coordinates(axes=2)"
    code = advise_module.sklearn_code({"row": {"view": view}, "data": {"region": region}}, (call,), columns)
    names: dict = {}
    exec(code, names)
    model = names["model"].set_params(networkregressor__steps=20)
    assert np.isfinite(model.fit(frame, frame["target"]).predict(frame)).all()
    settings = {"row": {"view": view}, "data": {"region": region, "logarithm": True}}
    exec(advise_module.sklearn_code(settings, (call,), columns), names)
    of_logarithms = names["model"].set_params(regressor__networkregressor__steps=20)
    assert (of_logarithms.fit(frame, frame["target"]).predict(frame) > 0).all(), "the race learned logarithms"
