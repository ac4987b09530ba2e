"""Raster images in a page: pixels as PNG or WebP inside an SVG, so that the page needs no second file."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from posenc.workbench.report.page import Figure, FigureGroup, Table

MAX_SIDE = 384
"""Default limit of the longer side in pixels, which keeps pages below some megabytes."""


def encode_png(pixels: np.ndarray) -> bytes:
    """Encode pixels as a PNG file (RFC 2083) without an imaging library.

    Args:
        pixels: ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``; bytes, or floats clipped to [0, 1].

    Returns:
        The content of the file.

    Raises:
        ValueError: The shape is none of the three, or there are no pixels.
    """
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.nan_to_num(np.asarray(pixels, np.float64)).clip(0, 1) * 255).astype(np.uint8)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    height, width, channels = pixels.shape
    if channels not in (1, 3, 4) or not height or not width:
        raise ValueError(f"An image has the shape (H, W), (H, W, 3) or (H, W, 4) with H, W > 0; got {pixels.shape}.")
    kind, extra = {1: 0, 3: 2, 4: 6}[channels], b""
    if channels == 3:
        packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
        colors, index = np.unique(packed, return_inverse=True)
        if len(colors) <= 256:  # A palette needs one byte per pixel.
            kind, pixels = 3, index.reshape(height, width, 1).astype(np.uint8)
            table = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], -1).astype(np.uint8)
            extra = _chunk(b"PLTE", table.tobytes())
    flat = pixels.reshape(height, -1)
    # Filter 2 stores each line as its difference from the line above, which compresses photographs well.
    above = np.vstack([np.zeros_like(flat[:1]), flat[:-1]])
    lines = np.hstack([np.full((height, 1), 2, np.uint8), flat - above])
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + header + extra + data + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def image_svg(file: bytes, width: int, height: int, kind: str = "png") -> str:
    """Wrap an image file in an ``<svg>`` element that shows its pixels without smoothing.

    Args:
        file: Content of the image file; animated GIF and WebP files stay animated.
        width: Width in pixels.
        height: Height in pixels.
        kind: "png", "webp" or "gif".

    Returns:
        The ``<svg>`` element as text.
    """
    data = base64.b64encode(file).decode()
    return (
        f'<svg viewBox="0 0 {width} {height}" aria-hidden="true" focusable="false">'
        f'<image width="{width}" height="{height}" style="image-rendering: pixelated" '
        f'href="data:image/{kind};base64,{data}"/></svg>'
    )


def image_figure(
    pixels: np.ndarray, title: str, alt: str, note: str = "", max_side: int = MAX_SIDE, *, photograph: bool = False
) -> Figure:
    """Show pixels as a figure of a page.

    Args:
        pixels: Image, as in `encode_png`.
        title: Title above the figure.
        alt: Text description for screen readers.
        note: Small text below the figure.
        max_side: Limit of the longer side in pixels; larger images are downsampled.
        photograph: Encode as WebP if Pillow is installed: a tenth of the size, with small errors.

    Returns:
        The figure.
    """
    image = downsample(pixels, max_side)
    file = encode_webp(image) if photograph else None
    height, width = image.shape[:2]
    if file is None:
        return Figure(image_svg(encode_png(image), width, height), title, alt, note)
    return Figure(image_svg(file, width, height, "webp"), title, alt, note)


def encode_webp(pixels: np.ndarray, quality: int = 88) -> bytes | None:
    """Encode pixels as a WebP file with Pillow.

    Args:
        pixels: Image, as in `encode_png`.
        quality: WebP quality, 0 to 100.

    Returns:
        The content of the file, or None if Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        return None
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.nan_to_num(np.asarray(pixels, np.float64)).clip(0, 1) * 255).astype(np.uint8)
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def downsample(pixels: np.ndarray, max_side: int) -> np.ndarray:
    """Average blocks of pixels so that neither side is longer than `max_side`.

    Args:
        pixels: Image ``(H, W)`` or ``(H, W, C)``.
        max_side: Limit of the longer side in pixels.

    Returns:
        The smaller image, as bytes if the input is bytes, otherwise as float64; the input itself if it is small enough.
    """
    step = -(-max(pixels.shape[:2]) // max_side)
    if step <= 1:
        return pixels
    height, width = (side // step * step for side in pixels.shape[:2])
    cut = pixels[:height, :width].astype(np.float64)
    blocks = cut.reshape(height // step, step, width // step, step, *pixels.shape[2:]).mean((1, 3))
    return np.rint(blocks).astype(np.uint8) if pixels.dtype == np.uint8 else blocks


def image_figures(
    images: Mapping[str, np.ndarray],
    *,
    key: str,
    notes: Mapping[str, str] | None = None,
    alts: Mapping[str, str] | None = None,
    columns: Sequence[str] = (),
    rows: Sequence[tuple[str, ...]] = (),
    max_side: int = MAX_SIDE,
    size: Literal["wide", "small"] = "small",
    photographs: bool = False,
) -> FigureGroup:
    """Show images side by side.

    Args:
        images: title -> pixels.
        key: Caption below the images.
        notes: title -> small text below the image.
        alts: title -> text description for screen readers; the title by default.
        columns: Column headers of the table; title and note by default.
        rows: Rows of the table.
        max_side: Limit of the longer side of an image in pixels.
        size: Minimum width of one image on the page.
        photographs: Encode as WebP if Pillow is installed.

    Returns:
        The figures with their table.
    """
    figures = tuple(
        image_figure(
            pixels,
            title,
            (alts or {}).get(title, title),
            (notes or {}).get(title, ""),
            max_side,
            photograph=photographs,
        )
        for title, pixels in images.items()
    )
    body = tuple(rows) or tuple((title, (notes or {}).get(title, "")) for title in images)
    return FigureGroup(figures, key, Table("Values", tuple(columns) or ("Image", "Note"), body), size)


def error_colors(errors: np.ndarray, top: float) -> np.ndarray:
    """Map errors to colors: 0 is black, then red and orange, `top` and above white.

    Args:
        errors: Errors ``(H, W)``; values that are not finite count as 0.
        top: Error shown as white.

    Returns:
        Colors ``(H, W, 3)`` in [0, 1].
    """
    t = np.clip(np.nan_to_num(errors) / max(top, 1e-12), 0, 1)
    return np.stack([np.clip(3 * t, 0, 1), np.clip(3 * t - 1, 0, 1), np.clip(3 * t - 2, 0, 1)], -1)
