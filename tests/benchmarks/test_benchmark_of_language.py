"""The benchmark of the language model times nothing that is wrong, and finds what it times by walking the catalogue."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"
SMALL = {"vocabulary": 11, "dim": 32, "depth": 1, "heads": 4, "key_heads": 2, "hidden": 16}


@pytest.fixture
def language(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("language", FOLDER / "language.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "language", module)  # a fresh process finds it by this name
    spec.loader.exec_module(module)
    return module


def test_every_scheme_of_a_text_takes_a_step_that_is_right(language):
    config = language.LanguageConfig(**SMALL)
    found = language.decode(1, config, 40)
    assert {"RoPE", "ALiBi", "T5Bias", "FIRE", "VORoPE", "CoPE", "FoX", "XPos"} <= set(found)
    assert not {"NoPE", "Sinusoid", "Learned", "SwinBias", "AxialRoPE"} & set(found)
    assert min(found.values()) > 0


def test_a_step_that_is_wrong_is_not_timed(language, monkeypatch):
    right = language.extend
    monkeypatch.setattr(language, "extend", lambda *given, **options: right(*given, **options) * (1 + 1e-3))
    with pytest.raises(
        ValueError, match=r"a step with NoPE differs from its reference by .*; a speed of wrong results"
    ):
        language.decode(1, language.LanguageConfig(**SMALL), 8)


@pytest.mark.full
def test_memory_is_that_of_fresh_processes_once_masks_agree(language, monkeypatch):
    alibi = language.with_a_bias()["ALiBi"]
    monkeypatch.setattr(language, "with_a_bias", lambda: {"ALiBi": alibi})
    found = language.memory(1, 64)
    assert set(found) == {"ALiBi"}
    assert found["ALiBi"] > 0
    q, k, v, x = language.inputs(40)
    for name, scheme in language.with_a_bias().items():
        with torch.no_grad():
            language.agree(
                name, language.ours(scheme, q, k, v, x), language.dense(language.masks(scheme, q, k), q, k, v, x)
            )
    monkeypatch.setattr(language, "ours", lambda scheme, q, *given: q)
    with pytest.raises(ValueError, match=r"attention with ALiBi differs from its reference"):
        language.memory(1, 64)


def test_figures_are_printed_and_written(language, monkeypatch, tmp_path, capsys):
    out = tmp_path / "language.json"
    monkeypatch.setattr(sys.modules["command"], "refusal", lambda force: "")
    small = language.LanguageConfig(**SMALL)
    run, aim, line = language.COMPARISONS["training"]
    monkeypatch.setattr(language, "COMPARISONS", {"training": (lambda rounds: run(rounds, small, 12, 2), aim, line)})
    monkeypatch.setattr(sys, "argv", ["language.py", "--rounds", "1", "--out", str(out)])
    assert language.main() == 0
    assert " x the time of a training step with queries and keys turned alone (aim 1.1 x, " in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert set(written["found"]["training"]["ratios"]) == {"VORoPE"}
    assert written["provenance"]["command"]
