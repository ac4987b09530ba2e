"""Pictures as fields: what stands at a point of the unit square, and how near a fit comes.

    pixel (i, j) of an H x W picture stands at ((i + 1/2) / H, (j + 1/2) / W)        protocol "all", FIT
    pixel (i, j) stands at (i / H, j / W); even (i, j) are learned, odd ones asked     protocol "held-out"
    psnr = -10 log10 mean (value - truth)^2, values from 0 to 1, cut there             in decibels

A worked example, a picture of one edge:

    picture = np.zeros((4, 4, 3), np.uint8); picture[:, 2:] = 255
    places(picture.shape, np.array([0, 15]))                    # [[.125, .125], [.875, .875]]
    psnr(values(picture, np.array([0, 15])), truth)             # inf where they are the same

Sources: "all" is the fit of Müller et al. 2022, arXiv 2201.05989, section 5.1; "held-out" the protocol of Tancik et al.
2020, arXiv 2006.10739, section 6 and its code (even pixels are learned and odd ones asked, 1 is left out).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from posenc.tasks.pictures.reading import FORMAT, photos, read, reduced

__all__ = [
    "FORMAT", "Protocol", "asked", "decibels", "learned", "parts", "photos", "places", "psnr", "radial_spectrum",
    "read", "reduced", "sampled", "scored", "stratified", "tensors", "values",
]  # fmt: skip

Protocol = Literal["all", "held-out"]
Shape = tuple[int, ...]


def places(shape: Shape, pixels: np.ndarray, protocol: Protocol = "all") -> np.ndarray:
    """Where pixels stand, ``(N,)`` row-major numbers to ``(N, 2)`` float32: row and column, each from 0 to 1."""
    row, column = np.divmod(pixels, shape[1])
    shift = 0.5 if protocol == "all" else 0.0
    return np.stack([(row + shift) / shape[0], (column + shift) / shape[1]], -1).astype(np.float32)


def values(picture: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """What stands there, ``(N, C)`` float32 from 0 to 1; the picture may lie on disk, ``(H, W, C)`` integers."""
    top = np.iinfo(picture.dtype).max
    row, column = np.divmod(pixels, picture.shape[1])
    return picture[row, column].astype(np.float32) / top


def learned(shape: Shape, protocol: Protocol) -> Shape:
    """Height and width of the grid of learned pixels: all of them, or those of even rows and columns."""
    return tuple(shape[:2]) if protocol == "all" else ((shape[0] + 1) // 2, (shape[1] + 1) // 2)


def asked(shape: Shape, protocol: Protocol) -> Shape:
    """Height and width of the grid of scored pixels: all of them, or those of odd rows and columns."""
    return tuple(shape[:2]) if protocol == "all" else (shape[0] // 2, shape[1] // 2)


def scored(shape: Shape, protocol: Protocol, every: int = 1) -> np.ndarray:
    """The pixels that a fit is scored on, as a grid ``(h, w)`` of numbers: all, or those of odd rows and columns.

    every: take so many-th rows and columns of these alone.
    """
    first, step = (0, every) if protocol == "all" else (1, 2 * every)
    rows, columns = (np.arange(first, side, step) for side in shape[:2])
    return rows[:, None] * shape[1] + columns


def parts(shape: Shape, protocol: Protocol, most: int) -> Iterator[np.ndarray]:
    """The same pixels, ``(n,)`` at a time with n at most `most`: a large picture is never numbered as a whole."""
    first, step = (0, 1) if protocol == "all" else (1, 2)
    columns = np.arange(first, shape[1], step)
    band = max(1, most // max(len(columns), 1))
    rows = range(first, shape[0], step)
    for start in range(0, len(rows), band):
        block = (np.array(rows[start : start + band])[:, None] * shape[1] + columns).reshape(-1)
        yield from (block[i : i + most] for i in range(0, len(block), most))


def stratified(shape: Shape, protocol: Protocol, batch: int, seed: int, step: int) -> np.ndarray:
    """The pixels of a batch: one drawn in each of about `batch` equal cells of the picture, so that none is left out.

    A function of (seed, step) alone. ``(a b,)`` numbers with ``a b <= batch``, as square as the picture allows.
    """
    row, column = _one_a_cell(learned(shape, protocol), batch, np.random.Philox(key=[seed, step]))
    if protocol == "held-out":
        row, column = 2 * row, 2 * column
    return (row * shape[1] + column).reshape(-1)


def sampled(shape: Shape, protocol: Protocol, most: int) -> np.ndarray:
    """Of the scored pixels one in each of about `most` equal cells: the same whoever asks."""
    row, column = _one_a_cell(asked(shape, protocol), most, np.random.Philox(key=most))
    if protocol == "held-out":
        row, column = 2 * row + 1, 2 * column + 1
    return (row * shape[1] + column).reshape(-1)


def _one_a_cell(shape: Shape, most: int, bits: np.random.BitGenerator) -> tuple[np.ndarray, np.ndarray]:
    height, width = shape
    rows = max(1, min(height, round(math.sqrt(most * height / width))))
    columns = max(1, min(width, most // rows))
    draw = np.random.Generator(bits)
    row = ((np.arange(rows)[:, None] + draw.random((rows, columns))) * (height / rows)).astype(np.int64)
    column = ((np.arange(columns) + draw.random((rows, columns))) * (width / columns)).astype(np.int64)
    return np.minimum(row, height - 1), np.minimum(column, width - 1)


def psnr(found: Tensor, truth: Tensor) -> float:
    """``-10 log10`` of the mean squared error of values cut to 0 .. 1, in decibels; infinite where they are equal."""
    return decibels((found.clamp(0, 1) - truth).double().square().mean().item())


def decibels(squared: float) -> float:
    """``-10 log10`` of a mean squared error; infinite for none."""
    return math.inf if squared == 0 else -10 * math.log10(squared)


def radial_spectrum(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean power by frequency: cycles a picture (whole numbers up to half the shorter side), and power.

    picture: ``(H, W)`` or ``(H, W, C)``, values from 0 to 1; the mean over colours, less its own mean.
    """
    flat = picture.mean(-1) if picture.ndim == 3 else picture
    height, width = flat.shape
    power = np.abs(np.fft.fft2(flat - flat.mean())) ** 2 / (height * width)
    cycles = np.hypot(*np.meshgrid(np.fft.fftfreq(height, 1 / height), np.fft.fftfreq(width, 1 / width), indexing="ij"))
    ring = np.rint(cycles).astype(int).reshape(-1)
    most = min(height, width) // 2
    summed, counted = np.bincount(ring, power.reshape(-1)), np.bincount(ring)
    return np.arange(1, most + 1), (summed / np.maximum(counted, 1))[1 : most + 1]


def tensors(picture: np.ndarray, pixels: np.ndarray, protocol: Protocol) -> tuple[Tensor, Tensor]:
    """Places and values of pixels as tensors."""
    return torch.from_numpy(places(picture.shape, pixels, protocol)), torch.from_numpy(values(picture, pixels))
