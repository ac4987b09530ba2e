"""Two LeNets next to one: right before anything is timed, and every process is counted."""

import importlib
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def lenet(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/lenet.py` has it, and its processes inherit it
    return importlib.import_module("lenet")


@pytest.mark.full
def test_figures_are_printed_and_written_with_where_they_come_from(lenet, monkeypatch, tmp_path, capsys):
    out = tmp_path / "lenet.json"
    monkeypatch.setattr("command.refusal", lambda force: "")
    monkeypatch.setattr(sys, "argv", ["lenet.py", "--rounds", "3", "--pictures", "512", "--out", str(out)])
    assert lenet.main() == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("two processes over one of them: ")
    assert second.startswith("two processes over all threads: ")
    written = json.loads(out.read_text())
    assert written["pictures"] == 512
    for name, figures in written["found"].items():
        assert figures["aim"] == lenet.AIMS[name]
        assert len(figures["rounds"]) == 3
        assert 0.2 < figures["ratio"] < 20
        assert figures["pictures_per_second"] > 10


def test_threads_that_disagree_are_not_timed(lenet, monkeypatch):
    losses = iter((2.3, 2.4))
    monkeypatch.setattr(lenet, "train", lambda *_, **__: [{"metric": "loss_train", "value": next(losses)}])
    with pytest.raises(ValueError, match=r"one thread has a loss of 2.300000 and \d+ threads have 2.400000"):
        lenet.gate()
