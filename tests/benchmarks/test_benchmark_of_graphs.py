"""The benchmark of graphs times nothing whose residual is too large, and each of the views."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("benchmark_of_graphs", FOLDER / "graphs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch Geometric's own, at its first import
def test_small_graphs_are_measured_beside_scipy(benchmark: ModuleType) -> None:
    found = benchmark.eigenvectors(benchmark.lattice(5, 7), 1)
    assert found["residual"] < 1e-6
    assert found["posenc (s)"] > 0 < found["scipy (s)"]
    assert benchmark.random_graph(60, 90).num_nodes <= 60
    assert {"posenc (MiB)", "scipy (MiB)"} <= set(found)
    small = benchmark.batches(3)
    assert {f"{view} ({unit})" for view in ("eigenvectors", "walks", "degree", "hops") for unit in ("s", "MiB")} <= set(
        small
    )
    if importlib.util.find_spec("torch_geometric"):
        assert small["walks, PyTorch Geometric (s)"] > 0 < found["PyTorch Geometric (s)"]


def test_wrong_eigenvectors_are_not_timed(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "residual", lambda one, pos: 1.0)
    with pytest.raises(SystemExit, match=r"the residual is 1\.0e\+00, above 1e-05: nothing is timed"):
        benchmark.eigenvectors(benchmark.lattice(3, 4), 1)
