"""Labeled images of one size (`ImageSet`), and their train, validation and test splits (`Splits`)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from posenc.workbench.data.labeled_images import check_labels

Index = Tensor | np.ndarray | Sequence[int]
MOST_CHANNELS = 4
PART = 1024
"""Number of images that are resized or compared at a time."""


@dataclasses.dataclass(frozen=True, eq=False)
class ImageSet:
    """N labeled images of one size.

    Attributes:
        name: Name of the data set.
        classes: Names of the classes.
        pixels: ``(M, C, H, W)`` uint8, in memory or memory-mapped.
        rows: ``(N,)`` indices into ``pixels``.
        labels: ``(N,)`` int64 class numbers from 0.
        undecoded: Names of files that do not decode and were left out. All splits of a set share them.
        remarks: Sentences on the other files: animations, and images smaller than the size. All splits share them.

    Raises:
        ValueError: A label has no class, or the arrays do not match.
    """

    name: str
    classes: tuple[str, ...]
    pixels: np.ndarray
    rows: np.ndarray
    labels: Tensor
    undecoded: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(
                f"images of {self.name} are an array (N, C, H, W) of uint8; got {self.pixels.dtype} of shape "
                f"{self.pixels.shape}."
            )
        if len(self.labels) != len(self.rows):
            raise ValueError(f"{self.name} has {len(self.rows)} images and {len(self.labels)} labels; each has one.")
        check_labels(self.name, self.labels.numpy(), len(self.classes))

    @classmethod
    def from_arrays(cls, name: str, classes: Sequence[str], pixels: np.ndarray, labels: np.ndarray) -> ImageSet:
        """Build a set of all images ``(N, C, H, W)`` uint8 of an array, with labels ``(N,)``.

        Raises ValueError if labels are no whole numbers, or if the channels are the last axis.
        """
        if not np.array_equal(labels, labels.astype(np.int64)):
            raise ValueError(f"labels are numbers of classes, 0, 1, ..; got {labels.dtype} with parts of a number.")
        if pixels.ndim == 4 and pixels.shape[1] > MOST_CHANNELS >= pixels.shape[3]:
            raise ValueError(
                f"images are (N, C, H, W), and these have the shape {pixels.shape}. Write pixels.transpose(0, 3, 1, 2)."
            )
        return cls(name, tuple(classes), pixels, np.arange(len(pixels)), torch.from_numpy(labels.astype(np.int64)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        return self.pixels.shape[1], self.pixels.shape[2], self.pixels.shape[3]

    @property
    def counts(self) -> Tensor:
        """Number of images of each class, ``(classes,)``."""
        return torch.bincount(self.labels, minlength=len(self.classes))

    @property
    def note(self) -> str:
        """Sentence on the files that were left out; empty where there are none."""
        return undecoded_note(self.name, self.undecoded)

    def read(self, index: Index) -> Tensor:
        """Read images by index, ``(B, C, H, W)`` uint8; their labels are ``labels[index]``.

        The memory layout of the pixels is kept, so decoded files arrive as torch.channels_last.
        """
        index = np.asarray(index)
        return torch.from_numpy(np.asarray(self.pixels[self.rows[index]]))

    def keys(self) -> list[bytes]:
        """Digests of the pixels of the images; images of equal pixels have equal ones."""
        found = []
        for start in range(0, len(self), PART):
            pixels = np.ascontiguousarray(self.pixels[self.rows[start : start + PART]])
            found += [hashlib.blake2b(image, digest_size=16).digest() for image in pixels]
        return found

    def take(self, index: Index) -> ImageSet:
        """Select images by index, in this order; the pixels are shared."""
        index = np.asarray(index, dtype=np.int64)
        return dataclasses.replace(self, rows=self.rows[index], labels=self.labels[torch.from_numpy(index)])

    def resized(self, size: int) -> ImageSet:
        """The same images as ``(C, size, size)`` in memory, by bilinear interpolation with antialiasing in float32."""
        if self.shape[1:] == (size, size):
            return self
        out = np.empty((len(self), self.shape[0], size, size), np.uint8)
        for start in range(0, len(self), PART):
            rows = np.arange(start, min(start + PART, len(self)))
            out[rows] = resize(self.read(rows).float(), size).round().byte().numpy()
        return dataclasses.replace(self, pixels=out, rows=np.arange(len(self)))


@dataclasses.dataclass(frozen=True, eq=False)
class Splits:
    """Training, validation (may be empty) and test images.

    given: True if the data set has a test part of its own; False if the test images were drawn from all images.
    left_out: Sentences on what the reader did not read.
    """

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    given: bool = True
    left_out: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Sentences on the files that were left out; empty where there are none."""
        return " ".join(dict.fromkeys(filter(None, (part.note for part in (self.train, self.validation, self.test)))))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what was read otherwise than it is, and on what was left out."""
        parts = (self.train, self.validation, self.test)
        return (*self.left_out, *dict.fromkeys(sentence for part in parts for sentence in part.remarks))

    def resized(self, size: int) -> Splits:
        """The same images at another size."""
        parts = (part.resized(size) for part in (self.train, self.validation, self.test))
        return Splits(*parts, given=self.given, left_out=self.left_out)


def resize(images: Tensor, size: int) -> Tensor:
    """Resize floating-point images ``(B, C, H, W)`` to ``(size, size)``; the range of values does not grow."""
    return interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)


def undecoded_note(name: str, undecoded: Sequence[str]) -> str:
    """Sentence that counts the files that do not decode; empty for none."""
    if not undecoded:
        return ""
    some = ", ".join(undecoded[:3]) + (", .." if len(undecoded) > 3 else "")
    one = len(undecoded) == 1
    noun, verb = ("image", "does not decode and was") if one else ("images", "do not decode and were")
    return f"{len(undecoded)} {noun} of {name} {verb} left out: {some}."
