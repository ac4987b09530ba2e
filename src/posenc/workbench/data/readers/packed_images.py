"""Packed images: JPEG files end to end in one ``.npz``, with their labels."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.data.labeled_images import ImageFiles, LabeledImages, check_labels, inspected
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import UserFileError, refuse_special, short

FORM = "packed images"
KIND = "images"
OPTIONS: tuple[str, ...] = ("size", "fit", "background")
ARRAYS = ("classes", "jpeg_train", "end_train", "y_train", "jpeg_test", "end_test", "y_test")
"""Class names; for each part the files end to end (uint8), their ends, and the labels."""


def match(path: Path) -> str:
    """Match .npz files."""
    return "it ends in .npz" if path.name.lower().endswith(".npz") and not path.is_dir() else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the images of each class and part, and read the headers of some."""
    return inspected(path, read(path, options))


def read(path: Path, options: ReadingOptions) -> LabeledImages:
    """List ``train`` and ``test`` of one ``.npz`` with the arrays of `ARRAYS`.

    Args:
        path: The file.
        options: "size", "fit" and "background" of the decoding.

    Returns:
        The parts, not decoded.

    Raises:
        UserFileError: The file is missing, damaged, or lacks an array.
    """
    refuse_special(path, "a packed .npz of images")
    try:
        with open_arrays(path) as content:
            arrays = {key: content.array(key, (None,), "U" if key == "classes" else "iu") for key in ARRAYS}
            stat = path.stat()
    except (OSError, ValueError) as error:
        raise UserFileError(
            f"{path} is missing, truncated or no packed images ({short(error)}). It holds the arrays"
            f" {', '.join(ARRAYS)}. Copy it again, or save the images as files in a folder for each class."
        ) from error
    classes = tuple(str(text) for text in arrays["classes"])
    parts = {}
    for part in ("train", "test"):
        blob, ends, labels = (arrays[f"{key}_{part}"] for key in ("jpeg", "end", "y"))
        starts = np.concatenate([[0], ends[:-1]])
        if len(ends) != len(labels) or not len(ends) or ends[-1] != len(blob) or (ends < starts).any():
            raise UserFileError(f"{path} is damaged: {part} has {len(labels)} labels, and its files do not end to end.")
        check_labels(f"y_{part} of {path}", labels, len(classes))
        state = (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
        stamp = f"{path.name} {' '.join(map(str, state))} {part}"
        names = tuple(f"{part} {number}" for number in range(len(labels)))
        parts[part] = ImageFiles(
            path.stem, classes, labels.astype(np.int64), names, _stream_reader(blob, starts, ends), stamp
        )
    return LabeledImages(FORM, parts, (path,))


def _stream_reader(blob: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Callable[[int], Any]:
    return lambda i: io.BytesIO(blob[starts[i] : ends[i]].tobytes())
