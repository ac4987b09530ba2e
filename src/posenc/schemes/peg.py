"""PEG, the conditional encoding: a depthwise convolution over a block's tokens on their grid, added to them.

    x' = x + W * x + b,   (W * x)_p = sum_{|u| <= k//2} W_u x_{p+u},   each channel by itself

Where a token stands it learns from its neighbours, and from the border: "zeros" outside the grid are what tells the
corner from the middle; "replicate" tells less, and "circular" nothing.

Source: Chu et al. 2021, arXiv 2102.10882, and the released code of Twins (github Meituan-AutoML/Twins, PosCNN): k = 3
on two axes, with bias, a residual, weights from N(0, 2 / fan_out), fan_out = k^P. A model calls it after the first
block of each stage. Tokens without a place (class token) stay as they are and are seen by none. No coordinate is read,
only which tokens are neighbours: positions must be a full grid.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.widths import of_count, of_width
from posenc.positions import Positions, readable
from posenc.scheme import Claims, Scheme

Padding = Literal["zeros", "replicate", "circular"]
CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


class Neighbours(NamedTuple):
    """``shape`` of the grid; ``token`` at each of its points, ``(n,)``, ``(B, n)`` or None: all; and ``tokens``."""

    shape: tuple[int, ...]
    token: Tensor | None
    tokens: int


class PEG(Scheme):
    """``x'_p = x_p + b + sum_u W_u x_{p+u}`` on a full grid of one to three axes, channel by channel.

    dim: channels of a token. axes: of the grid. kernel: its side k, odd. padding: what stands outside the grid.
    generator: of the first weights.
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
            raise ValueError(f"outside PEG's grid stand 'zeros', or it is 'replicate' or 'circular'; got {padding!r}.")
        self.kernel, self.padding = kernel, padding
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
        """Draw the weights anew (also after building on the meta device)."""
        with torch.no_grad():
            self.weight.normal_(0, math.sqrt(2 / self.weight[0].numel()), generator=generator)
            self.shift.zero_()

    def prepare(self, pos: Positions) -> Neighbours:
        self._take(pos)
        shape, axes = pos.lattice, self.weight.dim() - 2
        if shape is None or len(shape) != axes:
            raise ValueError(
                f"PEG looks at neighbours on a full grid of {axes} axes; these positions have "
                f"lattice={shape}. Use {['sequence(n)', 'grid(h, w)', 'grid(d, h, w)'][axes - 1]}, or "
                "Positions(coords, lattice=shape); a part of a grid cannot be convolved, nor one token while decoding."
            )
        if pos.placed is None:
            return Neighbours(shape, None, pos.count)
        n = math.prod(shape)
        if readable(pos.placed) and bool((pos.placed.sum(-1) != n).any()):
            some = pos.placed.sum(-1).unique().tolist()
            raise ValueError(f"a grid of shape {shape} has {n} points; {some} tokens have a place. They alone count.")
        return Neighbours(shape, (~pos.placed).byte().argsort(dim=-1, stable=True)[..., :n], pos.count)

    def mix(self, x: Tensor, where: Neighbours) -> Tensor:
        x = of_count(x, where.tokens, "PEG")
        if where.token is None:
            return self._convolved(x, where.shape)
        at = where.token[..., None].expand(len(x), -1, x.shape[-1])
        return x.scatter(1, at, self._convolved(x.gather(1, at), where.shape))

    def _convolved(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        if 0 in shape:
            return x
        axes, side = len(shape), self.kernel // 2
        image = of_width(x, len(self.weight), "PEG", "tokens").mT.unflatten(-1, shape)
        for axis in range(axes) if self.padding != "zeros" else ():  # by index: any side, also longer than the grid
            places = torch.arange(-side, shape[axis] + side, device=x.device)
            places = places % shape[axis] if self.padding == "circular" else places.clamp(0, shape[axis] - 1)
            image = image.index_select(axis + 2, places)
        weight, shift, around = self.weight.to(x.dtype), self.shift.to(x.dtype), side * (self.padding == "zeros")
        out = CONVOLUTIONS[axes - 1](image, weight, shift, padding=around, groups=len(weight))
        return x + out.flatten(2).mT

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
                w_u = self.weight[(slice(None), 0, *(step + side for step in u))]
                row = row + w_u * x[points.index(tuple(at))]
        return row
