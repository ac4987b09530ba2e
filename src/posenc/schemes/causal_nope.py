"""Causal NoPE: no positional encoding but the causal mask, from which a network can infer the order of tokens.

    s_ij = q_i . k_j / (tau sqrt(d))   for p_j <= p_i, else -infinity

Source: Kazemnejad et al. 2023, arXiv 2305.19466, where the temperature ``tau`` is 1.

Conventions:
- The mask compares positions and not the order of the tokens, so it is correct for packed and shuffled tokens.
- A token with ``placed=False`` attends to every token, and every token attends to it.
- ``literal=True``: as released with the Latin-square study of arXiv 2406.08272 (github ljhearne/LSTNN_public), which
  divides the logits by 0.01.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.positions import Positions
from posenc.scheme import At, Claims

RELEASED_TEMPERATURE = 0.01
"""Temperature in the released code of arXiv 2406.08272."""


class CausalNoPE(PairScheme):
    """No positional encoding (NoPE) with a causal mask, for real positions on one axis.

        softmax((q_i . k_j) / (tau sqrt(d)) + log [p_j <= p_i])

    Args:
        temperature: Temperature ``tau``, positive. Default: 1, as in the paper.
        literal: If True, the temperature 0.01 of the released code of arXiv 2406.08272. Default: False.

    Raises:
        ValueError: If ``temperature`` is not positive and finite, or is given together with ``literal=True``.

    Example:
        >>> import torch
        >>> from posenc import CausalNoPE, attention, sequence
        >>> q = k = v = torch.randn(1, 2, 10, 16)  # (batch, heads, tokens, head_dim)
        >>> attention(q, k, v, scheme=CausalNoPE(), q_pos=sequence(10)).shape
        torch.Size([1, 2, 10, 16])

    References:
        Kazemnejad et al. 2023, arXiv 2305.19466.
        Ito et al. 2024, arXiv 2406.08272 (``literal=True``).
    """

    cite = """@inproceedings{kazemnejad2023impact,
  title={The Impact of Positional Encoding on Length Generalization in Transformers},
  author={Kazemnejad, Amirhossein and Padhi, Inkit and Natesan Ramamurthy, Karthikeyan and Das, Payel and Reddy, Siva},
  booktitle={NeurIPS}, year={2023}, note={arXiv:2305.19466}}"""
    examples = ({}, {"temperature": 0.5}, {"literal": True})
    conventions = ("literal",)

    def __init__(self, temperature: float = 1.0, *, literal: bool = False) -> None:
        super().__init__()
        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(
                f"CausalNoPE divides the logits by `temperature`, which must be positive and finite; "
                f"got {temperature:g}. The paper's is 1."
            )
        if literal and temperature != 1:
            raise ValueError(
                f"literal=True is the temperature {RELEASED_TEMPERATURE:g} of the authors' code; "
                f"got temperature={temperature:g} as well. Pass one of the two."
            )
        self.temperature, self.literal = RELEASED_TEMPERATURE if literal else temperature, literal
        scaled = self.temperature != 1
        self.claims = Claims(
            translation="exact",
            isometric=not scaled,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"q", "mask"} if scaled else {"mask"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def transform(self, x: Tensor, where: Positions, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return x / self.temperature if site == "q" and self.temperature != 1 else x

    @override
    def mask(self, pair: Pairs) -> Tensor:
        return pair.before()

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read = pair.reader()

        def causal(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            return torch.where(distance <= 0 if placed is None else (distance <= 0) | ~placed, score, -torch.inf)

        return causal

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        return x / self.temperature if site == "q" else x

    @override
    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
