"""The benchmark of quick on own data: its counts, its choice of variants, and a rehearsal of one case."""

import dataclasses
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from posenc.models.encoder import EncoderConfig
from posenc.workbench.studies.recordings import presets
from posenc.workbench.studies.shared.hidden_tokens import table_scores

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def own_data(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("own_data")


def pair(stated: bool, quick: int, more: int) -> dict[str, Any]:
    return {"stated": stated, "sign_quick": quick, "sign_more": more}


def test_a_difference_is_found_only_where_it_is_stated_with_its_own_sign(own_data: Any) -> None:
    pairs = [pair(True, 1, 1), pair(True, 1, -1), pair(True, -1, 0), pair(False, 1, 1), pair(False, 0, 0)]
    assert own_data.summary(pairs) == {
        "pairs": 5, "stated": 3, "reversed": 1, "faded": 1, "stated_with_more": 3, "found": 1,
    }  # fmt: skip


def test_the_score_at_half_of_the_time_is_that_of_the_nearest_evaluation(own_data: Any) -> None:
    rows = [(0, 0.0, 10.0), (3, 2.0, 20.0), (9, 5.5, 30.0), (12, 10.1, 40.0)]
    curve = [
        {"epoch": epoch, "metric": name, "value": value}
        for epoch, seconds, psnr in rows
        for name, value in (("seconds", seconds), ("psnr", psnr))
    ]
    assert own_data.at_half_time(curve, "psnr", 10.0) == 30.0


def test_the_four_variants_are_first_second_none_and_steepest(own_data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    full = {label: {0: value} for label, value in {"a": 9, "b": 8, "c": 7, "d": 6, "nope": 1}.items()}
    half = {label: {0: value} for label, value in {"a": 1, "b": 8, "c": 6, "d": 2, "nope": 1}.items()}
    monkeypatch.setattr(own_data, "scores", lambda plan, specs: (full, half))
    case = dataclasses.replace(own_data.CASES["meshes"], none="nope", higher=True)
    plan = own_data.Plan(case, Path(), 1.0, (0,))
    assert own_data.four_variants(plan, []) == ["a", "b", "nope", "d"]
    lower = own_data.Plan(dataclasses.replace(case, higher=False), Path(), 1.0, (0,))
    assert own_data.four_variants(lower, [])[:2] == ["d", "c"]


@pytest.mark.full
@pytest.mark.usefixtures("in_this_process")
def test_a_rehearsal_of_the_recordings_ends_in_a_file_and_a_second_one_trains_nothing(
    own_data: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = EncoderConfig(channels=1, classes=1, dim=12, depth=1, hidden=16, activation="relu")
    quick = dataclasses.replace(presets.PRESETS["quick"], model=small, test_frames=20)
    monkeypatch.setitem(presets.PRESETS, "quick", quick)
    monkeypatch.setattr(table_scores, "DRAWS", 20)
    monkeypatch.setattr(own_data, "PROCESSES", 1)
    monkeypatch.setattr(own_data, "NICE", 0)
    kept = ("learned-0.1", "nope", "rope", "random")
    case = own_data.CASES["channels"]
    planned = own_data.Plan.specs
    monkeypatch.setattr(
        own_data.Plan,
        "specs",
        lambda plan, *args: [spec for spec in planned(plan, *args) if spec.variant in kept],
    )
    words = ["--data", str(tmp_path), "--work", str(tmp_path / "work"), "--cases", "channels", "--seeds", "2"]
    words += ["--scale", "0.001", "--force", "--out", str(tmp_path / "out.json")]
    monkeypatch.setattr(sys, "argv", ["own_data.py", *words, "--time-limit", "0"])
    assert own_data.main() == 1, "no time: nothing is run"
    assert "Start the same command again" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["own_data.py", *words])
    assert own_data.main() == 0
    told = capsys.readouterr().out
    assert "channels, quick, seed 1: 8 runs" in told
    assert "channels, 4 x the budget, seed 1: 4 runs" in told
    found = json.loads((tmp_path / "out.json").read_text())
    assert len(found["cases"]["channels"]["pairs"]) == found["total"]["pairs"] == 6
    assert set(found["cases"]["channels"]["variants"]) == set(kept)
    assert found["cases"]["channels"]["items"]["test"] >= 1
    assert case.metric == found["cases"]["channels"]["metric"]
    assert own_data.main() == 0
    assert "runs in" not in capsys.readouterr().out, "everything is stored"
