"""Small sets of drawn pictures, in the forms that studies of pictures read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drawn_pictures import drawn, write_idx
from posenc.workbench.tasks import latin_squares
from posenc.workbench.tasks.images import data_sets


@pytest.fixture(autouse=True, scope="session")
def puzzles_generated_once() -> Iterator[None]:
    """Stores of tests hold the same few sets of puzzles, each of which takes a second to generate."""
    generate, generated = latin_squares.generate_dataset, {}

    def generate_once(*sizes: int, **arguments: Any) -> latin_squares.Dataset:
        key = repr((sizes, sorted(arguments.items())))
        if key not in generated:
            generated[key] = generate(*sizes, **arguments)
        return generated[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latin_squares, "generate_dataset", generate_once)
        yield


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
