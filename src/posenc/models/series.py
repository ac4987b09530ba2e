"""Transformer on readings of a time series: it predicts hidden readings from visible ones and from all times.

    z = W [v, h] + e;   blocks (pre-norm, arXiv 2010.11929);   prediction = w . LN z + b

Here v is the value of a reading, 0 where it is hidden, and h is 1 where it is hidden. e are the scheme's rows, mapped
to the model width, if the scheme embeds. Only the scheme reads times, so the model without a scheme is a function of
the set of values. Hidden readings at the end of a window are a forecast, others are filled in: one model for both, as
the encoder of Zhou et al. 2021, arXiv 2012.07436, predicts all horizons at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.sites import PreparedScheme, refuse_width, without_repetition
from posenc.models.vision_block import Block, BlockConfig
from posenc.positions import Positions
from posenc.scheme import Scheme


class SeriesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a transformer on readings, without its scheme.

    Attributes:
        dim: model width.
        depth: number of blocks.
        heads: number of attention heads.
        hidden: width of the feed-forward's hidden layer.
    """

    dim: int
    depth: int
    heads: int
    hidden: int

    def __post_init__(self) -> None:
        if min(self.dim, self.depth, self.heads, self.hidden) < 1:
            raise ValueError(f"a model of series needs sizes of at least 1 each; got {self}.")
        if self.dim % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide a width of {self.dim}; every head gets dim / heads channels. "
                f"Use a number of heads that divides {self.dim}."
            )

    def scheme_arguments(self, readings: int) -> dict[str, Any]:
        """Return the constructor arguments of a scheme that follow from the model, for ``scheme_text.build``.

        Args:
            readings: number of readings of a window.

        Returns:
            Arguments by name.
        """
        return {
            "dim": self.dim,
            "heads": self.heads,
            "head_dim": self.dim // self.heads,
            "axes": 1,
            "max_len": readings,
            "max_distance": max(readings - 1, 16),
            "npos_max": readings,
            "extent": float(readings),
        }


class SeriesTransformer(nn.Module):
    """Transformer from values ``(B, N)`` of readings, some of them hidden, to predictions ``(B, N)``.

    Args:
        config: sizes.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it. Embedding rows of the first layer's
            scheme are added at the input, after a linear layer.

    Raises:
        ValueError: a scheme for another head width.
    """

    def __init__(self, config: SeriesConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config, dim = config, config.dim
        self.tokens = nn.Linear(2, dim)
        block = BlockConfig(dim=dim, heads=config.heads, hidden=config.hidden)
        self.blocks = nn.ModuleList(Block(block) for _ in range(config.depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)
        made = [schemes(layer) for layer in range(config.depth)]
        for scheme in made:
            refuse_width(scheme, dim=dim, head_dim=dim // config.heads, model="model of series", projects=True)
        unique, self.scheme_of = without_repetition(made)
        self.schemes = nn.ModuleList(unique)
        first = made[0]
        self.rows = nn.Linear(first.out_dim, dim) if "embed" in first.claims.sites else None

    def forward(
        self, values: Float[Tensor, "B N"], pos: Positions, hidden: Bool[Tensor, "B N"]
    ) -> Float[Tensor, "B N"]:
        """Predict the values of all readings.

        Args:
            values: values of the readings, of mean about 0 and size about 1. Those of hidden readings have no effect.
            pos: times ``(B, N, 1)``, or ``(N, 1)`` if all windows have the same.
            hidden: True for readings whose values are hidden.

        Returns:
            Predictions. Those of hidden readings are the answer.
        """
        schemes: list[Any] = list(self.schemes)
        at = [PreparedScheme.at(scheme, pos, None) for scheme in schemes]
        z = self._tokens(values, hidden)
        if self.rows is not None:
            first = at[self.scheme_of[0]]
            z = z + self.rows(first.scheme.embed(first.queries).to(z.dtype))
        for layer, block in enumerate(self.blocks):
            z = block(z, at[self.scheme_of[layer]], (1, z.shape[1]))
        return self.head(self.norm(z))[..., 0]

    @torch.no_grad()
    def embedding_scale(
        self, values: Float[Tensor, "B N"], pos: Positions, hidden: Bool[Tensor, "B N"]
    ) -> float | None:
        """Measure the size of the embedding rows beside that of the tokens.

        Args:
            values: values of the readings.
            pos: their times.
            hidden: True for readings whose values are hidden.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        schemes: list[Any] = list(self.schemes)
        rows = initial_rows(schemes[self.scheme_of[0]], pos)
        if rows is None or self.rows is None:
            return None
        return embedding_scale(self.rows(rows.to(self.rows.weight.dtype)), self._tokens(values, hidden))

    def _tokens(self, values: Tensor, hidden: Tensor) -> Tensor:
        return self.tokens(torch.stack([values.masked_fill(hidden, 0), hidden.to(values.dtype)], -1))
