"""A set of labelled pictures of one size: what every reader makes and every study reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

Index = Tensor | np.ndarray | Sequence[int]
PART = 1024
"""Pictures resized at once."""


@dataclasses.dataclass(frozen=True, eq=False)
class ImageSet:
    """N labelled pictures of one size.

    pixels: ``(M, C, H, W)`` uint8, in memory or mapped from disk. rows: which of them these are, ``(N,)``. labels:
    ``(N,)`` int64 from 0. unread: the files that do not decode and were left out, shared by all parts of a set.
    Raises ValueError for labels without a class and for arrays that do not go together.
    """

    name: str
    classes: tuple[str, ...]
    pixels: np.ndarray
    rows: np.ndarray
    labels: Tensor
    unread: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise ValueError(
                f"pictures of {self.name} are an array (N, C, H, W) of uint8; got {self.pixels.dtype} of shape "
                f"{self.pixels.shape}."
            )
        if len(self.labels) != len(self.rows):
            raise ValueError(f"{self.name} has {len(self.rows)} pictures and {len(self.labels)} labels; each has one.")
        check_labels(self.name, self.labels.numpy(), len(self.classes))

    @classmethod
    def of(cls, name: str, classes: Sequence[str], pixels: np.ndarray, labels: np.ndarray) -> ImageSet:
        """All of an array's pictures."""
        return cls(name, tuple(classes), pixels, np.arange(len(pixels)), torch.from_numpy(labels.astype(np.int64)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every picture."""
        return self.pixels.shape[1], self.pixels.shape[2], self.pixels.shape[3]

    @property
    def counts(self) -> Tensor:
        """How many pictures each class has, ``(classes,)``."""
        return torch.bincount(self.labels, minlength=len(self.classes))

    @property
    def note(self) -> str:
        """What was left out, in a sentence; empty where nothing was."""
        return left_out(self.name, self.unread)

    def read(self, index: Index) -> Tensor:
        """The pictures of these numbers, ``(B, C, H, W)`` uint8; their labels are ``labels[index]``.

        In the order of memory in which they lie, so decoded files come as torch.channels_last.
        """
        index = np.asarray(index)
        return torch.from_numpy(np.asarray(self.pixels[self.rows[index]]))

    def take(self, index: Index) -> ImageSet:
        """The set of these pictures alone, in this order; the pixels are shared."""
        index = np.asarray(index, dtype=np.int64)
        return dataclasses.replace(self, rows=self.rows[index], labels=self.labels[torch.from_numpy(index)])

    def at(self, size: int) -> ImageSet:
        """The same pictures ``(C, size, size)`` in memory, in float32 by bilinear interpolation with antialiasing."""
        if self.shape[1:] == (size, size):
            return self
        out = np.empty((len(self), self.shape[0], size, size), np.uint8)
        for start in range(0, len(self), PART):
            rows = np.arange(start, min(start + PART, len(self)))
            out[rows] = resized(self.read(rows).float(), size).round().byte().numpy()
        return dataclasses.replace(self, pixels=out, rows=np.arange(len(self)))


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """Pictures to learn from, to choose by (may be empty), and to report."""

    train: ImageSet
    validation: ImageSet
    test: ImageSet

    @property
    def note(self) -> str:
        """What was left out, in sentences; empty where nothing was."""
        return " ".join(dict.fromkeys(filter(None, (part.note for part in (self.train, self.validation, self.test)))))

    def at(self, size: int) -> Parts:
        """The same pictures at another size."""
        return Parts(self.train.at(size), self.validation.at(size), self.test.at(size))


def resized(images: Tensor, size: int) -> Tensor:
    """Floating-point pictures ``(B, C, H, W)`` at ``(size, size)``; kept within the range that they had."""
    return interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)


def check_labels(where: str, labels: np.ndarray, classes: int) -> None:
    """Raises ValueError for a label that is not a class's number."""
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        bad = int(labels.max()) if labels.max() >= classes else int(labels.min())
        raise ValueError(
            f"{where} has label {bad}, but its {classes} classes are numbered 0 to {classes - 1}: these are not the "
            "labels of these classes, or the file is damaged."
        )


def left_out(name: str, unread: Sequence[str]) -> str:
    """The sentence that counts files that do not decode; empty for none."""
    if not unread:
        return ""
    some = ", ".join(unread[:3]) + (", .." if len(unread) > 3 else "")
    one = len(unread) == 1
    what, are = ("picture", "does not decode and was") if one else ("pictures", "do not decode and were")
    return f"{len(unread)} {what} of {name} {are} left out: {some}."
