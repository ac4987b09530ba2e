"""CoPE: distance is counted in keys that a query's own gates let through, and read off a table between whole counts.

    g_ij = sigmoid(q_i . k_j)          p_ij = min(sum of g_il over p_j <= p_l <= p_i, P - 1)        (eqs. 3 and 4)
    s_ij = q_i . (k_j + e[p_ij]),      e[p] = (1 - w) e[floor p] + w e[ceil p],  w = p - floor p    (eqs. 5 to 7)

Source: Golovneva et al. 2024, arXiv 2405.18719, with the code of its appendix. Conventions: causal, as there, so that
no later key is seen; "between" is read off the positions, and only keys that the query may see are counted (packed
documents count apart); queries carry the softmax scale in both equations (the printed code leaves it out of ``q . e``).
One table for all heads of a layer, from zeros. A token without a place is not counted, and is seen by all.

There is no FlexAttention form: a gate sum needs all keys of a query at once, and a score_mod sees one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.groups import logits_of_groups
from posenc.kernels.pairs import Pairs, sums_from
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme


class CoPE(Scheme):
    """``q_i . e[sum of sigmoid(q_i . k_l) from j to i]`` on the logits, for positions in any order on one axis.

    head_dim: a head's width. npos_max: P, the number of rows of the table; counts stop at P - 1.
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
        """The table back to zeros (also after building on the meta device)."""
        nn.init.zeros_(self.table)

    @property
    def head_width(self) -> int:
        return self.table.shape[1]

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)  # half precision cannot count to a thousand
        gates = pair.of_seen_before(torch.sigmoid(logits_of_groups(q, k).to(wide)), seen, placed=True)
        count = sums_from(gates, pair, inclusive=True).clamp(max=len(self.table) - 1)
        whole = count.detach().floor()
        of_table = functional.pad(q @ self.table.T.to(q.dtype), (0, 1)).to(wide)  # above the last row nothing is read
        low, high = (of_table.gather(-1, row) for row in (whole.long(), whole.long() + 1))
        return pair.neutral(low + (count - whole) * (high - low))

    def define_bias(self, at: At) -> Tensor:
        p_i, p_j = at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        counted = [n for n in range(len(at.k)) if bool(at.seen[at.i, n]) and p_j <= at.k_pos[n, 0] <= p_i]
        p = sum((torch.sigmoid(at.q[at.i] @ at.k[n]) for n in counted), start=at.q.new_zeros(()))
        p = torch.minimum(p, p.new_tensor(len(self.table) - 1))
        low, high = int(p.floor()), int(p.ceil())
        w = p - low
        return at.q[at.i] @ ((1 - w) * self.table[low] + w * self.table[high])

    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
