"""CIFAR-10 and CIFAR-100 in the official Python batches: a folder, or the ``.tar.gz``, which is not unpacked.

A batch is a pickle of ``{b"data": (n, 3072) uint8, b"labels" or b"fine_labels": n numbers}``. The 3072 values are an
image's red, green and blue planes of 32 x 32. A pickle can run any code, so the unpickler here builds arrays and
nothing else.

References:
    A. Krizhevsky 2009, "Learning multiple layers of features from tiny images", and the page of the data set. The
    authors state no license, so the user brings the files; none is downloaded.
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

from posenc.workbench.tasks.images.image_set import ImageSet, check_labels

SIDE = 32
KINDS: Mapping[str, tuple[str, tuple[str, ...], str, str, bytes, bytes]] = {
    "cifar-10": ("cifar-10-batches-py", tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta",
                 b"labels", b"label_names"),
    "cifar-100": ("cifar-100-python", ("train",), "test", "meta", b"fine_labels", b"fine_label_names"),
}  # fmt: skip
"""For each data set: folder, training files, test file, file of class names, key of labels, key of names."""
ALLOWED_NAMES = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}  # fmt: skip
"""The (module, name) pairs that a batch may load."""


class Unpickler(pickle.Unpickler):
    """Unpickler that builds lists, dictionaries, text and NumPy arrays, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED_NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        if name == "dtype":
            return lambda code, align=0, copy=0: np.dtype(code)  # old batches pass align=0, and NumPy warns of it
        # NumPy 2 has moved this module, and the old name warns
        return getattr(importlib.import_module(module.replace("numpy.core", "numpy._core")), name)


def cifar_kind(path: Path) -> str | None:
    """Name of the CIFAR data set that a folder or archive holds, or None."""
    for kind, (folder, training, *_) in KINDS.items():
        has_training = path.is_dir() and all((path / name).is_file() for name in training[:1])
        if (
            path.name == folder
            or path.name.startswith(f"{kind}-python.tar")
            or (has_training and training[0] != "train")
        ):
            return kind
    return None


def read_cifar(path: Path, kind: str) -> tuple[ImageSet, ImageSet]:
    """Read the training and the test set from a folder or ``.tar.gz``.

    Args:
        path: Folder of batches, or the archive.
        kind: ``cifar-10`` or ``cifar-100``.

    Returns:
        The training set and the test set, images ``(3, 32, 32)``.

    Raises:
        ValueError: A file is missing, truncated or damaged, or a pickle would build anything but arrays.
    """
    folder, training, testing, meta, labels, names = KINDS[kind]
    content = _folder_reader(path) if path.is_dir() else _archive_reader(path, (*training, testing, meta), folder)
    class_names = _load_batch(path, meta, content).get(names)
    if not isinstance(class_names, list) or len(class_names) < 2:
        raise ValueError(f"{path}: {meta} has no list of class names. Copy the official archive again.")
    classes = tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in class_names)
    sets = []
    for files in (training, (testing,)):
        parts = [_batch_arrays(path, file, _load_batch(path, file, content), labels, len(classes)) for file in files]
        pixels, numbers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        sets.append(ImageSet.from_arrays(kind, classes, pixels, numbers))
    return sets[0], sets[1]


def _folder_reader(path: Path) -> Callable[[str], bytes]:
    def content(name: str) -> bytes:
        try:
            return (path / name).read_bytes()
        except OSError as error:
            raise ValueError(f"{path} lacks {name} ({error.strerror}). Copy the official archive again.") from error

    return content


def _archive_reader(path: Path, names: tuple[str, ...], folder: str) -> Callable[[str], bytes]:
    """Read all class_names files in one pass, for a compressed archive is read from its beginning."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                inside = Path(member.name)
                if member.isfile() and inside.parent.name == folder and inside.name in names:
                    file = archive.extractfile(member)
                    assert file is not None
                    contents[inside.name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ValueError(f"{path} is truncated or no archive ({_short_message(error)}). Copy it again.") from error

    def content(name: str) -> bytes:
        if name not in contents:
            raise ValueError(f"{path} lacks {folder}/{name}. Copy the official archive again.")
        return contents[name]

    return content


def _load_batch(path: Path, name: str, content: Callable[[str], bytes]) -> dict[bytes, Any]:
    file = content(name)
    try:
        batch = Unpickler(io.BytesIO(file), encoding="bytes").load()
    except Exception as error:  # a damaged pickle fails in any way
        raise ValueError(
            f"{path}: {name} is truncated, damaged or no batch ({_short_message(error)}). Copy the official archive "
            "again."
        ) from error
    if not isinstance(batch, dict):
        raise ValueError(f"{path}: {name} is no batch; it contains a {type(batch).__name__}, not a dictionary.")
    return batch


def _batch_arrays(
    path: Path, name: str, batch: dict[bytes, Any], key: bytes, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = batch.get(b"data"), batch.get(key)
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


def _short_message(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
