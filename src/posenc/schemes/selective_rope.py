"""Selective RoPE: rotation of queries and keys by angles that are read from the content of each token.

    s_nj = q_n^T R(a_nj) k_j,      a_nj,i = -T_i sum_{j < l <= n} phi_l,i,      T_i = theta^(-2 i / D)
    phi_l = conv(W y_l),           y_l = x_l, of which the part z of each head is z / (|z|^2 + 1e-6)^(1/2)

conv is a causal convolution of each channel over four tokens, W has a low rank. RoPE is phi = 1 for every token.

Source: Movahedi et al. 2025, arXiv 2511.17388. The formulas are read from the authors' module ``SelectiveRoPE`` (github
timurcarstensen/selective-rope, modules/rotary.py), with its defaults.

Conventions:
- It is a bias, ``s_nj - q_n . k_j``. Sums up to each token are subtracted, so pairs cost a product of rotated
  queries and keys.
- x is read once per token (``keep``): W y before the convolution. While decoding, the authors keep a running sum and
  the last inputs of the convolution; here the cache has W y of each token, so that a prefix can be shared and dropped.
  Each step sums over all of them, which takes 17 times as long as no positions at 4,096 tokens (docs/costs.md).
- Pairs are (i, i + D/2). theta is 500,000; the authors keep T fixed by default, and so does this.
- Tokens are ordered by positions, at one position as they are given. A token with ``placed=False`` turns nothing.
  Documents are keys that queries join. A window is refused, also in a ``Sum``, and so is another mask that hides an
  earlier token of a document (while ``torch.compile`` traces, the rows of such queries are NaN): the convolution reads
  tokens before it, which a query with cached keys does not have. ``ChunkedAttention`` ends documents and is possible.
- Build it for the number of key heads; query heads share them. The width of x is a multiple of it.
- The authors' options (a gate, a constant rotation exp(b) beside the content, a full rank) are not here. Angles are
  read from the input of the block, as in the authors' code.
- It is equal to the scalar definition and to a transcription of the authors' module, which needs Triton.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels import content_rotation as rotation
from posenc.kernels.householder import UndividedPairs, allowed_pairs
from posenc.kernels.pairs import Pairs
from posenc.kernels.shape_checks import require_kept
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head
from posenc.whole_numbers import are_whole

EPSILON = 1e-6
"""Constant under the root of the norm, as in the authors' code."""


class SelectiveRoPE(Scheme):
    """Selective RoPE: a causal bias from rotations by content, for positions on one axis.

        s_nj = q_n^T R(-T sum_{j < l <= n} conv(W y_l)) k_j

    Args:
        dim: Width of the input x of the block, ``(B, K, dim)``; a multiple of ``heads``.
        head_dim: Width D of a head, an even number.
        heads: Number of key heads.
        rank: Rank of W, at least 1. Default: 16.
        kernel: Width of the convolution in tokens. Default: 4.
        base: Base theta of the temperatures T. Default: 500,000.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If a size is not a whole number of at least 1, ``head_dim`` is odd, ``dim`` is no multiple of
            ``heads``, or ``base`` is not above 0 and finite.

    Example:
        >>> import torch
        >>> from posenc import SelectiveRoPE, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> x = torch.randn(1, 10, 32)  # the input of the block
        >>> attention(q, k, v, scheme=SelectiveRoPE(dim=32, head_dim=16, heads=2), q_pos=sequence(10), x=x).shape
        torch.Size([1, 2, 10, 16])

    References:
        Movahedi, Carstensen, Afzal, Hutter, Orvieto and Cevher 2025, "Selective Rotary Position Embedding", arXiv
        2511.17388.
    """

    cite = """@inproceedings{movahedi2026selective,
  title={Selective Rotary Position Embedding},
  author={Movahedi, Sajad and Carstensen, Timur and Afzal, Arshia and Hutter, Frank and Orvieto, Antonio and
          Cevher, Volkan},
  booktitle={ICLR}, year={2026}, note={arXiv:2511.17388}}"""
    earlier_tokens = "read"
    examples = (
        {"dim": 48, "head_dim": 12, "heads": 4, "rank": 5, "base": 50.0},
        {"dim": 48, "head_dim": 12, "heads": 1, "rank": 5, "kernel": 2},
    )

    def __init__(
        self, dim: int, head_dim: int, heads: int, *, rank: int = 16, kernel: int = 4, base: float = 500000.0,
        generator: torch.Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dim, self.head_dim, self.heads, self.base = dim, head_dim, heads, base
        whole = are_whole(dim, head_dim, heads, rank, kernel) and isinstance(base, int | float)
        if not whole or dim % heads or head_dim % 2 or not 0 < base < math.inf:
            raise ValueError(
                "SelectiveRoPE needs whole numbers of at least 1, an even head_dim, a dim that is a multiple of heads, "
                f"and a finite base > 0; got dim={dim!r}, head_dim={head_dim!r}, heads={heads!r}, rank={rank!r}, "
                f"kernel={kernel!r}, base={base!r}. Write SelectiveRoPE(dim=64, head_dim=16, heads=4)."
            )
        shapes = (rank, dim), (heads * head_dim // 2, rank), (heads, head_dim // 2, kernel)
        self.down, self.up, self.taps = (nn.Parameter(torch.empty(shape)) for shape in shapes)
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias", "mask"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the weights; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        for parameter in (self.down, self.up, self.taps):
            bound = parameter.shape[-1] ** -0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    @override
    def keep(self, x: Tensor, where: Positions) -> Tensor:
        """Return ``W y`` of each token, ``(B, h, K, head_dim / 2)``."""
        if x.shape[-1] != self.dim:
            raise ValueError(
                f"this SelectiveRoPE reads rows of width {self.dim}; the block's input has {x.shape[-1]}. "
                f"Build it with dim={x.shape[-1]}."
            )
        y = x.unflatten(-1, (self.heads, -1))
        y = (y * (y.square().sum(-1, keepdim=True) + EPSILON).rsqrt()).flatten(-2)
        rows = functional.linear(functional.linear(y, self.down.to(x.dtype)), self.up.to(x.dtype))
        return rows.unflatten(-1, (self.heads, -1)).movedim(-2, -3)

    @override
    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    @override
    def relate(self, where_q: Positions, where_k: Positions) -> UndividedPairs:
        return UndividedPairs(Pairs(where_q, where_k))

    @override
    def mask(self, pair: UndividedPairs) -> Tensor:
        return pair.of.before()

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: UndividedPairs, attn_mask: Tensor | None) -> Tensor:
        kept = require_kept(kept, "SelectiveRoPE")
        wide = torch.promote_types(torch.promote_types(q.dtype, kept.dtype), torch.float32)
        rows, taps = (per_head(t, q, "SelectiveRoPE").to(wide) for t in (kept, self.taps))
        seen = allowed_pairs(pair.of, attn_mask)
        order = rotation.key_order(pair.of, seen)
        hidden = rotation.hidden_queries(order, seen, "SelectiveRoPE")
        temperatures = self.base ** (-torch.arange(0, self.head_dim, 2, device=q.device, dtype=wide) / self.head_dim)
        turns = rotation.ordered_convolution(rotation.take_rows(rows, order.order), taps, order) * temperatures
        return pair.of.neutral(rotation.rotated_difference(q, k, turns, order, seen, hidden))

    @override
    def define_bias(self, at: At) -> Tensor:
        assert at.x is not None
        head, p_i = at.head.among(self.heads), at.q_pos[at.i, 0]
        up = self.up.unflatten(0, (self.heads, -1))[head]
        allowed = [n for n in range(len(at.k)) if bool(at.attn_mask[at.i, n]) and bool(at.k_pos[n, 0] <= p_i)]
        allowed.sort(key=lambda n: float(at.k_pos[n, 0].detach()))
        angle = torch.zeros_like(up[:, 0])
        for place in range(allowed.index(at.j) + 1 if at.j in allowed else len(allowed), len(allowed)):
            for back in range(min(self.taps.shape[2], place + 1)):
                parts = at.x[allowed[place - back]].unflatten(0, (self.heads, -1))
                y = torch.cat([part / torch.sqrt(part @ part + EPSILON) for part in parts])
                angle = angle - self.taps[head, :, -1 - back] * (up @ (self.down @ y))
        q, (low, high), half, turned = at.q[at.i], at.k[at.j].chunk(2), len(angle), at.q.new_zeros(())
        for i in range(half):
            a = angle[i] * self.base ** (-2 * i / self.head_dim)
            turned = turned + q[i] * (low[i] * torch.cos(a) - high[i] * torch.sin(a))
            turned = turned + q[half + i] * (low[i] * torch.sin(a) + high[i] * torch.cos(a))
        return turned - q @ at.k[at.j]

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
