"""Memory-mapped arrays in temporary files."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import numpy as np

from posenc.workbench.memory import GIB


def memory_mapped_zeros(folder: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Array of zeros in an unnamed file of a folder; the disk space is freed when the array is no longer used.

    Raises:
        ValueError: The folder cannot be written to, or the disk is full.
    """
    needed = dtype.itemsize * math.prod(shape)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            # reserve all space now: a full disk met later, through mapped memory, would end the process
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, needed)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise ValueError(
            f"{needed / GIB:.2f} GiB cannot be written to {folder} ({error.strerror or error}). "
            "Name a folder on another disk."
        ) from error
