"""The live page of a study, at the address of the final page; and the runs of `make run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_latin_squares import shrink

from posenc.workbench import request_execution, studies
from posenc.workbench.report import live_page
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import STUDY
from posenc.workbench.studies.latin_squares.claims import PREDICTED

ROOT = Path(__file__).parents[3]


def confirm(estimate: object) -> bool:
    raise AssertionError("the quick preset does not ask")


@pytest.mark.usefixtures("in_this_process")
def test_the_page_is_drawn_from_the_first_runs_and_becomes_the_final_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shrink(monkeypatch)
    monkeypatch.setattr(live_page, "DRAW_SECONDS", 0.0)
    monkeypatch.setattr(live_page, "DRAW_SHARE", 1e9)
    written, write_text = list[str](), live_page.write_text
    monkeypatch.setattr(live_page, "write_text", lambda path, text: written.append(text) or write_text(path, text))
    request = studies.Request(preset="quick", panels=["accuracy"], schemes=["2d-fixed", "nope"], seeds=[0])
    done = request_execution.execute_request(STUDY, request, tmp_path / "runs", confirm=confirm, jobs=1)
    assert done is not None
    assert f"Live page: {done.path.as_uri()}" in capsys.readouterr().out.splitlines()
    assert "No run has finished yet." in written[0]
    preliminary = [text for text in written if "Preliminary: drawn at " in text]
    assert "1 of 2 done" in preliminary[0]
    assert ">Accuracy by encoding</h2>" in preliminary[0]
    final = done.path.read_text()
    assert ">Accuracy by encoding</h2>" in final
    assert 'id="live"' not in final
    assert "refresh" not in final


def test_make_run_trains_six_encodings_of_the_quick_preset_that_its_predictions_compare(tmp_path: Path) -> None:
    (words,) = re.findall(r"^\t\$\(VENV\)/bin/posenc run (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    study, _, panels, _, *schemes = words.split()
    assert (study, panels, len(schemes)) == (STUDY.name, "accuracy", 6)
    assert {scheme for pair in PREDICTED for scheme in pair} | {"rope", "nope"} == set(schemes)
    store = Store(tmp_path)
    runs = STUDY.plan(studies.Request(preset="quick", panels=[panels], schemes=schemes), store)
    assert len(runs) == 18
    full = STUDY.plan(studies.Request(preset="quick"), store)
    assert {spec.identity for spec in runs} < {spec.identity for spec in full}  # the full comparison reuses them
