"""Pictures from files: PNG, JPEG, WebP, TIFF, 8 and 16 bits, grey, colour, with alpha, turned as their camera says.

Pillow reads 8 bits; imagecodecs reads 16-bit PNG, which Pillow would cut to 8, and tifffile reads TIFF.
"""

from __future__ import annotations

import math
import os
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1
"""To be raised when the same file is read as other pixels."""
PNG, SIXTEEN = b"\x89PNG\r\n\x1a\n", 16
EXTRA = "pip install 'posenc[fields]'"
RGB = "the inks of a press: save it as RGB, with ImageMagick: convert IN -colorspace sRGB OUT.png"
PLAIN = {
    "1": "L", "P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA", "RGBX": "RGB", "YCbCr": "RGB", "I;16B": "I;16",
    "I;16L": "I;16", "L": "L", "LA": "LA", "RGB": "RGB", "RGBA": "RGBA", "I;16": "I;16",
}  # fmt: skip
"""Pillow's modes that are read, and which one says the same."""
DIRECT = ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE")
"""Kinds of TIFF that are read here; Pillow reads the colours of video, YCBCR."""
SAVE = "Save it as grey or RGB of 8 or 16 bits, with ImageMagick: convert IN -colorspace sRGB -depth 16 OUT.png"
ORIENTATION = 274
LIMITED = threading.RLock()
"""Held while Pillow's limit, which is one for all, is lifted."""
SHARE = 0.5
"""A picture may take this part of the machine's memory, twice over while it is decoded."""


def read(path: Path) -> np.ndarray:
    """The picture ``(H, W, C)``, uint8 or uint16, C = 1 (grey), 2 (with alpha), 3 or 4.

    Its camera's rotation is applied; an alpha that is full everywhere is dropped. Raises ValueError for what is no
    picture, has no pixels, is CMYK, or would not fit into memory.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a picture is one file: PNG, JPEG, WebP or TIFF.")
    try:
        with path.open("rb") as file:
            head = file.read(26)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}. Give the path of a picture.") from error
    if head[:2] in (b"II", b"MM") and head[2:4] in (b"*\0", b"\0*", b"+\0", b"\0+"):
        pixels = _tiff(path)
    elif head.startswith(PNG) and len(head) >= 26:
        if head[12:16] == b"IHDR":
            width, height = struct.unpack(">II", head[16:24])
            _refuse_large(path, width, height, 1)  # of any kind
        pixels = _sixteen_bits(path) if head[24] == SIXTEEN else _pillow(path)
    else:
        pixels = _pillow(path)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] > 4 or 0 in pixels.shape:
        raise ValueError(f"{path} holds an array of shape {pixels.shape}; a picture is (H, W) with up to 4 colours.")
    if pixels.shape[2] in (2, 4) and (pixels[..., -1] == np.iinfo(pixels.dtype).max).all():
        pixels = pixels[..., :-1]
    return np.ascontiguousarray(pixels)


def photos(folder: Path, size: int) -> dict[str, np.ndarray]:
    """The photographs of a data folder, ``photos/photos_256.npz`` or ``photos_512.npz``, by name, ``(H, W, 3)`` uint8.

    Raises ValueError where they are not there.
    """
    path = folder / "photos" / f"photos_{size}.npz"
    try:
        with np.load(path) as held:
            arrays = {name: held[name] for name in held.files}
    except (OSError, ValueError) as error:
        raise ValueError(
            f"the photographs of this study are not at {path} ({error}). Give a picture of your own, "
            "posenc run image-fit photo.jpg, or a folder that has them: --data DIR."
        ) from error
    names = next(array for array in arrays.values() if array.dtype.kind in "US")
    pixels = next(array for array in arrays.values() if array.dtype == np.uint8)
    return {str(name): picture for name, picture in zip(names, pixels, strict=True)}


def reduced(pixels: np.ndarray, longest: int) -> np.ndarray:
    """Means over areas, so that the longer side has at most `longest` pixels; the same dtype.

    A new pixel is the mean of those it covers, of those at its edges the covered part; what is clear has no colour.
    """
    before = pixels.shape[:2]
    if max(before) <= longest:
        return pixels
    height, width = (max(1, round(side * longest / max(before))) for side in before)
    band = max(1, (1 << 22) // math.prod(pixels.shape[1:]))  # rows at a time: sums are wide numbers
    narrow = [_summed(_weighed(pixels[row : row + band]), width, 1) for row in range(0, before[0], band)]
    mean = _summed(np.concatenate(narrow), height, 0) / (before[0] / height * (before[1] / width))
    if pixels.shape[2] in (2, 4):
        mean[..., :-1] /= np.maximum(mean[..., -1:] / np.iinfo(pixels.dtype).max, 1e-12)
    return np.rint(mean).astype(pixels.dtype)


def _weighed(pixels: np.ndarray) -> np.ndarray:
    """Colours times their alpha, where there is one."""
    if pixels.shape[2] not in (2, 4):
        return pixels
    alpha = pixels[..., -1:].astype(np.float64)
    return np.concatenate([pixels[..., :-1] * (alpha / np.iinfo(pixels.dtype).max), alpha], -1)


def _summed(values: np.ndarray, count: int, axis: int) -> np.ndarray:
    """Sums over `count` equal parts of an axis, float64; a part may begin and end within a row."""
    sides = values.shape[axis]
    whole, over = np.divmod(np.arange(count + 1) * sides, count)
    over = (over / count).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    inside = np.add.reduceat(values, whole[:-1], axis, dtype=np.float64)
    cut = over * np.take(values, np.minimum(whole, sides - 1), axis)  # of the row an edge is in, what lies before it
    first, last = np.split(cut, [count], axis)[0], np.split(cut, [1], axis)[1]
    return inside - first + last


class RefusalError(ValueError):
    """A picture that decodes and is not taken, in a sentence of ours."""


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Whatever a decoder raises of a file, in one sentence; Pillow refuses 179 megapixels, memory decides here."""
    Image, _ = _pil()
    LIMITED.acquire()
    limit = Image.MAX_IMAGE_PIXELS
    try:
        Image.MAX_IMAGE_PIXELS = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except RefusalError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} does not decode as a picture ({_short(error)}). PNG, JPEG, WebP and TIFF do."
        ) from error
    finally:
        Image.MAX_IMAGE_PIXELS = limit
        LIMITED.release()


def _pillow(path: Path) -> np.ndarray:
    Image, ImageOps = _pil()
    with _decoding(path), Image.open(path) as opened:
        _refuse_large(path, opened.width, opened.height, len(opened.getbands()))
        if opened.mode == "CMYK":
            raise RefusalError(f"{path} is CMYK, {RGB}")
        turned = ImageOps.exif_transpose(opened)
        if turned.mode not in PLAIN:
            raise RefusalError(f"{path} has pixels of the kind {turned.mode}. {SAVE}")
        mode = PLAIN[turned.mode]
        return np.asarray(turned if turned.mode == mode else turned.convert(mode))


def _sixteen_bits(path: Path) -> np.ndarray:
    Image, _ = _pil()
    try:
        import imagecodecs
    except ImportError as error:
        raise ValueError(f"{path} has 16 bits a colour, which needs imagecodecs: {EXTRA}") from error
    with _decoding(path):
        with Image.open(path) as opened:
            _refuse_large(path, opened.width, opened.height, 2 * len(opened.getbands()))
            orientation = opened.getexif().get(ORIENTATION, 1)
        return _turned(imagecodecs.png_decode(path.read_bytes()), orientation)


def _tiff(path: Path) -> np.ndarray:
    try:
        import tifffile
    except ImportError as error:
        raise ValueError(f"{path} is a TIFF, which needs tifffile: {EXTRA}") from error
    with _decoding(path), tifffile.TiffFile(path) as held:
        page: Any = held.pages[0]
        _refuse_large(path, page.imagewidth, page.imagelength, -(-page.samplesperpixel * page.bitspersample // 8))
        kind = page.photometric
        if kind == tifffile.PHOTOMETRIC.SEPARATED:
            raise RefusalError(f"{path} is CMYK, {RGB}")
        name, bits = getattr(kind, "name", str(kind)), page.bitspersample
        by_eye = name == "YCBCR" and bits == 8
        if not by_eye and not (name in DIRECT and bits in (1, 2, 4, 8, 16) and np.dtype(page.dtype).kind in "bu"):
            raise RefusalError(f"{path} has pixels of the kind {name}, {page.dtype}, {bits} bits. {SAVE}")
        pixels = None if by_eye else _in_full(page, name, bits)
    return _pillow(path) if pixels is None else pixels


def _in_full(page: Any, name: str, bits: int) -> np.ndarray:
    """A page of a TIFF, turned as it is to be seen, with white and black where they belong; 8 or 16 bits."""
    apart = page.planarconfig == 2 and page.samplesperpixel > 1  # colour after colour
    pixels = np.moveaxis(page.asarray(), 0, -1) if apart else page.asarray()
    pixels = _turned(pixels, page.tags.valueof(ORIENTATION, 1))
    if name == "PALETTE":
        return (page.colormap.T >> 8).astype(np.uint8)[pixels]
    if bits < 8:
        pixels = pixels.astype(np.uint8) * np.uint8(255 // (2**bits - 1))
    if name == "MINISWHITE":
        grey = pixels if pixels.ndim == 2 else pixels[..., :1]
        grey[...] = np.iinfo(pixels.dtype).max - grey
    return pixels


def _turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Pixels as a camera stored them, ``(H, W, ..)``, as they are to be seen: EXIF and TIFF, tag 274."""
    upright = pixels.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else pixels
    down = -1 if orientation in (3, 4, 7, 8) else 1
    across = -1 if orientation in (2, 3, 6, 7) else 1
    return np.array(upright[::down, ::across])


def _refuse_large(path: Path, width: int, height: int, bytes_a_pixel: int) -> None:
    if not width or not height:
        raise RefusalError(f"{path} has no pixels: {width} x {height}.")
    needed, memory = 2 * width * height * bytes_a_pixel, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > SHARE * memory:
        raise RefusalError(
            f"{path} is {width} x {height}: decoding it takes about {needed / 2**30:.1f} GiB, and this machine has "
            f"{memory / 2**30:.1f}. Make it smaller first, or fit a part of it."
        )


def _pil() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ValueError(f"reading pictures needs Pillow: {EXTRA}") from error
    return Image, ImageOps


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
