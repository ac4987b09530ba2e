"""Token ids: a ``.npy`` of whole numbers, or a ``.bin`` of bytes, uint16 or uint32 without a header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.lookup.name_suggestion import unknown
from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import DTYPES, ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files import user_files
from posenc.workbench.files.array_files import read_npy
from posenc.workbench.files.user_files import UserFileError

FORM = "token ids"
KIND = "text"
OPTIONS: tuple[str, ...] = ("dtype", "val")
ENDINGS = (".npy", ".bin", ".bin.gz")
MEMORY_FACTOR = 12
LARGEST = 2**20 - 1
"""Largest id. Vocabularies of language models have fewer than 10^6 tokens; larger numbers are of another type."""


def match(path: Path) -> str:
    """Match files that end in .npy, .bin or .bin.gz."""
    return reason_by_ending(path, ENDINGS)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the bytes of the file; nothing is read."""
    return text_record(FORM, path, [path])


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the ids.

    Args:
        path: The file.
        options: "dtype", which a ``.bin`` needs: its bytes do not say what they are.

    Returns:
        Ids without divisions into documents, or bytes.

    Raises:
        UserFileError: "dtype" is missing, or is given for a ``.npy``; the array is not whole numbers of one axis; an
            id is negative or too large; or the size is no multiple of that of an id.
    """
    user_files.require_file(path, "token ids")
    if path.suffix.lower() == ".npy":
        if options.dtype is not None:
            raise UserFileError(f"{path} states its type; --dtype {options.dtype} is for .bin files. Leave it out.")
        return Documents(FORM, ids=_of_array(path))
    if options.dtype is None:
        raise UserFileError(
            f"{path} does not say what its bytes are: add --dtype bytes for a file of any bytes, or --dtype uint16 or "
            "uint32 for token ids, as nanoGPT writes them."
        )
    if options.dtype not in DTYPES:
        raise UserFileError(f"{unknown('dtype', options.dtype, DTYPES)} Choose one of {', '.join(DTYPES)}.")
    content = user_files.unpack(path, MEMORY_FACTOR, "token ids", "Cut the file.")
    if not content:
        raise UserFileError(f"{path} is empty; give a file with at least a few windows of tokens.")
    if options.dtype == "bytes":
        return Documents("bytes", ids=np.frombuffer(content, np.uint8), options={"dtype": "bytes"})
    kind = np.dtype(options.dtype).newbyteorder("<")
    if len(content) % kind.itemsize:
        raise UserFileError(
            f"{path} has {len(content):,} bytes, no multiple of the {kind.itemsize} of {options.dtype}. Copy it again, "
            "or name another --dtype."
        )
    ids = np.frombuffer(content, kind)
    return Documents(FORM, ids=_checked(path, ids), options={"dtype": options.dtype})


def _of_array(path: Path) -> NDArray[np.integer[Any]]:
    ids = read_npy(path)
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise UserFileError(
            f"{path} is {ids.dtype} of the shape {ids.shape}; token ids are whole numbers of one axis. Save ids as "
            "numpy.save(path, ids.astype('uint16'))."
        )
    if not len(ids):
        raise UserFileError(f"{path} is empty; give a file with at least a few windows of tokens.")
    return _checked(path, ids)


def _checked(path: Path, ids: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    if ids.min() < 0 or ids.max() > LARGEST:
        at = int(np.flatnonzero((ids < 0) | (ids > LARGEST))[0])
        remedy = (
            "Save the ids of a tokenizer, which count from 0."
            if path.suffix.lower() == ".npy"
            else "If the ids have another type, name it: --dtype uint16"
        )
        raise UserFileError(
            f"{path} has ids from {ids.min()} to {ids.max()}; an id is from 0 to {LARGEST:,}. The first that is not is "
            f"id {at + 1:,}, {ids[at]:,}. {remedy}"
        )
    return ids
