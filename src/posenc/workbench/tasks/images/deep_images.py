"""Gray images of more than 8 bits, as images of 8 bits. The scale is that of their type, and no image has its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from posenc.workbench.tasks.single_image.image_file import SAVE_ADVICE

BITS, PHOTOMETRIC, MINISWHITE = 258, 262, 0
"""Tags of TIFF for the bits of a value and the meaning of 0, and the meaning "white"."""
DARK = 1 / 8
"""Share of the largest possible value. Images whose brightest value is below it are named."""


class UnreadPixelsError(ValueError):
    """An image that decodes, but whose values have no black and white; the message is ours."""


class Brightness(NamedTuple):
    """Brightest value of images of more than 8 bits.

    Attributes:
        images: Number of the images.
        value: The largest value of a pixel.
        most: The largest value that is possible.
    """

    images: int
    value: int
    most: int


def is_deep(image: Any) -> bool:
    """True for gray images of more than 8 bits, or of real numbers."""
    return image.mode.startswith("I") or image.mode == "F"


def gray_of_deep(image: Any, source: Any) -> tuple[np.ndarray, Brightness | None]:
    """Scale a deep image to 8 bits: 16 bits by 65,535, or by fewer bits that a TIFF states, and real numbers by 1.

    Args:
        image: The image.
        source: The image as it was opened, whose format and tags are known.

    Returns:
        ``(H, W)`` uint8, and the brightest value; None for real numbers.

    Raises:
        UnreadPixelsError: It has signed numbers or 32 bits, or real numbers outside 0 to 1.
        ValueError: A value is not finite.
    """
    tags = getattr(source, "tag_v2", {})
    values = np.asarray(image, np.float64)
    if not np.isfinite(values).all():
        raise ValueError("it has values that are not finite")
    if image.mode == "F":
        most, low, high = 1, values.min(initial=0), values.max(initial=0)
        if low < 0 or high > 1:
            raise UnreadPixelsError(
                f"it has pixels of the kind F, real numbers from {low:g} to {high:g}, and 0 to 1 are read. "
                f"{SAVE_ADVICE}"
            )
    elif image.mode.startswith("I;16"):
        most = 2 ** int(tags.get(BITS, (16,))[0]) - 1
    elif source.format in ("PNG", "PPM"):  # Pillow scales PPM to 16 bits
        most = 65535
    else:
        raise UnreadPixelsError(f"it has pixels of the kind I, signed numbers or 32 bits. {SAVE_ADVICE}")
    brightest = None if image.mode == "F" else Brightness(1, int(values.max(initial=0)), most)
    if tags.get(PHOTOMETRIC) == MINISWHITE:
        values = most - values
    return np.rint(np.clip(values / (most / 255), 0, 255)).astype(np.uint8), brightest


def brightest_of(images: Sequence[Brightness]) -> Brightness | None:
    """Brightest value of several images, with their number; None for none."""
    if not images:
        return None
    top = max(images, key=lambda each: each.value / each.most)
    return Brightness(sum(each.images for each in images), top.value, top.most)


def dark_sentence(brightness: Brightness | None) -> str:
    """Sentence on deep images that are all dark, as 12 bits in a file of 16; "" for others."""
    if brightness is None or not 0 < brightness.value < DARK * brightness.most:
        return ""
    factor = brightness.most // (2 ** brightness.value.bit_length() - 1)
    return (
        f"The brightest value of the images of more than 8 bits ({brightness.images:,}) is {brightness.value:,} of "
        f"{brightness.most:,}, nearly black. If their camera has fewer bits, make them brighter, with ImageMagick: "
        f"convert IN -evaluate multiply {factor} OUT.png"
    )
