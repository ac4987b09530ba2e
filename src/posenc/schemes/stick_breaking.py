"""StickBreaking: stick-breaking attention; each earlier key, nearest first, takes a share of the weight that is left.

    z_ij = q_i . k_j                A_ij = sigmoid(z_ij) prod over p_j < p_l < p_i of (1 - sigmoid(z_il)),   p_j < p_i
    o_i = sum of A_ij v_j + (1 - sum of A_ij) v_i

The order of keys decides their shares, so no other encoding is needed. As logits of a softmax, whose sum is 1 here:

    s_ij = z_ij + sum of log(1 - sigmoid(z_il)) over p_j <= p_l < p_i,      s_ii = sum of log(1 - sigmoid(z_il))

Source: Tan et al. 2025, arXiv 2410.17980, and the authors' code (github shawntan/stickbreaking-attention).

Conventions:
- The weight that is left goes to the query's own value, as in the authors' tests (``o + rem[..., None] * v``).
  flash-linear-attention's operator leaves it out: its output lacks the last term.
- Keys are ordered by their positions. Only keys that the query may attend to take a share, so packed documents are
  separate. Where several keys have one position, the softmax makes the sum 1.
- Beside another bias b in a ``Sum`` the weights are its shares times exp(b), normalized to 1: no published encoding.
- A token with ``placed=False`` takes no share, and every query may attend to it.
- It is equal to the scalar definition and to the authors' reference formula; their kernel needs a GPU.

There is no FlexAttention form: a sum over keys needs all keys of a query, and a score_mod sees one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.grouped_heads import grouped_logits
from posenc.kernels.pairs import Pairs, PairScheme, sums_from
from posenc.scheme import At, Claims


class StickBreaking(PairScheme):
    """Stick-breaking attention: a bias from the keys between key and query, for positions on one axis.

        s_ij = z_ij + sum of log(1 - sigmoid(z_il)) over p_j <= p_l < p_i,   z = q . k;   without ``z_ij`` for j = i

    Example:
        >>> import torch
        >>> from posenc import StickBreaking, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=StickBreaking(), q_pos=sequence(10)).shape
        torch.Size([1, 2, 10, 16])

    References:
        Tan, Yang, Courville, Panda and Shen 2025, "Scaling Stick-Breaking Attention: An Efficient Implementation and
        In-depth Study", arXiv 2410.17980.
    """

    cite = """@inproceedings{tan2025scaling,
  title={Scaling Stick-Breaking Attention: An Efficient Implementation and In-depth Study},
  author={Tan, Shawn and Yang, Songlin and Courville, Aaron and Panda, Rameswar and Shen, Yikang},
  booktitle={ICLR}, year={2025}, note={arXiv:2410.17980}}"""
    examples = ({},)
    bias_reads = frozenset({"q", "k"})

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"bias", "mask"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        z = grouped_logits(q, k)
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        own = pair.distance() == 0
        left = pair.at_allowed_keys(functional.logsigmoid(-z), attn_mask, placed=True).masked_fill(own, 0)
        return pair.neutral(torch.where(own, left.sum(-1, keepdim=True) - z, sums_from(left, pair, inclusive=True)))

    @override
    def define_bias(self, at: At) -> Tensor:
        p_i, p_j = at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        bias = -at.q[at.i] @ at.k[at.j] if p_j == p_i else at.q.new_zeros(())
        for n in range(len(at.k)):
            earlier = bool(at.attn_mask[at.i, n]) and bool(at.k_pos[n, 0] < p_i)
            if earlier and (p_j == p_i or p_j <= at.k_pos[n, 0]):
                bias = bias + torch.log(1 - torch.sigmoid(at.q[at.i] @ at.k[n]))
        return bias

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
