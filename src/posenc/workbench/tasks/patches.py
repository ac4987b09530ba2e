"""Permuted image patches: images cut into patches, with one secret permutation of the patches for all images.

An image of 28 x 28 pixels is 49 patches of 4 x 4, and each patch is a token of 16 numbers. One random permutation, the
same for all images, decides the order of the tokens, so the order carries no information that a network could use. Only
the measurements use the true positions. A learned encoding that places true neighbors near each other has recovered the
grid from the data.

>>> images = torch.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
>>> patches = permute_patches(images, seed=0)
>>> patches.values.shape, patches.positions.shape, int(patches.neighbors.sum())
(torch.Size([2, 49, 16]), torch.Size([49, 2]), 168)
>>> bool((patches.images() * 255 == images).all())
True
"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from posenc.positions import Positions, grid, sequence

SIDE = 4
"""Default side of a patch in pixels."""


@dataclasses.dataclass(frozen=True, eq=False)
class Patches:
    """Permuted patches of B images.

    Attributes:
        values: ``(B, N, side^2)`` from 0 to 1.
        order: ``(N,)``: token n is the patch number ``order[n]`` of the grid, row-major.
        shape: Rows and columns of the grid of patches.
    """

    values: Float32[Tensor, "B N D"]
    order: Int64[Tensor, "N"]
    shape: tuple[int, int]

    @property
    def positions(self) -> Float32[Tensor, "N 2"]:
        """True row and column of each token."""
        return grid(*self.shape).coords.float()[self.order]

    @property
    def neighbors(self) -> Bool[Tensor, "N N"]:
        """True for two tokens whose patches share an edge; a token has up to four neighbors."""
        return torch.cdist(self.positions, self.positions, p=1) == 1

    def views(self) -> dict[str, Positions]:
        """Position views: ``index``, the order of the tokens, and ``grid``, the true positions."""
        return {"index": sequence(len(self.order)), "grid": Positions(self.positions)}

    def images(self, values: Tensor | None = None) -> Float32[Tensor, "B H W"]:
        """Images ``(B, H, W)`` that tokens ``(B, N, side^2)`` form; by default these tokens."""
        values = self.values if values is None else values
        side = round(values.shape[2] ** 0.5)
        rows, columns = self.shape
        in_order = values[:, self.order.argsort()].reshape(-1, rows, columns, side, side)
        return in_order.transpose(2, 3).reshape(-1, rows * side, columns * side)


def permute_patches(images: Tensor, *, seed: int, side: int = SIDE) -> Patches:
    """Cut images into patches of ``side x side`` pixels and permute the patches by a seed.

    Args:
        images: ``(B, H, W)`` or ``(B, 1, H, W)``, whole numbers from 0 to 255.
        seed: Seed of the permutation.
        side: Side of a patch in pixels.

    Raises:
        ValueError: The images have another shape or dtype, such patches do not fill them, or there would be fewer than
            two patches.
    """
    if images.dim() == 4 and images.shape[1] == 1:
        images = images[:, 0]
    if images.dim() != 3 or images.is_floating_point():
        raise ValueError(
            f"images are (B, H, W) of whole numbers from 0 to 255; got {images.dtype} of shape {tuple(images.shape)}."
        )
    _, height, width = images.shape
    if side < 1 or height % side or width % side or height * width < 2 * side**2:
        raise ValueError(
            f"patches of {side} x {side} do not divide images of {width} x {height} into two or more. Use a side "
            "that divides both."
        )
    rows, columns = height // side, width // side
    cut = images.reshape(-1, rows, side, columns, side).transpose(2, 3).reshape(-1, rows * columns, side**2)
    order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(seed))
    return Patches(cut[:, order].float() / 255, order, (rows, columns))
