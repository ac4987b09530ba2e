"""The benchmark of grids times nothing that is wrong."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def grids(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/grids.py` has it
    spec = importlib.util.spec_from_file_location("benchmark_grids", FOLDER / "grids.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESOLUTIONS", (4, 16))
    monkeypatch.setattr(module, "TABLE_SIZE", 2**8)
    return module


def test_the_gate_lets_the_grid_through_and_stops_another(grids, monkeypatch):
    table, x = grids.some_table(), torch.rand(100, 3)
    grids.gate(table, x)
    monkeypatch.setitem(grids.GATHERS, "table[index]", lambda table, index: 1.01 * table[index])
    with pytest.raises(ValueError, match=r"the plain gather by table\[index\] differ in values by 9\.9e-03 of the"):
        grids.gate(table, x)


def test_every_comparison_is_made_in_every_round(grids, capsys):
    found = grids.compare(grids.some_table(), torch.rand(100, 3), rounds=2)
    ratios = {name: figures for name, figures in found.items() if "rounds" in figures}
    assert len(ratios) == 3
    assert all(len(figures["rounds"]) == 2 and figures["ratio"] > 0 for figures in ratios.values())
    assert capsys.readouterr().out.count(" ms, peak ") == 5
