"""PaTH: position encoding by accumulating Householder-like transformations, one from the content of each token.

    s_ij = q_i^T H_i H_{i-1} .. H_{j+1} k_j,       H_l = I - beta_l w_l w_l^T          (section 2)
    w_l = c_l / (|c_l|^2 + 1e-6)^(1/2),  c = silu(conv(W x)),  beta_l = 2 sigmoid(u . x_l + b)

conv is a causal convolution of each channel over three tokens, W has a low rank. Between key and query a head can thus
reflect or erase directions, which is what tracking a state needs.

Source: Yang et al. 2025, arXiv 2505.16381, and the authors' layer ``PaTHAttention`` (github
fla-org/flash-linear-attention).

Conventions:
- It is a bias, ``s_ij - q_i . k_j``, computed for all pairs by one triangular solve: O(K^2 D + K^3) work and K^2
  numbers per head, for texts of some thousand tokens. The authors have a kernel for a GPU.
- x is read once per token (``keep``): W x before the convolution, and the logit of beta. While decoding, the authors
  transform all cached keys at each token; here keys stay, so a prefix can be shared and dropped.
- Tokens are ordered by positions, at one position as they are given. Keys that no query may attend to together are of
  different documents. A query that attends to a key needs all earlier ones of its document. So a window is refused in a
  ``Sum``, and so is a mask that hides some of them (while ``torch.compile`` traces, the rows of such queries are NaN).
  ``ChunkedAttention`` ends documents and is possible.
- Build it for the number of key heads; query heads share them. The variant of the paper with a forget gate (PaTH-FoX)
  is not here: a ``Sum`` with ``FoX`` is refused, because a cache stores one value of ``keep`` per key.
- Weights start from N(0, 0.02^2) and b from 0, so beta starts near 1: a projection where |c| is far above
  0.001, as in wide models. A token with ``placed=False`` has
  ``H = I``.
- It is equal to the scalar definition and to a transcription of the authors' ``naive_path_attn``; their package needs
  Triton.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels import householder
from posenc.kernels.householder import UndividedPairs
from posenc.kernels.pairs import Pairs
from posenc.kernels.shape_checks import require_kept
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head
from posenc.whole_numbers import are_whole

SIGMA, EPSILON = 0.02, 1e-6
"""Standard deviation of the initial weights; constant under the root of the norm of w, as in the authors' code."""


class PaTH(Scheme):
    """PaTH attention: a causal bias from products of Householder-like matrices, for positions on one axis.

        s_ij = q_i^T (I - beta_i w_i w_i^T) .. (I - beta_{j+1} w_{j+1} w_{j+1}^T) k_j

    Args:
        dim: Width of the input x of the block, ``(B, K, dim)``.
        head_dim: Width of a head.
        heads: Number of key heads.
        rank: Rank of W, at least 1. Default: 32.
        kernel: Width of the convolution in tokens. Default: 3.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If a size is not a whole number of at least 1.

    Example:
        >>> import torch
        >>> from posenc import PaTH, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> x = torch.randn(1, 10, 32)  # the input of the block
        >>> attention(q, k, v, scheme=PaTH(dim=32, head_dim=16, heads=2), q_pos=sequence(10), x=x).shape
        torch.Size([1, 2, 10, 16])

    References:
        Yang, Shen, Wen, Tan, Mishra, Ren, Panda and Kim 2025, "PaTH Attention: Position Encoding via Accumulating
        Householder Transformations", arXiv 2505.16381.
    """

    cite = """@inproceedings{yang2025path,
  title={PaTH Attention: Position Encoding via Accumulating Householder Transformations},
  author={Yang, Songlin and Shen, Yikang and Wen, Kaiyue and Tan, Shawn and Mishra, Mayank and Ren, Liliang and
          Panda, Rameswar and Kim, Yoon},
  booktitle={NeurIPS}, year={2025}, note={arXiv:2505.16381}}"""
    earlier_tokens = "read"
    examples = (
        {"dim": 48, "head_dim": 12, "heads": 4, "rank": 5},
        {"dim": 48, "head_dim": 12, "heads": 1, "rank": 5, "kernel": 2},
    )

    down: nn.Parameter
    up: nn.Parameter
    taps: nn.Parameter
    weight: nn.Parameter
    offset: nn.Parameter

    def __init__(
        self, dim: int, head_dim: int, heads: int, *, rank: int = 32, kernel: int = 3,
        generator: torch.Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dim, self.head_dim, self.heads = dim, head_dim, heads
        if not are_whole(dim, head_dim, heads, rank, kernel):
            raise ValueError(
                "PaTH needs dim, head_dim, heads, rank and kernel that are whole numbers of at least 1; got "
                f"dim={dim!r}, head_dim={head_dim!r}, heads={heads!r}, rank={rank!r}, kernel={kernel!r}. Try kernel=3."
            )
        self.down, self.up = nn.Parameter(torch.empty(rank, dim)), nn.Parameter(torch.empty(heads * head_dim, rank))
        self.taps = nn.Parameter(torch.empty(heads, head_dim, kernel))
        self.weight, self.offset = nn.Parameter(torch.empty(heads, dim)), nn.Parameter(torch.empty(heads))
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
        for parameter in (self.down, self.up, self.taps, self.weight):
            nn.init.normal_(parameter, std=SIGMA, generator=generator)
        nn.init.zeros_(self.offset)

    @override
    def keep(self, x: Tensor, where: Positions) -> Tensor:
        """Return ``W x`` and the logit of beta of each token, ``(B, h, K, head_dim + 1)``."""
        if x.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"this PaTH reads rows of width {self.weight.shape[1]}; the block's input has {x.shape[-1]}. "
                f"Build it with dim={x.shape[-1]}."
            )
        rows = functional.linear(functional.linear(x, self.down.to(x.dtype)), self.up.to(x.dtype))
        beta = functional.linear(x, self.weight.to(x.dtype), self.offset.to(x.dtype))
        return torch.cat([rows.unflatten(-1, (self.heads, -1)), beta[..., None]], -1).movedim(-2, -3)

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
        kept = require_kept(kept, "PaTH")
        wide = torch.promote_types(torch.promote_types(q.dtype, kept.dtype), torch.float32)
        kept, taps = per_head(kept, q, "PaTH").to(wide), per_head(self.taps, q, "PaTH").to(wide)
        seen = householder.allowed_pairs(pair.of, attn_mask)
        earlier = householder.earlier_keys(pair.of.k, householder.documents_of_keys(seen))
        c = functional.silu(householder.causal_convolution(kept[..., :-1], taps, earlier))
        w = c * (c.square().sum(-1, keepdim=True) + EPSILON).rsqrt()
        beta, keys = 2 * torch.sigmoid(kept[..., -1]), k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        w, beta = (t.expand(-1, q.shape[1], *t.shape[2:]) for t in (w, beta))
        return pair.of.neutral(householder.householder_bias(q.to(wide), keys.to(wide), w, beta, pair.of, earlier, seen))

    @override
    def define_bias(self, at: At) -> Tensor:
        assert at.x is not None
        head, p_i, p_j = at.head.among(self.heads), at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        up = self.up.unflatten(0, (self.heads, -1))[head]
        allowed = [n for n in range(len(at.k)) if bool(at.attn_mask[at.i, n]) and bool(at.k_pos[n, 0] <= p_i)]
        allowed.sort(key=lambda n: float(at.k_pos[n, 0].detach()))
        key = at.k[at.j]
        for place, n in enumerate(allowed):
            if p_j < at.k_pos[n, 0] or (bool(p_j == at.k_pos[n, 0]) and at.j < n):
                c = torch.zeros_like(key)
                for back in range(min(self.taps.shape[2], place + 1)):
                    c = c + self.taps[head, :, -1 - back] * (up @ (self.down @ at.x[allowed[place - back]]))
                c = c * torch.sigmoid(c)
                w = c / torch.sqrt(c @ c + EPSILON)
                beta = 2 * torch.sigmoid(self.weight[head] @ at.x[n] + self.offset[head])
                key = key - beta * w * (w @ key)
        return at.q[at.i] @ (key - at.k[at.j])

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
