"""Transformer encoder with one output per sample, read from one token: the model of the Latin-square studies.

    z = x + e                     e: the scheme's embedding rows, at the input or in every block
    a = W_O attention(W_Q z, W_K z, W_V z)
    u = LN(z + a);  y = LN(u + act2(W_2 act(W_1 u)))              post-norm
    u = z + a(LN z);  y = u + act2(W_2 act(W_1 LN u))             pre-norm, with a last LN

Source: Vaswani et al. 2017, arXiv 1706.03762. ``EncoderConfig`` can reproduce the model of arXiv 2406.08272 as its
public code runs it (github ljhearne/LSTNN_public): post-norm, the encoding added in every block and in the residual, a
second GELU after ``W_2``, and the last token read out.

The last block needs one output token per sample, so it computes one query and one feed-forward per sample. If the
scheme does not change keys and values, the last block also multiplies ``W_K`` into the query and applies ``W_V`` after
the weighted sum. Both savings are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc.attention import attend, attention_weights
from posenc.kernels.linear import feed_forward, linear
from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.sites import refuse_width, without_repetition
from posenc.positions import Positions
from posenc.scheme import Pair, Scheme, Where

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


class EncoderConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of an encoder, without its scheme.

    Attributes:
        channels: width of an input token, as of a one-hot vector.
        classes: number of output classes.
        dim: model width.
        depth: number of blocks.
        hidden: width of the feed-forward's hidden layer.
        heads: number of attention heads.
        norm: "post" for post-norm blocks, "pre" for pre-norm blocks.
        activation: activation of the feed-forward.
        second_activation: whether the activation is applied again after ``W_2``.
        read_out: "probe" for a given token of each sample, "last" for the last token.
        placement: where the scheme's rows are added.
        projection_bias: whether the projections of queries, keys, values and output have biases.
        output_projection: whether attention has an output projection.
        encoding_dropout: dropout probability on ``x + e``.
        token_std: standard deviation of the token embedding's initial weights; None for the default of ``nn.Linear``.
        qkv_scale: factor on the default initialization of ``nn.Linear``. sqrt(1.5) gives the Glorot initialization of
            ``nn.MultiheadAttention``.
    """

    channels: int
    classes: int
    dim: int
    depth: int
    hidden: int
    heads: int = 1
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "gelu"] = "gelu"
    second_activation: bool = False
    read_out: Literal["probe", "last"] = "probe"
    placement: Literal["input", "every_block"] = "every_block"
    projection_bias: bool = True
    output_projection: bool = True
    encoding_dropout: float = 0.0
    token_std: float | None = None
    qkv_scale: float = math.sqrt(1.5)

    def __post_init__(self) -> None:
        if self.heads < 1 or self.dim % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide a width of {self.dim}; every head gets dim / heads channels. "
                f"Use a number of heads that divides {self.dim}."
            )
        if min(self.channels, self.classes, self.dim, self.depth, self.hidden) < 1:
            raise ValueError("an encoder needs channels, classes, dim, depth and hidden of at least 1.")

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads


class Blocks(nn.Module):
    """Base class of encoders: token embedding, blocks with one scheme per layer, final norm and output head.

    Subclasses choose which tokens are read out.

    Args:
        config: sizes and options.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.
    """

    def __init__(self, config: EncoderConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config = config
        self.place(schemes)
        self.tokens = nn.Linear(config.channels, config.dim)
        if config.token_std is not None:
            nn.init.normal_(self.tokens.weight, std=config.token_std)
            nn.init.zeros_(self.tokens.bias)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.dim) if config.norm == "pre" else nn.Identity()
        self.head = nn.Linear(config.dim, config.classes)

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Set the scheme of every layer.

        Args:
            schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.

        Raises:
            ValueError: a scheme of another width than the model's.
        """
        made = [schemes(layer) for layer in range(self.config.depth)]
        unique, scheme_of = without_repetition(made)
        for scheme in unique:
            refuse_width(scheme, dim=self.config.dim, head_dim=self.config.head_dim, model="encoder")
        self.schemes = nn.ModuleList(unique).train(self.training)
        self.scheme_of = scheme_of

    def _prepare(self, pos: Positions) -> tuple[list[Any], list[Where], list[Pair]]:
        own: list[Any] = list(self.schemes)
        schemes = [scheme.for_texts(pos) for scheme in own]
        prepared = [scheme.prepare(pos) for scheme in schemes]
        return schemes, prepared, [scheme.relate(w, w) for scheme, w in zip(schemes, prepared, strict=True)]

    def _embedding_scale(self, y: Tensor, pos: Positions) -> float | None:
        """Ratio of the rows that the first block adds to the token embeddings ``y``; None if it adds none."""
        schemes: list[Any] = list(self.schemes)
        rows = initial_rows(schemes[self.scheme_of[0]], pos)
        return None if rows is None else embedding_scale(rows, y)

    def _embedded(self, y: Tensor, layer: int, scheme: Scheme, where: Where) -> Tensor:
        if "embed" in scheme.claims.sites and (layer == 0 or self.config.placement == "every_block"):
            y = y + scheme.embed(where).to(y.dtype)
            if self.config.encoding_dropout:
                y = functional.dropout(y, self.config.encoding_dropout, self.training)
        return y


class Encoder(Blocks):
    """Transformer encoder from tokens ``(B, N, channels)`` at positions to logits ``(B, classes)``.

    One token of each sample is read out: the probe, or the last token.
    """

    def forward(
        self, x: Float[Tensor, "B N channels"], pos: Positions, probe: Int[Tensor, "B"]
    ) -> Float[Tensor, "B classes"]:
        """Compute the logits of one token per sample.

        Args:
            x: tokens ``(B, N, channels)``.
            pos: positions of the N tokens.
            probe: index ``(B,)`` of the token to read out in each sample; ignored with ``read_out="last"``.

        Returns:
            Logits ``(B, classes)``.
        """
        schemes, prepared, pairs = self._prepare(pos)
        y, last = self.tokens(x), len(self.blocks) - 1
        read = probe if self.config.read_out == "probe" else torch.full_like(probe, x.shape[1] - 1)
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            which = self.scheme_of[layer]
            scheme, where, pair = schemes[which], prepared[which], pairs[which]
            y = self._embedded(y, layer, scheme, where)
            if layer == last and "mix" not in scheme.claims.sites and not scheme.draws:  # it would draw twice
                return self.head(self.norm(block.read(y, scheme, pos, where, read)))
            y = block(y, scheme, where, pair)
        return self.head(self.norm(y[torch.arange(len(y), device=y.device), read]))

    @torch.no_grad()
    def embedding_scale(self, x: Float[Tensor, "B N channels"], pos: Positions) -> float | None:
        """Measure the size of the embedding rows beside that of the tokens, where the first block adds them.

        Args:
            x: tokens ``(B, N, channels)``.
            pos: positions of the N tokens.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        return self._embedding_scale(self.tokens(x), pos)

    def attention_maps(self, x: Float[Tensor, "B N channels"], pos: Positions) -> Float[Tensor, "layers B H N N"]:
        """Compute the attention maps ``softmax(q k^T / sqrt(D) + bias)`` of every layer, in the model's present mode.

        ``forward`` uses the same weights. In the last layer it uses only the row of the token that is read out.

        Args:
            x: tokens ``(B, N, channels)``.
            pos: positions of the N tokens.

        Returns:
            Attention weights ``(layers, B, H, N, N)``, queries before keys.
        """
        schemes, prepared, pairs = self._prepare(pos)
        y, maps = self.tokens(x), []
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            which = self.scheme_of[layer]
            scheme, where, pair = schemes[which], prepared[which], pairs[which]
            y = self._embedded(y, layer, scheme, where)
            maps.append(block.weights(y, scheme, where, pair))
            if layer + 1 < len(blocks):
                y = block(y, scheme, where, pair)
        return torch.stack(maps)


class Block(nn.Module):
    """Encoder block: attention and feed-forward, each with its residual and layer norm."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim, self.config = config.dim, config
        self.qkv = nn.Linear(dim, 3 * dim, bias=config.projection_bias)
        bound = config.qkv_scale / math.sqrt(dim)
        nn.init.uniform_(self.qkv.weight, -bound, bound)
        if config.projection_bias:
            nn.init.zeros_(self.qkv.bias)
        self.out = nn.Linear(dim, dim, bias=config.projection_bias) if config.output_projection else nn.Identity()
        if isinstance(self.out, nn.Linear) and config.projection_bias:
            nn.init.zeros_(self.out.bias)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, config.hidden), nn.Linear(config.hidden, dim)

    def forward(self, z: Tensor, scheme: Scheme, where: Where, pair: Pair) -> Tensor:
        """Compute the block's output ``(B, N, dim)`` from ``z (B, N, dim)`` and the scheme's prepared positions."""
        x = self.norm1(z) if self.config.norm == "pre" else z
        q, k, v = self._heads(linear(x, self.qkv.weight, self.qkv.bias), 3)
        a = attend(q, k, v, scheme, where, where, pair, kept=scheme.keep(x, where))
        y = self._after(z, a.transpose(1, 2).flatten(2))
        return scheme.mix(y, where)

    def weights(self, z: Tensor, scheme: Scheme, where: Where, pair: Pair) -> Float[Tensor, "B H N N"]:
        """Return the attention weights that ``forward`` uses."""
        x = self.norm1(z) if self.config.norm == "pre" else z
        dim, bias = self.config.dim, self.qkv.bias
        q, k = self._heads(linear(x, self.qkv.weight[: 2 * dim], _cut(bias, 0, 2 * dim)), 2)
        q = scheme.transform(q, where, "q") / math.sqrt(self.config.head_dim)
        k = scheme.transform(k, where, "k")
        return attention_weights(q, k, scheme, pair, kept=scheme.keep(x, where))

    def read(self, z: Tensor, scheme: Scheme, pos: Positions, where: Where, index: Tensor) -> Tensor:
        """Return ``forward`` at the token ``index (B,)`` of each sample, ``(B, dim)``, without the other tokens."""
        x = self.norm1(z) if self.config.norm == "pre" else z
        row = torch.arange(len(z), device=z.device)
        z_read = z[row, index]
        x_read = self.norm1(z_read) if self.config.norm == "pre" else z_read
        where_q = pair = None
        if scheme.claims.sites - {"embed", "mix"}:  # a scheme that acts in attention needs the query's position
            where_q = scheme.prepare(pos.take(index))
            pair = scheme.relate(where_q, where)
        dim, weight, bias = self.config.dim, self.qkv.weight, self.qkv.bias
        if scheme.claims.sites & {"k", "bias", "v"}:
            (q,) = self._heads(linear(x_read, weight[:dim], _cut(bias, 0, dim))[:, None], 1)
            k, v = self._heads(linear(x, weight[dim:], _cut(bias, dim, 3 * dim)), 2)
            a = attend(q, k, v, scheme, where_q, where, pair, kept=scheme.keep(x, where))
        else:
            a = self._attend_folded(x_read, x, scheme, where_q, pair)
        return self._after(z_read, a.flatten(1))

    def some(self, z: Tensor, scheme: Scheme, pos: Positions, where: Where, index: Tensor) -> Tensor:
        """Return ``forward`` at the tokens ``index (B, M)`` of each sample, ``(B, M, dim)``.

        Queries and feed-forwards of the other tokens are not computed.
        """
        x = self.norm1(z) if self.config.norm == "pre" else z
        rows = index + torch.arange(len(z), device=z.device)[:, None] * z.shape[1]
        z_some, x_some = (t.flatten(0, 1)[rows] for t in (z, x))
        where_q, pair = where, None  # not used by a scheme that does not act in attention
        if scheme.claims.sites - {"embed", "mix"}:
            where_q = scheme.prepare(pos.take(index))
            pair = scheme.relate(where_q, where)
        dim, weight, bias = self.config.dim, self.qkv.weight, self.qkv.bias
        (q,) = self._heads(linear(x_some, weight[:dim], _cut(bias, 0, dim)), 1)
        k, v = self._heads(linear(x, weight[dim:], _cut(bias, dim, 3 * dim)), 2)
        a = attend(q, k, v, scheme, where_q, where, pair, kept=scheme.keep(x, where))
        return self._after(z_some, a.transpose(1, 2).flatten(2))

    def _attend_folded(self, x_read: Tensor, x: Tensor, scheme: Scheme, where_q: Where, pair: Pair) -> Tensor:
        """Attend with one query per sample, without computing keys and values.

        It uses ``q . (W_K x_j) = (W_K^T q) . x_j`` and ``sum_j w_j W_V x_j = W_V sum_j w_j x_j``. The scheme must leave
        keys and values unchanged. The key bias adds one constant to all logits of a query, so softmax cancels it.
        """
        dim, heads, head_dim = self.config.dim, self.config.heads, self.config.head_dim
        to_query, to_key, to_value = self.qkv.weight.split(dim)
        of_query, _, of_value = (None,) * 3 if self.qkv.bias is None else self.qkv.bias.split(dim)
        q = functional.linear(x_read, to_query, of_query).view(-1, heads, 1, head_dim)
        if where_q is not None:
            q = scheme.transform(q, where_q, "q")
        q = q.squeeze(2).transpose(0, 1)
        q = torch.bmm(q, to_key.view(heads, head_dim, dim)).transpose(0, 1)
        logits = torch.baddbmm(q.new_zeros(1, 1, 1), q, x.transpose(1, 2), beta=0, alpha=1 / math.sqrt(head_dim))
        mask = scheme.mask(pair)
        if mask is not None:
            logits = logits.masked_fill(~mask.squeeze(-2), -torch.inf)
        weights = logits.softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(~mask.squeeze(-2), 0)  # zeros for a query without keys, as in attend
        mean_input = torch.bmm(weights, x).transpose(0, 1)
        to_value = to_value.view(heads, head_dim, dim).transpose(1, 2)
        if of_value is None:
            values = torch.bmm(mean_input, to_value)
        else:
            values = torch.baddbmm(of_value.view(heads, 1, head_dim), mean_input, to_value)
        values = values.transpose(0, 1)[:, :, None]
        extra = scheme.value_bias(weights[:, :, None], pair)
        values = values if extra is None else values + extra
        return values if where_q is None else scheme.transform(values, where_q, "o")

    def _heads(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Split ``(B, N, parts * dim)`` into ``parts`` tensors ``(B, H, N, D)``."""
        shape = (self.config.heads, self.config.head_dim)
        return tuple(part.unflatten(-1, shape).transpose(1, 2) for part in x.split(self.config.dim, -1))

    def _after(self, z: Tensor, a: Tensor) -> Tensor:
        post = self.config.norm == "post"
        u = z + (linear(a, self.out.weight, self.out.bias) if isinstance(self.out, nn.Linear) else a)
        u = self.norm1(u) if post else u
        up, down = (self.up.weight, self.up.bias), (self.down.weight, self.down.bias)
        f = feed_forward(u if post else self.norm2(u), up, down, self.config.activation)
        y = u + (ACTIVATIONS[self.config.activation](f) if self.config.second_activation else f)
        return self.norm2(y) if post else y


def _cut(bias: Tensor | None, start: int, stop: int) -> Tensor | None:
    return None if bias is None else bias[start:stop]
