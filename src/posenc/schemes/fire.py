"""FIRE: functional interpolation for relative position encoding; an MLP of the distance over the query's position.

    b(i, j) = f_theta(psi(i - j) / psi(max{L, i})),   psi(x) = log(c x + 1),   c, L > 0        (eqs. 4, 5 and 7)

``f_theta`` maps one number to one bias per head, with one hidden layer of ReLUs. Its input is a ratio, so that long
sequences stay within the inputs of training.

Source: Li et al. 2024, arXiv 2310.04418, and the code of its appendix.

Conventions:
- As in that code, the threshold is ``|s L|`` and the scale is ``|c|``; s (initially 1) and c (initially 0.1) are
  trained, and L is given.
- The paper is causal. Here a later key has the distance ``|p_j - p_i|``, and a query at ``p_i <= L`` uses L.
- It is built for the number of query heads. The paper trains one instance per layer; its FIRE-S shares one instance
  between all layers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.kernels.relu_network import relu_network
from posenc.scheme import At, Claims, per_head

C = 0.1
"""Initial scale c, as in the code of the paper's appendix."""


class FIRE(PairScheme):
    """Functional interpolation for relative position encoding (FIRE), for real positions on one axis.

        s_ij = q_i . k_j + f_h(log(1 + c |p_j - p_i|) / log(1 + c max(L, p_i)))

    Args:
        heads: Number of query heads.
        threshold: Initial threshold L, positive, in units of position. Default: 512, as in the paper.
        hidden: Width of the hidden layer of f. Default: 32, as in the paper.
        generator: Random generator of the initial weights of f. Default: torch's global generator.

    Raises:
        ValueError: If ``heads`` or ``hidden`` is less than 1, or ``threshold`` is not positive and finite.

    Example:
        >>> import torch
        >>> from posenc import FIRE, attention, sequence
        >>> q = k = v = torch.randn(1, 4, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=FIRE(heads=4, threshold=8.0), q_pos=sequence(10)).shape
        torch.Size([1, 4, 10, 16])

    References:
        Li et al. 2024, arXiv 2310.04418, eqs. 4, 5 and 7.
    """

    cite = """@inproceedings{li2024functional,
  title={Functional Interpolation for Relative Positions Improves Long Context Transformers},
  author={Li, Shanda and You, Chong and Guruganesh, Guru and Ainslie, Joshua and Ontanon, Santiago and Zaheer, Manzil
  and Sanghai, Sumit and Yang, Yiming and Kumar, Sanjiv and Bhojanapalli, Srinadh},
  booktitle={ICLR}, year={2024}, note={arXiv:2310.04418}}"""
    examples = (
        {"heads": 4, "threshold": 4.0},
        {"heads": 4, "threshold": 8.0, "hidden": 8},
        {"heads": 1, "threshold": 4.0},
    )
    bias_reads = frozenset()
    wide = frozenset({"scales"})

    scales: nn.Parameter
    inner: nn.Parameter
    outer: nn.Parameter

    def __init__(
        self, heads: int, *, threshold: float = 512.0, hidden: int = 32, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        if heads < 1 or hidden < 1 or not (math.isfinite(threshold) and threshold > 0):
            raise ValueError(
                f"FIRE needs heads >= 1, hidden >= 1 and a positive threshold; got heads={heads}, hidden={hidden}, "
                f"threshold={threshold:g}. The paper's are 32 and 512."
            )
        self.threshold = float(threshold)
        self.scales = nn.Parameter(torch.empty(2))  # c and s
        self.inner = nn.Parameter(torch.empty(2, hidden))  # weights and biases of f's hidden layer
        self.outer = nn.Parameter(torch.empty(hidden + 1, heads))  # weights, and biases as the last row
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="none",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="layer and head" if heads > 1 else "layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set c = 0.1 and s = 1, redraw f as a linear layer of torch; needed after construction on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        bound = len(self.outer[1:]) ** -0.5
        with torch.no_grad():
            self.scales.copy_(self.scales.new_tensor([C, 1.0]))
            self.inner.uniform_(-1, 1, generator=generator)
            self.outer.uniform_(-bound, bound, generator=generator)

    @override
    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, attn_mask: Tensor | None) -> Tensor:
        own = self._own(pair)
        share = torch.log1p(self.scales[0].abs() * pair.far().to(own.dtype)) / own[..., :, None]
        inner, outer = self.inner.to(share.dtype), per_head(self.outer, q, "FIRE", dim=1).to(share.dtype)
        return pair.neutral(relu_network(share.squeeze(-3) if share.dim() == 4 else share, inner, outer))

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read, own, c, inner = pair.reader(), self._own(pair), self.scales[0].abs(), self.inner
        outer = per_head(self.outer, q, "FIRE", dim=1).expand(-1, q.shape[1])
        own = own.squeeze(-2) if own.dim() == 3 else own[None]

        def interpolated(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            share = torch.log1p(c * distance.abs()) / (own[b, i] if own.shape[0] > 1 else own[0, i])
            other = score + outer[-1, h]
            for m in range(inner.shape[1]):  # unrolled, because a score_mod cannot sum a vector
                other = other + outer[m, h] * torch.relu(share * inner[0, m] + inner[1, m])
            return other if placed is None else torch.where(placed, other, score)

        return interpolated

    def _own(self, pair: Pairs) -> Tensor:
        """Return ``psi(max{L, p_i})`` of each query, ``(Q,)`` or ``(B, 1, Q)``."""
        c, s = self.scales.abs()
        place = pair.q.coords[..., 0].to(torch.promote_types(pair.dtype, c.dtype))
        own = torch.log1p(c * torch.maximum(place, s * self.threshold))
        return own.unsqueeze(-2) if own.dim() == 2 else own

    @override
    def define_bias(self, at: At) -> Tensor:
        (c, s), (w1, b1), i, j = self.scales.abs(), self.inner, at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        head = at.head.among(self.outer.shape[1])
        threshold = s * self.threshold
        share = torch.log(c * (j - i).abs() + 1) / torch.log(c * (i if i > threshold else threshold) + 1)
        return sum((w2 * torch.relu(w * share + b) for w, b, w2 in zip(w1, b1, self.outer[:-1, head], strict=True)),
                   start=self.outer[-1, head])  # fmt: skip
