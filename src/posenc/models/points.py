"""A small attention model on clouds of points, which stand anywhere and in no order.

    z = W_2 gelu(W_1 x) + e;   blocks (pre-norm, arXiv 2010.11929);   logits = W_h LN [mean_n z_n ; max_n z_n]

x are a point's features, e the scheme's rows brought to the tokens' width, if it embeds. Nothing else of the model
knows where a point is, so without a scheme and with features that do not say it, it reads a bag. Mean and max are those
of PCT, Guo et al. 2021, arXiv 2012.09688, which the point clouds of arXiv 2406.07049, version 3, are read by.

Weights of attention sum to 1, so what points of one kind are read as is the same wherever they stand and however many
they are. A register is something else to look at: the share that it gets of a query tells how many points stand where
that query looks. It stands in the middle of its cloud, and so moves with it: without a place it would have a rotary
scheme's angle 0, which is also the place 0, and no cloud could be moved unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.models.sites import Placed, refuse_width, shared
from posenc.models.stage import SIGMA
from posenc.models.vision_block import Block, BlockConfig
from posenc.positions import Positions
from posenc.scheme import Scheme


class PointsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that shapes a classifier of points but its scheme. channels: of a point's features. hidden: of a
    block's feed-forward. registers: learned tokens in the middle of a cloud."""

    channels: int
    classes: int
    dim: int
    depth: int
    heads: int
    hidden: int
    registers: int = 1

    def __post_init__(self) -> None:
        if min(self.channels, self.classes, self.dim, self.depth, self.heads, self.hidden) < 1:
            raise ValueError(f"a classifier of points needs sizes of at least 1 each; got {self}.")
        if self.registers < 0:
            raise ValueError(f"a classifier of points has 0 registers or more; got registers={self.registers}.")
        if self.dim % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide a width of {self.dim}; every head gets dim / heads channels. "
                f"Use a number of heads that divides {self.dim}."
            )

    def known(self, axes: int = 3) -> dict[str, Any]:
        """Constructor arguments of a scheme that follow from the model, for ``specification.build``."""
        head_dim = self.dim // self.heads
        return {"dim": self.dim, "heads": self.heads, "head_dim": head_dim, "axes": axes}


class PointClassifier(nn.Module):
    """Features ``(B, N, channels)`` of points at positions to logits ``(B, classes)``.

    schemes: a factory ``layer -> Scheme``; returning the same scheme shares it. The first layer's rows are added at the
    input, through a linear layer of their own.
    """

    def __init__(self, config: PointsConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config, dim = config, config.dim
        self.tokens = nn.Sequential(nn.Linear(config.channels, dim), nn.GELU(), nn.Linear(dim, dim))
        self.registers = nn.Parameter(SIGMA * torch.randn(config.registers, dim))
        block = BlockConfig(dim=dim, heads=config.heads, hidden=config.hidden)
        self.blocks = nn.ModuleList(Block(block) for _ in range(config.depth))
        self.norm = nn.LayerNorm(2 * dim)
        self.head = nn.Linear(2 * dim, config.classes)
        made = [schemes(layer) for layer in range(config.depth)]
        for scheme in made:
            refuse_width(scheme, dim=dim, head_dim=dim // config.heads, model="points", projects=True)
        unique, self.scheme_of = shared(made)
        self.schemes = nn.ModuleList(unique)
        first = made[0]
        self.rows = nn.Linear(first.out_dim, dim) if "embed" in first.claims.sites else None

    def forward(self, x: Float[Tensor, "B N channels"], pos: Positions) -> Float[Tensor, "B classes"]:
        """pos: ``(B, N, P)``, or ``(N, P)`` where all clouds have the same points. The order of points is of no
        consequence."""
        if x.shape[-1] != self.config.channels or pos.count != x.shape[1]:
            raise ValueError(
                f"this model reads {self.config.channels} features of each point; got {tuple(x.shape)} with "
                f"{pos.count} positions. Build it with channels={x.shape[-1]}, and give every point a position."
            )
        schemes: list[Any] = list(self.schemes)
        before = self.config.registers
        pos = _after(before, pos)
        at = [Placed.at(scheme, pos, None) for scheme in schemes]
        z = torch.cat([self.registers.expand(len(x), -1, -1), self.tokens(x)], 1)
        if self.rows is not None:
            first = at[self.scheme_of[0]]
            z = z + self.rows(first.scheme.embed(first.queries).to(z.dtype))
        for layer, block in enumerate(self.blocks):
            z = block(z, at[self.scheme_of[layer]], (1, z.shape[1]))
        z = z[:, before:]
        return self.head(self.norm(torch.cat([z.mean(1), z.amax(1)], -1)))


def _after(registers: int, pos: Positions) -> Positions:
    """The positions of points after so many tokens in their middle."""
    if pos.placed is not None:
        raise ValueError("every point of a cloud has a place: draw clouds of one size, and pass positions alone.")
    coords = pos.coords if pos.coords.is_floating_point() else pos.coords.float()
    middle = coords.mean(-2, keepdim=True).expand(*coords.shape[:-2], registers, pos.axes)
    return Positions(torch.cat([middle, coords], -2))
