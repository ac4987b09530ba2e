"""Images in a store: written once in each size, and read from disk part by part."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.storage.stored_records import StoredRecords
from posenc.workbench.tasks import single_image

LEAST_PIXELS = 4
"""Pixels of the smallest image that a field is fitted to."""


class StoredImage(NamedTuple):
    """File name of an image in a store, its shape, and the key of its record."""

    name: str
    shape: tuple[int, ...]
    record: str


def digest_of_pixels(pixels: np.ndarray) -> str:
    """Digest of the shape and the pixels of an image."""
    return hashlib.sha256(str(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:16]


def store_photograph(root: Path, name: str, pixels: np.ndarray, longest_side: int | None) -> StoredImage:
    """Write a photograph of the data folder into a store, downscaled to a longest side if one is given."""
    smaller = single_image.downscale(pixels, longest_side) if longest_side else pixels
    described = single_image.image_record(name, digest_of_pixels(pixels), pixels.shape, smaller.shape, own=False)
    return StoredImage(store_pixels(root, smaller), smaller.shape, StoredRecords(root).add(described))


def store_pixels(root: Path, pixels: np.ndarray) -> str:
    """Write an image into a store under the digest of its pixels; return its file name."""
    digest = digest_of_pixels(pixels)
    path = root / "data" / f"picture-{digest}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{uuid4().hex}")
        with partial.open("wb") as file:
            np.save(file, pixels)
        partial.replace(path)
    return path.name


def store_file(root: Path, source: Path, longest_side: int | None) -> StoredImage:
    """Write the image of a file into a store. A file is decoded once in each size, for all variants.

    Args:
        root: Root of the store.
        source: The image file.
        longest_side: Limit of the longest side in pixels; a larger image is downscaled.

    Returns:
        The stored image.

    Raises:
        ValueError: The file is not an image.
    """
    if not source.is_file():
        single_image.read_image(source)  # raises a ValueError that states the fault
    digest = hashlib.sha256(json.dumps([single_image.FORMAT, longest_side]).encode())
    try:
        with source.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    except OSError:
        single_image.read_image(source)  # raises a ValueError that states the fault
        raise
    record_path = root / "data" / f"source-{digest.hexdigest()[:16]}.json"
    record = json.loads(record_path.read_bytes()) if record_path.exists() else None
    if record is None or not {"digest", "images"} <= set(record) or not (root / "data" / record["picture"]).exists():
        pixels = single_image.read_image(source)
        _refuse_few_pixels(source, pixels)
        seen = single_image.without_hidden_colors(pixels)
        if seen is not pixels:
            print(f"{source.name} has colors where it is transparent. Nobody sees them, and runs fit 0 there.")
        pixels = seen
        smaller = single_image.downscale(pixels, longest_side) if longest_side else pixels
        if smaller.shape != pixels.shape:
            (height, width), (low, narrow) = pixels.shape[:2], smaller.shape[:2]
            print(
                f"{source.name} has {width:,} x {height:,} pixels. Runs with a longest side of {longest_side:,} pixels "
                f"fit {narrow:,} x {low:,}."
            )
        images = single_image.image_count(source)
        if images > 1:
            print(f"{source.name} has {images:,} images. Runs fit the first.")
        record = {"images": images, "picture": store_pixels(root, smaller), "shape": smaller.shape}
        record |= {"digest": digest_of_pixels(pixels), "before": pixels.shape}
        write_whole(record_path, json.dumps(record).encode())
    shape, before = tuple(record["shape"]), tuple(record["before"])
    described = single_image.image_record(
        source.name, record["digest"], before, shape, own=True, images=record["images"]
    )
    return StoredImage(record["picture"], shape, StoredRecords(root).add(described, source))


def _refuse_few_pixels(source: Path, pixels: np.ndarray) -> None:
    """Raise ValueError for an image without two pixels, which has no positions to encode."""
    height, width = pixels.shape[:2]
    if height * width < LEAST_PIXELS:
        raise ValueError(
            f"{source} has {width} x {height} pixels, and a field is fitted to an image of at least {LEAST_PIXELS} "
            "pixels. Give a larger image."
        )


def load_pixels(root: Path, name: str) -> np.ndarray:
    """An image of a store as a memory map ``(H, W, C)``. Raises ValueError if the file is missing."""
    try:
        return np.load(root / "data" / name, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise ValueError(f"the image is no longer at {root / 'data' / name}. Run the same command again.") from error
