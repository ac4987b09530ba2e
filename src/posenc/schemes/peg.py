"""PEG: positional encoding generator; a depthwise convolution over the token grid is added to the tokens of a block.

    x' = x + W * x + b,   (W * x)_p = sum_{|u| <= k//2} W_u x_{p+u},   each channel by itself

A token infers its position from its neighbors and from the border of the grid. Zero padding distinguishes corner, edge
and interior; "replicate" padding distinguishes them less, and "circular" padding not at all.

Source: Chu et al. 2021, arXiv 2102.10882, and the released code of Twins (github Meituan-AutoML/Twins, PosCNN).

Conventions, as in that code:
- k = 3 on two axes, with bias and residual; weights start from N(0, 2 / fan_out), fan_out = k^P.
- A model calls the scheme after the first block of each stage.
- Tokens without a position (class token) are neither changed nor read.
- Coordinates are not read: positions must form a full grid, whose shape gives the neighbors.
"""

from __future__ import annotations

import itertools
import math
from typing import get_args

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.depthwise import CONVOLUTIONS, Padding, convolve
from posenc.kernels.shape_checks import require_width
from posenc.kernels.token_grid import TokenGrid, map_grid, token_grid
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class PEG(Scheme):
    """Positional encoding generator: a depthwise convolution with residual, on a full grid of one to three axes.

        x'_p = x_p + b + sum_u W_u x_{p+u}

    Args:
        dim: Channels of a token (the model width).
        axes: Number P of axes of the grid, 1 to 3.
        kernel: Side k of the convolution kernel in grid steps, odd.
        padding: Values outside the grid: "zeros", "replicate" (the nearest token) or "circular" (the opposite side).
        generator: Random generator for the initial weights; torch's default generator if None.

    Raises:
        ValueError: If ``dim`` or ``axes`` is out of range, ``kernel`` is even, or ``padding`` is unknown.

    Example:
        >>> import torch
        >>> from posenc import PEG, grid
        >>> scheme = PEG(12)
        >>> scheme.mix(torch.randn(1, 6, 12), scheme.prepare(grid(2, 3))).shape
        torch.Size([1, 6, 12])

    References:
        Chu, Tian, Zhang, Wang and Shen, 2021, "Conditional Positional Encodings for Vision Transformers",
        arXiv 2102.10882.
    """

    cite = """@inproceedings{chu2023conditional,
  title={Conditional Positional Encodings for Vision Transformers},
  author={Chu, Xiangxiang and Tian, Zhi and Zhang, Bo and Wang, Xinlong and Shen, Chunhua},
  booktitle={ICLR}, year={2023}, note={arXiv:2102.10882}}"""
    examples = (
        {"dim": 12},
        {"dim": 12, "padding": "replicate"},
        {"dim": 12, "padding": "circular"},
        {"dim": 12, "kernel": 5},
        {"dim": 12, "axes": 1},
        {"dim": 12, "axes": 3},
    )
    conventions = ("padding",)

    weight: nn.Parameter
    shift: nn.Parameter

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        *,
        kernel: int = 3,
        padding: Padding = "zeros",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if dim < 1 or not 1 <= axes <= len(CONVOLUTIONS):
            raise ValueError(f"PEG convolves dim >= 1 channels over 1 to 3 axes; got dim={dim}, axes={axes}.")
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"PEG's kernel has a middle, so its side is odd; got {kernel}. The paper's is 3.")
        if padding not in get_args(Padding):
            raise ValueError(f"PEG's padding is 'zeros', 'replicate' or 'circular'; got {padding!r}.")
        self.kernel = kernel
        self.padding: Padding = padding
        self.weight, self.shift = nn.Parameter(torch.empty(dim, 1, *[kernel] * axes)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"mix"}),
            sharing="layer",
            cacheable=False,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights again, also after the module was built on the meta device.

        Args:
            generator: Random generator; torch's default generator if None.
        """
        with torch.no_grad():
            self.weight.normal_(0, math.sqrt(2 / self.weight[0].numel()), generator=generator)
            self.shift.zero_()

    @override
    def prepare(self, pos: Positions) -> TokenGrid:
        return token_grid(self._take(pos), self.weight.dim() - 2, "PEG")

    @override
    def mix(self, x: Tensor, where: TokenGrid) -> Tensor:
        return map_grid(x, where, "PEG", self._convolved)

    def _convolved(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        if 0 in shape:
            return x
        tokens = require_width(x, len(self.weight), "PEG", "tokens")
        return x + convolve(tokens, self.weight, self.shift, shape, self.padding)

    @override
    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        shape, side = pos.lattice or (), self.kernel // 2
        points = list(itertools.product(*map(range, shape)))
        row = x[n] + self.shift
        for u in itertools.product(range(-side, side + 1), repeat=len(shape)):
            at = [p + step for p, step in zip(points[n], u, strict=True)]
            if self.padding == "circular":
                at = [a % size for a, size in zip(at, shape, strict=True)]
            elif self.padding == "replicate":
                at = [min(max(a, 0), size - 1) for a, size in zip(at, shape, strict=True)]
            if tuple(at) in points:
                row = row + self.weight[(slice(None), 0, *(step + side for step in u))] * x[points.index(tuple(at))]
        return row
