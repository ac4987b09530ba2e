"""Pictures as files hold them: class folders, and JPEG files packed end to end into one ``.npz``."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.images.image_set import check_labels

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
TRAIN, VALIDATION, TEST = ("train", "training"), ("val", "validation", "valid"), ("test",)
PACKED = ("classes", "jpeg_train", "end_train", "y_train", "jpeg_test", "end_test", "y_test")
"""What a packed file holds: names; files end to end, uint8; where each ends; labels."""


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """N labelled files. open: a number's path or stream. stamp: changes when any of the files does."""

    name: str
    classes: tuple[str, ...]
    labels: np.ndarray
    names: tuple[str, ...]
    open: Callable[[int], Any]
    stamp: str

    def __len__(self) -> int:
        return len(self.labels)


def class_folders(root: Path, name: str) -> dict[str, Encoded]:
    """The parts of a folder of class folders, by name: ``train``, and ``validation`` and ``test`` where it has them.

    ``root/class/picture.jpg``, or ``root/train/class/picture.jpg`` with ``root/val`` or ``root/test`` beside it;
    pictures may lie deeper. One held-out folder alone is the test. What begins with a dot and what has no suffix of a
    picture is not looked at. Raises ValueError for fewer than two classes, for a class without pictures, and for a
    held-out class that is not learned.
    """
    found = {part: _first(root, names) for part, names in
             (("train", TRAIN), ("validation", VALIDATION), ("test", TEST))}  # fmt: skip
    if found["train"] is None:
        return {"train": _listed(root, name, _subfolders(root))}
    if found["test"] is None:
        found["validation"], found["test"] = None, found["validation"]
    classes = _subfolders(found["train"])
    return {part: _listed(folder, name, classes) for part, folder in found.items() if folder is not None}


def packed(path: Path, name: str) -> dict[str, Encoded]:
    """``train`` and ``test`` of one ``.npz`` with the keys of `PACKED`. Raises ValueError for a damaged file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in PACKED}
            stat = path.stat()
    except (OSError, ValueError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is missing, truncated or no packed pictures ({' '.join(str(error).split())[:160]}). It holds the "
            f"arrays {', '.join(PACKED)}; copy it again."
        ) from error
    classes = tuple(str(text) for text in arrays["classes"])
    parts = {}
    for part in ("train", "test"):
        blob, ends, labels = (arrays[f"{key}_{part}"] for key in ("jpeg", "end", "y"))
        starts = np.concatenate([[0], ends[:-1]])
        if len(ends) != len(labels) or not len(ends) or ends[-1] != len(blob) or (ends < starts).any():
            raise ValueError(f"{path} is damaged: {part} has {len(labels)} labels, and its files do not end to end.")
        check_labels(f"y_{part} of {path}", labels, len(classes))
        stamp = f"{path.name} {stat.st_size} {stat.st_mtime_ns} {part}"
        names = tuple(f"{part} {number}" for number in range(len(labels)))
        parts[part] = Encoded(name, classes, labels.astype(np.int64), names, _slices(blob, starts, ends), stamp)
    return parts


def _slices(blob: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> Callable[[int], Any]:
    return lambda i: io.BytesIO(blob[starts[i] : ends[i]].tobytes())


def _first(root: Path, names: Sequence[str]) -> Path | None:
    return next((root / name for name in names if (root / name).is_dir()), None)


def _subfolders(root: Path) -> tuple[str, ...]:
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(names) < 2:
        raise ValueError(
            f"{root} has {f'one class folder, {names[0]}' if names else 'no class folder'}; pictures to classify lie "
            "in a folder for each class, two or more: ROOT/cat/1.jpg, ROOT/dog/1.jpg."
        )
    return tuple(names)


def _listed(root: Path, name: str, classes: tuple[str, ...]) -> Encoded:
    strange = sorted(set(_subfolders(root)) - set(classes))
    if strange:
        raise ValueError(f"{root} has the class {strange[0]}, which the training pictures lack: add them or remove it.")
    paths, labels = [], []
    digest, skip = hashlib.sha256(), len(f"{root}/")
    for label, own in enumerate(classes):
        before = len(paths)
        for entry in sorted(_walk(root / own), key=lambda entry: entry.path):
            stat = entry.stat()
            paths.append(entry.path)
            digest.update(f"{entry.path[skip:]} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        labels += [label] * (len(paths) - before)
        if len(paths) == before:
            raise ValueError(
                f"{root / own} has no pictures ({', '.join(SUFFIXES)}); add some, or remove the folder of this class."
            )
    names = tuple(path[skip:] for path in paths)
    return Encoded(name, classes, np.array(labels, np.int64), names, paths.__getitem__, digest.hexdigest())


def _walk(folder: Path | str) -> list[os.DirEntry[str]]:
    """The pictures below a folder, which may be missing."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    found += _walk(entry.path)
                elif entry.name.lower().endswith(SUFFIXES):
                    found.append(entry)
    except FileNotFoundError:
        return []
    return found
