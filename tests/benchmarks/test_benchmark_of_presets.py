"""Quick presets from nothing to a page: what is timed has run, and the hidden modules are read from its store."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.tasks.recordings import read_recordings

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def presets(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("presets")


def test_the_array_is_one_that_a_user_brings(presets, tmp_path):
    presets.array(tmp_path / "own.npz")
    found = read_recordings(tmp_path / "own.npz")
    assert (len(found.series), len(found.channels), len(set(found.modules))) == (6, 24, 4)
    with np.load(tmp_path / "own.npz") as stored:
        series, modules = stored["recordings"], stored["modules"]
    assert series.shape == (6, 24, 1500)
    assert series.var() == pytest.approx(2, rel=0.2)
    alike = np.corrcoef(series.transpose(1, 0, 2).reshape(24, -1))
    same = modules[:, None] == modules
    inside, across = alike[same & ~np.eye(24, dtype=bool)], alike[~same]
    assert inside.mean() == pytest.approx(0.5, abs=0.1)
    assert abs(across.mean()) < 0.1
    assert (np.diff(modules) < 0).any()  # in no order


def test_figures_are_printed_and_written(presets, monkeypatch, tmp_path, capsys):
    said = []

    def posenc(*arguments):
        said.append(arguments)
        if arguments[0] == "results":
            return "scheme,metric,value\nlearned-0.1,ari,0.9\nlearned-0.1,ari,0.7\nlearned-1,ari,0.1\n"
        return ""

    monkeypatch.setattr(presets, "posenc", posenc)
    monkeypatch.setattr("command.refusal", lambda force: "")
    out = tmp_path / "presets.json"
    monkeypatch.setattr(sys, "argv", ["presets.py", "nmar", "own", "--data", "there", "--out", str(out)])
    assert presets.main() == 0
    told = capsys.readouterr().out
    assert "nmar: 0.00 minutes" in told
    assert "own: adjusted Rand index at least 0.700 (aim 0.8, MISSED)" in told
    assert said[0][:4] == ("run", "nmar", "--data", "there")
    assert said[1][:2] == ("run", "masked")
    written = json.loads(out.read_text())["found"]
    assert written["own"]["rounds"][0]["adjusted_rand"] == [0.9, 0.7]
    assert written["nmar"]["aim_minutes"] == 2


@pytest.mark.full
def test_what_fails_is_not_timed_and_what_was_done_is_not_either(presets, tmp_path):
    with pytest.raises(ValueError, match=r"posenc run nmarr failed: .*nmar"):
        presets.posenc("run", "nmarr")
    assert "GridPE" in presets.posenc("list")
    with pytest.raises(ValueError, match="is there; a preset that goes on"):
        presets.one("nmar", tmp_path, tmp_path, None)
