"""The benchmark of fields times nothing that is wrong."""

import importlib.util
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def fields(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/fields.py` has it
    spec = importlib.util.spec_from_file_location("benchmark_fields", FOLDER / "fields.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESOLUTIONS", (4, 40))
    monkeypatch.setattr(module, "TABLE_SIZE", 2**8)
    monkeypatch.setattr(module, "BATCH", 64)
    return module


def test_the_gate_lets_the_field_through_and_stops_another(fields, monkeypatch):
    fields.gate()
    inner = fields.corners
    monkeypatch.setattr(fields, "corners", lambda x: (inner(x)[0].roll(1, 0), inner(x)[1]))
    monkeypatch.setattr(torch.nn.init, "uniform_", lambda t, a=0, b=1, generator=None: t.data.normal_())
    with pytest.raises(ValueError, match="a speed of wrong results is none"):
        fields.gate()


def test_a_step_is_compared_and_profiled(fields):
    found = fields.compare(rounds=2)
    assert len(found["times faster than plain"]["rounds"]) == 2
    assert set(found["milliseconds"]) == {"field", "plain"}
    assert len(fields.profile(steps=1)) == 10
