"""Decoding of image files to square RGB images, in parallel by threads.

Pillow releases Python's global lock while it decodes, so threads are enough. A JPEG at least twice as large as the
requested size is decoded at 1/2, 1/4 or 1/8 of its size, which is faster in proportion.
"""

from __future__ import annotations

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from posenc.workbench.data.labeled_images import ImageFiles
from posenc.workbench.data.reading_options import Fit
from posenc.workbench.files.user_files import UserFileError, require_file, short

WHITE = "white"
COLORS: Mapping[str, tuple[int, int, int]] = {WHITE: (255, 255, 255), "black": (0, 0, 0), "gray": (128, 128, 128)}
HEX_COLOR = re.compile("#[0-9a-fA-F]{6}")
EXTRA = "pip install 'posenc[vision]'"
FILES_PER_THREAD = 32
"""Number of files that a thread decodes at a time."""
EXIF, TRANSPARENCY = "exif", "transparency"
"""Pillow's keys for the camera's EXIF data and for a transparent color."""


class Square(NamedTuple):
    """Size, cropping or padding, and background of square images.

    Attributes:
        size: Side in pixels.
        fit: "crop" takes the middle of the longer side, "pad" adds a border to the shorter side, "resize" changes the
            aspect ratio.
        background: Color behind transparent pixels and of the border: "white", "black", "gray" or "#rrggbb".
    """

    size: int
    fit: Fit = "crop"
    background: str = WHITE


class Decoded(NamedTuple):
    """A decoded image.

    Attributes:
        pixels: ``(size, size, 3)`` uint8 RGB.
        width: Width of the file's image in pixels.
        height: Its height.
        animated: True if the file has several images, of which the first is decoded.
    """

    pixels: np.ndarray
    width: int
    height: int
    animated: bool


def decode_image(file: Any, square: Square) -> Decoded:
    """Decode one image to square uint8 RGB.

    The camera's rotation is applied, transparent pixels get the background, and 16 bits become 8.

    Args:
        file: Path or binary stream, or an image of Pillow.
        square: Side of the result, and how the image becomes square.

    Returns:
        The image.

    Raises:
        Exception: Whatever Pillow raises for a file that it cannot decode.
    """
    Image, ImageOps = _pil()
    size, color = square.size, rgb_of(square.background)
    with nullcontext(file) if isinstance(file, Image.Image) else Image.open(file) as opened:
        width, height = opened.size
        animated = bool(getattr(opened, "is_animated", False))
        opened.draft(None, (size, size))
        turned = ImageOps.exif_transpose(opened) if EXIF in opened.info else opened
        plain = turned if turned.mode == "RGB" and TRANSPARENCY not in turned.info else _rgb(Image, turned, color)
        if square.fit == "pad" and plain.width != plain.height:
            side = max(plain.size)
            padded = Image.new("RGB", (side, side), color)
            padded.paste(plain, ((side - plain.width) // 2, (side - plain.height) // 2))
            plain = padded
        if plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BICUBIC, box=_box(plain.size, square.fit))
        return Decoded(np.asarray(plain), width, height, animated)


def read_square(file: Any, square: Square, *, gray: bool = False) -> np.ndarray:
    """Read one image of the user as the images of a data set are read.

    Args:
        file: Path of a file, or an image of Pillow.
        square: Side of the result, and how the image becomes square.
        gray: True for one channel.

    Returns:
        Pixels ``(C, size, size)`` uint8.

    Raises:
        UserFileError: There is no file, or it does not decode.
    """
    Image, _ = _pil()
    if not isinstance(file, Image.Image):
        require_file(file, "an image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = decode_image(file, square).pixels
    except Exception as error:  # a damaged image fails in any way
        raise UserFileError(f"{file} does not decode as an image ({short(error)}). Give another file.") from error
    if gray:
        return np.asarray(Image.fromarray(pixels).convert("L"))[None]
    return pixels.transpose(2, 0, 1)


def rgb_of(color: str) -> tuple[int, int, int]:
    """Red, green and blue of a background.

    Args:
        color: "white", "black", "gray" or "#rrggbb".

    Returns:
        The values, from 0 to 255.

    Raises:
        ValueError: It is no such color.
    """
    if color in COLORS:
        return COLORS[color]
    if not HEX_COLOR.fullmatch(color):
        raise ValueError(f"a background is {', '.join(COLORS)} or #rrggbb, such as #ff8000; got {color!r}.")
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


@dataclasses.dataclass(frozen=True)
class Faults:
    """Numbers of files.

    Attributes:
        undecoded: Files that do not decode.
        animated: Files with several images, of which the first is read.
        small: Files of fewer pixels than the size, which are enlarged.
    """

    undecoded: list[int] = dataclasses.field(default_factory=list)
    animated: list[int] = dataclasses.field(default_factory=list)
    small: list[int] = dataclasses.field(default_factory=list)


def decode_images(
    files: ImageFiles,
    numbers: range,
    square: Square,
    pool: ThreadPoolExecutor,
    write: Callable[[int, bytes], object],
) -> Faults:
    """Decode several files and pass the pixels to ``write(first number, images end to end)``, a few at a time.

    Args:
        files: The image files.
        numbers: Numbers of the files to decode.
        square: Side of the images, and how they become square.
        pool: Threads that decode.
        write: Receives the pixels.

    Returns:
        The numbers of the files that do not decode, whose images are black, and of those that are animated or small.

    Raises:
        ValueError: The system cannot read a file.
    """

    def some(start: int) -> Faults:
        found, images = Faults(), []
        for number in range(start, min(start + FILES_PER_THREAD, numbers.stop)):
            try:
                image = decode_image(files.open(number), square)
                images.append(image.pixels)
                found.animated.extend([number] if image.animated else [])
                side = max if square.fit == "pad" else min
                found.small.extend([number] if side(image.width, image.height) < square.size else [])
            except MemoryError:
                raise
            except Exception as error:  # a damaged image fails in any way
                # an error with a number comes from the system, so the image may be fine
                if isinstance(error, OSError) and error.errno is not None:
                    raise ValueError(
                        f"{files.names[number]} of {files.name} cannot be read ({error.strerror}). Run the command "
                        "again once it can be read; images decoded so far are not decoded again."
                    ) from error
                images.append(bytes(3 * square.size**2))
                found.undecoded.append(number)
        write(start, b"".join(images))
        return found

    found = Faults()
    for each in pool.map(some, range(numbers.start, numbers.stop, FILES_PER_THREAD)):
        found.undecoded.extend(each.undecoded)
        found.animated.extend(each.animated)
        found.small.extend(each.small)
    return found


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


def _rgb(Image: Any, image: Any, background: tuple[int, int, int]) -> Any:
    if image.mode.startswith("I") or image.mode == "F":
        deep = np.asarray(image, np.float64)
        if not np.isfinite(deep).all():
            raise ValueError("it has values that are not finite")
        if image.mode == "F" and deep.size and deep.max() <= 1:
            deep = 255 * deep
        deep = deep / 257 if image.mode.startswith("I;16") or deep.max() > 255 else deep
        return Image.fromarray(np.rint(np.clip(deep, 0, 255)).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or TRANSPARENCY in image.info:
        colors = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colors.size, (*background, 255)), colors).convert("RGB")
    return image.convert("RGB")


def _box(shape: tuple[int, int], fit: Fit) -> tuple[float, float, float, float]:
    """Box (left, top, right, bottom) of the part of an image ``(width, height)`` that is used."""
    width, height = shape
    side = min(width, height)
    if fit == "resize":
        return 0, 0, width, height
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _pil() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ValueError(f"decoding images needs Pillow: {EXTRA}") from error
    return Image, ImageOps
