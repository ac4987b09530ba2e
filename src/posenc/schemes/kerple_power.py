"""KERPLEPower: the power variant of KERPLE; logits fall with a learned power of distance, one power and rate per head.

    s_ij = q_i . k_j - r1 |p_j - p_i|^r2,   r1 > 0,  0 < r2 <= 2        (the power kernel of section 4)

At r2 = 1 it is ALiBi with a learned slope.

Source: Chi et al. 2022, arXiv 2205.09921.

Conventions:
- ``r1 = softplus(raw_1)`` and ``r2 = 2 sigmoid(raw_2)`` keep their bounds. The authors' code (github chijames/KERPLE)
  clamps them.
- Both start as U(0, 1).
- At distance 0 the bias is 0, and so is its gradient with respect to positions.
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
"""Lower end of the initial rates and powers."""


class KERPLEPower(PairScheme):
    """Kernelized relative position bias with the power kernel (KERPLE-power), for real positions on one axis.

        s_ij = q_i . k_j - r1 |p_j - p_i|^r2

    The rate ``r1 > 0`` and the power ``0 < r2 <= 2`` are learned.

    Args:
        heads: Number of query heads. Each head has its own r1 and r2.
        generator: Random generator of the initial r1 and r2. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` is less than 1.

    Example:
        >>> import torch
        >>> from posenc import KERPLEPower, attention, sequence
        >>> q = k = v = torch.randn(1, 4, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=KERPLEPower(heads=4), q_pos=sequence(10)).shape
        torch.Size([1, 4, 10, 16])

    References:
        Chi, Fan, Ramadge and Rudnicky 2022, arXiv 2205.09921, section 4.
    """

    cite = """@inproceedings{chi2022kerple,
  title={KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation},
  author={Chi, Ta-Chung and Fan, Ting-Han and Ramadge, Peter J. and Rudnicky, Alexander I.},
  booktitle={NeurIPS}, year={2022}, note={arXiv:2205.09921}}"""
    examples = ({"heads": 4}, {"heads": 1})
    bias_reads = frozenset()
    wide = frozenset({"raw"})

    raw: nn.Parameter

    def __init__(self, heads: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.heads = heads
        if heads < 1:
            raise ValueError(
                f"KERPLEPower has a rate and a power for each of its query heads, at least one; got heads={heads}."
            )
        self.raw = nn.Parameter(torch.empty(2, heads))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw rates and powers; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            r1, r2 = self.raw.uniform_(LEAST, 1, generator=generator).clone()
            self.raw.copy_(torch.stack([r1 + (-torch.expm1(-r1)).log(), torch.logit(r2 / 2)]))

    @property
    def rates(self) -> Tensor:
        """Rates ``r1`` and powers ``r2`` of each head, ``(2, heads)``."""
        return torch.stack([functional.softplus(self.raw[0]), 2 * torch.sigmoid(self.raw[1])])

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        r1, r2 = per_head(self.rates, q, "KERPLEPower", dim=1)[..., None, None]
        return pair.neutral(-r1 * _power(pair.far(), r2))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, rates = pair.reader(), per_head(self.rates, q, "KERPLEPower", dim=1).expand(-1, q.shape[1])

        def power(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            lower = score - rates[0, h] * _power(distance.abs().to(pair.dtype), rates[1, h])
            return lower if placed is None else torch.where(placed, lower, score)

        return power

    @override
    def define_bias(self, at: At) -> Tensor:
        raw1, raw2 = self.raw[:, at.head.among(self.raw.shape[1])]
        r1, r2 = torch.log(1 + torch.exp(raw1)), 2 / (1 + torch.exp(-raw2))
        far = (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()
        return -r1 * far**r2 if far > 0 else torch.zeros_like(r1)


def _power(far: Tensor, exponent: Tensor) -> Tensor:
    """Return ``far ** exponent``, with value and gradient 0 at 0, where the slope is infinite for exponents below 1."""
    apart = far > 0
    return torch.where(apart, far, 1).pow(exponent) * apart
