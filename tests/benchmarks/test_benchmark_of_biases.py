"""The benchmark of biases times nothing that is wrong, and finds what it times by walking the catalogue."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from posenc.kernels import chunked_attention

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def in_earnest(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("biases", FOLDER / "biases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "biases", module)  # a fresh process finds it by this name
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def biases(in_earnest, monkeypatch) -> ModuleType:
    monkeypatch.setattr(in_earnest, "GATED", 40)
    return in_earnest


def test_the_gate_is_long_enough_for_parts_of_which_the_last_is_shorter(in_earnest, monkeypatch):
    taken, runs = [], chunked_attention._runs
    monkeypatch.setattr(
        chunked_attention, "_runs", lambda count, step: taken.append((count, step)) or runs(count, step)
    )
    in_earnest.gate("ALiBi", in_earnest.with_a_bias()["ALiBi"], 4, in_earnest.whole)
    assert len(taken) == 2  # forwards and backwards, of the one way
    assert all(1 < step < count and count % step for count, step in taken)


@pytest.mark.parametrize("values", [True, False])
def test_the_gate_lets_shaw_through_and_stops_what_differs(biases, values):
    scheme = biases.Shaw(biases.WIDTH, biases.REACH, values=values)
    biases.gate("Shaw", scheme, 2, biases.naive)
    assert scheme.keys.dtype == torch.float32

    def off(scheme, given):
        return biases.naive(scheme, given) * (1 + 1e-6)

    with pytest.raises(ValueError, match=r"Shaw differs from its reference by .*; a speed of wrong results is none"):
        biases.gate("Shaw", scheme, 2, off)


def test_every_bias_of_a_long_sequence_is_found_and_passes_the_gate(biases):
    found = biases.with_a_bias()
    assert {"ALiBi", "T5Bias", "KERPLELog", "FIRE", "CoPE", "FoX"} <= set(found)
    assert not {"Shaw", "RoPE", "SwinBias", "GraphDistance"} & set(found)
    for name, scheme in found.items():
        biases.gate(name, scheme, 4, biases.whole)


@pytest.mark.full
def test_memory_is_what_a_fresh_process_adds(biases):
    given = biases.inputs(32, 2)
    out = biases.ours(biases.NoPE(), given)
    torch.testing.assert_close(out, biases.plain(None, given))
    assert biases.added(biases.NoPE(), 64, 1) >= 0
    alibi = biases.with_a_bias()["ALiBi"]
    extra = biases.matrices({"one": (alibi, 4), "two": (alibi, 4), "three": (biases.Shaw(biases.WIDTH, 4), 1)}, 512)
    assert set(extra) == {"one", "two", "three"}
    assert all(-1 < figure < 40 for figure in extra.values())  # a whole (512, 512) is 1 MiB, a process moves by some


def test_figures_are_printed_and_written_with_where_they_come_from(biases, monkeypatch, tmp_path, capsys):
    out = tmp_path / "results" / "biases.json"
    monkeypatch.setattr("command.refusal", lambda force: "")
    monkeypatch.setattr(biases, "matrices", lambda cases, tokens: dict.fromkeys(cases, 1.5))
    monkeypatch.setattr(biases, "with_a_bias", lambda: {"ALiBi": biases.catalogue()["ALiBi"](4)})
    monkeypatch.setattr(biases, "NAIVE", 16)
    monkeypatch.setattr(biases, "TIMED", 16)
    monkeypatch.setattr(sys, "argv", ["biases.py", "--rounds", "1", "--out", str(out)])
    assert biases.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("Shaw, keys and values, 1 heads: ")
    assert lines[0].endswith("; 1.50 matrices a head at 4096 (aim 1, MISSED)")
    assert lines[4].startswith("ALiBi: ")
    assert lines[4].endswith(" x the time of SDPA without a bias at 16 tokens; 1.50 matrices a head at 4096")
    written = json.loads(out.read_text())
    assert len(written["found"]) == 5
    assert written["found"]["ALiBi"]["matrices_a_head"] == 1.5
    assert {"commit", "command", "machine"} <= set(written["provenance"])


def test_rounds_take_both_forms(biases):
    rounds = biases.in_turn(biases.Shaw(biases.WIDTH, 4), 16, 1, 3, {"ours": biases.ours, "naive": biases.naive})
    assert {name: len(times) for name, times in rounds.items()} == {"ours": 3, "naive": 3}
    assert min(rounds["ours"]) > 0
