"""Encoded image files with class labels: class folders, or JPEG files packed end to end into one ``.npz``."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import refuse_special, require_file, short
from posenc.workbench.tasks.images.image_set import check_labels

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
TRAIN, VALIDATION, TEST = ("train", "training"), ("val", "validation", "valid"), ("test",)
PACKED = ("classes", "jpeg_train", "end_train", "y_train", "jpeg_test", "end_test", "y_test")
"""Arrays of a packed file: class names; for each split the files end to end (uint8), their ends, and the labels."""


@dataclasses.dataclass(frozen=True, eq=False)
class ImageFiles:
    """N labeled image files, not decoded yet.

    Attributes:
        name: Name of the data set.
        classes: Names of the classes.
        labels: ``(N,)`` int64 class numbers.
        names: Name of each file, for messages.
        open: Returns the path or the binary stream of a file by its number.
        stamp: Text that changes when any of the files changes.
    """

    name: str
    classes: tuple[str, ...]
    labels: np.ndarray
    names: tuple[str, ...]
    open: Callable[[int], Any]
    stamp: str

    def __len__(self) -> int:
        return len(self.labels)


def class_folders(root: Path, name: str) -> dict[str, ImageFiles]:
    """List the splits of a folder of class folders.

    The layout is ``root/class/image.jpg``, or ``root/train/class/image.jpg`` beside ``root/val`` or ``root/test``.
    Images may lie in subfolders of a class. One held-out folder alone is the test split. Names that begin with a dot
    and files without an image suffix are skipped.

    Args:
        root: The folder.
        name: Name of the data set.

    Returns:
        ``train``, and ``validation`` and ``test`` where the folder has them.

    Raises:
        ValueError: There are fewer than two classes, a class has no images, or a held-out class is not in training.
    """
    folders = {part: _first_folder(root, names) for part, names in
               (("train", TRAIN), ("validation", VALIDATION), ("test", TEST))}  # fmt: skip
    if folders["train"] is None:
        return {"train": _labeled_files(root, name, _subfolders(root))}
    if folders["test"] is None:
        folders["validation"], folders["test"] = None, folders["validation"]
    classes = _subfolders(folders["train"])
    return {part: _labeled_files(folder, name, classes) for part, folder in folders.items() if folder is not None}


def packed_images(path: Path, name: str) -> dict[str, ImageFiles]:
    """List ``train`` and ``test`` of one ``.npz`` with the arrays of `PACKED`. Raises ValueError for a damaged file."""
    refuse_special(path, "a packed .npz of images")
    try:
        with open_arrays(path) as content:
            arrays = {key: content.array(key, (None,), "U" if key == "classes" else "iu") for key in PACKED}
            stat = path.stat()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} is missing, truncated or no packed images ({short(error)}). It holds the arrays"
            f" {', '.join(PACKED)}; copy it again."
        ) from error
    classes = tuple(str(text) for text in arrays["classes"])
    parts = {}
    for part in ("train", "test"):
        blob, ends, labels = (arrays[f"{key}_{part}"] for key in ("jpeg", "end", "y"))
        starts = np.concatenate([[0], ends[:-1]])
        if len(ends) != len(labels) or not len(ends) or ends[-1] != len(blob) or (ends < starts).any():
            raise ValueError(f"{path} is damaged: {part} has {len(labels)} labels, and its files do not end to end.")
        check_labels(f"y_{part} of {path}", labels, len(classes))
        state = (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
        stamp = f"{path.name} {' '.join(map(str, state))} {part}"
        names = tuple(f"{part} {number}" for number in range(len(labels)))
        parts[part] = ImageFiles(
            name, classes, labels.astype(np.int64), names, _stream_reader(blob, starts, ends), stamp
        )
    return parts


def _stream_reader(blob: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Callable[[int], Any]:
    return lambda i: io.BytesIO(blob[starts[i] : ends[i]].tobytes())


def _first_folder(root: Path, names: Sequence[str]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _subfolders(root: Path) -> tuple[str, ...]:
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(names) < 2:
        raise ValueError(
            f"{root} has {f'one class folder, {names[0]}' if names else 'no class folder'}; images to classify lie "
            "in a folder for each class, two or more: ROOT/cat/1.jpg, ROOT/dog/1.jpg."
        )
    return tuple(names)


def _labeled_files(root: Path, name: str, classes: tuple[str, ...]) -> ImageFiles:
    unknown = sorted(set(_subfolders(root)) - set(classes))
    if unknown:
        raise ValueError(f"{root} has the class {unknown[0]}, which the training images lack: add them or remove it.")
    paths, labels = [], []
    digest, skip = hashlib.sha256(), len(f"{root}/")
    for label, class_name in enumerate(classes):
        before = len(paths)
        for entry in sorted(_image_entries(root / class_name), key=lambda entry: entry.path):
            stat = entry.stat()
            paths.append(entry.path)
            state = (stat.st_size, entry.inode(), stat.st_mtime_ns, stat.st_ctime_ns)
            digest.update(f"{entry.path[skip:]} {' '.join(map(str, state))}\n".encode(errors="surrogateescape"))
        labels += [label] * (len(paths) - before)
        if len(paths) == before:
            raise ValueError(
                f"{root / class_name} has no images ({', '.join(SUFFIXES)}); add some, or remove the folder of this "
                "class."
            )
    names = tuple(path[skip:] for path in paths)
    return ImageFiles(name, classes, np.array(labels, np.int64), names, paths.__getitem__, digest.hexdigest())


def image_files(folder: Path) -> list[Path]:
    """List all image files below a folder, sorted."""
    return sorted(Path(entry.path) for entry in _image_entries(folder))


def _image_entries(folder: Path | str) -> list[os.DirEntry[str]]:
    """Directory entries of all image files below a folder; none where the folder is missing."""
    images = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    images += _image_entries(entry.path)
                elif entry.name.lower().endswith(SUFFIXES):
                    if not entry.is_file():
                        require_file(entry.path, "an image")
                    images.append(entry)
    except FileNotFoundError:
        return []
    return images
