"""CIFAR-10 and CIFAR-100 in the official python batches, as a folder or as the ``.tar.gz``, which is not unpacked.

A batch is a pickle of ``{b"data": (n, 3072) uint8, b"labels" or b"fine_labels": n numbers}``, a picture's red, green
and blue planes of 32 x 32. A pickle may run anything; the unpickler here makes arrays and nothing else.

Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009, and the page of the data set. Its
authors state no licence, so the files are the user's own copy; none is downloaded.
"""

from __future__ import annotations

import importlib
import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posenc.tasks.images.image_set import ImageSet, check_labels

SIDE = 32
KINDS: Mapping[str, tuple[str, tuple[str, ...], str, str, bytes, bytes]] = {
    "cifar-10": ("cifar-10-batches-py", tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta",
                 b"labels", b"label_names"),
    "cifar-100": ("cifar-100-python", ("train",), "test", "meta", b"fine_labels", b"fine_label_names"),
}  # fmt: skip
"""Folder, training files, test file, the file of names, and the keys of labels and of names."""
MADE = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}  # fmt: skip


class Unpickler(pickle.Unpickler):
    """Makes lists, dictionaries, text and NumPy arrays, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in MADE:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        if name == "dtype":
            return lambda code, align=0, copy=0: np.dtype(code)  # old batches say align=0, of which NumPy warns
        # where NumPy 2 keeps it; the old name warns
        return getattr(importlib.import_module(module.replace("numpy.core", "numpy._core")), name)


def is_batches(path: Path) -> str | None:
    """Which CIFAR a folder or archive holds, or None."""
    for kind, (folder, training, *_) in KINDS.items():
        held = path.is_dir() and all((path / name).is_file() for name in training[:1])
        if path.name == folder or path.name.startswith(f"{kind}-python.tar") or (held and training[0] != "train"):
            return kind
    return None


def read_batches(path: Path, kind: str) -> tuple[ImageSet, ImageSet]:
    """The training and the test set of a folder or ``.tar.gz``.

    Raises ValueError for a missing, truncated or damaged file, and for a pickle that would make anything but arrays.
    """
    folder, training, testing, meta, labels, names = KINDS[kind]
    content = _of_folder(path) if path.is_dir() else _of_archive(path, (*training, testing, meta), folder)
    named = _loaded(path, meta, content).get(names)
    if not isinstance(named, list) or len(named) < 2:
        raise ValueError(f"{path}: {meta} has no list of class names. Copy the official archive again.")
    classes = tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in named)
    sets = []
    for files in (training, (testing,)):
        parts = [_pictures(path, file, _loaded(path, file, content), labels, len(classes)) for file in files]
        pixels, numbers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        sets.append(ImageSet.of(kind, classes, pixels, numbers))
    return sets[0], sets[1]


def _of_folder(path: Path) -> Callable[[str], bytes]:
    def content(name: str) -> bytes:
        try:
            return (path / name).read_bytes()
        except OSError as error:
            raise ValueError(f"{path} lacks {name} ({error.strerror}). Copy the official archive again.") from error

    return content


def _of_archive(path: Path, names: tuple[str, ...], folder: str) -> Callable[[str], bytes]:
    """All files at once: a compressed archive is read from its beginning."""
    held: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                own = Path(member.name)
                if member.isfile() and own.parent.name == folder and own.name in names:
                    file = archive.extractfile(member)
                    assert file is not None
                    held[own.name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ValueError(f"{path} is truncated or no archive ({_short(error)}). Copy it again.") from error

    def content(name: str) -> bytes:
        if name not in held:
            raise ValueError(f"{path} lacks {folder}/{name}. Copy the official archive again.")
        return held[name]

    return content


def _loaded(path: Path, name: str, content: Callable[[str], bytes]) -> dict[bytes, Any]:
    file = content(name)
    try:
        found = Unpickler(io.BytesIO(file), encoding="bytes").load()
    except Exception as error:  # a damaged pickle fails in any way
        raise ValueError(
            f"{path}: {name} is truncated, damaged or no batch ({_short(error)}). Copy the official archive again."
        ) from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: {name} is no batch; it holds a {type(found).__name__}, not a dictionary.")
    return found


def _pictures(
    path: Path, name: str, found: dict[bytes, Any], key: bytes, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = found.get(b"data"), found.get(key)
    array = pixels if isinstance(pixels, np.ndarray) else np.empty(0)
    right = array.dtype == np.uint8 and array.shape[1:] == (3 * SIDE * SIDE,)
    if not right or not isinstance(labels, list) or len(labels) != len(array):
        raise ValueError(
            f"{path}: {name} is no official batch; it needs data, n x 3072 of uint8, and n {key.decode()}. Copy the "
            "official archive again."
        )
    numbers = np.array(labels, dtype=np.int64)
    check_labels(f"{path}: {name}", numbers, classes)
    return array.reshape(-1, 3, SIDE, SIDE), numbers


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
