"""Learnable Fourier features: sines and cosines of projections on trained directions, followed by a small MLP.

    r_x = [cos(x W_r^T) | sin(x W_r^T)] / sqrt(|F|),   W_r in R^{|F|/2 x M} ~ N(0, gamma^-2) before training
    e_x = GELU(r_x W_1 + B_1) W_2 + B_2

The P axes can be divided into G groups of M = P / G axes. The same weights embed each group into D / G channels, and
the groups are concatenated (Algorithm 1). With G = 1 the directions cover all axes.

``r_x . r_y`` depends on ``x - y`` alone. ``e_x . e_y`` does so in expectation over the initial weights: a shift rotates
r, and the normal distribution of W_1 is invariant to rotations.

Source: Li et al. 2021, arXiv 2106.02795.

Conventions:
- The GELU is exact (erf). Cosines come first.
- Axes are in the order of the positions, the first M of them in the first group.
- W_1 and W_2 start as N(0, 1 / fan in), biases as 0.
- The trained directions stay in float32 when the module is cast, because bfloat16 would change them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Features(NamedTuple):
    """Inputs ``r`` of the MLP, ``(.., N, G, |F|)``, and ``placed`` as in Positions."""

    r: Tensor
    placed: Tensor | None


class LearnableFourier(Scheme):
    """Learnable Fourier features with an MLP, for real positions on any number of axes.

        e_x = GELU(r_x W_1 + B_1) W_2 + B_2,   r_x = [cos(x W_r^T) | sin(x W_r^T)] / sqrt(|F|)

    Args:
        dim: Width D of the embedding, a multiple of ``groups``.
        axes: Number P of axes of the positions, a multiple of ``groups``. Default: 2.
        features: Number ``|F|`` of cosines and sines, even. Default: 64.
        hidden: Width ``|H|`` of the hidden layer. Default: 32.
        gamma: Scale of the initial directions, positive: their standard deviation is ``1 / gamma``, in radians per unit
            of position. Default: 1.
        groups: Number G of groups of axes. Default: 1.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If ``groups`` does not divide ``dim`` and ``axes``, ``features`` is odd, ``gamma`` is not positive
            and finite, or a size is less than 1.

    Example:
        >>> from posenc import LearnableFourier, grid
        >>> scheme = LearnableFourier(dim=12, axes=2)
        >>> scheme.embed(scheme.prepare(grid(4, 4))).shape
        torch.Size([16, 12])

    References:
        Li, Si, Li, Hsieh and Bengio 2021, arXiv 2106.02795, Algorithm 1.
    """

    cite = """@inproceedings{li2021learnable,
  title={Learnable {Fourier} Features for Multi-Dimensional Spatial Positional Encoding},
  author={Li, Yang and Si, Si and Li, Gang and Hsieh, Cho-Jui and Bengio, Samy},
  booktitle={NeurIPS}, year={2021}, note={arXiv:2106.02795}}"""
    examples = (
        {"dim": 12, "axes": 2},
        {"dim": 12, "axes": 1, "features": 16, "hidden": 8},
        {"dim": 12, "axes": 2, "groups": 2},
        {"dim": 12, "axes": 2, "gamma": 10.0},
    )
    wide = frozenset({"directions"})

    directions: nn.Parameter
    weight_1: nn.Parameter
    bias_1: nn.Parameter
    weight_2: nn.Parameter
    bias_2: nn.Parameter

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        *,
        features: int = 64,
        hidden: int = 32,
        gamma: float = 1.0,
        groups: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if min(dim, axes, groups) < 1 or dim % groups or axes % groups:
            raise ValueError(
                f"LearnableFourier cuts dim and axes into groups of equal size; got dim={dim}, axes={axes}, "
                f"groups={groups}. Use groups=1, or numbers that it divides."
            )
        if features < 2 or features % 2 or hidden < 1:
            raise ValueError(
                f"LearnableFourier has a cosine and a sine per direction, so `features` is even, and hidden >= 1; got "
                f"features={features}, hidden={hidden}."
            )
        if not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"1 / gamma is the spread of the first directions, so gamma > 0; got {gamma:g}.")
        self.gamma, self.groups = gamma, groups
        self.directions = nn.Parameter(torch.empty(features // 2, axes // groups))
        self.weight_1, self.bias_1 = nn.Parameter(torch.empty(hidden, features)), nn.Parameter(torch.empty(hidden))
        self.weight_2 = nn.Parameter(torch.empty(dim // groups, hidden))
        self.bias_2 = nn.Parameter(torch.empty(dim // groups))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="expected",
            isometric=False,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the weights and set the biases to 0; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            self.directions.normal_(0, 1 / self.gamma, generator=generator)
            for weight, bias in ((self.weight_1, self.bias_1), (self.weight_2, self.bias_2)):
                weight.normal_(0, 1 / math.sqrt(weight.shape[1]), generator=generator)
                bias.zero_()

    @property
    @override
    def out_dim(self) -> int:
        return self.groups * len(self.bias_2)

    @override
    def prepare(self, pos: Positions) -> Features:
        self._take(pos)
        x = pos.precise().unflatten(-1, (self.groups, -1))
        angle = x @ self.directions.double().T
        r = torch.cat([angle.cos(), angle.sin()], -1) / math.sqrt(self.weight_1.shape[1])
        return Features(r.to(pos.table_dtype), pos.placed)

    @override
    def embed(self, where: Features) -> Tensor:
        hidden = functional.gelu(functional.linear(where.r.to(self.weight_1.dtype), self.weight_1, self.bias_1))
        rows = functional.linear(hidden, self.weight_2, self.bias_2).flatten(-2)
        return rows if where.placed is None else rows * where.placed[..., None]

    @override
    def define_embed(self, p: Tensor) -> Tensor:
        row, size = [], self.directions.shape[1]
        for g in range(self.groups):
            x = p[g * size : (g + 1) * size]
            angles = [w @ x for w in self.directions]
            r = torch.stack([torch.cos(a) for a in angles] + [torch.sin(a) for a in angles]) / len(angles * 2) ** 0.5
            before = [r @ w + b for w, b in zip(self.weight_1, self.bias_1, strict=True)]
            h = torch.stack([z * (1 + torch.erf(z / math.sqrt(2))) / 2 for z in before])
            row += [h @ w + b for w, b in zip(self.weight_2, self.bias_2, strict=True)]
        return torch.stack(row)
