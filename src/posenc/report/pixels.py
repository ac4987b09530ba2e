"""Raster pictures in a page: pixels as a PNG inside an SVG, so that a page stays one file that loads nothing."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from posenc.report.page import Picture, Pictures, Table

LARGEST = 384
"""Pixels of the longer side that a page shows: more would make it megabytes."""


def png(pixels: np.ndarray) -> bytes:
    """The PNG file of pixels ``(H, W)``, ``(H, W, 3)`` or ``(H, W, 4)``: bytes as they are, floats cut to 0 .. 1.

    Written by hand (RFC 2083): a page needs no imaging library.
    """
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.nan_to_num(np.asarray(pixels, np.float64)).clip(0, 1) * 255).astype(np.uint8)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    height, width, channels = pixels.shape
    if channels not in (1, 3, 4) or not height or not width:
        raise ValueError(f"a picture is (H, W), (H, W, 3) or (H, W, 4) with some pixels; got {pixels.shape}.")
    kind, extra = {1: 0, 3: 2, 4: 6}[channels], b""
    if channels == 3:
        packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
        colours, index = np.unique(packed, return_inverse=True)
        if len(colours) <= 256:  # a map in a scale of colours: one byte a pixel
            kind, pixels = 3, index.reshape(height, width, 1).astype(np.uint8)
            table = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], -1).astype(np.uint8)
            extra = _chunk(b"PLTE", table.tobytes())
    flat = pixels.reshape(height, -1)
    # each line is stored as its difference from the one above (filter 2), which compresses photographs
    above = np.vstack([np.zeros_like(flat[:1]), flat[:-1]])
    lines = np.hstack([np.full((height, 1), 2, np.uint8), flat - above])
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + header + extra + data + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def embedded(file: bytes, width: int, height: int, kind: str = "png") -> str:
    """An ``<svg>`` that shows a picture's file (kind "png", "webp" or "gif", animated ones too), pixels unsmoothed."""
    data = base64.b64encode(file).decode()
    return (
        f'<svg viewBox="0 0 {width} {height}" aria-hidden="true" focusable="false">'
        f'<image width="{width}" height="{height}" style="image-rendering: pixelated" '
        f'href="data:image/{kind};base64,{data}"/></svg>'
    )


def picture(
    pixels: np.ndarray, title: str, alt: str, note: str = "", largest: int = LARGEST, *, photograph: bool = False
) -> Picture:
    """Pixels as a picture of a page, made smaller where the longer side has more than `largest`.

    photograph: as WebP, a tenth of the size and not exact to the last bit, where Pillow is installed.
    """
    shown = smaller(pixels, largest)
    file = webp(shown) if photograph else None
    height, width = shown.shape[:2]
    if file is None:
        return Picture(embedded(png(shown), width, height), title, alt, note)
    return Picture(embedded(file, width, height, "webp"), title, alt, note)


def webp(pixels: np.ndarray, quality: int = 88) -> bytes | None:
    """The WebP file of pixels, or nothing where Pillow is not installed: a page can do without."""
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


def smaller(pixels: np.ndarray, largest: int) -> np.ndarray:
    """Means over blocks of so many pixels that neither side is longer than `largest`; bytes stay bytes."""
    step = -(-max(pixels.shape[:2]) // largest)
    if step <= 1:
        return pixels
    height, width = (side // step * step for side in pixels.shape[:2])
    cut = pixels[:height, :width].astype(np.float64)
    blocks = cut.reshape(height // step, step, width // step, step, *pixels.shape[2:]).mean((1, 3))
    return np.rint(blocks).astype(np.uint8) if pixels.dtype == np.uint8 else blocks


def album(
    shown: Mapping[str, np.ndarray],
    *,
    key: str,
    notes: Mapping[str, str] | None = None,
    alts: Mapping[str, str] | None = None,
    columns: Sequence[str] = (),
    rows: Sequence[tuple[str, ...]] = (),
    largest: int = LARGEST,
    size: Literal["wide", "small"] = "small",
    photographs: bool = False,
) -> Pictures:
    """Pictures side by side, by title, with their numbers in a table to unfold.

    notes: below a picture. alts: what a person sees who looks at it; the title otherwise.
    """
    pictures = tuple(
        picture(
            pixels,
            title,
            (alts or {}).get(title, title),
            (notes or {}).get(title, ""),
            largest,
            photograph=photographs,
        )
        for title, pixels in shown.items()
    )
    body = tuple(rows) or tuple((title, (notes or {}).get(title, "")) for title in shown)
    return Pictures(pictures, key, Table("The numbers", tuple(columns) or ("Picture", "Note"), body), size)


def error_map(wrong: np.ndarray, top: float) -> np.ndarray:
    """Errors ``(H, W)`` from 0 to `top` as colours from black by red and orange to white."""
    t = np.clip(np.nan_to_num(wrong) / max(top, 1e-12), 0, 1)
    return np.stack([np.clip(3 * t, 0, 1), np.clip(3 * t - 1, 0, 1), np.clip(3 * t - 2, 0, 1)], -1)
