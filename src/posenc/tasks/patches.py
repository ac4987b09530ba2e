"""Permuted pictures: cut into patches whose order is scrambled once and kept secret.

A picture of 28 x 28 pixels is 49 patches of 4 x 4, each a token of 16 numbers. One random permutation, the same for all
pictures, says which patch stands where, so the tokens carry no order that a network could know; where each truly lies
is known to the measurement alone. An encoding that places neighbours near each other has found the grid in the data.

>>> pictures = torch.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
>>> patches = permuted(pictures, seed=0)
>>> patches.values.shape, patches.positions.shape, int(patches.neighbours.sum())
(torch.Size([2, 49, 16]), torch.Size([49, 2]), 168)
>>> bool((patches.pictures() * 255 == pictures).all())
True
"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from posenc.positions import Positions, grid, sequence

SIDE = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Patches:
    """values: ``(B, N, side^2)`` from 0 to 1. order: token n is the patch number ``order[n]`` of the grid, row-major.
    shape: rows and columns of the grid."""

    values: Float32[Tensor, "B N D"]
    order: Int64[Tensor, "N"]
    shape: tuple[int, int]

    @property
    def positions(self) -> Float32[Tensor, "N 2"]:
        """Row and column where each token truly lies."""
        return grid(*self.shape).coords.float()[self.order]

    @property
    def neighbours(self) -> Bool[Tensor, "N N"]:
        """Whether two tokens share an edge: up to four a token."""
        return torch.cdist(self.positions, self.positions, p=1) == 1

    def views(self) -> dict[str, Positions]:
        """The positions of the tokens: in the order in which they come (``index``), and the secret one (``grid``)."""
        return {"index": sequence(len(self.order)), "grid": Positions(self.positions)}

    def pictures(self, values: Tensor | None = None) -> Float32[Tensor, "B H W"]:
        """The pictures that tokens ``(B, N, side^2)`` are of; of these where none are given."""
        values = self.values if values is None else values
        side = round(values.shape[2] ** 0.5)
        rows, columns = self.shape
        there = values[:, self.order.argsort()].reshape(-1, rows, columns, side, side)
        return there.transpose(2, 3).reshape(-1, rows * side, columns * side)


def permuted(pictures: Tensor, *, seed: int, side: int = SIDE) -> Patches:
    """Pictures ``(B, H, W)`` or ``(B, 1, H, W)`` of uint8, in patches of ``side x side``, permuted as the seed says.

    Raises ValueError for pictures of another kind or that such patches do not fill, and for fewer than two patches.
    """
    if pictures.dim() == 4 and pictures.shape[1] == 1:
        pictures = pictures[:, 0]
    if pictures.dim() != 3 or pictures.is_floating_point():
        raise ValueError(
            f"pictures are (B, H, W) of whole numbers from 0 to 255; got {pictures.dtype} of shape "
            f"{tuple(pictures.shape)}."
        )
    _, height, width = pictures.shape
    if side < 1 or height % side or width % side or height * width < 2 * side**2:
        raise ValueError(
            f"patches of {side} x {side} do not divide pictures of {height} x {width} into two or more. Use a side "
            "that divides both."
        )
    rows, columns = height // side, width // side
    cut = pictures.reshape(-1, rows, side, columns, side).transpose(2, 3).reshape(-1, rows * columns, side**2)
    order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(seed))
    return Patches(cut[:, order].float() / 255, order, (rows, columns))
