"""Small sets of drawn pictures, in the forms that studies of pictures read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawn_pictures import drawn, write_idx
from posenc.workbench.tasks.images import data_sets


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    """A folder of data with a tiny set in the place of Fashion-MNIST."""
    write_idx(tmp_path / "data" / "fashion_mnist")
    return tmp_path / "data"


@pytest.fixture
def class_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of three classes, files of other sizes than the study reads, and a cache of its own."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(data_sets, "cache_folder", lambda: tmp_path / "cache")
    pictures, labels = drawn(45, 3, 40, 7)
    for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        folder = tmp_path / "own" / f"class {label}"
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.stack([picture] * 3, -1)).save(folder / f"{number}.png")
    return tmp_path / "own"
