"""IDX files of MNIST and Fashion-MNIST, plain or gzipped: ``train-images-idx3-ubyte``, ``t10k-labels-idx1-ubyte``, ..

    0 0 type rank | rank big-endian lengths of 32 bits | the values, row-major

Type 8, the only one read here, is uint8.

References:
    Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section "File formats".
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from posenc.workbench.data.labeled_images import (
    ImageArrays,
    LabeledArrays,
    inspected_arrays,
    visible_files,
)
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import GZIP_SUFFIX, UserFileError, open_file, read_packed
from posenc.workbench.memory import require_memory

FORM = "IDX files"
KIND = "images"
OPTIONS: tuple[str, ...] = ("size",)
UINT8 = 8
MEMORY_FACTOR = 3
"""Bytes of memory per value while a packed file is unpacked."""
FILES = {part: (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")}


def read_idx(path: Path, rank: int) -> np.ndarray:
    """Read the array of an IDX file of uint8.

    Args:
        path: The file, plain or gzipped.
        rank: Number of axes.

    Returns:
        The array.

    Raises:
        ValueError: The file is missing, damaged or truncated, or has another number of axes.
    """
    start = 4 + 4 * rank
    with open_file(path, "an IDX file") as file:
        packed = path.suffix == GZIP_SUFFIX
        content = read_packed(file, path, most=start) if packed else file.read(start)
        stated = math.prod(_shape(content, rank))
        if content[:4] == bytes((0, 0, UINT8, rank)):
            require_memory(MEMORY_FACTOR * stated, f"reading {path}", "Is it damaged? Download it again.")
            file.seek(0)
            most = start + stated + 1  # one byte more shows that the file is longer than its header states
            content = read_packed(file, path, most=most) if packed else file.read(most)
    axes = content[3] if len(content) >= 4 and content[:2] == b"\0\0" else None
    if axes is None or content[2] != UINT8:
        raise ValueError(f"{path} is no IDX file of uint8; it should begin 00 00 08 {rank:02d}. Download it again.")
    if axes != rank:
        raise ValueError(f"{path} has {axes} axes; {rank} are needed. Are images and labels swapped?")
    shape = _shape(content, rank)
    if len(content) - start != stated:
        follow = "more" if len(content) - start > stated else str(max(len(content) - start, 0))
        raise ValueError(
            f"{path} is truncated or damaged: its header states {' x '.join(map(str, shape))} values and "
            f"{follow} follow. Download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _shape(content: bytes, rank: int) -> tuple[int, ...]:
    """Lengths of the axes that the header of an IDX file states."""
    return tuple(np.frombuffer(content[4 : 4 + 4 * rank].ljust(4 * rank, b"\0"), ">u4").tolist())


def match(path: Path) -> str:
    """Match folders with at least one file that has one of MNIST's names."""
    found = [_existing_file(path, name) for names in FILES.values() for name in names] if path.is_dir() else []
    return next((f"it has {file.name}" for file in found if file is not None), "")


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the images of each class and part. The files are read, because their headers do not say the classes."""
    return inspected_arrays(path, read(path, options))


def read(path: Path, options: ReadingOptions) -> LabeledArrays:
    """List a folder with the four files of MNIST. Their classes are the labels of training images.

    Args:
        path: Folder of the four files, plain or gzipped.
        options: "size" of the images, which the task applies.

    Returns:
        The training and the test part, images ``(1, H, W)``, whose files are read later.

    Raises:
        UserFileError: The path is no folder.
    """
    if not path.is_dir():
        raise UserFileError(f"{path} is no folder, and the four IDX files lie in one. Name the folder.")
    return LabeledArrays(FORM, lambda: _read_folder(path), visible_files(path))


def _read_folder(folder: Path) -> dict[str, ImageArrays]:
    """Training and test part. Raises ValueError for missing or damaged files, and for too many or too few labels."""
    arrays = {}
    for part, names in FILES.items():
        paths = [_existing_file(folder, file) for file in names]
        missing = [f"{file}.gz" for file, path in zip(names, paths, strict=True) if path is None]
        if missing:
            raise ValueError(f"{folder} lacks {' and '.join(missing)}, plain or gzipped. Copy or download it.")
        images, labels = (read_idx(path, rank) for path, rank in zip(paths, (3, 1), strict=True) if path is not None)
        if len(images) != len(labels):
            raise ValueError(f"{folder}: {part} has {len(images)} images and {len(labels)} labels; each has one.")
        if 0 in images.shape:
            raise ValueError(f"{folder}: the file {names[0]} has no images, or images without pixels.")
        arrays[part] = images[:, None], labels
    present, made = np.unique(arrays["train"][1]), {}
    classes = tuple(map(str, present.tolist()))
    if len(classes) < 2:
        raise ValueError(
            f"{FILES['train'][1]} of {folder} has one label, {present[0]}; images to classify have two or "
            "more. Add some."
        )
    for part, name in zip(("train", "test"), FILES, strict=True):
        images, labels = arrays[name]
        if len(others := np.setdiff1d(labels, present)):
            raise ValueError(
                f"{FILES[name][1]} of {folder} has label {others[0]}, which no training image has. Add training "
                "images of it, or remove these images."
            )
        made[part] = ImageArrays(classes, np.searchsorted(present, labels).astype(np.int64), images)
    return made


def _existing_file(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
