"""CoPE: contextual position encoding; gates count the keys between key and query, and the count selects the bias.

    g_ij = sigmoid(q_i . k_j)          p_ij = min(sum of g_il over p_j <= p_l <= p_i, P - 1)        (eqs. 3 and 4)
    s_ij = q_i . (k_j + e[p_ij]),      e[p] = (1 - w) e[floor p] + w e[ceil p],  w = p - floor p    (eqs. 5 to 7)

Source: Golovneva et al. 2024, arXiv 2405.18719, with the code of its appendix.

Conventions:
- It is causal, as in the paper: later keys are masked.
- The gates between a key and a query are found by comparing positions. Only keys that the query may attend to are
  counted, so packed documents are counted separately.
- Queries carry the softmax scale in both equations. The printed code leaves it out of ``q . e``.
- All heads of a layer share one table, which starts at zero.
- A token with ``placed=False`` is not counted, and every query may attend to it.

There is no FlexAttention form: a sum of gates needs all keys of a query, and a score_mod sees one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.grouped_heads import grouped_logits
from posenc.kernels.pairs import Pairs, PairScheme, sums_from
from posenc.scheme import At, Claims


class CoPE(PairScheme):
    """Contextual position encoding (CoPE): a bias from gated counts of keys, for positions on one axis.

        s_ij = q_i . k_j + q_i . e[p_ij],   p_ij = min(sum of sigmoid(q_i . k_l) over p_j <= p_l <= p_i, P - 1)

    Args:
        head_dim: Width of one head.
        npos_max: Number P of rows of the trained table e, ``(npos_max, head_dim)``. Counts stop at P - 1. The paper
            has 64 rows for a context of 1024 tokens.

    Raises:
        ValueError: If ``head_dim`` or ``npos_max`` is less than 1.

    Example:
        >>> import torch
        >>> from posenc import CoPE, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=CoPE(head_dim=16, npos_max=8), q_pos=sequence(10)).shape
        torch.Size([1, 2, 10, 16])

    References:
        Golovneva et al. 2024, arXiv 2405.18719, eqs. 3 to 7.
    """

    cite = """@article{golovneva2024contextual,
  title={Contextual Position Encoding: Learning to Count What's Important},
  author={Golovneva, Olga and Wang, Tianlu and Weston, Jason and Sukhbaatar, Sainbayar},
  journal={arXiv:2405.18719}, year={2024}}"""
    examples = ({"head_dim": 12, "npos_max": 8}, {"head_dim": 12, "npos_max": 2})
    bias_reads = frozenset({"q", "k"})

    table: nn.Parameter

    def __init__(self, head_dim: int, npos_max: int) -> None:
        super().__init__()
        if head_dim < 1 or npos_max < 1:
            raise ValueError(
                f"CoPE needs head_dim >= 1 and npos_max >= 1; got head_dim={head_dim}, npos_max={npos_max}. The paper "
                "has 64 rows for a context of 1024."
            )
        self.table = nn.Parameter(torch.empty(npos_max, head_dim))
        self.reset_parameters()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias", "mask"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self) -> None:
        """Reset the table to zero; needed after construction on the meta device."""
        nn.init.zeros_(self.table)

    @property
    @override
    def head_width(self) -> int:
        return self.table.shape[1]

    @override
    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)  # half precision cannot count to a thousand
        gates = pair.at_allowed_keys(torch.sigmoid(grouped_logits(q, k).to(wide)), attn_mask, placed=True)
        count = sums_from(gates, pair, inclusive=True).clamp(max=len(self.table) - 1)
        whole = count.detach().floor()
        of_table = functional.pad(q @ self.table.T.to(q.dtype), (0, 1)).to(wide)  # the last count has no row above
        low, high = (of_table.gather(-1, row) for row in (whole.long(), whole.long() + 1))
        return pair.neutral(low + (count - whole) * (high - low))

    @override
    def define_bias(self, at: At) -> Tensor:
        p_i, p_j = at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        counted = [n for n in range(len(at.k)) if bool(at.attn_mask[at.i, n]) and p_j <= at.k_pos[n, 0] <= p_i]
        p = sum((torch.sigmoid(at.q[at.i] @ at.k[n]) for n in counted), start=at.q.new_zeros(()))
        p = torch.minimum(p, p.new_tensor(len(self.table) - 1))
        low, high = int(p.floor()), int(p.ceil())
        w = p - low
        return at.q[at.i] @ ((1 - w) * self.table[low] + w * self.table[high])

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
