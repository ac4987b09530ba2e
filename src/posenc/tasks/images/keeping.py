"""Decoded pictures kept on disk: a file is decoded once, at one size, and mapped into memory by every later process.

``CACHE/pictures/NAME-SIZE-DIGEST/`` holds ``pixels.u8``, ``(N, S, S, 3)`` end to end, and ``state.json``, which says
how many are there and which files do not decode. The digest is of the files' names, sizes and dates. One process fills
while the others wait; the lock ends with its process, and what was filled by then is not decoded again. A number is
written once its pictures are on the disk, so a machine that loses power leaves none that are not.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from posenc.tasks.images.decoding import Square, decode_all, decoders
from posenc.tasks.images.encoded import Encoded
from posenc.tasks.images.image_set import ImageSet, left_out

FORMAT = 1
CHUNK = 2**26
"""Bytes that are decoded between two numbers."""
Progress = Callable[[int, int], None]


def kept(
    files: Encoded,
    kept_in: Path,
    size: int,
    *,
    square: Square = "cut",
    threads: int | None = None,
    progress: Progress | None = None,
) -> ImageSet:
    """The set of all files that decode, at ``(3, size, size)``; fills the cache where it is not full.

    threads: that decode; None for one a core. progress: called with (decoded, files) now and then. Warns of files
    that were left out, once: when they are found. Raises ValueError where nothing decodes or the disk has no room.
    """
    if size < 1:
        raise ValueError(f"pictures have a size of at least one pixel; got size={size}.")
    from filelock import FileLock

    told = f"{FORMAT} {square} {files.stamp}"
    plain = re.sub(r"[^\w.-]", "_", files.name)
    digest, each = hashlib.sha256(told.encode()).hexdigest()[:16], 3 * size * size
    folder = kept_in / "pictures" / f"{plain}-{size}-{digest}"
    state = _state(folder, each * len(files))
    if state["done"] < len(files):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / "lock"):
                state = _state(folder, each * len(files))
                if state["done"] < len(files):
                    state = _fill(folder, files, size, square, state, threads, progress)
        except OSError as error:
            raise ValueError(
                f"decoded pictures cannot be kept in {folder} ({error.strerror or error}). Name another folder: "
                "POSENC_CACHE=DIR"
            ) from error
    bad = np.array(state["unread"], np.int64)
    rows = np.setdiff1d(np.arange(len(files)), bad)
    if not len(rows):
        raise ValueError(f"none of the {len(files)} files of {files.name} decodes as a picture. Are they pictures?")
    pixels = np.memmap(folder / "pixels.u8", np.uint8, "r", shape=(len(files), size, size, 3)).transpose(0, 3, 1, 2)
    unread = tuple(files.names[number] for number in bad)
    return dataclasses.replace(ImageSet.of(files.name, files.classes, pixels, files.labels).take(rows), unread=unread)


def _fill(
    folder: Path, files: Encoded, size: int, square: Square, state: dict[str, Any], threads: int | None,
    progress: Progress | None,
) -> dict[str, Any]:  # fmt: skip
    """Decodes what is missing. A second thread waits for the disk to have one chunk while the next is decoded."""
    total, each = len(files), 3 * size * size
    _refuse_full(folder, (total - state["done"]) * each)
    step = max(1, CHUNK // each)
    with decoders(threads) as pool, ThreadPoolExecutor(1) as writer, (folder / "pixels.u8").open("ab") as file:
        file.truncate(total * each)
        place = os.open(file.name, os.O_WRONLY)  # written at any place, where "ab" appends
        written: Future[None] | None = None

        def put(first: int, pictures: bytes) -> None:
            # through mapped memory it would cost twice as much, in page faults
            if os.pwrite(place, pictures, first * each) != len(pictures):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        try:
            for start in range(state["done"], total, step):
                numbers = range(start, min(start + step, total))
                bad = decode_all(files, numbers, size, square, pool, put)
                state = {"done": numbers.stop, "unread": [*state["unread"], *bad]}
                if written is not None:
                    written.result()
                written = writer.submit(_write, folder, place, state)
                if progress is not None:
                    progress(numbers.stop, total)
            if written is not None:
                written.result()
        finally:
            writer.shutdown()
            os.close(place)
    if state["unread"]:
        warnings.warn(left_out(files.name, [files.names[number] for number in state["unread"]]), stacklevel=4)
    return state


def _state(folder: Path, size: int) -> dict[str, Any]:
    """How far the cache is filled; not at all where its pixels are gone."""
    try:
        state = json.loads((folder / "state.json").read_text())
        if (folder / "pixels.u8").stat().st_size == size:
            return state
    except (FileNotFoundError, NotADirectoryError):
        pass
    return {"done": 0, "unread": []}


def _write(folder: Path, place: int, state: dict[str, Any]) -> None:
    os.fsync(place)
    partial = folder / f".state.{uuid4().hex}"
    partial.write_text(json.dumps(state))
    partial.replace(folder / "state.json")


def _refuse_full(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"decoded pictures take {needed / 2**30:.1f} GiB in {folder}, which has {free / 2**30:.1f} left. Ask for a "
            "smaller size, or name a folder on another disk: POSENC_CACHE=DIR"
        )
