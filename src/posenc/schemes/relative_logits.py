"""RelativeLogits: the relative logits of Inkling; each query mixes learned profiles of bias by distance.

    r_i = W_h x_i in R^R,      b_ij = sum_r r_ir B[r, p_i - p_j]  for 0 <= p_i - p_j < E, else 0

x_i is the input of the block at the query, so each token chooses how far it looks. B is shared by the heads.

Source: ``InklingRelativeLogits`` and ``InklingAttention`` of transformers 5.23 (2026), where R = 16 and E = 1024; E is
the window in its sliding layers. The idea of a bias from the query's input: Shaw et al. 2018, arXiv 1803.02155.

Conventions:
- The bias is added to the logits as they are after scaling.
- r is kept for each token (``keep``), because attention gets x at the keys. The row of a query is that of the key at
  its own position that it may attend to, itself in causal attention; of several keys the mean. A query without such a
  key gets no bias.
- Inkling's full layers multiply queries and bias by a temperature, if the configuration has one (the default has none):
  ``RelativeLogits(.., temperature=Temperature(L, smooth=True))`` does both. Its convolutions and its norm of q and k
  are the model's.
- B starts from N(0, 0.02^2), W as torch's linear layers.
- Positions are whole numbers. Packed documents are separate.

There is no FlexAttention form: a score_mod sees one pair, and a query's row has to be looked up.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.kernels.shape_checks import require_kept
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head
from posenc.schemes.temperature import Temperature
from posenc.whole_numbers import are_whole

SIGMA = 0.02
"""Standard deviation of the initial profiles, ``initializer_range`` in transformers."""


class RelativeLogits(PairScheme):
    """Relative logits of Inkling: a bias by distance, from profiles that the query's input mixes.

        s_ij = q_i . k_j + (W_h x_i) . B[:, p_i - p_j]   for 0 <= p_i - p_j < E

    Args:
        dim: Width of the input x of the block.
        heads: Number of query heads.
        distances: Number E of distances with a bias, from 0. Default: 1024.
        rank: Number R of profiles. Default: 16.
        temperature: Factor on queries and bias by position. Default: none.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If ``dim``, ``heads``, ``distances`` or ``rank`` is not a whole number of at least 1, or
            ``temperature`` is not a Temperature.

    Example:
        >>> import torch
        >>> from posenc import RelativeLogits, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> x = torch.randn(1, 10, 32)  # the input of the block
        >>> scheme = RelativeLogits(dim=32, heads=2, distances=8)
        >>> attention(q, k, v, scheme=scheme, q_pos=sequence(10), x=x, causal=True).shape
        torch.Size([1, 2, 10, 16])

    References:
        Shaw, Uszkoreit and Vaswani 2018, "Self-Attention with Relative Position Representations", arXiv 1803.02155;
        Inkling in transformers 5.23, ``InklingRelativeLogits``.
    """

    cite = """@inproceedings{shaw2018self,
  title={Self-Attention with Relative Position Representations},
  author={Shaw, Peter and Uszkoreit, Jakob and Vaswani, Ashish},
  booktitle={NAACL}, year={2018}, note={arXiv:1803.02155}}"""
    examples = (
        {"dim": 12, "heads": 4, "distances": 9, "rank": 3},
        {"dim": 12, "heads": 1, "distances": 5, "rank": 2, "temperature": Temperature(4.0, smooth=True)},
    )
    bias_reads = frozenset({"kept"})

    weight: nn.Parameter
    profiles: nn.Parameter

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        distances: int = 1024,
        rank: int = 16,
        temperature: Temperature | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        if not are_whole(dim, heads, distances, rank):
            raise ValueError(
                "RelativeLogits needs dim, heads, distances and rank that are whole numbers of at least 1; got "
                f"dim={dim!r}, heads={heads!r}, distances={distances!r}, rank={rank!r}. Try distances=1024, rank=16."
            )
        if not isinstance(temperature, Temperature | None):
            raise ValueError(f"`temperature` is a Temperature or None; got {temperature!r}. Try Temperature(8192).")
        self.weight = nn.Parameter(torch.empty(heads, rank, dim))
        self.profiles = nn.Parameter(torch.empty(rank, distances))
        self.temperature = temperature
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact" if temperature is None else "none",
            isometric=temperature is None,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias"} if temperature is None else {"bias", "q"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the weights; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        bound = self.weight.shape[-1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.normal_(self.profiles, std=SIGMA, generator=generator)

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    @override
    def keep(self, x: Tensor, where: Positions) -> Tensor:
        """Return ``r = W_h x`` of each token, ``(B, h, K, R)``."""
        if x.shape[-1] != self.weight.shape[-1]:
            raise ValueError(
                f"this RelativeLogits reads rows of width {self.weight.shape[-1]}; the block's input has "
                f"{x.shape[-1]}. Build it with dim={x.shape[-1]}."
            )
        rows = functional.linear(x, self.weight.to(x.dtype).flatten(0, 1))
        return rows.unflatten(-1, self.weight.shape[:2]).movedim(-2, -3)

    @override
    def transform(self, x: Tensor, where: Positions, site: Literal["q", "k", "v", "o"]) -> Tensor:
        given = self.temperature
        return x if given is None or site != "q" else given.transform(x, given.prepare(where), site)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        kept = require_kept(kept, "RelativeLogits", "queries")
        back = -pair.distance()  # (Q, K), or (B, 1, Q, K)
        own = (back == 0) if attn_mask is None else (back == 0) & attn_mask
        placed = pair.placed()
        # The row of each query is looked up by a product, which also works where there is no key.
        own = (own if placed is None else own & placed).to(kept.dtype)
        rows = (own / own.sum(-1, keepdim=True).clamp(min=1)) @ per_head(kept, q, "RelativeLogits")
        by_distance = rows @ self.profiles.to(rows.dtype)
        extent = self.profiles.shape[1]
        index = back.clamp(0, extent - 1).long().expand(*by_distance.shape[:-1], back.shape[-1])
        bias = by_distance.gather(-1, index).masked_fill((back < 0) | (back >= extent), 0)
        if self.temperature is not None:
            factor = self.temperature.prepare(pair.q)[..., None]
            bias = bias * (factor if factor.dim() == 2 else factor[:, None])
        return pair.neutral(bias)

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return x if self.temperature is None else self.temperature.define_transform(x, p, site, head)

    @override
    def define_bias(self, at: At) -> Tensor:
        assert at.x is not None
        back = at.q_pos[at.i, 0] - at.k_pos[at.j, 0]
        own = [n for n in range(len(at.k)) if at.k_pos[n, 0] == at.q_pos[at.i, 0] and bool(at.attn_mask[at.i, n])]
        if not own or not 0 <= back < self.profiles.shape[1]:
            return at.q.new_zeros(())
        rows = self.weight[at.head.among(self.heads)] @ at.x[own].mean(0)
        bias = rows @ self.profiles[:, int(back)]
        one = torch.ones_like(bias)
        return bias if self.temperature is None else bias * self.define_transform(one, at.q_pos[at.i], "q", at.head)
