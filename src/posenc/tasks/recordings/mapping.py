"""Numbers on disk that read like numbers in memory."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

import numpy as np

from posenc.tasks.room import GIB


def mapped(folder: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of zeros in a nameless file of the folder, which is gone from the disk when nobody reads it any more.

    Raises ValueError where the folder cannot be written to or has no room.
    """
    needed = dtype.itemsize * math.prod(shape)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            # reserved at once: a full disk found later, through mapped memory, would end the process
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(file.fileno(), 0, needed)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise ValueError(
            f"{needed / GIB:.2f} GiB cannot be kept in {folder} ({error.strerror or error}). "
            "Name a folder on another disk."
        ) from error
