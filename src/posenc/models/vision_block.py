"""Pre-norm block of a vision transformer, with optional spatial reduction of keys and values.

    u = z + a(LN z),   y = u + W_2 gelu(W_1 LN u)
    a(x) = W_O attention(W_Q x, W_K x', W_V x'),   x' = LN(conv_s x) for a reduction s > 1, else x' = x

Sources: Dosovitskiy et al. 2021, arXiv 2010.11929; Wang et al. 2021, arXiv 2102.12122 (spatial reduction: a convolution
with kernel size and stride s). With ``attention_norm=False`` attention reads z instead of LN z, as in the block of
github BoyangL1/gridpe-vision.
"""

from __future__ import annotations

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.attention import attend, attend_with_weights
from posenc.kernels.linear import feed_forward, linear
from posenc.models.sites import PreparedScheme


class BlockConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a block.

    Attributes:
        dim: model width.
        heads: number of attention heads.
        hidden: width of the feed-forward's hidden layer.
        reduction: side of the cell of patches that one key stands for.
        qkv_bias: whether the projections of queries, keys and values have biases.
        attention_norm: whether a layer norm stands before attention.
        norm_eps: epsilon of the layer norms.
        dropout: dropout probability after attention, in and after the feed-forward, and on the attention weights.
        drop_path: stochastic depth rate: probability that a sample skips attention or the feed-forward.
    """

    dim: int
    heads: int
    hidden: int
    reduction: int = 1
    qkv_bias: bool = True
    attention_norm: bool = True
    norm_eps: float = 1e-6
    dropout: float = 0.0
    drop_path: float = 0.0


class Block(nn.Module):
    """Pre-norm transformer block from tokens ``(B, N, dim)`` to ``(B, N, dim)``.

    Args:
        config: sizes and options.
    """

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        dim, eps, self.config = config.dim, config.norm_eps, config
        self.norm1 = nn.LayerNorm(dim, eps=eps) if config.attention_norm else nn.Identity()
        self.qkv = nn.Linear(dim, 3 * dim, bias=config.qkv_bias)
        self.out = nn.Linear(dim, dim)
        if config.reduction > 1:
            self.reduce = nn.Conv2d(dim, dim, config.reduction, config.reduction)
            self.reduce_norm = nn.LayerNorm(dim, eps=eps)
        self.norm2 = nn.LayerNorm(dim, eps=eps)
        self.up, self.down = nn.Linear(dim, config.hidden), nn.Linear(config.hidden, dim)

    def forward(
        self,
        z: Float[Tensor, "B N dim"],
        at: PreparedScheme,
        shape: tuple[int, int],
        rows: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Float[Tensor, "B N dim"]:
        """Compute the block's output.

        Args:
            z: tokens ``(B, N, dim)``.
            at: the layer's scheme with prepared positions.
            shape: height and width of the grid of patches, for the reduction of keys.
            rows: embedding rows ``(.., N, dim)`` to add to the input of attention only.
            mask: True where a query may attend to a key, ``(B, H, Q, K)`` with size 1 on axes that share it; None for
                all keys.

        Returns:
            Tokens ``(B, N, dim)``.
        """
        q, k, v, kept = self._projected(z, at, shape, rows)
        config, scheme = self.config, at.scheme
        if config.dropout and self.training:
            options = {"kept": kept, "mask": mask, "dropout": config.dropout}
            a, _ = attend_with_weights(q, k, v, scheme, at.queries, at.keys, at.pair, **options)
        else:
            a = attend(q, k, v, scheme, at.queries, at.keys, at.pair, kept=kept, mask=mask, made=(at.made, self))
        u = z + self._dropped(linear(a.transpose(1, 2).flatten(2), self.out.weight, self.out.bias))
        return scheme.mix(u + self._dropped(self._feed_forward(self.norm2(u))), at.queries)

    def weights(
        self, z: Tensor, at: PreparedScheme, shape: tuple[int, int], rows: Tensor | None = None
    ) -> Float[Tensor, "B H N K"]:
        """Return the attention weights that ``forward`` uses, ``(B, H, N, K)``."""
        q, k, v, kept = self._projected(z, at, shape, rows)
        return attend_with_weights(q, k, v, at.scheme, at.queries, at.keys, at.pair, kept=kept)[1]

    def _projected(
        self, z: Tensor, at: PreparedScheme, shape: tuple[int, int], rows: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        x, dim = self.norm1(z), self.config.dim
        x = x if rows is None else x + rows
        weight, bias = self.qkv.weight, self.qkv.bias
        if self.config.reduction == 1:
            parts, key_input = linear(x, weight, bias).split(dim, -1), x
        else:
            image = self.reduce(x.mT.unflatten(-1, shape))
            key_input = self.reduce_norm(image.flatten(2).mT)
            of_query, of_rest = (None, None) if bias is None else (bias[:dim], bias[dim:])
            parts = linear(x, weight[:dim], of_query), *linear(key_input, weight[dim:], of_rest).split(dim, -1)
        q, k, v = (part.unflatten(-1, (self.config.heads, -1)).transpose(1, 2) for part in parts)
        return q, k, v, at.scheme.keep(key_input, at.keys)

    def _feed_forward(self, x: Tensor) -> Tensor:
        up, down = (self.up.weight, self.up.bias), (self.down.weight, self.down.bias)
        if not (self.config.dropout and self.training):
            return feed_forward(x, up, down, "gelu")
        return linear(functional.dropout(functional.gelu(linear(x, *up)), self.config.dropout), *down)

    def _dropped(self, x: Tensor) -> Tensor:
        """Apply dropout and stochastic depth (Huang et al. 2016, arXiv 1603.09382)."""
        config = self.config
        if not self.training:
            return x
        x = functional.dropout(x, config.dropout) if config.dropout else x
        if not config.drop_path:
            return x
        stays = torch.rand(len(x), 1, 1, device=x.device) >= config.drop_path
        return x * stays / (1 - config.drop_path)
