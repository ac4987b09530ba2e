"""Decoding of image files to square RGB images, in parallel by threads.

Pillow releases Python's global lock while it decodes, so threads are enough. A JPEG at least twice as large as the
requested size is decoded at 1/2, 1/4 or 1/8 of its size, which is faster in proportion.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from posenc.workbench.tasks.images.image_files import ImageFiles

SquareFit = Literal["cut", "squeezed"]
"""Method that makes an image square: ``cut`` takes the middle of the longer side, ``squeezed`` distorts the image."""
EXTRA = "pip install 'posenc[vision]'"
FILES_PER_THREAD = 32
"""Number of files that a thread decodes at a time."""
EXIF, TRANSPARENCY = "exif", "transparency"
"""Pillow's keys for the camera's EXIF data and for a transparent color."""


def decode_image(file: Any, size: int, square: SquareFit = "cut") -> np.ndarray:
    """Decode one image to ``(size, size, 3)`` uint8 RGB.

    The camera's rotation is applied, transparent pixels become white, and 16 bits become 8.

    Args:
        file: Path or binary stream.
        size: Side of the result in pixels.
        square: How the image becomes square.

    Raises:
        Exception: Whatever Pillow raises for a file that it cannot decode.
    """
    Image, ImageOps = _pil()
    with Image.open(file) as opened:
        opened.draft(None, (size, size))
        turned = ImageOps.exif_transpose(opened) if EXIF in opened.info else opened
        plain = turned if turned.mode == "RGB" and TRANSPARENCY not in turned.info else _rgb(Image, turned)
        if plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BICUBIC, box=_crop_box(plain.size, square))
        return np.asarray(plain)


def decode_images(
    files: ImageFiles,
    numbers: range,
    size: int,
    square: SquareFit,
    pool: ThreadPoolExecutor,
    write: Callable[[int, bytes], object],
) -> list[int]:
    """Decode several files and pass the pixels to ``write(first number, images end to end)``, a few at a time.

    Args:
        files: The image files.
        numbers: Numbers of the files to decode.
        size: Side of the images in pixels.
        square: How images become square.
        pool: Threads that decode.
        write: Receives the pixels.

    Returns:
        The numbers of the files that do not decode. Their images are black.

    Raises:
        ValueError: The system cannot read a file.
    """

    def some(start: int) -> list[int]:
        bad, images = [], []
        for number in range(start, min(start + FILES_PER_THREAD, numbers.stop)):
            try:
                images.append(decode_image(files.open(number), size, square))
            except MemoryError:
                raise
            except Exception as error:  # a damaged image fails in any way
                # an error with a number comes from the system, so the image may be fine
                if isinstance(error, OSError) and error.errno is not None:
                    raise ValueError(
                        f"{files.names[number]} of {files.name} cannot be read ({error.strerror}). Run the command "
                        "again once it can be read; images decoded so far are not decoded again."
                    ) from error
                images.append(bytes(3 * size * size))
                bad.append(number)
        write(start, b"".join(images))
        return bad

    return [number for bad in pool.map(some, range(numbers.start, numbers.stop, FILES_PER_THREAD)) for number in bad]


def image_size(file: Any) -> tuple[int, int]:
    """Width and height of an image in pixels, without decoding it. Raises ValueError where it is not an image."""
    Image, _ = _pil()
    try:
        with Image.open(file) as opened:
            return opened.size
    except OSError as error:
        raise ValueError("the first image does not decode, so choose the size at which to read: size=128") from error


@contextmanager
def decoder_pool(threads: int | None) -> Iterator[ThreadPoolExecutor]:
    """Pool of decoding threads, by default one per core of this process. Pillow's warnings are silenced inside."""
    _pil()
    affinity = getattr(os, "sched_getaffinity", None)
    count = threads or (len(affinity(0)) if affinity else os.cpu_count()) or 1
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        warnings.simplefilter("ignore")
        yield pool


def _rgb(Image: Any, image: Any) -> Any:
    if image.mode.startswith("I") or image.mode == "F":
        deep = np.asarray(image, np.float64)
        deep = deep / 257 if image.mode.startswith("I;16") or deep.max() > 255 else deep
        return Image.fromarray(np.rint(np.clip(deep, 0, 255)).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or TRANSPARENCY in image.info:
        colors = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colors.size, "white"), colors).convert("RGB")
    return image.convert("RGB")


def _crop_box(shape: tuple[int, int], how: SquareFit) -> tuple[float, float, float, float]:
    """Box (left, top, right, bottom) of the part of an image ``(width, height)`` that is used."""
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
        raise ValueError(f"decoding images needs Pillow: {EXTRA}") from error
    return Image, ImageOps
