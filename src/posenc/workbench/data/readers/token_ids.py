"""Token ids: a ``.npy`` of whole numbers, or a ``.bin`` of bytes, uint16 or uint32, as nanoGPT and llm.c write them."""

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


LLM_C = {20240520: "uint16", 20240801: "uint32"}
"""First number of a file of llm.c to the type of its ids, which stand behind 256 numbers of 4 bytes."""
LLM_C_BYTES = 1024
LEAST_IDS = 64
"""Fewest ids of which every second one is 0 that show another type."""


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
    content, left_out = _without_header(path, content, options.dtype)
    kind = np.dtype(options.dtype).newbyteorder("<")
    if len(content) % kind.itemsize:
        raise UserFileError(
            f"{path} has {len(content):,} bytes, no multiple of the {kind.itemsize} of {options.dtype}. Copy it again, "
            "or name another --dtype."
        )
    ids = np.frombuffer(content, kind)
    if options.dtype == "uint16" and _are_halves(ids):
        raise UserFileError(
            f"{path} has an id up to {int(ids[1::2].max())} in every second place, as ids of four bytes have. Add "
            "--dtype uint32"
        )
    if len(ids) >= LEAST_IDS and ids.any() and not (ids % 256).any():
        raise UserFileError(
            f"{path} has only multiples of 256, as ids have whose bytes are in the other order. Write them with the "
            "low byte first."
        )
    return Documents(FORM, ids=_checked(path, ids), options={"dtype": options.dtype}, left_out=left_out)


def _are_halves(ids: NDArray[np.unsignedinteger[Any]]) -> bool:
    """True if each second number has nothing but the high bits of an id of four bytes, and the others have more."""
    if len(ids) < LEAST_IDS or len(ids) % 2:
        return False
    most = LARGEST >> 16
    return bool(ids[1::2].max() <= most and (not ids[1::2].any() or ids[::2].max() > most))


def _without_header(path: Path, content: bytes, dtype: str) -> tuple[bytes, tuple[str, ...]]:
    """Ids of a file behind the header of llm.c, and a sentence on it; other files as they are."""
    header = np.frombuffer(content[:LLM_C_BYTES], "<i4") if len(content) > LLM_C_BYTES else np.zeros(3, np.int32)
    stated = LLM_C.get(int(header[0]))
    if stated is None or int(header[2]) * np.dtype(stated).itemsize != len(content) - LLM_C_BYTES:
        return content, ()
    if stated != dtype:
        raise UserFileError(f"{path} has the header of llm.c, with ids of type {stated}. Add --dtype {stated}")
    return content[LLM_C_BYTES:], (f"Not read as ids: the header of llm.c, {LLM_C_BYTES:,} bytes.",)


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
