"""A benchmark starts on a quiet machine alone, and times nothing that is wrong."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from drawn_pictures import write_idx
from posenc.workbench import runner

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{Path(name).name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def encoder(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/encoder.py` has it
    return load("encoder")


@pytest.mark.parametrize(
    ("arguments", "study"),
    [
        (["/venv/bin/python", "/venv/bin/posenc", "run", "latin-squares"], True),
        (["posenc", "run", "latin-squares"], True),
        (["python", "-m", "posenc.cli", "run", "latin-squares"], True),
        (["python", "-c", "from posenc.workbench.executors.processes import serve; serve(3)"], True),
        (["python", "benchmarks/kill.py", "--", "posenc", "run", "latin-squares"], True),
        (["posenc", "list"], False),
        (["vim", "posenc", "runner.py"], False),
        (["python", "-m", "pytest", "tests"], False),
    ],
)
def test_a_study_is_known_by_its_command_line(arguments, study):
    assert load("quiet").runs_a_study(arguments) is study


def test_benchmarks_refuse_beside_a_study_even_when_forced(monkeypatch):
    quiet = load("quiet")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(quiet, "running", lambda: {7: ["vim"], 9: ["posenc", "run", "latin-squares"]})
    for force in (False, True):
        assert quiet.refusal(force).startswith("A study is running (process 9: posenc run latin-squares), and timings")
    monkeypatch.setattr(quiet, "running", lambda: {7: ["vim"]})
    assert quiet.refusal(False) == ""


def test_benchmarks_refuse_a_busy_machine_unless_forced(monkeypatch):
    quiet = load("quiet")
    monkeypatch.setattr(quiet, "running", dict)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.25, 0.0, 0.0))
    assert "load average of the last minute is 1.25" in quiet.refusal(False)
    assert "--force" in quiet.refusal(False)
    assert quiet.refusal(True) == ""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system has no /proc")
def test_other_processes_are_seen():
    code = "import sys, time; print('up', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, "posenc", "run"], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        quiet = load("quiet")
        found = quiet.running()
        assert quiet.runs_a_study(found[other.pid])
        assert os.getpid() not in found
    finally:
        other.kill()
        other.communicate()


def test_the_gate_lets_the_models_of_the_studies_through(encoder):
    for name in encoder.CASES:
        config = encoder.PRESETS[name].main.model
        model, plain = encoder.make_pair(config)
        encoder.gate(model, plain, *encoder.some_puzzles(config, 8))
        assert model.head.weight.grad is not None


def test_the_gate_stops_what_is_not_the_same(encoder):
    config = encoder.PRESETS["quick"].main.model
    model, plain = encoder.make_pair(config)
    with torch.no_grad():
        plain.tables[1].mul_(1.1)
    with pytest.raises(ValueError, match=r"encoder and baseline differ in \S+ by .* a speed of wrong results is none"):
        encoder.gate(model, plain, *encoder.some_puzzles(config, 8))


def test_imports_are_timed_in_turn_behind_a_gate_and_written(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(FOLDER)
    importing, out = load("importing"), tmp_path / "results" / "import.json"
    asked = []

    def fresh(code):
        asked.append(code)
        return 0.0 if code == importing.GATE else 1.1 if "from posenc import RoPE;" in code else 1.0

    monkeypatch.setattr("command.refusal", lambda force: "")
    monkeypatch.setattr(importing, "fresh", fresh)
    monkeypatch.setattr(sys, "argv", ["importing.py", "--rounds", "2", "--out", str(out)])
    assert importing.main() == 0
    assert asked[0] == importing.GATE
    assert ["posenc" in code for code in asked[1:]] == [False, True, True, False, False, True]
    first, last = capsys.readouterr().out.splitlines()
    assert first == "from posenc import RoPE: 1.100 x import torch (aim 1.15 x, met); 1100 ms next to 1000 ms"
    assert last.startswith("load average at the end: ")
    written = json.loads(out.read_text())
    assert written["found"]["rounds"] == pytest.approx([1.1, 1.1])
    assert {"commit", "command", "machine"} <= set(written["provenance"])


@pytest.mark.full
def test_an_import_is_timed_in_a_fresh_process_and_not_if_it_does_not_work(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    importing = load("importing")
    assert 0 < importing.fresh(importing.IMPORT.format("import json")) < 5
    importing.gate()
    with pytest.raises(ValueError, match=r"is off by 1\.0e\+00 in a fresh process \(allowed 1e-06\); the speed of an"):
        importing.gate("print(1.0)")
    with pytest.raises(subprocess.CalledProcessError):
        importing.fresh("import no_such_module")


# on a GPU; here on the CPU, with a small model ---------------------------------------------------------------------


@pytest.mark.full
def test_the_population_benchmark_checks_times_and_writes(tmp_path, capsys):
    population = load("gpu/population")
    out = tmp_path / "results" / "population.json"
    arguments = ["--device", "cpu", "--tiny", "--schemes", "learned-0.2", "nope", "--members", "3", "--out", str(out)]
    assert population.main(arguments) == 0
    found = json.loads(out.read_text())
    assert set(found["checked"]) == {"learned-0.2", "nope"}
    assert max(found["checked"].values()) < population.TOLERANCE
    assert set(found["timed"]) == {"alone, float32", "3 together, float32"}
    figures = found["timed"]["3 together, float32"]
    assert figures["ratio"] > 0
    assert figures["spread"][0] <= figures["model_steps_per_second"] <= figures["spread"][1]
    assert {"commit", "command", "machine"} <= set(found["provenance"])
    table = capsys.readouterr().out.splitlines()
    assert table[-1] == f"figures in {out}"
    assert table[-2].startswith("3 together, float32")


@pytest.mark.full
def test_the_population_benchmark_times_nothing_that_is_wrong(monkeypatch):
    population = load("gpu/population")
    scale = population.scale_of(population.parse(["--tiny"]))
    right = population.train_batched

    def wrong(members, *, graph):
        return [[row | {"value": row["value"] * 1.0001} for row in curve] for curve in right(members, graph=graph)]

    monkeypatch.setattr(population, "train_batched", wrong)
    with pytest.raises(ValueError, match=r"nope: a member's loss differs from its own alone by .* a speed of wrong"):
        population.check("nope", scale, "cpu")


@pytest.mark.full
def test_the_paper_scale_runs_go_through_the_runner(monkeypatch, tmp_path):
    population = load("gpu/population")
    seen = []

    def run(specs, store, executor):
        seen.append((specs, executor))
        return runner.Report(done=list(specs))

    monkeypatch.setattr(population.runner, "run", run)
    arguments = ["--table1", "--table-a2", "--tiny", "--seeds", "0", "1", "--store", str(tmp_path), "--members", "7"]
    assert population.main([*arguments, "--out", str(tmp_path / "o.json")]) == 0
    (first, executor), (second, _) = seen
    assert (len(first), len(second)) == (16, 40)
    assert str(executor).startswith("batched training on cuda: up to 7 models")
    assert {spec.settings["training"]["epochs"] for spec in first} == {600}
    assert {spec.settings["training"]["epochs"] for spec in second} == {400}
    assert {(spec.settings["precision"], spec.settings["device"]) for spec in first} == {("tf32", "cuda")}
    assert len(list(executor.groups(second))) == 6  # 40 models of one scheme, seven at a time


@pytest.mark.full
def test_the_day_on_a_gpu_is_rehearsed_in_slices_on_the_cpu(tmp_path, monkeypatch, capfd):
    day = load("gpu/day")
    long = {name: step._replace(minutes=10 * step.minutes) for name, step in day.STEPS.items()}
    monkeypatch.setattr(day, "STEPS", long)  # a machine with other work takes more than the minutes of a GPU
    write_idx(tmp_path / "data" / "fashion_mnist")
    state = tmp_path / "day"
    words = ["--state", str(state), "--data", str(tmp_path / "data"), "--device", "cpu", "--tiny"]
    assert day.main([*words, "--steps", "correctness", "speed"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "nothing is left"
    correct, speed = (json.loads((state / f"{name}.json").read_text()) for name in ("correctness", "speed"))
    assert correct["wrong"] == []
    assert len(correct["kernels"]) > 50
    assert len(speed["kernels"]["cases"]) == 10
    assert speed["kernels"]["copy_gigabytes_per_second"] > 0
    assert {"timed", "checked", "kernels"} <= set(speed)
    assert day.main(words) == 0  # the next slice leaves out what is done
    said = capfd.readouterr().out
    assert "correctness: " not in said
    assert "packs of table1: latin-squares-quick" in said
    assert said.splitlines()[-1] == "nothing is left"
    outcomes = {name: each["outcome"] for name, each in json.loads((state / "day.json").read_text()).items()}
    assert outcomes == dict.fromkeys(day.STEPS, "done")
    assert {path.name for path in state.glob("*.json")} == {"day.json", *(f"{name}.json" for name in day.STEPS)}
    assert len(json.loads((state / "table1.json").read_text())["found"]) == 8
    assert json.loads((state / "vision.json").read_text())["finished"] == 1
    assert len(list((state / "packs").rglob("*.zip")) or list((state / "packs").rglob("*"))) >= 3


def test_a_slice_interrupts_a_step_and_the_next_one_continues_it(tmp_path, monkeypatch, capsys):
    day, given = load("gpu/day"), []

    def execute(chosen, name, seconds):
        given.append((name, round(seconds)))
        return seconds, "interrupted"

    monkeypatch.setattr(day, "execute", execute)
    words = ["--state", str(tmp_path), "--slice", "8m", "--device", "cpu", "--steps", "correctness"]
    assert day.main(words) == 0
    assert given == [("correctness", 120)]
    assert "correctness: out of its minutes after 2.0 of 2 min" in capsys.readouterr().out
    assert day.main([*words, "speed"]) == 0
    assert given == [("correctness", 120), ("speed", 180)]
    assert day.main(["--state", str(tmp_path), "--steps", "table1"]) == 0
    assert "table1 is left out: it needs lst in the folder of --data" in capsys.readouterr().out
    monkeypatch.setattr(day, "execute", lambda chosen, name, seconds: (30.0, "interrupted"))
    (tmp_path / "day.json").unlink()
    assert day.main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: the same command continues with correctness"
    with pytest.raises(SystemExit):
        day.parse(["--state", str(tmp_path), "--slice", "9m"])
    assert "a slice has up to 8 minutes; got 9m" in capsys.readouterr().err


def test_the_steps_of_the_day_have_25_minutes_and_a_slice_can_hold_the_first():
    day = load("gpu/day")
    assert sum(step.minutes for step in day.STEPS.values()) == 25
    assert set(day.RUN) == set(day.STEPS)
