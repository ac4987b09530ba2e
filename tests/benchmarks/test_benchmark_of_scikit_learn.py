"""The benchmark of encodings in scikit-learn holds out whole cells; models that learn nothing are not reported."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch) -> ModuleType:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmark_of_scikit_learn", FOLDER / "scikit_learn.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def houses(benchmark: ModuleType, rows: int = 300) -> Any:
    """A table whose target depends on one census column and on the place."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.uniform(1, 2, (rows, len(benchmark.CENSUS))), columns=benchmark.CENSUS)
    table["longitude"], table["latitude"] = rng.uniform(-124, -114, rows), rng.uniform(32, 42, rows)
    table["median_house_value"] = 1e5 * (3 * table["median_income"] + np.sin(table["longitude"]))
    table.loc[3, "total_bedrooms"] = np.nan
    return table


def test_no_cell_of_half_a_degree_is_in_both_sets(benchmark: ModuleType) -> None:
    table = houses(benchmark)
    cells = benchmark.cells(table)
    for train, test in benchmark.folds(table, "half degrees", 0):
        assert not {*cells[train]} & {*cells[test]}
    shared = [bool({*cells[train]} & {*cells[test]}) for train, test in benchmark.folds(table, "random", 0)]
    assert any(shared)
    at = table[["longitude", "latitude"]].to_numpy()
    assert all(np.ptp(at[cells == cell], axis=0).max() <= 0.5 for cell in {*cells})


def test_inputs_are_compared_on_the_same_folds(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ENCODINGS", {"Fourier": "FourierFeatures(32, sigma=1)"})
    found = benchmark.compare(houses(benchmark), "random", "ridge", 1)
    assert list(found) == ["no place", "longitude, latitude", "Fourier"]
    assert found["longitude, latitude"]["gain"] == 0
    assert found["Fourier"]["low"] > 0.05
    assert found["no place"]["R2"] < found["Fourier"]["R2"]


def test_models_that_learn_nothing_are_not_reported(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ENCODINGS", {})
    table = houses(benchmark)
    table["median_house_value"] = np.random.default_rng(1).uniform(1, 2, len(table))
    with pytest.raises(SystemExit, match="nothing is reported"):
        benchmark.compare(table, "random", "ridge", 1)


def test_the_table_of_the_document_is_that_of_the_results(benchmark: ModuleType) -> None:
    root = FOLDER.parent
    found = json.loads((root / "results" / "scikit-learn-cpu.json").read_text(encoding="utf-8"))
    assert list(found["encodings"].values()) == list(benchmark.ENCODINGS.values())
    assert benchmark.markdown(found["r2"]) in (root / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
