"""CIFAR-10 and CIFAR-100 in the official Python batches: a folder, or the ``.tar.gz``, which is not unpacked.

A batch is a pickle of ``{b"data": (n, 3072) uint8, b"labels" or b"fine_labels": n numbers}``. The 3072 values are an
image's red, green and blue planes of 32 x 32. A pickle can run any code, so it is not loaded by Python:
``pickled_batch`` reads it, and builds arrays and nothing else.

References:
    A. Krizhevsky 2009, "Learning multiple layers of features from tiny images", and the page of the data set. The
    authors state no license, so the user brings the files; none is downloaded.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np

from posenc.workbench.data.labeled_images import (
    ImageArrays,
    LabeledArrays,
    check_labels,
    inspected_arrays,
    visible_files,
)
from posenc.workbench.data.pickled_batch import read_batch
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.user_files import UserFileError, open_file, read_bytes, short

FORM = "batches of CIFAR"
KIND = "images"
OPTIONS: tuple[str, ...] = ("size",)
SIDE = 32
KINDS: Mapping[str, tuple[str, tuple[str, ...], str, str, bytes, bytes]] = {
    "cifar-10": ("cifar-10-batches-py", tuple(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta",
                 b"labels", b"label_names"),
    "cifar-100": ("cifar-100-python", ("train",), "test", "meta", b"fine_labels", b"fine_label_names"),
}  # fmt: skip
"""For each data set: folder, training files, test file, file of class names, key of labels, key of names."""
MOST_BATCH_BYTES = 1 << 28
"""The largest official batch, the training set of CIFAR-100, has 155 MB."""
MOST_BYTES = 1 << 29
"""Largest archive in bytes, unpacked. The official ones have 186 MB."""
BATCH_FACTOR = 40
"""Bytes of memory per byte of a batch while it is read: its labels and file names are separate objects."""


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


def match(path: Path) -> str:
    """Match the folders and archives of CIFAR-10 and CIFAR-100."""
    kind = cifar_kind(path)
    return f"it has the names of {kind.upper()}" if kind else ""


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the images of each class and part. The batches are read, because a pickle has no header."""
    return inspected_arrays(path, read(path, options))


def read(path: Path, options: ReadingOptions) -> LabeledArrays:
    """List the batches of a folder or ``.tar.gz``.

    Args:
        path: Folder of batches, or the archive.
        options: "size" of the images, which the task applies.

    Returns:
        The training and the test part, images ``(3, 32, 32)``, whose batches are read later.

    Raises:
        UserFileError: The names are not those of CIFAR-10 or CIFAR-100.
    """
    kind = cifar_kind(path)
    if kind is None:
        folders = " or ".join(folder for folder, *_ in KINDS.values())
        raise UserFileError(f"{path} has no batches of CIFAR. Name the folder {folders}, or its archive.")
    return LabeledArrays(FORM, lambda: read_batches(path, kind), visible_files(path))


def read_batches(path: Path, kind: str) -> dict[str, ImageArrays]:
    """Read the training and the test part of a folder or archive.

    Args:
        path: Folder of batches, or the archive.
        kind: "cifar-10" or "cifar-100".

    Returns:
        The parts ``train`` and ``test``.

    Raises:
        ValueError: A file is missing, truncated or damaged, or a pickle would build anything but arrays.
    """
    folder, training, testing, meta, labels, names = KINDS[kind]
    content = _folder_reader(path) if path.is_dir() else _archive_reader(path, (*training, testing, meta), folder)
    class_names = _load_batch(path, meta, content).get(names)
    if not isinstance(class_names, list) or len(class_names) < 2:
        raise ValueError(f"{path}: {meta} has no list of class names. Copy the official archive again.")
    classes = tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in class_names)
    sets = {}
    for name, files in (("train", training), ("test", (testing,))):
        parts = [_batch_arrays(path, file, _load_batch(path, file, content), labels, len(classes)) for file in files]
        pixels, numbers = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        sets[name] = ImageArrays(classes, numbers, pixels)
    return sets


def _folder_reader(path: Path) -> Callable[[str], bytes]:
    def content(name: str) -> bytes:
        try:
            return read_bytes(path / name, 1 + BATCH_FACTOR, "a batch")
        except UserFileError as error:
            raise ValueError(f"{path} lacks {name} ({error}) Copy the official archive again.") from error

    return content


def _archive_reader(path: Path, names: tuple[str, ...], folder: str) -> Callable[[str], bytes]:
    """Read all class_names files in one pass, for a compressed archive is read from its beginning."""
    contents: dict[str, bytes] = {}
    with open_file(path, "an archive") as packed:
        try:
            with tarfile.open(fileobj=cast(IO[bytes], BoundedReader(_unpacked(packed))), mode="r|") as archive:
                for member in archive:
                    inside = Path(member.name)
                    if member.isfile() and inside.parent.name == folder and inside.name in names:
                        if member.size > MOST_BATCH_BYTES:
                            raise ValueError(f"{member.name} has {member.size:,} bytes, more than any official batch")
                        file = archive.extractfile(member)
                        assert file is not None
                        contents[inside.name] = file.read()
        except (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is truncated or no archive ({short(error)}). Copy it again.") from error

    def content(name: str) -> bytes:
        if name not in contents:
            raise ValueError(f"{path} lacks {folder}/{name}. Copy the official archive again.")
        return contents[name]

    return content


class BoundedReader:
    """Stream of an archive that ends with an error after more bytes than the official archives have.

    Args:
        file: The stream.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.left = file, MOST_BYTES

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes. Raises ValueError where the archive is larger than any official one."""
        if size > self.left:
            raise ValueError(f"it holds more than {MOST_BYTES:,} bytes, and no official archive does")
        content = self.file.read(size)
        self.left -= len(content)
        return content


def _unpacked(file: BinaryIO) -> IO[bytes]:
    """Unpacked stream of an archive, by its first bytes."""
    head = file.read(6)
    file.seek(0)
    for begin, module in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ\0", lzma)):
        if head.startswith(begin):
            return module.open(file)
    return file


def _load_batch(path: Path, name: str, content: Callable[[str], bytes]) -> dict[bytes, Any]:
    file = content(name)
    try:
        batch = read_batch(file)
    except Exception as error:  # a damaged batch fails in any way
        raise ValueError(
            f"{path}: {name} is truncated, damaged or no batch ({short(error)}). Copy the official archive again."
        ) from error
    if not isinstance(batch, dict):
        raise ValueError(f"{path}: {name} is not a batch; it contains a {type(batch).__name__}, not a dictionary.")
    return batch


def _batch_arrays(
    path: Path, name: str, batch: dict[bytes, Any], key: bytes, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    pixels, labels = batch.get(b"data"), batch.get(key)
    array = pixels if isinstance(pixels, np.ndarray) else np.empty(0)
    right = array.dtype == np.uint8 and array.shape[1:] == (3 * SIDE * SIDE,)
    numbers = labels if isinstance(labels, list) else []
    numbered = all(type(label) is int and abs(label) < 2**31 for label in numbers)
    if not right or not numbered or not len(numbers) == len(array) > 0:
        raise ValueError(
            f"{path}: {name} is not an official batch; it needs data, n x 3072 of uint8, and n {key.decode()}. Copy "
            "the official archive again."
        )
    array_of_labels = np.array(numbers, dtype=np.int64)
    check_labels(f"{path}: {name}", array_of_labels, classes)
    return array.reshape(-1, 3, SIDE, SIDE), array_of_labels
