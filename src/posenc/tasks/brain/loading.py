"""Images as nibabel reads them: opened here, so that a missing package or a damaged file is one sentence."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

EXTRA = "pip install 'posenc[fmri]'"
BLOCK = 2**27
"""Numbers of a series that are in memory at once: half a gigabyte."""


def load(path: Path) -> Any:
    """A NIfTI, CIFTI or GIFTI file as nibabel's image; its numbers stay on disk until they are asked for.

    Raises ValueError where nibabel is missing or the file is not there, damaged, or of another kind.
    """
    try:
        import nibabel
        from nibabel.filebasedimages import ImageFileError
    except ImportError as error:
        raise ValueError(f"brain images are read by nibabel and nilearn: {EXTRA}") from error
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    try:
        return nibabel.load(path)  # type: ignore[attr-defined]
    except (ImageFileError, OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a brain image ({error}). Copy or write it again.") from error


def numbers(path: Path, image: Any, start: int = 0, stop: int | None = None) -> np.ndarray:
    """The numbers of an image as floats, or of its frames `start` to `stop`: along the last axis, a CIFTI's along the
    first. Raises ValueError for a file that ends before its numbers do."""
    frames = slice(start, stop)
    first = hasattr(image, "nifti_header")
    try:
        found = image.dataobj[frames] if first else image.dataobj[..., frames]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}). Copy it again.") from error
    return np.asarray(found, np.float32 if found.dtype != np.float64 else np.float64)


def blocks(path: Path, image: Any, first: int, total: int) -> Iterator[np.ndarray]:
    """The frames of a series from `first` on, some at a time; a series larger than the memory is read all the same."""
    step = max(1, BLOCK * total // math.prod(image.shape))
    for start in range(first, total, step):
        yield numbers(path, image, start, min(start + step, total))


def volume_series(path: Path, first: int) -> tuple[Any, int]:
    """A 4-D NIfTI and its number of frames. Raises ValueError for another one, or where no two frames would be left."""
    image = load(path)
    if hasattr(image, "nifti_header") or len(image.shape) != 4:
        raise ValueError(
            f"{path} is a series of volumes (x, y, z, time); got an image of shape {image.shape}. Is it a bold series?"
        )
    refuse_short(path, image.shape[3], first)
    return image, image.shape[3]


def refuse_short(path: Path, frames: int, first: int) -> None:
    """Raises ValueError where fewer than two frames are left after the first ones are dropped."""
    if frames < first + 2:
        raise ValueError(
            f"{path} has {frames} frames, of which the first {first} are dropped; at least two must be left. "
            "Drop fewer: first_frames=0"
        )
