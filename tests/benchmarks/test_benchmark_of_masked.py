"""The benchmark of the masked encoder times nothing that is wrong, and what it times is what the figures say."""

import importlib.util
import sys
from pathlib import Path

import msgspec
import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def masked(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmark_masked", FOLDER / "masked.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = msgspec.structs.replace(module.CONFIG, dim=16, depth=2, hidden=32)
    monkeypatch.setattr(module, "CONFIG", small)
    monkeypatch.setattr(module, "CHANNELS", 12)
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "FRAMES", 16)
    return module


def test_the_gate_lets_the_same_through_and_stops_what_is_not(masked):
    ours, plain = masked.make_pair(masked.CONFIG, 12)
    values, hidden = torch.randn(4, 12, 1), masked.hidden_of(4, 6, 0, 12)
    masked.gate(ours, plain, values, hidden)
    with torch.no_grad():
        plain.hidden_token.add_(0.5)
    with pytest.raises(ValueError, match=r"differ in \S+ by .* a speed of wrong results is none"):
        masked.gate(ours, plain, values, hidden)


def test_a_run_prints_a_ratio_with_its_aim_and_writes_it(masked, monkeypatch, tmp_path, capsys):
    command = sys.modules["command"]
    monkeypatch.setattr(command, "refusal", lambda force: "")
    out = tmp_path / "masked.json"
    monkeypatch.setattr(sys, "argv", ["masked.py", "--rounds", "1", "--steps", "1", "--out", str(out)])
    assert masked.main() == 0
    told = capsys.readouterr().out
    assert "50% hidden: " in told
    assert "(aim 1.15 x, " in told
    assert "MiB above rest" in told
    figures = msgspec.json.decode(out.read_bytes())["found"]["0.5"]
    assert figures["ratio"] == pytest.approx(
        figures["steps_per_second"]["masked encoder"] / figures["steps_per_second"]["baseline"]
    )
