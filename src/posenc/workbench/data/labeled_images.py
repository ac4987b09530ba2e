"""Labeled images, not decoded: what the readers of images return, before a task turns them into tensors."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import require_file

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
PART_NAMES = {"train": "training", "validation": "validation", "test": "test"}
ALL = "all"
"""Name of the part of images that a run divides."""
INSPECTED = 1000
"""Images whose headers are read by ``inspect``, evenly spaced."""
LISTED = 5
"""Names that a sentence lists."""


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


@dataclasses.dataclass(frozen=True, eq=False)
class ImageArrays:
    """N labeled images of one size, which are arrays in their file.

    Attributes:
        classes: Names of the classes.
        labels: ``(N,)`` int64 class numbers.
        pixels: ``(N, C, H, W)`` uint8.
    """

    classes: tuple[str, ...]
    labels: np.ndarray
    pixels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


@dataclasses.dataclass(frozen=True, eq=False)
class LabeledArrays:
    """Labeled images that are arrays of pixels: IDX files, or batches of CIFAR.

    Attributes:
        form: What is read: "IDX files" or "batches of CIFAR".
        arrays: Reads ``train`` and ``test``.
        files: All files that decide the content, for a digest.
        options: Options of the reader, for the record.
        left_out: Sentences on what is not read.
    """

    form: str
    arrays: Callable[[], Mapping[str, ImageArrays]]
    files: tuple[Path, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class LabeledImages:
    """Labeled image files of one file or folder.

    Attributes:
        form: What was read: "class folders of images", "images with a CSV of labels" or "packed images".
        parts: ``train``, and ``validation`` and ``test`` where the user gives them.
        files: All files that decide the content, for a digest.
        options: Options of the reader, for the record.
        left_out: Sentences on what was not read.
    """

    form: str
    parts: Mapping[str, ImageFiles]
    files: tuple[Path, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def files_of_paths(
    root: Path, name: str, classes: tuple[str, ...], paths: Sequence[str], labels: Sequence[int]
) -> ImageFiles:
    """Make labeled image files of paths. Their stamp is of names, sizes, inodes and times.

    Args:
        root: Folder of the files.
        name: Name of the data set.
        classes: Names of the classes.
        paths: Paths of the files, below the folder.
        labels: Class number of each.

    Returns:
        The files.
    """
    digest, skip = hashlib.sha256(), len(f"{root}/")
    for path in paths:
        stat = Path(path).stat()
        state = (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
        digest.update(f"{path[skip:]} {' '.join(map(str, state))}\n".encode(errors="surrogateescape"))
    names = tuple(path[skip:] for path in paths)
    return ImageFiles(name, classes, np.array(labels, np.int64), names, list(paths).__getitem__, digest.hexdigest())


def image_files(folder: Path | str) -> list[Path]:
    """List all image files below a folder, sorted.

    Args:
        folder: The folder.

    Returns:
        The files; none where the folder is missing.

    Raises:
        UserFileError: A file with the name of an image is a named pipe, a socket or a device.
    """
    return [Path(path) for path in sorted(paths_below(folder)[0])]


def paths_below(folder: Path | str) -> tuple[list[str], list[str]]:
    """List the image files below a folder, and its other files. Names that begin with a dot are skipped.

    Args:
        folder: The folder.

    Returns:
        Paths of images, and paths of other files.

    Raises:
        UserFileError: A file with the name of an image is a named pipe, a socket or a device.
    """
    images, others = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    inside = paths_below(entry.path)
                    images += inside[0]
                    others += inside[1]
                elif entry.name.lower().endswith(SUFFIXES):
                    if not entry.is_file():
                        require_file(entry.path, "an image")
                    images.append(entry.path)
                else:
                    others.append(entry.path)
    except FileNotFoundError:
        pass
    return images, others


def check_labels(source: str, labels: np.ndarray, classes: int) -> None:
    """Raise ValueError for a label outside 0 to ``classes`` - 1."""
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        bad = int(labels.max()) if labels.max() >= classes else int(labels.min())
        raise ValueError(
            f"{source} has label {bad}, but its {classes} classes are numbered 0 to {classes - 1}: these are not the "
            "labels of these classes, or the file is damaged."
        )


def left_out_files(reason: str, names: Iterable[str]) -> tuple[str, ...]:
    """Sentence that counts and names files that are left out; none without files.

    Args:
        reason: Reason, such as "outside class folders".
        names: Names of the files.

    Returns:
        One sentence, or none.
    """
    listed = sorted(names)
    if not listed:
        return ()
    shown = ", ".join(listed[:LISTED]) + (f" and {len(listed) - LISTED:,} more" if len(listed) > LISTED else "")
    return (f"{len(listed):,} {'file' if len(listed) == 1 else 'files'} left out, {reason}: {shown}.",)


def inspected(path: Path, read: LabeledImages) -> DatasetRecord:
    """Record of images whose headers alone are read.

    Args:
        path: File or folder of the user.
        read: The images.

    Returns:
        The record: parts with counts by class, and the sizes of the images.
    """
    sizes, damaged = _sizes(list(read.parts.values()))
    return _record(path, read, read.parts, sizes, _damaged_note(damaged))


def inspected_arrays(path: Path, read: LabeledArrays) -> DatasetRecord:
    """Record of images that are arrays, which are read, because their headers do not say the classes.

    Args:
        path: File or folder of the user.
        read: The images.

    Returns:
        The record: parts with counts by class, and the size of the images.
    """
    parts = read.arrays()
    height, width = parts["train"].pixels.shape[2:]
    return _record(path, read, parts, {"width x height": f"{width} x {height} pixels"})


def _record(
    path: Path,
    read: LabeledImages | LabeledArrays,
    parts: Mapping[str, ImageFiles] | Mapping[str, ImageArrays],
    sizes: Mapping[str, str],
    damaged: tuple[str, ...] = (),
) -> DatasetRecord:
    classes, counted = parts["train"].classes, []
    for name, part in parts.items():
        named = PART_NAMES[name] if len(parts) > 1 else ALL
        by_class = tuple(np.bincount(part.labels, minlength=len(classes)).tolist())
        counted.append(Part(name=named, counts={"images": len(part)}, by_class=by_class))
    return DatasetRecord(
        kind="images",
        name=path.name,
        digest="",
        parts=tuple(counted),
        classes=classes,
        options={"form": read.form, **read.options, **sizes},
        left_out=(*read.left_out, *damaged),
        own=True,
    )


def visible_files(path: Path) -> tuple[Path, ...]:
    """The file itself, or the files of a folder whose names do not begin with a dot, sorted."""
    if not path.is_dir():
        return (path,)
    return tuple(sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith(".")))


def _damaged_note(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    some = ", ".join(names[:LISTED]) + (", .." if len(names) > LISTED else "")
    one = len(names) == 1
    return (
        f"{len(names):,} image{'' if one else 's'} {'is' if one else 'are'} damaged or too large by the header, and a "
        f"run leaves {'it' if one else 'them'} out: {some}.",
    )


def _sizes(parts: Sequence[ImageFiles]) -> tuple[dict[str, str], list[str]]:
    """Sizes of images after their headers, as an option of a record, and the names of files without such a header."""
    try:
        from PIL import Image
    except ImportError:
        return {}, []
    every = [(part, number) for part in parts for number in range(len(part))]
    some = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, min(INSPECTED, len(every))).round().astype(int))]
    sizes, damaged = set[tuple[int, int]](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, number in some:
            try:
                with Image.open(part.open(number)) as opened:
                    sizes.add(opened.size)
            except Exception:  # a damaged image fails in any way
                damaged.append(part.names[number])
    if not sizes:
        return {}, damaged
    small, large = min(sizes, key=lambda size: size[0] * size[1]), max(sizes, key=lambda size: size[0] * size[1])
    ends = [f"{width} x {height}" for width, height in (small, large)]
    of = f" (of {len(some):,} of {len(every):,} images)" if len(some) < len(every) else ""
    return {"width x height": f"{ends[0] if len(sizes) == 1 else ' to '.join(ends)} pixels{of}"}, damaged
