"""Point cloud classifier: a small transformer on unordered points with a positional encoding of their coordinates.

    z = W_2 gelu(W_1 x) + e;   blocks (pre-norm, arXiv 2010.11929);   logits = W_h LN [mean_n z_n ; max_n z_n]

Here x are the features of a point, and e the scheme's rows, projected to the model width, if the scheme embeds. Only
the scheme reads coordinates. Without a scheme the model is a function of the set of features. Mean and max pooling
follow PCT, Guo et al. 2021, arXiv 2012.09688, which arXiv 2406.07049, version 3, uses for its point clouds.

Registers are learned tokens that every point can attend to. Attention weights sum to 1, so points of one kind give the
same output, however many there are. A register changes that: its share of a query's attention depends on the number of
points that the query attends to. A register stands at the mean of its cloud and moves with it. A register without a
place would have angle 0 in a rotary scheme, which is also the angle of position 0, so the model would not be invariant
to translations of the cloud.

Clouds of different sizes are padded to the largest one. Tokens without a position (``placed=False``) are padding: no
token attends to them, and neither a register's position nor the pooling includes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.sites import PreparedScheme, refuse_width, without_repetition
from posenc.models.vision_block import Block, BlockConfig
from posenc.models.vision_stage import SIGMA
from posenc.positions import Positions, readable
from posenc.scheme import Scheme


class PointsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a point cloud classifier, without its scheme.

    Attributes:
        channels: number of features of a point.
        classes: number of output classes.
        dim: model width.
        depth: number of blocks.
        heads: number of attention heads.
        hidden: width of the feed-forward's hidden layer.
        registers: number of learned tokens at the mean of a cloud.
    """

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

    def scheme_arguments(self, axes: int = 3) -> dict[str, Any]:
        """Return the constructor arguments of a scheme that follow from the model, for ``scheme_text.build``.

        Args:
            axes: number of coordinates of a point.

        Returns:
            Arguments by name: ``dim``, ``heads``, ``head_dim`` and ``axes``.
        """
        head_dim = self.dim // self.heads
        return {"dim": self.dim, "heads": self.heads, "head_dim": head_dim, "axes": axes}


class PointClassifier(nn.Module):
    """Point cloud classifier from features ``(B, N, channels)`` of points at positions to logits ``(B, classes)``.

    Args:
        config: sizes.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it. Embedding rows of the first layer's
            scheme are added at the input, after a linear layer.

    Raises:
        ValueError: a scheme for another head width.
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
        unique, self.scheme_of = without_repetition(made)
        self.schemes = nn.ModuleList(unique)
        first = made[0]
        self.rows = nn.Linear(first.out_dim, dim) if "embed" in first.claims.sites else None

    def forward(self, x: Float[Tensor, "B N channels"], pos: Positions) -> Float[Tensor, "B classes"]:
        """Classify point clouds. The order of the points does not change the result.

        Args:
            x: features ``(B, N, channels)``.
            pos: coordinates ``(B, N, P)``, or ``(N, P)`` if all clouds have the same points. ``placed`` is False for
                padding, whose features and coordinates have no effect.

        Returns:
            Logits ``(B, classes)``.

        Raises:
            ValueError: another number of features or positions, or a cloud of padding alone.
        """
        if x.shape[-1] != self.config.channels or pos.count != x.shape[1]:
            raise ValueError(
                f"this model reads {self.config.channels} features of each point; got {tuple(x.shape)} with "
                f"{pos.count} positions. Build it with channels={x.shape[-1]}, and give every point a position."
            )
        schemes: list[Any] = list(self.schemes)
        before = self.config.registers
        pos = _with_registers(before, pos)
        at = [PreparedScheme.at(scheme, pos, None) for scheme in schemes]
        z = torch.cat([self.registers.expand(len(x), -1, -1), self.tokens(x)], 1)
        if self.rows is not None:
            first = at[self.scheme_of[0]]
            z = z + self.rows(first.scheme.embed(first.queries).to(z.dtype))
        mask = None if pos.placed is None else torch.atleast_2d(pos.placed)[:, None, None]
        for layer, block in enumerate(self.blocks):
            z = block(z, at[self.scheme_of[layer]], (1, z.shape[1]), mask=mask)
        points = None if pos.placed is None else pos.placed[..., before:]
        return self.head(self.norm(_pooled(z[:, before:], points)))

    @torch.no_grad()
    def embedding_scale(self, x: Float[Tensor, "B N channels"], pos: Positions) -> float | None:
        """Measure the size of the embedding rows beside that of the points' tokens.

        Args:
            x: features ``(B, N, channels)``.
            pos: coordinates ``(B, N, P)``, or ``(N, P)``.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        schemes: list[Any] = list(self.schemes)
        rows = initial_rows(schemes[self.scheme_of[0]], pos)
        if rows is None or self.rows is None:
            return None
        rows, tokens = self.rows(rows.to(self.rows.weight.dtype)), self.tokens(x)
        if pos.placed is not None:
            placed = pos.placed.expand(tokens.shape[:-1])
            rows, tokens = rows.expand_as(tokens)[placed], tokens[placed]
        return embedding_scale(rows, tokens)


def _with_registers(registers: int, pos: Positions) -> Positions:
    """Return the positions of registers, at the mean of the points, followed by those of the points."""
    coords = pos.coords if pos.coords.is_floating_point() else pos.precise()
    if pos.placed is None:
        middle = coords.mean(-2, keepdim=True).expand(*coords.shape[:-2], registers, pos.axes)
        return Positions(torch.cat([middle, coords], -2))
    points = pos.placed
    if readable(points) and not bool(points.any(-1).all()):
        raise ValueError("a cloud needs at least one point, and this one has only padding. Leave it out of the batch.")
    shape = torch.broadcast_shapes(coords.shape[:-1], points.shape)
    coords, points = coords.expand(*shape, pos.axes), points.expand(shape)
    # The coordinates of padding have no effect. At the mean they are as small as those of points.
    middle = coords.masked_fill(~points[..., None], 0).sum(-2, keepdim=True) / points.sum(-1)[..., None, None]
    coords = torch.where(points[..., None], coords, middle)
    middle = middle.expand(*shape[:-1], registers, pos.axes)
    placed = torch.cat([points.new_ones(*shape[:-1], registers), points], -1)
    return Positions(torch.cat([middle, coords], -2), placed)


def _pooled(z: Float[Tensor, "B N dim"], points: Tensor | None) -> Float[Tensor, "B dim2"]:
    """Return mean and maximum over the points, without padding."""
    if points is None:
        return torch.cat([z.mean(1), z.amax(1)], -1)
    points = points.expand(z.shape[:-1])[..., None]
    mean = z.masked_fill(~points, 0).sum(1) / points.sum(1)
    return torch.cat([mean, z.masked_fill(~points, -torch.inf).amax(1)], -1)
