"""Every study at a size of seconds: its data, its settings, and runs of two steps."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from drawn_pictures import write_idx
from posenc.workbench import studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies import Request
from posenc.workbench.studies.latin_squares import presets as latin_presets
from posenc.workbench.studies.scene import presets as scene_presets

EVERY = studies.studies()
SMALL: dict[str, dict[str, Any]] = {
    "graphs": {"train": 20, "validation": 10, "test": 10, "sizes": "8,12"},
    "globe": {"train": 64, "held": 16, "band": 4},
    "gridpe": {"train_images": 20},
    "language": {"window": 16, "max_multiple": 2, "targets": 16},
    "masked": {"frames": 40, "test_frames": 8},
    "nmar": {"train_steps": 64, "test_steps": 16},
    "permuted": {"images": 40, "test_images": 8},
    "places": {"made": 120},
    "points": {"train": 2, "test": 1, "points": 16},
    "scene": {"rays": 16, "points": 64, "samples": 8},
    "series": {"series": 2, "readings": 150, "context": 12, "horizon": 4},
    "shape-fit": {"uniform": 64, "near": 64, "surface": 64, "held": 64, "resolution": 8, "batch": 32},
}
"""Sizes that the test changes in a study."""


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with small files for the studies that cannot generate theirs."""
    data = tmp_path_factory.mktemp("data")
    for name in ("mesh", "text"):
        (data / name).mkdir()
    write_idx(data / "fashion_mnist")
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.random.default_rng(0).integers(0, 255, (16, 16, 3), np.uint8)).save(data / "photo.png")
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
    np.savez(data / "mesh" / "spot.npz", v=corners, f=np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32))
    text = "to be or not to be, that is the question. " * 400
    (data / "text" / "tinyshakespeare.txt.gz").write_bytes(gzip.compress(text.encode()))
    return data


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = latin_presets.PRESETS["quick"]
    assert quick.main.data is not None
    puzzles = msgspec.structs.replace(quick.main.data, train=80, iid=20, ood=12)
    main = msgspec.structs.replace(quick.main, data=puzzles, train_size=64)
    monkeypatch.setitem(latin_presets.PRESETS, "quick", dataclasses.replace(quick, main=main))
    monkeypatch.setattr(scene_presets, "RENDERED", {"train": 4, "held": 2, "side": 12, "fine": 1})


def two_steps(spec: RunSpec) -> RunSpec:
    """The run with a training of at most two steps or epochs, on few examples."""
    training = {**spec.settings["training"], "epochs": 2, "seconds": None, "evaluate_every": 2}
    return msgspec.structs.replace(spec, settings={**spec.settings, "training": training})


def source(study: str, data: Path) -> Path | None:
    """A user's file for the study that reads one, so that no run has a time limit of a preset."""
    return data / "photo.png" if study == "image-fit" else None


def small_request(study: str, data: Path, **options: Any) -> Request:
    changes = SMALL.get(study, {})
    return Request(preset="quick", seeds=[0], data=data, source=source(study, data), changes=changes, **options)
