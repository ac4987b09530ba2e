"""The benchmark of vision transformers times nothing that is wrong, and walks the catalogue for what it times."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest
import torch

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def vision(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location("vision", FOLDER / "vision.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rotations_and_trained_biases_of_two_axes_are_found(vision):
    found = vision.with_two_axes(vision.vit("small", classes=2))
    assert {"GridPE", "AxialRoPE", "MixedRoPE", "SwinBias", "LogCPB"} <= set(found)
    assert not {"RoPE", "Learned", "PEG", "GridMerge", "ALiBi", "NoPE"} & set(found)


@pytest.mark.full
def test_figures_are_printed_and_written_with_where_they_come_from(vision, monkeypatch, tmp_path, capsys):
    out = tmp_path / "results" / "vision.json"
    monkeypatch.setattr("command.refusal", lambda force: "")
    monkeypatch.setattr(vision, "beside_pvt_v2", lambda size, x, rounds: {"ratio": 1.0})
    monkeypatch.setattr(sys, "argv", ["vision.py", "--size", "quick", "--image", "28", "--batch", "2", "--rounds", "2",
                                      "--schemes", "swinbias", "gridpe", "--out", str(out)])  # fmt: skip
    assert vision.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "batch 2 at 28 pixels, 1 threads, float32, forward and backward"
    assert lines[1].startswith("swinbias: ")
    assert "x a learned table (aim 1.30, " in lines[1]
    assert "attention by sdpa: its bias goes in as a dense additive mask" in lines[1]
    assert "x a learned table (aim 1.10, " in lines[2]
    written = json.loads(out.read_text())
    assert set(written["found"]) == {"swinbias", "gridpe", "pvt"}
    assert len(written["found"]["gridpe"]["rounds"]) == 2
    assert {"commit", "command", "machine"} <= set(written["provenance"])


def test_what_disagrees_is_not_timed(vision, monkeypatch):
    trouble = SimpleNamespace(ok=False, failures=[SimpleNamespace(trouble="Off by one.")])
    monkeypatch.setattr(vision, "check", lambda kind, family: trouble)
    config = vision.vit("quick", classes=2, image=28)
    with pytest.raises(ValueError, match=r"gridpe is not timed: its code and its definition disagree. Off by one"):
        vision.beside_a_table("gridpe", config, torch.zeros(1, 3, 28, 28), 1)


@pytest.mark.full
@pytest.mark.oracles
def test_a_pyramid_that_says_something_else_is_not_timed(vision, monkeypatch):
    transformers = pytest.importorskip("transformers")
    tiny = vision.pvt("tiny", classes=vision.CLASSES, image=32, options=vision.PYRAMID)
    narrow = [msgspec.structs.replace(stage, dim=stage.dim // 8, hidden=stage.hidden // 8) for stage in tiny.stages]
    config = msgspec.structs.replace(tiny, stages=tuple(narrow))
    with monkeypatch.context() as broken:
        broken.setattr(vision, "load_weights", lambda model, weights: None)
        with pytest.raises(ValueError, match=r"PVT differs from transformers' by .*; a speed of wrong results is none"):
            vision.same_as_transformers(config, transformers, torch.randn(1, 3, 32, 32))
    vision.same_as_transformers(config, transformers, torch.randn(1, 3, 32, 32))
