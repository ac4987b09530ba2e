"""The benchmark of permutohedral grids compares encodings of equal size, and measures errors of a fit."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare
FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/permutohedral.py` has it
    spec = importlib.util.spec_from_file_location("benchmark_permutohedral", FOLDER / "permutohedral.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("axes", [2, 3, 6])
def test_encodings_have_at_most_the_same_number_of_parameters(benchmark_module, axes) -> None:
    made = benchmark_module.encodings(axes, 2**12)
    sizes = {name: sum(each.numel() for each in scheme.parameters()) for name, scheme in made.items()}
    assert max(sizes.values()) == sizes["permutohedral"] == 2**16
    assert sizes["dense"] > 2**14


def test_times_and_errors_are_measured(benchmark_module, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_module, "STEPS", 3)
    monkeypatch.setattr(benchmark_module, "TESTED", 50)
    assert set(benchmark_module.seconds(2, 50, rounds=1)) == {"permutohedral", "hashed"}
    found = benchmark_module.fits(2, "permutohedral", seeds=2)
    assert len(found["values"]) == len(found["derivatives"]) == 2
    assert found["parameters"] == 2**16
