"""The benchmark of the command line refuses wrong output, and times each command next to torch."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmark_command_line", FOLDER / "command_line.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
def test_a_command_with_another_output_or_status_is_not_timed(benchmark):
    benchmark.check("posenc --version", 0, "0.")
    benchmark.check("posenc frobnicate", 2, "no command 'frobnicate'")
    for code, part in ((2, "0."), (0, "nothing of this")):
        with pytest.raises(ValueError, match=r"posenc --version exited with 0 and printed"):
            benchmark.check("posenc --version", code, part)
    with pytest.raises(ValueError, match="posenc doctor loads torch"):
        benchmark.check("posenc doctor", 0, "versions")


@pytest.mark.parametrize(("torch", "status"), [(4.0, 0), (2.0, 1)])
def test_ratios_are_medians_and_the_aim_decides_the_status(benchmark, monkeypatch, tmp_path, torch, status):
    checked, out = [], tmp_path / "command-line.json"
    monkeypatch.setattr(benchmark, "check", lambda command, code, part: checked.append(command))
    monkeypatch.setattr(benchmark, "wall_time", lambda words: torch if words == benchmark.TORCH else 1.0)
    monkeypatch.setattr(sys, "argv", ["command_line.py", "--rounds", "3", "--force", "--out", str(out)])
    monkeypatch.setattr(sys.modules["command"], "refusal", lambda force: "")
    assert benchmark.main() == status
    assert checked == list(benchmark.COMMANDS)
    figures = json.loads(out.read_text())["commands"]
    assert {each["ratio"] for each in figures.values()} == {1 / torch}
    assert all(len(each["rounds"]) == 3 for each in figures.values())
