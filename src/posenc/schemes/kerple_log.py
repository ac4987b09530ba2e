"""KERPLELog: the logarithmic variant of KERPLE; logits fall with the logarithm of distance, at learned rates per head.

    s_ij = q_i . k_j - r1 log(1 + r2 |p_j - p_i|),   r1, r2 > 0        (the logarithmic kernel of section 4)

Source: Chi et al. 2022, arXiv 2205.09921.

Conventions:
- ``r = softplus(raw)`` keeps both rates positive. The authors' code (github chijames/KERPLE) clamps them at 0.01.
- Rates start as ``r1 ~ U(0, 2)`` and ``r2 ~ U(0, 1)``, as in that code.
- The paper has one axis. On several axes ``|p_j - p_i|`` is the Euclidean distance, for which the kernel is
  conditionally positive definite, too.
- It is built for the number of query heads. Layers share one instance or have one each.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.scheme import At, Claims, per_head

LEAST = 0.01
"""Lower end of the initial rates."""


class KERPLELog(PairScheme):
    """Kernelized relative position bias with the logarithmic kernel (KERPLE-log), for real positions.

        s_ij = q_i . k_j - r1 log(1 + r2 |p_j - p_i|)

    The rates ``r1, r2 > 0`` are learned.

    Args:
        heads: Number of query heads. Each head has its own rates r1 and r2.
        axes: Number P of axes of the positions. Default: 1.
        generator: Random generator of the initial rates. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` or ``axes`` is less than 1.

    Example:
        >>> import torch
        >>> from posenc import KERPLELog, attention, sequence
        >>> q = k = v = torch.randn(1, 4, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=KERPLELog(heads=4), q_pos=sequence(10)).shape
        torch.Size([1, 4, 10, 16])

    References:
        Chi, Fan, Ramadge and Rudnicky 2022, arXiv 2205.09921, section 4.
    """

    cite = """@inproceedings{chi2022kerple,
  title={KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation},
  author={Chi, Ta-Chung and Fan, Ting-Han and Ramadge, Peter J. and Rudnicky, Alexander I.},
  booktitle={NeurIPS}, year={2022}, note={arXiv:2205.09921}}"""
    examples = ({"heads": 4}, {"heads": 1}, {"heads": 4, "axes": 3})
    bias_reads = frozenset()
    wide = frozenset({"raw"})

    raw: nn.Parameter

    def __init__(self, heads: int, axes: int = 1, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.heads = heads
        if heads < 1:
            raise ValueError(f"KERPLELog has two rates for each of its query heads, at least one; got heads={heads}.")
        if axes < 1:
            raise ValueError(f"KERPLELog reads at least one axis; got axes={axes}. Use 1 for tokens in a row.")
        self.raw = nn.Parameter(torch.empty(2, heads))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=axes,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the rates; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            r = self.raw.uniform_(LEAST, 1, generator=generator) * self.raw.new_tensor([[2.0], [1.0]])
            self.raw.copy_(r + (-torch.expm1(-r)).log())  # the inverse of softplus

    @property
    def rates(self) -> Tensor:
        """Rates ``r1`` and ``r2`` of each head, ``(2, heads)``."""
        return functional.softplus(self.raw)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        r1, r2 = per_head(self.rates, q, "KERPLELog", dim=1)[..., None, None]
        return pair.neutral(-r1 * torch.log1p(r2 * pair.far()))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rates = pair.far_reader(), per_head(self.rates, q, "KERPLELog", dim=1).expand(-1, q.shape[1])

        def logarithmic(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - rates[0, h] * torch.log1p(rates[1, h] * distance)
            return lower if placed is None else torch.where(placed, lower, score)

        return logarithmic

    @override
    def define_bias(self, at: At) -> Tensor:
        r1, r2 = torch.log(1 + torch.exp(self.raw[:, at.head.among(self.raw.shape[1])]))
        return -r1 * torch.log(1 + r2 * torch.linalg.vector_norm(at.k_pos[at.j] - at.q_pos[at.i]))
