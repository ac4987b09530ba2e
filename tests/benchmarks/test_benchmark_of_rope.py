"""The benchmark of rotations times nothing that is wrong, and everything that it names an aim for."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rotary(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/rotary.py` has it
    spec = importlib.util.spec_from_file_location("benchmark_rotary", FOLDER / "rotary.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_the_gate_stops_the_other_pairing_and_lets_the_right_one_through(rotary, pairing):
    x = torch.randn(1, 2, 9, 8)
    scheme = rotary.RoPE(8, pairing=pairing)
    out = scheme.transform(x, scheme.prepare(rotary.sequence(9)), "q")
    rotary.gate("right", out, x, pairing)
    rotary.gate("right", out.bfloat16(), x, pairing)
    other = "half" if pairing == "interleaved" else "interleaved"
    with pytest.raises(ValueError, match=r"wrong is off by .* a speed of wrong results is none"):
        rotary.gate("wrong", out, x, other)


@pytest.mark.compile
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # inductor's own
@pytest.mark.full
def test_every_way_with_an_aim_is_timed_behind_its_gate(rotary, monkeypatch):
    monkeypatch.setattr(rotary, "keep_freed_memory", lambda: None)  # which this process would keep for good
    found = rotary.compare(2, (1, 2, 16, 8))
    assert set(found) == set(rotary.AIMS)
    assert all(figures["ratio"] >= 0 for figures in found.values())


def test_figures_are_printed_and_written_with_where_they_come_from(rotary, monkeypatch, tmp_path, capsys):
    found = {"half": {"ratio": 4.0, "aim": 5.0, "peak": 1.0}, "prepare": {"ratio": 2.0, "aim": 1.2, "peak": 0.5}}
    out = tmp_path / "results" / "rotary.json"
    monkeypatch.setattr("command.refusal", lambda force: "")
    monkeypatch.setattr(rotary, "compare", lambda rounds: found)
    monkeypatch.setattr(sys, "argv", ["rotary.py", "--out", str(out)])
    assert rotary.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "half: 4.00 clones (aim 5.0, met), peak 1.00 clones"
    assert lines[1] == "prepare: 2.00 clones (aim 1.2, MISSED), peak 0.50 clones"
    written = json.loads(out.read_text())
    assert written["found"] == found
    assert {"commit", "command", "machine"} <= set(written["provenance"])
