"""The benchmark of reading pictures times nothing that is wrong."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from small_images import write_photographs

pytestmark = pytest.mark.bare

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def images(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)  # as `python benchmarks/images.py` has it
    spec = importlib.util.spec_from_file_location("benchmark_images", FOLDER / "images.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BATCH", 4)
    return module


@pytest.fixture
def root(images, tmp_path):
    return images.make_folder(write_photographs(tmp_path / "some.npz", side=images.SIZE), tmp_path, 8)


def test_the_gate_lets_the_loader_through_and_stops_another(images, root, tmp_path, monkeypatch):
    images.gate(root, tmp_path / "cache")
    real = images.bare
    monkeypatch.setattr(images, "bare", lambda paths: [np.roll(picture, 1) for picture in real(paths)])
    with pytest.raises(ValueError, match="the pictures from number 0 differ; a speed of wrong results is none"):
        images.gate(root, tmp_path / "cache")


def test_every_way_is_compared_with_the_bare_loop(images, root, tmp_path):
    found = images.compare(root, tmp_path / "cache", rounds=2)
    assert set(found) == {"bare loop", "first pass", "later pass"}
    assert len(found["first pass"]["rounds"]) == 2
    assert found["later pass"]["ratio"] > 0
    assert all(figures["pictures_per_second"] > 0 for figures in found.values())
