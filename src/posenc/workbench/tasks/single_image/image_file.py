"""Reading one image file: PNG, JPEG, WebP or TIFF, 8 or 16 bits, gray or color, with or without alpha.

Pillow reads 8 bits. imagecodecs reads 16-bit PNG, which Pillow would reduce to 8 bits, and tifffile reads TIFF.
"""

from __future__ import annotations

import logging
import math
import struct
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from posenc.whole_numbers import are_whole
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files.array_files import open_arrays
from posenc.workbench.files.user_files import TooLargeError, open_file
from posenc.workbench.memory import free_memory

FORMAT = 2
"""Version of the reader. Raise it when the same file is read as other pixels."""
PNG, BITS_16 = b"\x89PNG\r\n\x1a\n", 16
EXTRA = "pip install 'posenc[fields]'"
CMYK_ADVICE = "the color space of printing: save it as RGB, with ImageMagick: convert IN -colorspace sRGB OUT.png"
CONVERTED_MODES = {
    "1": "L", "P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA", "RGBX": "RGB", "YCbCr": "RGB", "I;16B": "I;16",
    "I;16L": "I;16", "L": "L", "LA": "LA", "RGB": "RGB", "RGBA": "RGBA", "I;16": "I;16",
}  # fmt: skip
"""The Pillow modes that are read, each with the mode that it is converted to."""
TIFF_KINDS = ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE")
"""Kinds of TIFF that are read here. Pillow reads YCBCR, the colors of video."""
SAVE_ADVICE = "Save it as gray or RGB of 8 or 16 bits, with ImageMagick: convert IN -colorspace sRGB -depth 16 OUT.png"
MOST_CHANNELS = 4
ORIENTATION = 274
PILLOW_LIMIT_LOCK = threading.RLock()
"""Held while Pillow's limit on pixels is lifted, for all threads share that limit."""
PILLOW_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2}
"""Bytes per pixel of an image in Pillow; of all other modes 4."""
FORMAT_BYTES = {"WEBP": 8, "JPEG": 6}
"""Further bytes per pixel while a format is decoded: the decoder's own pixels, and coefficients of progressive JPEG."""
JPEG_PIXELS_PER_BYTE = 1024
"""More pixels per byte than a JPEG can hold. One color everywhere, progressive and optimized, has 256."""
DEEP_PNG_BYTES = 6
"""Bytes per channel of a pixel at the peak of reading a PNG of 16 bits. Measured: 5.4 for RGB and 5.0 for RGBA."""


def read_image(path: Path, *, upright: bool = True) -> np.ndarray:
    """Read an image file. An alpha channel that is opaque everywhere is dropped.

    Args:
        path: The file.
        upright: True to turn and mirror the pixels as the camera's tag says, False for the pixels as stored.

    Returns:
        ``(H, W, C)`` uint8 or uint16, with C = 1 (gray), 2 (gray and alpha), 3 or 4.

    Raises:
        ValueError: The file is not an image, has no pixels, is CMYK, or would not fit into memory.
    """
    with open_file(path, "an image (PNG, JPEG, WebP or TIFF)") as file:
        head = file.read(26)
    if head[:2] in (b"II", b"MM") and head[2:4] in (b"*\0", b"\0*", b"+\0", b"\0+"):
        pixels = _read_tiff(path, upright)
    elif head.startswith(PNG) and len(head) >= 26:
        if head[12:16] == b"IHDR":
            width, height = struct.unpack(">II", head[16:24])
            _require_size(path, width, height, 4)  # the least of all kinds of pixels
        pixels = _read_png16(path, upright) if head[24] == BITS_16 else _read_pillow(path, upright)
    else:
        pixels = _read_pillow(path, upright)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] > MOST_CHANNELS or 0 in pixels.shape:
        raise ValueError(f"{path} holds an array of shape {pixels.shape}; an image is (H, W) with up to 4 colors.")
    if pixels.shape[2] in (2, 4) and (pixels[..., -1] == np.iinfo(pixels.dtype).max).all():
        pixels = pixels[..., :-1]
    return np.ascontiguousarray(pixels)


def without_hidden_colors(pixels: np.ndarray) -> np.ndarray:
    """Set the colors of pixels to 0 whose alpha is 0: nobody sees them, and a score would count them.

    Args:
        pixels: Image ``(H, W, C)`` as `read_image` returns it.

    Returns:
        The image; the same array if it has no such color.
    """
    if pixels.shape[2] not in (2, 4):
        return pixels
    hidden = (pixels[..., -1:] == 0) & (pixels != 0)
    return np.where(hidden, 0, pixels).astype(pixels.dtype) if hidden.any() else pixels


def image_count(path: Path) -> int:
    """Number of images in an image file: pages of a TIFF, or frames of an animation. The first is the one that is read.

    Args:
        path: The file, which `read_image` reads.

    Returns:
        The number.

    Raises:
        ValueError: The file is not an image.
    """
    Image, _ = _pil()
    with open_file(path, "an image") as file:
        is_tiff = file.read(2) in (b"II", b"MM")
    with _decoder_errors(path):
        if is_tiff:
            import tifffile

            with tifffile.TiffFile(path) as pages:
                return len(pages.pages)
        with Image.open(path) as opened:
            return getattr(opened, "n_frames", 1)


def load_photos(folder: Path, size: int) -> dict[str, np.ndarray]:
    """Load the photographs of a data folder, ``photos/photos_256.npz`` or ``photos_512.npz``.

    Returns:
        Images ``(H, W, 3)`` uint8 by name.

    Raises:
        ValueError: The file is missing or damaged.
    """
    path = folder / "photos" / f"photos_{size}.npz"
    try:
        with open_arrays(path, "a file of photographs") as content:
            images = content.array("images", (None, size, size, 3), "u")
            names = content.array("names", (len(images),), "U")
    except TooLargeError:
        raise
    except ValueError as error:
        raise ValueError(
            f"the photographs of this study are not at {path} ({error}). Give an image of your own, "
            "posenc run image-fit photo.jpg, or the folder of the photographs: --data DIR."
        ) from error
    return {str(name): image for name, image in zip(names, images, strict=True)}


def image_record(
    name: str, digest: str, before: Sequence[int], after: Sequence[int], *, own: bool, images: int = 1
) -> DatasetRecord:
    """Record of one image.

    Args:
        name: Name of the file or photograph.
        digest: Digest of its pixels before downscaling.
        before: Shape ``(H, W, C)`` as it was read.
        after: Shape in which it is fitted.
        own: True for a file of the user.
        images: Number of images in the file.

    Returns:
        The record.
    """
    left_out = (f"The file has {images:,} images, of which the first was read.",) if images > 1 else ()
    size = f"{after[1]:,} x {after[0]:,} pixels"  # width x height, as in every sentence on images
    smaller = {"downscaled from": f"{before[1]:,} x {before[0]:,} pixels"} if tuple(before) != tuple(after) else {}
    options = {"size": size, **smaller, "channels": after[2]}
    return DatasetRecord(kind="image", name=name, digest=digest, options=options, left_out=left_out, own=own)


def downscale(pixels: np.ndarray, longest: int) -> np.ndarray:
    """Reduce an image by area averaging, so that its longer side has at most `longest` pixels.

    A new pixel is the mean of the area that it covers, with parts of pixels at its edges. Colors are weighted by alpha.

    Args:
        pixels: ``(H, W, C)`` integers.
        longest: Largest number of pixels of a side.

    Returns:
        ``(h, w, C)`` of the same dtype.
    """
    before = pixels.shape[:2]
    if max(before) <= longest:
        return pixels
    height, width = (max(1, round(side * longest / max(before))) for side in before)
    band = max(1, (1 << 22) // math.prod(pixels.shape[1:]))  # rows at a time, for sums take 8 bytes a value
    narrow = [_area_sums(_premultiplied(pixels[row : row + band]), width, 1) for row in range(0, before[0], band)]
    mean = _area_sums(np.concatenate(narrow), height, 0) / (before[0] / height * (before[1] / width))
    if pixels.shape[2] in (2, 4):
        mean[..., :-1] /= np.maximum(mean[..., -1:] / np.iinfo(pixels.dtype).max, 1e-12)
    return np.rint(mean).astype(pixels.dtype)


def _premultiplied(pixels: np.ndarray) -> np.ndarray:
    """Colors multiplied by alpha, where the image has alpha."""
    if pixels.shape[2] not in (2, 4):
        return pixels
    alpha = pixels[..., -1:].astype(np.float64)
    return np.concatenate([pixels[..., :-1] * (alpha / np.iinfo(pixels.dtype).max), alpha], -1)


def _area_sums(values: np.ndarray, count: int, axis: int) -> np.ndarray:
    """Sums over `count` equal parts of an axis, float64; a part may begin and end within a pixel."""
    sides = values.shape[axis]
    whole, over = np.divmod(np.arange(count + 1) * sides, count)
    over = (over / count).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
    inside = np.add.reduceat(values, whole[:-1], axis, dtype=np.float64)
    # the part of a cut pixel that lies before the edge
    cut = over * np.take(values, np.minimum(whole, sides - 1), axis)
    first, last = np.split(cut, [count], axis)[0], np.split(cut, [1], axis)[1]
    return inside - first + last


class RefusalError(ValueError):
    """An image that decodes but is not accepted; the message is ours."""


@contextmanager
def _decoder_errors(path: Path) -> Iterator[None]:
    """Turn any error of a decoder into one sentence, and lift Pillow's limit of 179 megapixels.

    The limit is lifted because the memory check decides which images are too large. tifffile logs each tag that it
    cannot read, also where the image is read or refused in a sentence.
    """
    Image, _ = _pil()
    PILLOW_LIMIT_LOCK.acquire()
    limit, log = Image.MAX_IMAGE_PIXELS, logging.getLogger("tifffile")
    logged = log.level
    try:
        Image.MAX_IMAGE_PIXELS = None
        log.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except RefusalError:
        raise
    except Exception as error:
        raise ValueError(
            f"{path} does not decode as an image ({_short_message(error)}). PNG, JPEG, WebP and TIFF do."
        ) from error
    finally:
        Image.MAX_IMAGE_PIXELS = limit
        log.setLevel(logged)
        PILLOW_LIMIT_LOCK.release()


def _read_pillow(path: Path, upright: bool) -> np.ndarray:
    Image, ImageOps = _pil()
    with _decoder_errors(path), Image.open(path) as opened:
        size = path.stat().st_size
        if opened.format == "JPEG" and opened.width * opened.height > JPEG_PIXELS_PER_BYTE * size:
            raise RefusalError(
                f"{path} is a JPEG of {opened.width} x {opened.height} pixels in {size:,} bytes, which cannot hold "
                "them. Copy or save it again."
            )
        _require_size(path, opened.width, opened.height, _pillow_peak(opened))
        if opened.mode == "CMYK":
            raise RefusalError(f"{path} is CMYK, {CMYK_ADVICE}")
        turned = ImageOps.exif_transpose(opened) if upright else opened
        if turned.mode not in CONVERTED_MODES:
            raise RefusalError(f"{path} has pixels of the kind {turned.mode}. {SAVE_ADVICE}")
        mode = CONVERTED_MODES[turned.mode]
        return np.asarray(turned if turned.mode == mode else turned.convert(mode))


def _read_png16(path: Path, upright: bool) -> np.ndarray:
    Image, _ = _pil()
    try:
        import imagecodecs
    except ImportError as error:
        raise ValueError(f"{path} has 16 bits a color, which needs imagecodecs: {EXTRA}") from error
    with _decoder_errors(path):
        with Image.open(path) as opened:
            _require_size(path, opened.width, opened.height, DEEP_PNG_BYTES * len(opened.getbands()))
            orientation = opened.getexif().get(ORIENTATION, 1) if upright else 1
        return _apply_orientation(imagecodecs.png_decode(path.read_bytes()), orientation)


def _read_tiff(path: Path, upright: bool) -> np.ndarray:
    try:
        import tifffile
    except ImportError as error:
        raise ValueError(f"{path} is a TIFF, which needs tifffile: {EXTRA}") from error
    with _decoder_errors(path), tifffile.TiffFile(path) as file:
        page: Any = file.pages[0]
        sizes = (page.imagewidth, page.imagelength, page.samplesperpixel, page.bitspersample)
        if not are_whole(*sizes, least=0):  # a tag may hold several numbers
            raise RefusalError(f"{path} states no size: width, height, channels and bits are {sizes}. Save it again.")
        each = 3 if page.photometric == tifffile.PHOTOMETRIC.PALETTE else page.samplesperpixel
        _require_size(path, page.imagewidth, page.imagelength, 3 * each * max(1, page.bitspersample // 8) + 1)
        kind = page.photometric
        if kind == tifffile.PHOTOMETRIC.SEPARATED:
            raise RefusalError(f"{path} is CMYK, {CMYK_ADVICE}")
        name, bits = getattr(kind, "name", str(kind)), page.bitspersample
        video = name == "YCBCR" and bits == 8
        if not video and not (name in TIFF_KINDS and bits in (1, 2, 4, 8, 16) and np.dtype(page.dtype).kind in "bu"):
            raise RefusalError(f"{path} has pixels of the kind {name}, {page.dtype}, {bits} bits. {SAVE_ADVICE}")
        if page.samplesperpixel > MOST_CHANNELS:
            raise RefusalError(f"{path} has {page.samplesperpixel:,} channels; an image has up to 4. {SAVE_ADVICE}")
        _require_whole(path, page)
        pixels = None if video else _tiff_pixels(page, name, bits, upright)
    return _read_pillow(path, upright) if pixels is None else pixels


def _require_whole(path: Path, page: Any) -> None:
    """Refuse a TIFF that lacks strips or tiles: tifffile fills them with zeros, also where nearly all are missing."""
    size, parts, needed = path.stat().st_size, zip(page.dataoffsets, page.databytecounts, strict=False), 1
    if page.is_contiguous:  # one piece, whose length follows from the shape; some programs write a wrong one
        parts = [(page.dataoffsets[0], page.nbytes)]
    else:
        needed = math.prod(page.chunked)
    held = sum(1 for offset, count in parts if offset > 0 and count > 0 and offset + count <= size)
    if held < needed:
        raise RefusalError(f"{path} has {held:,} of the {needed:,} parts of its pixels. Copy or save it again.")


def _tiff_pixels(page: Any, name: str, bits: int, upright: bool) -> np.ndarray:
    """Pixels of a TIFF page, with the meaning of black and white applied; 8 or 16 bits."""
    planar = page.planarconfig == 2 and page.samplesperpixel > 1  # one plane after another
    pixels = np.moveaxis(page.asarray(), 0, -1) if planar else page.asarray()
    pixels = _apply_orientation(pixels, page.tags.valueof(ORIENTATION, 1)) if upright else pixels
    if name == "PALETTE":
        return (page.colormap.T >> 8).astype(np.uint8)[pixels]
    if bits < 8:
        pixels = pixels.astype(np.uint8) * np.uint8(255 // (2**bits - 1))
    if name == "MINISWHITE":
        gray = pixels if pixels.ndim == 2 else pixels[..., :1]
        gray[...] = np.iinfo(pixels.dtype).max - gray
    return pixels


def _apply_orientation(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Rotate and mirror pixels ``(H, W, ..)`` by the orientation tag (274) of EXIF and TIFF."""
    upright = pixels.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else pixels
    down = -1 if orientation in (3, 4, 7, 8) else 1
    across = -1 if orientation in (2, 3, 6, 7) else 1
    return np.array(upright[::down, ::across])


def _pillow_peak(image: Any) -> int:
    """Bytes per pixel at the peak of reading an image with Pillow: its copies in Pillow, and those of the array.

    Measured with 3,000 x 3,000 pixels: 14.0 for RGB, 16.0 for RGBA, 4.0 for gray, 14.0 for a palette, 22.1 for WebP.
    """
    mode = str(CONVERTED_MODES.get(image.mode, image.mode))
    stored = PILLOW_BYTES.get(image.mode, 4)
    converted = PILLOW_BYTES.get(mode, 4) if mode != image.mode else 0
    result = 2 if mode in ("LA", "I;16") else len(mode)
    return 2 * stored + converted + 2 * result + FORMAT_BYTES.get(image.format, 0)


def _require_size(path: Path, width: int, height: int, bytes_a_pixel: int) -> None:
    if not width or not height:
        raise RefusalError(f"{path} has no pixels: {width} x {height}.")
    needed, free = width * height * bytes_a_pixel, free_memory()
    if free is not None and needed > free:
        raise RefusalError(
            f"{path} is {width} x {height}: decoding it takes about {needed / 2**30:.1f} GiB, and this machine has "
            f"{free / 2**30:.1f} free. Make it smaller first, or fit a part of it."
        )


def _pil() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ValueError(f"reading images needs Pillow: {EXTRA}") from error
    return Image, ImageOps


def _short_message(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
