"""A small causal language model: pre-norm, grouped-query heads, any scheme, or another one in each layer.

    z_0 = sqrt(dim) E[token] (+ rows of the scheme);   x = LN z
    u = z + W_O attention(W_Q x, W_K x, W_V x);        z' = u + W_2 gelu(W_1 LN u + b_1) + b_2
    logits = W LN z_depth,   W = E where they are tied

Sources: Vaswani et al. 2017, arXiv 1706.03762 (section 3.4: tokens count sqrt(dim) times beside positions); pre-norm
and the smaller residual projections of Radford et al. 2019 (GPT-2); Ainslie et al. 2023, arXiv 2305.13245 (grouped
queries). Conventions: layer norm, which is one fused operation on every device; no biases but in the feed-forward.

Causal by the order of tokens: token i sees tokens up to i, whatever their positions. A token without a place is
padding, which nobody sees. Documents that are packed into one row see themselves alone; a document is a run of tokens
of one number, and a number that comes back is another one.
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
from posenc.kernels.linear import feed_forward, linear
from posenc.kernels.seen import Seen, begins
from posenc.models.cache import Held
from posenc.models.sites import Placed, refuse_width, shared
from posenc.positions import Positions, readable, sequence
from posenc.scheme import Scheme

SIGMA = 0.02
"""Of a head of its own: at first every token is as likely, where a tied one says the last token again."""


class LanguageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that shapes a language model but its scheme.

    vocabulary: how many different tokens there are. heads, key_heads: of queries and of keys; the second divides the
    first. hidden: of the feed-forward. tied: whether one matrix reads and says tokens; small models learn faster with
    two. placement: where ``embed`` goes. window: how many tokens a token sees, itself among them; None for all before.
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

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


class LanguageModel(nn.Module):
    """Tokens ``(B, N)`` to logits of the next ones ``(B, N, vocabulary)``.

    schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.
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
        self.place(schemes)  # last: models of one seed differ in their schemes alone

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Gives every layer its scheme, in the place of what was there. Raises ValueError, with the model as it was,
        for one of another width, and for one that mixes a token with its neighbours, later ones among them."""
        unique, scheme_of = shared([schemes(layer) for layer in range(self.config.depth)])
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
        """pos: of the tokens; in a row from 0 by default, anew in every document. documents: which one each token is
        of, ``(N,)`` or ``(B, N)``, anew in every run of one number. Raises ValueError where they are not of as many
        tokens and samples."""
        refuse_unfit(self.config, tokens, pos, documents)
        if pos is None:
            pos = sequence(tokens.shape[-1], device=tokens.device) if documents is None else restarting(documents)
        document = None if documents is None else begins(documents).cumsum(-1)
        seen = Seen(pos.count, pos.count, document, pos.placed, self.config.window)
        return self.through(tokens, [Placed.at(scheme, pos, None) for scheme in self.unique_schemes], seen)

    def through(
        self, tokens: Tensor, at: Sequence[Placed], seen: Seen, held: Sequence[Held] | None = None
    ) -> Float[Tensor, "B N vocabulary"]:
        """``forward`` on prepared positions: at: each scheme's. held: of each layer, the keys before these tokens,
        which theirs are added to."""
        z = self.tokens(tokens) * math.sqrt(self.config.dim)
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            place = at[self.scheme_of[layer]]
            if "embed" in place.scheme.claims.sites and (layer == 0 or self.config.placement == "every_block"):
                z = z + place.scheme.embed(place.queries).to(z.dtype)
            z = block(z, place, seen, None if held is None else held[layer])
        return linear(self.norm(z), self.head.weight)

    @property
    def unique_schemes(self) -> list[Any]:
        """The schemes without repetition; layer l has the one of number ``scheme_of[l]``."""
        return list(self.schemes)


class Block(nn.Module):
    """Attention and feed-forward, each with a norm before it and its residual around it."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        dim, self.config = config.dim, config
        self.widths = (dim, config.key_heads * config.head_dim, config.key_heads * config.head_dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, sum(self.widths), bias=False), nn.Linear(dim, dim, bias=False)
        self.up, self.down = nn.Linear(dim, config.hidden), nn.Linear(config.hidden, dim)
        with torch.no_grad():
            for last in (self.out, self.down):  # 2 depth sums along the residual stay as large as one
                last.weight.div_(math.sqrt(2 * config.depth))

    def forward(self, z: Float[Tensor, "B N dim"], at: Placed, seen: Seen, held: Held | None = None) -> Tensor:
        x, scheme = self.norm1(z), at.scheme
        parts = linear(x, self.qkv.weight).split(self.widths, -1)
        q, k, v = (part.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2) for part in parts)
        kept = scheme.keep(x, at.queries)
        if held is not None:
            k, v = scheme.transform(k, at.queries, "k"), scheme.transform(v, at.queries, "v")
            k, v, kept = held.extended(k, v, kept)
        a = attend(
            q, k, v, scheme, at.queries, at.keys, at.pair,
            kept=kept, mask=seen, keys_ready=held is not None, made=(at.made, self),
        )  # fmt: skip
        u = z + linear(a.transpose(1, 2).flatten(2), self.out.weight)
        up, down = (self.up.weight, self.up.bias), (self.down.weight, self.down.bias)
        return u + feed_forward(self.norm2(u), up, down, "gelu")


def restarting(documents: Int[Tensor, "*b N"]) -> Positions:
    """0, 1, 2, .. anew in every run of tokens of one document."""
    at = torch.arange(documents.shape[-1], device=documents.device).expand(documents.shape)
    return Positions((at - at.where(begins(documents), 0).cummax(-1).values)[..., None])


def left_padded(texts: Sequence[Int[Tensor, "_"]], *, filler: int = 0) -> tuple[Int[Tensor, "B N"], Positions]:
    """Texts of different lengths as one batch that ends together, so that all go on at once: tokens, and positions
    from 0 where each begins. What stands before it has no place, and is seen by nobody."""
    longest = max((len(text) for text in texts), default=0)
    short = torch.tensor([longest - len(text) for text in texts])[:, None]
    tokens = torch.stack([functional.pad(text, (longest - len(text), 0), value=filler) for text in texts])
    at = torch.arange(longest) - short
    return tokens, Positions(at.clamp(min=0)[..., None], at >= 0).to(tokens.device)


def refuse_unfit(config: LanguageConfig, tokens: Tensor, pos: Positions | None, documents: Tensor | None) -> None:
    """Raises ValueError for tokens of another vocabulary, and for positions or documents of other tokens."""
    if tokens.dim() != 2:
        raise ValueError(f"tokens have shape (B, N), samples by tokens; got {tuple(tokens.shape)}. Write tokens[None]?")
    count = tokens.shape[1]
    places = count if pos is None else pos.count
    numbers = count if documents is None else documents.shape[-1]
    if places != count or numbers != count:
        other = f"{places} positions" if places != count else f"{numbers} numbers of documents"
        raise ValueError(f"there are {count} tokens a sample and {other}. Give one for each token.")
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
