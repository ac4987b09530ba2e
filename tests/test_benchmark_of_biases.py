"""The benchmark of biases times nothing that is wrong, and finds what it times by walking the catalogue."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def biases(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmark_biases", FOLDER / "biases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "GATED", 40)
    return module


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


def test_memory_is_what_a_fresh_process_adds(biases):
    given = biases.inputs(32, 2)
    out = biases.ours(biases.NoPE(), given)
    torch.testing.assert_close(out, biases.plain(None, given))
    assert biases.added(biases.NoPE(), 64, 1) >= 0


def test_rounds_take_both_forms(biases):
    rounds = biases.in_turn(biases.Shaw(biases.WIDTH, 4), 16, 1, 3, {"ours": biases.ours, "naive": biases.naive})
    assert {name: len(times) for name, times in rounds.items()} == {"ours": 3, "naive": 3}
    assert min(rounds["ours"]) > 0
