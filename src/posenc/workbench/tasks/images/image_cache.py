"""Cache of decoded images on disk: each file is decoded once per size, and later processes memory-map the pixels.

``CACHE/pictures/NAME-SIZE-DIGEST/`` holds ``pixels.u8``, all images ``(N, S, S, 3)`` end to end, and ``state.json``:
the number of decoded files and the files that do not decode. The digest covers the files' names, sizes, inodes and
times. One process fills the cache while the others wait. Its lock is released when the process ends, and the images
decoded by then are not decoded again. The state file is written after the pixels are flushed to the disk, so it never
counts images that a loss of power has destroyed.
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

from posenc.workbench.data.labeled_images import ImageFiles
from posenc.workbench.tasks.images.deep_images import Brightness, brightest_of, dark_sentence
from posenc.workbench.tasks.images.image_decoder import WHITE, Square, decode_images, decoder_pool
from posenc.workbench.tasks.images.image_set import ImageSet, undecoded_note

FORMAT = 2
"""Version of the decoder. Raise it when the same file is decoded to other pixels."""
FIT_NAMES = {"crop": "cut", "resize": "squeezed", "pad": "pad"}
"""Cropping, padding or resizing -> its name in the file names of caches."""
CHUNK = 2**26
"""Bytes of pixels that are decoded between two writes of the state file."""
Progress = Callable[[int, int], None]


def cached_images(
    files: ImageFiles,
    cache: Path,
    square: Square,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ImageSet:
    """Return the images of all files that decode, and fill the cache first where it is incomplete.

    Warns once of the files that do not decode, when the cache is filled.

    Args:
        files: The image files.
        cache: Folder that holds the cache.
        square: Side of the images, and how they become square.
        threads: Number of decoding threads; None for one per core.
        progress: Called with (decoded, files) from time to time.

    Returns:
        Images ``(3, size, size)``, memory-mapped.

    Raises:
        ValueError: No file decodes, the folder cannot be written, or the disk is full.
    """
    size = square.size
    if size < 1:
        raise ValueError(f"images have a size of at least one pixel; got size={size}.")
    from filelock import FileLock

    behind = "" if square.background == WHITE else f" {square.background}"
    description = f"{FORMAT} {FIT_NAMES[square.fit]}{behind} {files.stamp}"
    safe_name = re.sub(r"[^\w.-]", "_", files.name)
    digest, each = hashlib.sha256(description.encode()).hexdigest()[:16], 3 * size * size
    folder = cache / "pictures" / f"{safe_name}-{size}-{digest}"
    state = _read_state(folder, each * len(files))
    if state["done"] < len(files):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / "lock"):
                state = _read_state(folder, each * len(files))
                if state["done"] < len(files):
                    state = _fill(folder, files, square, state, threads, progress)
        except OSError as error:
            raise ValueError(
                f"decoded images cannot be written to {folder} ({error.strerror or error}). Name another folder: "
                "POSENC_CACHE=DIR"
            ) from error
    bad = np.array(state["unread"], np.int64)
    rows = np.setdiff1d(np.arange(len(files)), bad)
    if not len(rows):
        fix = state["reasons"][0] if state.get("reasons") else "Are they images?"
        raise ValueError(f"none of the {len(files)} files of {files.name} decodes as an image. {fix}")
    pixels = np.memmap(folder / "pixels.u8", np.uint8, "r", shape=(len(files), size, size, 3)).transpose(0, 3, 1, 2)
    undecoded = tuple(files.names[number] for number in bad)
    return dataclasses.replace(
        ImageSet.from_arrays(files.name, files.classes, pixels, files.labels).take(rows),
        undecoded=undecoded,
        remarks=_remarks(files, square, state),
    )


def _remarks(files: ImageFiles, square: Square, state: dict[str, Any]) -> tuple[str, ...]:
    """Sentences on animated and on small images, on pixels that are not read, and on dark ones."""
    sentences = []
    for key, one, several in (
        ("animated", "file has several images", "files have several images"),
        ("small", f"image is smaller than {square.size} x {square.size} pixels and was enlarged",
         f"images are smaller than {square.size} x {square.size} pixels and were enlarged"),
    ):  # fmt: skip
        if numbers := state.get(key):  # caches of earlier versions have none
            some = ", ".join(files.names[number] for number in numbers[:3]) + (", .." if len(numbers) > 3 else "")
            after = ", of which the first was read" if key == "animated" else ""
            sentences.append(f"{len(numbers):,} {one if len(numbers) == 1 else several}{after}: {some}.")
    brightest = brightest_of([Brightness(*each) for each in state.get("brightest", ())])
    return (*sentences, *state.get("reasons", ()), *filter(None, [dark_sentence(brightest)]))


def _fill(
    folder: Path, files: ImageFiles, square: Square, state: dict[str, Any], threads: int | None,
    progress: Progress | None,
) -> dict[str, Any]:  # fmt: skip
    """Decode the missing files. A second thread flushes one chunk to the disk while the next one is decoded."""
    total, each = len(files), 3 * square.size**2
    _require_disk(folder, (total - state["done"]) * each)
    step = max(1, CHUNK // each)
    with decoder_pool(threads) as pool, ThreadPoolExecutor(1) as writer, (folder / "pixels.u8").open("ab") as file:
        file.truncate(total * each)
        descriptor = os.open(file.name, os.O_WRONLY)  # writes at any offset; the mode "ab" only appends
        written: Future[None] | None = None

        def write_pixels(first: int, images: bytes) -> None:
            # writing through mapped memory takes twice the time, in page faults
            if os.pwrite(descriptor, images, first * each) != len(images):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        try:
            for start in range(state["done"], total, step):
                numbers = range(start, min(start + step, total))
                found = decode_images(files, numbers, square, pool, write_pixels)
                new = {"unread": found.undecoded, "animated": found.animated, "small": found.small}
                brightest = [Brightness(*each) for each in (*state.get("brightest", ()), *found.brightest)]
                state = {
                    "done": numbers.stop,
                    **{key: [*state.get(key, []), *more] for key, more in new.items()},
                    "reasons": [*state.get("reasons", ()), *found.reasons][:1],
                    "brightest": [each for each in (brightest_of(brightest),) if each is not None],
                }
                if written is not None:
                    written.result()
                written = writer.submit(_write_state, folder, descriptor, state)
                if progress is not None:
                    progress(numbers.stop, total)
            if written is not None:
                written.result()
        finally:
            writer.shutdown()
            os.close(descriptor)
    if state["unread"]:
        warnings.warn(undecoded_note(files.name, [files.names[number] for number in state["unread"]]), stacklevel=4)
    return state


def _read_state(folder: Path, size: int) -> dict[str, Any]:
    """State of the cache. It counts no image where the file of pixels is missing or has another size."""
    try:
        state = json.loads((folder / "state.json").read_text())
        if (folder / "pixels.u8").stat().st_size == size:
            return state
    except (FileNotFoundError, NotADirectoryError):
        pass
    return {"done": 0, "unread": []}


def _write_state(folder: Path, descriptor: int, state: dict[str, Any]) -> None:
    os.fsync(descriptor)
    partial = folder / f".state.{uuid4().hex}"
    partial.write_text(json.dumps(state))
    partial.replace(folder / "state.json")


def _require_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(
            f"decoded images take {needed / 2**30:.1f} GiB in {folder}, which has {free / 2**30:.1f} left. Ask for a "
            "smaller size, or name a folder on another disk: POSENC_CACHE=DIR"
        )
