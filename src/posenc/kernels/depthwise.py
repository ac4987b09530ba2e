"""Depthwise convolution of tokens on a full grid of one to three axes, with zero, replicated or circular padding.

    y_p = b + sum_{|u| <= k//2} W_u x_{p+u},   each channel by itself

W_u has one number per channel; u runs over the k^P offsets of the kernel.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

Padding = Literal["zeros", "replicate", "circular"]
CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


def convolve(
    x: Float[Tensor, "B n dim"], weight: Tensor, shift: Tensor, shape: tuple[int, ...], padding: Padding
) -> Float[Tensor, "B n dim"]:
    """Convolve each channel of tokens that lie row-major on a grid of that shape.

    Args:
        x: Tokens ``(B, n, dim)``, n the number of points of the grid.
        weight: Kernels ``(dim, 1, k, ..)``, one side k for every axis, odd.
        shift: Biases ``(dim,)``.
        shape: Side of the grid on each axis.
        padding: Values outside the grid.

    Returns:
        Convolved tokens ``(B, n, dim)`` in the dtype of ``x``.
    """
    image, side = x.mT.unflatten(-1, shape), weight.shape[-1] // 2
    for axis in range(len(shape)) if padding != "zeros" else ():  # by index, as the kernel may exceed the grid
        places = torch.arange(-side, shape[axis] + side, device=x.device)
        places = places % shape[axis] if padding == "circular" else places.clamp(0, shape[axis] - 1)
        image = image.index_select(axis + 2, places)
    weight, shift, around = weight.to(x.dtype), shift.to(x.dtype), side * (padding == "zeros")
    return CONVOLUTIONS[len(shape) - 1](image, weight, shift, padding=around, groups=len(weight)).flatten(2).mT
