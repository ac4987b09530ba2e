"""One image as a field over the unit square: pixel positions, pixel values, training and evaluation pixels, PSNR.

    pixel (i, j) of an H x W image lies at ((i + 1/2) / H, (j + 1/2) / W)              protocol "all"
    pixel (i, j) lies at (i / H, j / W); train on even (i, j), evaluate on odd (i, j)  protocol "held-out"
    PSNR = -10 log10 mean (value - truth)^2, values clipped to 0 .. 1                  decibels

With "all", every pixel is a training pixel and an evaluation pixel.

Example, an image with one vertical edge:

>>> image = np.zeros((4, 4, 3), np.uint8); image[:, 2:] = 255
>>> pixel_positions(image.shape, np.array([0, 15])).tolist()
[[0.125, 0.125], [0.875, 0.875]]
>>> truth = torch.from_numpy(pixel_values(image, np.array([0, 15])))
>>> psnr(truth, truth)
inf

References:
    "all": Müller et al. 2022, arXiv 2201.05989, section 5.1. "held-out": Tancik et al. 2020, arXiv 2006.10739,
    section 6 and its released code (even pixels for training, odd ones for testing, the upper edge 1 left out).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from posenc.workbench.tasks.single_image.image_file import (
    FORMAT,
    downscale,
    image_count,
    image_record,
    load_photos,
    read_image,
    without_hidden_colors,
)

__all__ = [
    "FORMAT", "Protocol", "downscale", "eval_batches", "eval_pixels", "eval_shape", "image_count", "image_record",
    "load_photos", "pixel_positions", "pixel_tensors", "pixel_values", "psnr", "psnr_from_mse", "radial_spectrum",
    "read_image", "stratified_batch", "stratified_sample", "train_shape", "without_hidden_colors",
]  # fmt: skip

Protocol = Literal["all", "held-out"]
Shape = tuple[int, ...]


def pixel_positions(shape: Shape, pixels: np.ndarray, protocol: Protocol = "all") -> np.ndarray:
    """Positions of pixels: ``(N,)`` row-major pixel numbers to ``(N, 2)`` float32, row and column from 0 to 1."""
    row, column = np.divmod(pixels, shape[1])
    shift = 0.5 if protocol == "all" else 0.0
    return np.stack([(row + shift) / shape[0], (column + shift) / shape[1]], -1).astype(np.float32)


def pixel_values(image: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Values of pixels.

    Args:
        image: ``(H, W, C)`` integers, in memory or memory-mapped.
        pixels: ``(N,)`` row-major pixel numbers.

    Returns:
        ``(N, C)`` float32 from 0 to 1.
    """
    top = np.iinfo(image.dtype).max
    row, column = np.divmod(pixels, image.shape[1])
    return image[row, column].astype(np.float32) / top


def train_shape(shape: Shape, protocol: Protocol) -> Shape:
    """Height and width of the grid of training pixels: all pixels, or those of even rows and columns."""
    return tuple(shape[:2]) if protocol == "all" else ((shape[0] + 1) // 2, (shape[1] + 1) // 2)


def eval_shape(shape: Shape, protocol: Protocol) -> Shape:
    """Height and width of the grid of evaluation pixels: all pixels, or those of odd rows and columns."""
    return tuple(shape[:2]) if protocol == "all" else (shape[0] // 2, shape[1] // 2)


def eval_pixels(shape: Shape, protocol: Protocol, every: int = 1) -> np.ndarray:
    """Row-major numbers of the evaluation pixels as a grid ``(h, w)``: all pixels, or those of odd rows and columns.

    Args:
        shape: Shape of the image, height and width first.
        protocol: "all" or "held-out", as defined at the top of this file.
        every: Take every n-th row and column of the grid; 1 takes all.
    """
    first, step = (0, every) if protocol == "all" else (1, 2 * every)
    rows, columns = (np.arange(first, side, step) for side in shape[:2])
    return rows[:, None] * shape[1] + columns


def eval_batches(shape: Shape, protocol: Protocol, most: int) -> Iterator[np.ndarray]:
    """Yield the evaluation pixels in batches of at most `most` row-major pixel numbers ``(n,)``."""
    first, step = (0, 1) if protocol == "all" else (1, 2)
    columns = np.arange(first, shape[1], step)
    band = max(1, most // max(len(columns), 1))
    rows = range(first, shape[0], step)
    for start in range(0, len(rows), band):
        block = (np.array(rows[start : start + band])[:, None] * shape[1] + columns).reshape(-1)
        yield from (block[i : i + most] for i in range(0, len(block), most))


def stratified_batch(shape: Shape, protocol: Protocol, batch: int, seed: int, step: int) -> np.ndarray:
    """Draw a stratified training batch: one random pixel in each of at most `batch` equal cells of the image.

    The batch is a function of (seed, step) alone.

    Returns:
        ``(a b,)`` row-major pixel numbers, from a grid of a x b cells with ``a b <= batch``.
    """
    row, column = _one_per_cell(train_shape(shape, protocol), batch, np.random.Philox(key=[seed, step]))
    if protocol == "held-out":
        row, column = 2 * row, 2 * column
    return (row * shape[1] + column).reshape(-1)


def stratified_sample(shape: Shape, protocol: Protocol, most: int) -> np.ndarray:
    """Draw one evaluation pixel in each of at most `most` equal cells; every call draws the same pixels."""
    row, column = _one_per_cell(eval_shape(shape, protocol), most, np.random.Philox(key=most))
    if protocol == "held-out":
        row, column = 2 * row + 1, 2 * column + 1
    return (row * shape[1] + column).reshape(-1)


def _one_per_cell(shape: Shape, most: int, bits: np.random.BitGenerator) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of one random pixel per cell, for a grid of at most `most` cells."""
    height, width = shape
    rows = max(1, min(height, round(math.sqrt(most * height / width))))
    columns = max(1, min(width, most // rows))
    draw = np.random.Generator(bits)
    row = ((np.arange(rows)[:, None] + draw.random((rows, columns))) * (height / rows)).astype(np.int64)
    column = ((np.arange(columns) + draw.random((rows, columns))) * (width / columns)).astype(np.int64)
    return np.minimum(row, height - 1), np.minimum(column, width - 1)


def psnr(values: Tensor, truth: Tensor) -> float:
    """PSNR in decibels of values clipped to 0 .. 1; infinite for equal values."""
    return psnr_from_mse((values.clamp(0, 1) - truth).double().square().mean().item())


def psnr_from_mse(mse: float) -> float:
    """PSNR in decibels from the mean squared error: ``-10 log10 mse``, infinite for 0."""
    return math.inf if mse == 0 else -10 * math.log10(mse)


def radial_spectrum(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean power by radial frequency.

    Args:
        image: ``(H, W)`` or ``(H, W, C)``, values from 0 to 1. Channels are averaged, then the mean is subtracted.

    Returns:
        Frequencies in cycles per image (whole numbers up to half the shorter side), and the mean power at each.
    """
    flat = image.mean(-1) if image.ndim == 3 else image
    height, width = flat.shape
    power = np.abs(np.fft.fft2(flat - flat.mean())) ** 2 / (height * width)
    cycles = np.hypot(*np.meshgrid(np.fft.fftfreq(height, 1 / height), np.fft.fftfreq(width, 1 / width), indexing="ij"))
    ring = np.rint(cycles).astype(int).reshape(-1)
    most = min(height, width) // 2
    summed, counted = np.bincount(ring, power.reshape(-1)), np.bincount(ring)
    return np.arange(1, most + 1), (summed / np.maximum(counted, 1))[1 : most + 1]


def pixel_tensors(image: np.ndarray, pixels: np.ndarray, protocol: Protocol) -> tuple[Tensor, Tensor]:
    """Positions ``(N, 2)`` and values ``(N, C)`` of pixels as tensors."""
    return torch.from_numpy(pixel_positions(image.shape, pixels, protocol)), torch.from_numpy(
        pixel_values(image, pixels)
    )
