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
from posenc.workbench.tasks.images.deep_images import (
    Brightness,
    UnreadPixelsError,
    brightest_of,
    gray_of_deep,
    is_deep,
)
from posenc.workbench.tasks.single_image.image_file import ORIENTATION

WHITE = "white"
COLORS: Mapping[str, tuple[int, int, int]] = {WHITE: (255, 255, 255), "black": (0, 0, 0), "gray": (128, 128, 128)}
HEX_COLOR = re.compile("#[0-9a-fA-F]{6}")
EXTRA = "pip install 'posenc[vision]'"
FILES_PER_THREAD = 32
"""Number of files that a thread decodes at a time."""
TRANSPARENCY = "transparency"
"""Pillow's key for a transparent color."""


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
        brightest: Brightest value of an image of more than 8 bits; None for others.
    """

    pixels: np.ndarray
    width: int
    height: int
    animated: bool
    brightest: Brightness | None = None


def decode_image(file: Any, square: Square) -> Decoded:
    """Decode one image to square uint8 RGB.

    The camera's rotation is applied, transparent pixels get the background, and 16 bits become 8. The rotation may be
    stated in EXIF, in XMP, or in the text of a PNG.

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
        opened.load()  # a TIFF is turned while it is loaded
        turned = ImageOps.exif_transpose(opened) if opened.getexif().get(ORIENTATION, 1) != 1 else opened
        brightest = None
        if is_deep(turned):
            gray, brightest = gray_of_deep(turned, opened)
            turned = Image.fromarray(gray)
        plain = turned if turned.mode == "RGB" and TRANSPARENCY not in turned.info else _rgb(Image, turned, color)
        if square.fit == "pad" and plain.width != plain.height:
            side = max(plain.size)
            padded = Image.new("RGB", (side, side), color)
            padded.paste(plain, ((side - plain.width) // 2, (side - plain.height) // 2))
            plain = padded
        if plain.size != (size, size):
            plain = plain.resize((size, size), Image.Resampling.BICUBIC, box=_box(plain.size, square.fit))
        return Decoded(np.asarray(plain), width, height, animated, brightest)


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
    except UnreadPixelsError as error:
        raise UserFileError(f"{file}: {error}") from None
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
    """Numbers of files, and notes on their pixels.

    Attributes:
        undecoded: Files that do not decode.
        animated: Files with several images, of which the first is read.
        small: Files of fewer pixels than the size, which are enlarged.
        reasons: Sentences on files that decode, but whose pixels are not read.
        brightest: Brightest value of each image of more than 8 bits.
    """

    undecoded: list[int] = dataclasses.field(default_factory=list)
    animated: list[int] = dataclasses.field(default_factory=list)
    small: list[int] = dataclasses.field(default_factory=list)
    reasons: list[str] = dataclasses.field(default_factory=list)
    brightest: list[Brightness] = dataclasses.field(default_factory=list)

    def extend(self, other: Faults) -> None:
        """Add the faults of other files."""
        self.undecoded.extend(other.undecoded)
        self.animated.extend(other.animated)
        self.small.extend(other.small)
        self.reasons.extend(other.reasons[:1])
        self.brightest[:] = filter(None, [brightest_of([*self.brightest, *other.brightest])])


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
                found.brightest.extend(filter(None, [image.brightest]))
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
                found.reasons.extend(
                    [f"{files.names[number]}: {error}"] if isinstance(error, UnreadPixelsError) else []
                )
        write(start, b"".join(images))
        return found

    found = Faults()
    for each in pool.map(some, range(numbers.start, numbers.stop, FILES_PER_THREAD)):
        found.extend(each)
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
