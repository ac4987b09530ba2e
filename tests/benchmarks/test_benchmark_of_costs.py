"""The benchmark of costs has the whole catalogue and times nothing wrong; docs/costs.md is made from its figures."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import torch

from posenc.schemes import catalogue

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[2]


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def costs(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return loaded(ROOT / "benchmarks" / "costs.py", "costs")


def test_the_page_is_made_from_the_figures():
    tool = loaded(ROOT / "tools" / "costs.py", "costs_page")
    text = tool.PAGE.read_text(encoding="utf-8")
    assert text == tool.page(), "docs/costs.md is outdated: python tools/costs.py"
    listed = set(re.findall(r"^\| (\w+) \|", text.split("## Decoding")[0], re.MULTILINE)) - {"scheme"}
    assert {"RoPE", "ALiBi", "CoPE", "Sinusoid"} <= listed <= set(catalogue())


def test_every_scheme_is_built_for_the_layer_and_has_positions(costs):
    for name in catalogue():
        scheme, pos = costs.scheme_at(name, 64)
        assert pos.count == 64, name
        scheme.prepare(pos)


def test_decoding_is_timed_once_it_is_right(costs, monkeypatch):
    small = msgspec.structs.replace(costs.DECODING, dim=48, hidden=64, heads=4, key_heads=2, depth=1)
    monkeypatch.setattr(costs, "embedded", lambda config, context: {})
    every = costs.sequential
    monkeypatch.setattr(costs, "sequential", lambda *given: {"FoX": every(*given)["FoX"]})
    (row,) = costs.decoding(1, ("FoX",), small, 16).values()
    assert row["ratio"] > 0
    assert row["bytes"] > 1
    monkeypatch.setattr(costs, "filled", lambda *given: (_ for _ in ()).throw(ValueError("it differs")))
    with pytest.raises(ValueError, match="it differs"):
        costs.decoding(1, ("FoX",), small, 16)


def test_a_training_step_is_compared_with_one_without_positions(costs):
    found = costs.training(1, ("RoPE", "PEG", "Sum", "HashGrid"), 16)
    assert set(found) == {"RoPE", "PEG", "Sum", "HashGrid"}
    assert all(min(row.values()) > 0 for row in found.values())


def test_bytes_of_operations_are_counted_and_views_are_free(costs):
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    product, view = costs.work(lambda: a @ b), costs.work(lambda: a[1:].T)
    assert (product.bytes, product.operations) == (4 * (12 + 20 + 15), 2 * 3 * 4 * 5)
    assert (view.bytes, view.operations) == (0, 0)


def test_operations_that_torch_does_not_count_are_counted(costs):
    q, k, v = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    attended = costs.work(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
    assert attended.operations >= 2 * 2 * 3 * 5 * 16
    lower, rows = torch.eye(4), torch.ones(4, 3)
    solved = costs.work(lambda: torch.linalg.solve_triangular(lower, rows, upper=False))
    assert solved.operations == 4 * 4 * 3
    turn = torch.tensor([[0.0, 8.0], [-8.0, 0.0]], dtype=torch.float64)
    once, halved = (costs.work(lambda t=t: t.matrix_exp()).operations for t in (turn / 8, turn))
    assert (once, halved) == (2 * 8 * 5, 2 * 8 * (5 + 3))


@pytest.mark.oracles
@pytest.mark.full
def test_an_adapted_model_is_timed_beside_attention_with_a_mask(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tool = loaded(ROOT / "benchmarks" / "adapted_decoding.py", "adapted_decoding")
    sizes = tool.SIZES | {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 100,
                          "num_attention_heads": 4}  # fmt: skip
    rope = "RoPE(16, pairing='half')"
    found, parameters = tool.measure(1, ("ALiBi(4)", rope, rope + tool.BY_LAYER), 16, sizes)
    assert len(found) == 3
    assert min(found.values()) > 0
    with pytest.raises(ValueError, match="differ from the original model's"):
        tool.measure(1, ("RoPE(16, pairing='half', base=3.0)",), 16, sizes)
    assert parameters > 10000
