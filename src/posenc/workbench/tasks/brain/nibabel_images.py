"""Brain images read by nibabel, with a missing package or a damaged file reported in one sentence."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.user_files import require_file
from posenc.workbench.memory import require_memory

EXTRA = "pip install 'posenc[fmri]'"
BLOCK_VALUES = 2**27
"""Number of values of a series held in memory at a time: half a gigabyte of float32."""


def load_image(path: Path) -> Any:
    """Open a NIfTI, CIFTI or GIFTI file as a nibabel image, whose values stay on disk until they are read.

    Raises:
        ValueError: nibabel is missing, or the file is missing, damaged, or of another kind.
    """
    try:
        import nibabel
        from nibabel.filebasedimages import ImageFileError
    except ImportError as error:
        raise ValueError(f"brain images are read by nibabel and nilearn: {EXTRA}") from error
    require_file(path, "a brain image")
    try:
        image: Any = nibabel.load(path)  # type: ignore[attr-defined]
    except (ImageFileError, OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a brain image ({error}). Copy or write it again.") from error
    if any(side < 1 for side in getattr(image, "shape", ())):
        raise ValueError(f"{path} has the shape {image.shape}, and so no values. Write it again.")
    return image


def image_values(path: Path, image: Any, start: int = 0, stop: int | None = None) -> np.ndarray:
    """Values of an image as floats, or of its frames `start` to `stop`.

    Frames are the last axis of a NIfTI image and the first axis of a CIFTI image.

    Raises:
        ValueError: The file is truncated.
    """
    frames = slice(start, stop)
    first = hasattr(image, "nifti_header")
    total = image.shape[0 if first else -1]
    needed = 8 * math.prod(image.shape) // total * len(range(total)[frames])
    require_memory(needed, f"reading {path}", "Take an image of fewer voxels.")
    try:
        values = image.dataobj[frames] if first else image.dataobj[..., frames]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}). Copy it again.") from error
    return np.asarray(values, np.float32 if values.dtype != np.float64 else np.float64)


def frame_blocks(path: Path, image: Any, first: int, total: int) -> Iterator[np.ndarray]:
    """Yield the frames of a series from `first` on in blocks, so that it need not fit in memory."""
    step = max(1, BLOCK_VALUES * total // math.prod(image.shape))
    for start in range(first, total, step):
        yield image_values(path, image, start, min(start + step, total))


def load_volume_series(path: Path, first: int) -> tuple[Any, int]:
    """Open a 4-D NIfTI series; return it and its number of frames.

    Raises:
        ValueError: The image is not a series of volumes, or fewer than two frames would be left.
    """
    image = load_image(path)
    if hasattr(image, "nifti_header") or len(image.shape) != 4:
        raise ValueError(
            f"{path} is a series of volumes (x, y, z, time); got an image of shape {image.shape}. Is it a bold series?"
        )
    require_frames(path, image.shape[3], first)
    return image, image.shape[3]


def require_frames(path: Path, frames: int, first: int) -> None:
    """Raise ValueError where fewer than two frames are left after the first ones are dropped."""
    if frames < first + 2:
        raise ValueError(
            f"{path} has {frames} frames, of which the first {first} are dropped; at least two must be left. "
            "Drop fewer: first_frames=0"
        )
