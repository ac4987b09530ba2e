"""Small causal language model: pre-norm transformer with grouped-query attention and one scheme per layer.

    z_0 = sqrt(dim) E[token] (+ embedding rows of the scheme);   x = LN z
    u = z + W_O attention(W_Q x, W_K x, W_V x);        z' = u + W_2 gelu(W_1 LN u + b_1) + b_2
    logits = W LN z_depth,   W = E if the weights are tied

Sources: Vaswani et al. 2017, arXiv 1706.03762 (section 3.4: token embeddings are multiplied by sqrt(dim)); Radford et
al. 2019, GPT-2 (pre-norm, smaller initial weights of the residual projections); Ainslie et al. 2023, arXiv 2305.13245
(grouped-query attention). Conventions: layer norm, because it is one fused operation on every device; biases in the
feed-forward only.

The mask is causal by the order of tokens: token i attends to tokens up to i, whatever their positions. A token without
a place is padding, and no token attends to it. Several documents can be packed into one sample; tokens then attend
within their document only. A document is a run of tokens with one document number. If a number occurs again later, it
starts a new document.

With a rule of segments, the default positions are (segment, place in it), read off the tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc.attention import attend
from posenc.kernels.attention_mask import AttentionMask, document_starts
from posenc.kernels.linear import feed_forward, linear
from posenc.models.cache import LayerCache
from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.segment_rule import SegmentRule
from posenc.models.sites import PreparedScheme, refuse_width, without_repetition
from posenc.positions import Positions, readable, sequence
from posenc.scheme import Scheme

SIGMA = 0.02
"""Initial standard deviation of an untied head's weights. At first all tokens are then about equally likely, whereas a
tied head predicts the last token again."""


class LanguageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a language model, without its scheme.

    Attributes:
        vocabulary: number of different tokens.
        dim: model width.
        depth: number of blocks.
        heads: number of query heads.
        key_heads: number of key and value heads; it divides ``heads``.
        hidden: width of the feed-forward's hidden layer.
        tied: whether the token embedding and the output head share one matrix. Small models learn faster with two.
        placement: where the scheme's rows are added.
        window: number of tokens that a token attends to, itself included; None for all earlier tokens.
        segments: rule of the positions of a scheme that reads segments, as BiPE; unset for positions 0, 1, 2, ..
    """

    vocabulary: int
    dim: int
    depth: int
    heads: int
    key_heads: int
    hidden: int
    tied: bool = True
    placement: Literal["input", "every_block"] = "input"
    window: int | None = None
    segments: SegmentRule | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if min(self.vocabulary, self.dim, self.depth, self.heads, self.key_heads, self.hidden, self.window or 1) < 1:
            raise ValueError(
                "a language model needs vocabulary, dim, depth, heads, key_heads, hidden and window of at least 1."
            )
        if self.dim % self.heads or self.heads % self.key_heads:
            raise ValueError(
                f"{self.heads} heads share a width of {self.dim}, and {self.key_heads} heads of keys are shared by "
                "them: the first must divide the width, and the second the first."
            )
        if self.segments and max(self.segments.separators) >= self.vocabulary:
            raise ValueError(
                f"segments end at tokens of the vocabulary, 0 to {self.vocabulary - 1}; got "
                f"{max(self.segments.separators)}. Use the numbers of the model's tokens."
            )

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.dim // self.heads

    def positions(self, tokens: Int[Tensor, "B N"], documents: Int[Tensor, "*b N"] | None = None) -> Positions:
        """Return the default positions of tokens.

        Args:
            tokens: ``(B, N)``.
            documents: document number of each token; None for one document.

        Returns:
            Positions of the N tokens.

        Raises:
            ValueError: a rule of segments and documents.
        """
        if self.segments:
            refuse_documents(documents)
            return self.segments.positions(tokens)
        if documents is None:
            return sequence(tokens.shape[-1], device=tokens.device)
        return restarting_positions(documents)


class LanguageModel(nn.Module):
    """Causal language model from tokens ``(B, N)`` to logits of the next tokens ``(B, N, vocabulary)``.

    Args:
        config: sizes and options.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.

    Raises:
        ValueError: a scheme of another width, or one that mixes tokens with their neighbors.
    """

    def __init__(self, config: LanguageConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.dim)
        nn.init.normal_(self.tokens.weight, std=config.dim**-0.5)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        else:
            nn.init.normal_(self.head.weight, std=SIGMA)
        self.place(schemes)  # last, so that models of one seed have equal weights outside their schemes

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Set the scheme of every layer.

        Args:
            schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.

        Raises:
            ValueError: a scheme of another width, or one that mixes tokens with their neighbors, because neighbors
                include later tokens. The model is then unchanged.
        """
        unique, scheme_of = without_repetition([schemes(layer) for layer in range(self.config.depth)])
        for scheme in unique:
            refuse_width(scheme, dim=self.config.dim, head_dim=self.config.head_dim, model="language model")
            if "mix" in scheme.claims.sites:
                raise ValueError(
                    f"{type(scheme).__name__} mixes a token with those around it, and a causal model must not see what "
                    "comes later. Choose a scheme that acts elsewhere: posenc list"
                )
        self.schemes = nn.ModuleList(unique).train(self.training)
        self.scheme_of = scheme_of

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        pos: Positions | None = None,
        *,
        documents: Int[Tensor, "*b N"] | None = None,
    ) -> Float[Tensor, "B N vocabulary"]:
        """Compute the logits of the next tokens.

        Args:
            tokens: ``(B, N)``.
            pos: positions of the N tokens; by default 0, 1, 2, .. from the start of every document, or those of the
                rule of segments.
            documents: document number of each token, ``(N,)`` or ``(B, N)``, for packed documents.

        Returns:
            Logits ``(B, N, vocabulary)``.

        Raises:
            ValueError: positions or documents of another number of tokens or samples, or documents without positions
                for a model with a rule of segments.
        """
        refuse_unfit(self.config, tokens, pos, documents)
        pos = self.config.positions(tokens, documents) if pos is None else pos
        document = None if documents is None else document_starts(documents).cumsum(-1)
        attn_mask = AttentionMask(pos.count, pos.count, document, pos.placed, self.config.window)
        return self.through(tokens, [PreparedScheme.at(scheme, pos, None) for scheme in self.unique_schemes], attn_mask)

    def through(
        self,
        tokens: Tensor,
        at: Sequence[PreparedScheme],
        attn_mask: AttentionMask,
        held: Sequence[LayerCache] | None = None,
    ) -> Float[Tensor, "B N vocabulary"]:
        """Compute ``forward`` on prepared positions.

        Args:
            tokens: ``(B, N)``.
            at: prepared positions of each scheme in ``unique_schemes``.
            attn_mask: the attention mask.
            held: the cache of each layer, to which the tokens' keys and values are appended; None without a cache.

        Returns:
            Logits ``(B, N, vocabulary)``.
        """
        z = self.tokens(tokens) * math.sqrt(self.config.dim)
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            place = at[self.scheme_of[layer]]
            if "embed" in place.scheme.claims.sites and (layer == 0 or self.config.placement == "every_block"):
                z = z + place.scheme.embed(place.queries).to(z.dtype)
            z = block(z, place, attn_mask, None if held is None else held[layer])
        return linear(self.norm(z), self.head.weight)

    @torch.no_grad()
    def embedding_scale(self, tokens: Int[Tensor, "B N"], pos: Positions | None = None) -> float | None:
        """Measure the size of the embedding rows beside that of the tokens, where the first block adds them.

        Args:
            tokens: token ids ``(B, N)``.
            pos: positions of the tokens; None for the default ones.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        pos = self.config.positions(tokens) if pos is None else pos
        rows = initial_rows(self.unique_schemes[self.scheme_of[0]], pos)
        return None if rows is None else embedding_scale(rows, self.tokens(tokens) * math.sqrt(self.config.dim))

    @property
    def unique_schemes(self) -> list[Any]:
        """Schemes without repetition; layer l has ``unique_schemes[scheme_of[l]]``."""
        return list(self.schemes)


class Block(nn.Module):
    """Pre-norm block: attention and feed-forward, each with a layer norm before it and a residual."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        dim, self.config = config.dim, config
        self.widths = (dim, config.key_heads * config.head_dim, config.key_heads * config.head_dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, sum(self.widths), bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, config.hidden), nn.Linear(config.hidden, dim)
        with torch.no_grad():
            for last in (self.out, self.down):  # the residual sums 2 * depth outputs; this keeps its variance at one
                last.weight.div_(math.sqrt(2 * config.depth))

    def forward(
        self, z: Float[Tensor, "B N dim"], at: PreparedScheme, attn_mask: AttentionMask, held: LayerCache | None = None
    ) -> Tensor:
        """Compute the block's output ``(B, N, dim)``, and append its keys and values to the layer's cache ``held``."""
        x, scheme = self.norm1(z), at.scheme
        parts = linear(x, self.qkv.weight).split(self.widths, -1)
        q, k, v = (part.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2) for part in parts)
        kept = scheme.keep(x, at.queries)
        if held is not None:
            k, v = scheme.transform(k, at.queries, "k"), scheme.transform(v, at.queries, "v")
            k, v, kept = held.extended(k, v, kept)
        a = attend(
            q, k, v, scheme, at.queries, at.keys, at.pair,
            kept=kept, mask=attn_mask, keys_ready=held is not None, made=(at.made, self),
        )  # fmt: skip
        u = z + linear(a.transpose(1, 2).flatten(2), self.out.weight)
        up, down = (self.up.weight, self.up.bias), (self.down.weight, self.down.bias)
        return u + feed_forward(self.norm2(u), up, down, "gelu")


def restarting_positions(documents: Int[Tensor, "*b N"]) -> Positions:
    """Return positions 0, 1, 2, .. that restart at every new document.

    Args:
        documents: document numbers ``(N,)`` or ``(B, N)``.

    Returns:
        Positions of N tokens on one axis.
    """
    at = torch.arange(documents.shape[-1], device=documents.device).expand(documents.shape)
    return Positions((at - at.where(document_starts(documents), 0).cummax(-1).values)[..., None])


def left_padded(texts: Sequence[Int[Tensor, "_"]], *, filler: int = 0) -> tuple[Int[Tensor, "B N"], Positions]:
    """Pad texts of different lengths on the left to one batch, for generation.

    Args:
        texts: token tensors ``(N_i,)``.
        filler: token number of the padding.

    Returns:
        Tokens ``(B, N)`` with N the longest length, and positions that count from 0 at the start of each text. Padding
        has no position, so no token attends to it.

    Raises:
        ValueError: There is no text, or one is no tensor or empty.
    """
    if not texts or not all(isinstance(text, Tensor) and text.dim() == 1 and len(text) for text in texts):
        raise ValueError("texts are a list of tensors (N,) with a token or more each. Write [torch.tensor([5, 8])].")
    longest = max(len(text) for text in texts)
    short = torch.tensor([longest - len(text) for text in texts])[:, None]
    tokens = torch.stack([functional.pad(text, (longest - len(text), 0), value=filler) for text in texts])
    at = torch.arange(longest) - short
    return tokens, Positions(at.clamp(min=0)[..., None], at >= 0).to(tokens.device)


def refuse_documents(documents: Tensor | None) -> None:
    """Raise ValueError for documents whose positions a rule of segments would count."""
    if documents is not None:
        raise ValueError(
            "the segments of packed documents are not counted by a model. Pass pos=posenc.segments(..) for each, and "
            "read one document at a time to continue it."
        )


def refuse_unfit(config: LanguageConfig, tokens: Tensor, pos: Positions | None, documents: Tensor | None) -> None:
    """Check the inputs of a language model.

    Args:
        config: the model's configuration.
        tokens: ``(B, N)``.
        pos: positions of the tokens, or None.
        documents: document numbers of the tokens, or None.

    Raises:
        ValueError: a token outside the vocabulary, or positions or documents of another number of tokens or samples.
    """
    if tokens.dim() != 2:
        raise ValueError(f"tokens have shape (B, N), samples by tokens; got {tuple(tokens.shape)}. Write tokens[None]?")
    if tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"tokens are numbers in int64 or int32; got {tokens.dtype}. Write tokens.long().")
    count = tokens.shape[1]
    places = count if pos is None else pos.count
    numbers = count if documents is None else documents.shape[-1]
    if places != count or numbers != count:
        other = f"{places} positions" if places != count else f"{numbers} document numbers"
        raise ValueError(f"there are {count} tokens per sample and {other}. Give one for each token.")
    coords, placed = (None, None) if pos is None else (pos.coords[..., 0], pos.placed)
    for name, t in (("positions", coords), ("`placed`", placed), ("`documents`", documents)):
        if t is not None and t.dim() == 2 and len(t) not in (1, len(tokens)):
            raise ValueError(f"there are {len(tokens)} samples and {name} of {len(t)}. Give one row, or {len(tokens)}.")
    if tokens.numel() and tokens.device.type == "cpu" and readable(tokens):
        low, high = (int(end) for end in tokens.aminmax())
        if low < 0 or high >= config.vocabulary:
            raise ValueError(
                f"the vocabulary has tokens 0 to {config.vocabulary - 1}; got {low if low < 0 else high}. Use the "
                "vocabulary that the model was built with."
            )
