"""Files to square pictures: any mode to RGB, cut or squeezed to the size asked for, in parallel by threads.

Pillow decodes without Python's lock, so threads are enough. A JPEG that is at least twice as large as what is asked for
is decoded at a half, a quarter or an eighth of its size, which costs that much less.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from posenc.tasks.images.encoded import Encoded

Square = Literal["cut", "squeezed"]
"""How a picture becomes square: the middle of its longer side, or all of it out of proportion."""
EXTRA = "pip install 'posenc[vision]'"
PIECE = 32
"""Pictures that a thread takes at once."""
CAMERA, CLEAR = "exif", "transparency"
"""What Pillow calls the camera's notes and a colour that is see-through."""


def decode(file: Any, size: int, square: Square = "cut") -> np.ndarray:
    """One picture ``(size, size, 3)`` uint8. Raises whatever Pillow raises for a file that it cannot decode.

    file: a path or a binary stream. Its camera's rotation is applied; what is transparent is white; 16 bits become 8.
    """
    Image, ImageOps = _pil()
    with Image.open(file) as opened:
        opened.draft(None, (size, size))
        turned = ImageOps.exif_transpose(opened) if CAMERA in opened.info else opened
        plain = turned if turned.mode == "RGB" and CLEAR not in turned.info else _rgb(Image, turned)
        if plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BICUBIC, box=_box(plain.size, square))
        return np.asarray(plain)


def decode_all(
    files: Encoded,
    numbers: range,
    size: int,
    square: Square,
    pool: ThreadPoolExecutor,
    keep: Callable[[int, bytes], object],
) -> list[int]:
    """Hands the pictures of these numbers to ``keep(first number, pictures end to end)``, a few at a time.

    Returns the numbers of those that do not decode, which are black. Raises ValueError where the system cannot read a
    file.
    """

    def some(start: int) -> list[int]:
        bad, pictures = [], []
        for number in range(start, min(start + PIECE, numbers.stop)):
            try:
                pictures.append(decode(files.open(number), size, square))
            except MemoryError:
                raise
            except Exception as error:  # a damaged picture fails in any way
                if isinstance(error, OSError) and error.errno is not None:  # the system's: not the picture's fault
                    raise ValueError(
                        f"{files.names[number]} of {files.name} cannot be read ({error.strerror}). Run the same again "
                        "once it can; what is decoded by now is kept."
                    ) from error
                pictures.append(bytes(3 * size * size))
                bad.append(number)
        keep(start, b"".join(pictures))
        return bad

    return [number for bad in pool.map(some, range(numbers.start, numbers.stop, PIECE)) for number in bad]


def measure(file: Any) -> tuple[int, int]:
    """Width and height of a picture, without decoding it. Raises ValueError for what is none."""
    Image, _ = _pil()
    try:
        with Image.open(file) as opened:
            return opened.size
    except OSError as error:
        raise ValueError("the first picture does not decode, so say at which size to read, as size=128.") from error


@contextmanager
def decoders(threads: int | None) -> Iterator[ThreadPoolExecutor]:
    """So many threads, or one for each core that this process may use; without Pillow's warnings of odd files."""
    _pil()
    affinity = getattr(os, "sched_getaffinity", None)
    count = threads or (len(affinity(0)) if affinity else os.cpu_count()) or 1
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        warnings.simplefilter("ignore")
        yield pool


def _rgb(Image: Any, picture: Any) -> Any:
    if picture.mode.startswith("I") or picture.mode == "F":
        deep = np.asarray(picture, np.float64)
        deep = deep / 257 if picture.mode.startswith("I;16") or deep.max() > 255 else deep
        return Image.fromarray(np.rint(np.clip(deep, 0, 255)).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or CLEAR in picture.info:
        colours = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    return picture.convert("RGB")


def _box(shape: tuple[int, int], how: Square) -> tuple[float, float, float, float]:
    """The part of a picture ``(width, height)`` that is kept."""
    width, height = shape
    side = min(width, height)
    if how == "squeezed":
        return 0, 0, width, height
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _pil() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ValueError(f"decoding pictures needs Pillow: {EXTRA}") from error
    return Image, ImageOps
