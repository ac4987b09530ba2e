"""The IDX format of MNIST and Fashion-MNIST, plain or gzipped.

    0 0 type rank | rank big-endian lengths of 32 bits | the values, row-major

Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section "File formats". Type 8, the
only one read here, is uint8.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from posenc.tasks.images.image_set import ImageSet, check_labels

UINT8 = 8
FILES = {part: (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")}


def read_idx(path: Path, rank: int) -> np.ndarray:
    """The array of a file. Raises ValueError for a missing, damaged or truncated one, or another rank."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "truncated or damaged"
        raise ValueError(f"{path} cannot be read ({reason}). Copy or download it again.") from error
    found = content[3] if len(content) >= 4 and content[:2] == b"\0\0" else None
    if found is None or content[2] != UINT8:
        raise ValueError(f"{path} is no IDX file of uint8; it should begin 00 00 08 {rank:02d}. Download it again.")
    if found != rank:
        raise ValueError(f"{path} has {found} axes; {rank} are needed. Are pictures and labels swapped?")
    start = 4 + 4 * rank
    shape = tuple(np.frombuffer(content[4:start].ljust(start - 4, b"\0"), ">u4").tolist())
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} is truncated or damaged: its header says {' x '.join(map(str, shape))} values and "
            f"{max(len(content) - start, 0)} follow. Download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def is_idx(folder: Path) -> bool:
    """Whether a folder holds, or should hold, files of this format."""
    return any(_found(folder, name) is not None for names in FILES.values() for name in names)


def read_folder(folder: Path, name: str, classes: tuple[str, ...] | None = None) -> tuple[ImageSet, ImageSet]:
    """The training and the test set of a folder with the four files of MNIST's names. Raises ValueError as read_idx.

    classes: their names; otherwise the numbers that there are.
    """
    arrays = {}
    for part, names in FILES.items():
        paths = [_found(folder, file) for file in names]
        missing = [f"{file}.gz" for file, path in zip(names, paths, strict=True) if path is None]
        if missing:
            raise ValueError(f"{folder} lacks {' and '.join(missing)}, plain or gzipped. Copy or download it.")
        pictures, labels = (read_idx(path, rank) for path, rank in zip(paths, (3, 1), strict=True) if path is not None)
        if len(pictures) != len(labels):
            raise ValueError(f"{folder}: {part} has {len(pictures)} pictures and {len(labels)} labels; each has one.")
        if 0 in pictures.shape:
            raise ValueError(f"{folder}: the file {names[0]} has no pictures, or pictures without pixels.")
        arrays[part] = pictures[:, None], labels
    named = classes or tuple(str(i) for i in range(int(arrays["train"][1].max()) + 1))
    for part, (_, labels) in arrays.items():
        check_labels(f"{FILES[part][1]} of {folder}", labels, len(named))
    train, test = (ImageSet.of(name, named, *arrays[part]) for part in FILES)
    return train, test


def _found(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
