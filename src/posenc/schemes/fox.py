"""FoX: each token has a gate that says how much of what came before it is forgotten.

    f_t = sigmoid(w_h . x_t + b_h)       d_ij = sum of log f_l over p_j < p_l <= p_i        (eqs. 5 and 7)
    s_ij = q_i . k_j + d_ij   for p_j <= p_i, else -infinity

Source: Lin et al. 2025, arXiv 2503.02130 (Forgetting Transformer). Conventions: x is the block's input of the keys,
read once per token (``keep``), so that a cache holds one number a head; "before" is read off the positions, and only
keys that the query may see forget anything (packed documents do not reach each other). A token without a place forgets
nothing, and is seen by all. Gates start as torch draws a linear layer; one a layer, built for the query heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.pairs import Pairs, running_sums, sums_from
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, per_head


class FoX(Scheme):
    """``sum of log sigmoid(w . x_l + b)`` between a key and a later query, on the logits; causal, on one axis.

    dim: width of the block's input x. heads: the number of query heads, each with its own gate. generator: of the
    first weights.
    """

    cite = """@inproceedings{lin2025forgetting,
  title={Forgetting Transformer: Softmax Attention with a Forget Gate},
  author={Lin, Zhixuan and Nikishin, Evgenii and He, Xu Owen and Courville, Aaron},
  booktitle={ICLR}, year={2025}, note={arXiv:2503.02130}}"""
    examples = ({"dim": 12, "heads": 4}, {"dim": 12, "heads": 1})
    bias_reads = frozenset({"kept"})

    weight: nn.Parameter
    offset: nn.Parameter

    def __init__(self, dim: int, heads: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.dim = dim
        if dim < 1 or heads < 1:
            raise ValueError(
                f"FoX needs the width of the block's input and the number of query heads, both >= 1; got dim={dim}, "
                f"heads={heads}."
            )
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
        """Draw the gates anew (also after building on the meta device)."""
        bound = self.weight.shape[1] ** -0.5
        for parameter in (self.weight, self.offset):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def keep(self, x: Tensor, where: Positions) -> Tensor:
        """``log f`` of each token, ``(B, h, K)``, in float32 or wider; 0 without a place."""
        if x.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"this FoX reads rows of width {self.weight.shape[1]}; the block's input has {x.shape[-1]}. "
                f"Build it with dim={x.shape[-1]}."
            )
        logit = functional.linear(x, self.weight.to(x.dtype), self.offset.to(x.dtype)).transpose(-1, -2)
        kept = functional.logsigmoid(logit.to(torch.promote_types(logit.dtype, torch.float32)))
        placed = where.placed
        return kept if placed is None else kept.where(placed.unsqueeze(-2), 0)

    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        forgotten = per_head(self._given(kept)[:, :, None], q, "FoX")
        return pair.neutral(sums_from(pair.of_seen_before(forgotten, seen), pair, inclusive=False))

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, heads = pair.reader(), q.shape[1]
        at_q, at_k = (per_head(t, q, "FoX", dim=1) for t in running_sums(self._given(kept), pair))
        at_q, at_k = at_q.expand(-1, heads, -1), at_k.expand(-1, heads, -1)

        def forgetting(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = torch.where(distance <= 0, score + at_q[b, h, i] - at_k[b, h, j], -torch.inf)
            return lower if placed is None else torch.where(placed, lower, score)

        return forgetting

    def _given(self, kept: Tensor | None) -> Tensor:
        if kept is None:
            raise ValueError("FoX reads its gates from the block's input at the keys: pass attention(.., x=x).")
        return kept

    def define_bias(self, at: At) -> Tensor:
        assert at.x is not None
        p_i, p_j, head = at.q_pos[at.i, 0], at.k_pos[at.j, 0], at.head.among(len(self.weight))
        forgotten = at.q.new_zeros(())
        for n in range(len(at.k)):
            if bool(at.seen[at.i, n]) and p_j < at.k_pos[n, 0] <= p_i:
                forgotten = forgotten + torch.log(torch.sigmoid(self.weight[head] @ at.x[n] + self.offset[head]))
        return forgotten

    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
