"""FoX: Forgetting Transformer; a forget gate of each token lowers the logits of all keys before it.

    f_t = sigmoid(w_h . x_t + b_h)       d_ij = sum of log f_l over p_j < p_l <= p_i        (eqs. 5 and 7)
    s_ij = q_i . k_j + d_ij   for p_j <= p_i, else -infinity

Source: Lin et al. 2025, arXiv 2503.02130.

Conventions:
- x is the input of the block at the keys. It is read once per token (``keep``), so a cache stores one number per head
  and token.
- The order of tokens is taken from their positions. Only keys that the query may attend to contribute, so packed
  documents do not affect each other.
- A token with ``placed=False`` contributes nothing to d_ij, and every query may attend to it.
- Gates start as torch's linear layers do. Each layer has its own instance, built for the number of query heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme, running_sums, sums_from
from posenc.kernels.shape_checks import require_kept
from posenc.positions import Positions
from posenc.scheme import At, Claims, per_head


class FoX(PairScheme):
    """Forgetting attention (FoX): a causal bias from forget gates, for positions on one axis.

        s_ij = q_i . k_j + sum of log sigmoid(w_h . x_l + b_h) over p_j < p_l <= p_i

    Args:
        dim: Width of the input x of the block, ``(B, K, dim)``.
        heads: Number of query heads. Each head has its own gate.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If ``dim`` or ``heads`` is less than 1.

    Example:
        >>> import torch
        >>> from posenc import FoX, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> x = torch.randn(1, 10, 32)  # the input of the block
        >>> attention(q, k, v, scheme=FoX(dim=32, heads=2), q_pos=sequence(10), x=x).shape
        torch.Size([1, 2, 10, 16])

    References:
        Lin et al. 2025, arXiv 2503.02130, eqs. 5 and 7.
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
        self.heads = heads
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
        """Redraw the gates; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        bound = self.weight.shape[1] ** -0.5
        for parameter in (self.weight, self.offset):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    @override
    def keep(self, x: Tensor, where: Positions) -> Tensor:
        """Return ``log f_t`` of each token, ``(B, h, K)``, in float32 or wider; 0 for tokens with ``placed=False``."""
        if x.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"this FoX reads rows of width {self.weight.shape[1]}; the block's input has {x.shape[-1]}. "
                f"Build it with dim={x.shape[-1]}."
            )
        logit = functional.linear(x, self.weight.to(x.dtype), self.offset.to(x.dtype)).transpose(-1, -2)
        kept = functional.logsigmoid(logit.to(torch.promote_types(logit.dtype, torch.float32)))
        placed = where.placed
        return kept if placed is None else kept.where(placed.unsqueeze(-2), 0)

    @override
    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        forgotten = per_head(require_kept(kept, "FoX")[:, :, None], q, "FoX")
        return pair.neutral(sums_from(pair.at_allowed_keys(forgotten, attn_mask), pair, inclusive=False))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, heads = pair.reader(), q.shape[1]
        at_q, at_k = (per_head(t, q, "FoX", dim=1) for t in running_sums(require_kept(kept, "FoX"), pair))
        at_q, at_k = at_q.expand(-1, heads, -1), at_k.expand(-1, heads, -1)

        def forgetting(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = torch.where(distance <= 0, score + at_q[b, h, i] - at_k[b, h, j], -torch.inf)
            return lower if placed is None else torch.where(placed, lower, score)

        return forgetting

    @override
    def define_bias(self, at: At) -> Tensor:
        assert at.x is not None
        p_i, p_j, head = at.q_pos[at.i, 0], at.k_pos[at.j, 0], at.head.among(len(self.weight))
        forgotten = at.q.new_zeros(())
        for n in range(len(at.k)):
            if bool(at.attn_mask[at.i, n]) and p_j < at.k_pos[n, 0] <= p_i:
                forgotten = forgotten + torch.log(torch.sigmoid(self.weight[head] @ at.x[n] + self.offset[head]))
        return forgotten

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
