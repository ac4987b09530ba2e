"""Small sets of drawn pictures whose classes are places, in the files of Fashion-MNIST's names."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np


def drawn(many: int, classes: int, side: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bright square whose place is the class: ``(N, side, side)`` uint8, and labels."""
    rng, labels = np.random.default_rng(seed), np.arange(many) % classes
    pictures = rng.integers(0, 60, (many, side, side), dtype=np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        row, column = divmod(int(label), 4)
        picture[row * side // 4 :, column * side // 4 :][: side // 4, : side // 4] = 255
    return pictures, labels.astype(np.uint8)


def write_idx(folder: Path, train: int = 60, test: int = 20, *, side: int = 28, seed: int = 0) -> Path:
    """The four files of Fashion-MNIST's names."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (part, many) in enumerate((("train", train), ("t10k", test))):
        pictures, labels = drawn(many, 10, side, seed + number)
        for name, array in ((f"{part}-images-idx3-ubyte", pictures), (f"{part}-labels-idx1-ubyte", labels)):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (folder / f"{name}.gz").write_bytes(gzip.compress(header + array.tobytes(), 1))
    return folder
