"""A transformer encoder that predicts hidden tokens from the visible ones: masked modelling of recordings and pictures.

    y_n = W_T x_n + b_T of a visible token n;   y_n = m, one trained vector, of a hidden one
    prediction of a hidden token = W_H z_n + b_H,   z_n what leaves the blocks of ``posenc.models.encoder``

Source: arXiv 2406.08272, section 3.4 and appendix A.4 (activity of brain regions, one number a token); Devlin et al.
2019, arXiv 1810.04805 (the mask token). hidden="zero" leaves ``m`` out: a hidden token has the value 0, so ``y_n =
b_T``, which is what the first paper's words say; a value of 0 is then no different from a hidden one.

Only hidden tokens leave the last block, so only their queries and feed-forwards are computed there. That is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.models.encoder import Blocks, EncoderConfig
from posenc.positions import Positions
from posenc.scheme import Scheme

MASK_STD = 0.02
"""Standard deviation of the mask vector before training, as in arXiv 1810.04805."""


class MaskedEncoder(Blocks):
    """Values ``(B, N, F)`` at positions, some of them hidden, to predictions of the hidden ones ``(B, M, F)``.

    config: its ``channels`` and ``classes`` are F, the numbers a token has; ``read_out`` means nothing here.
    schemes: a factory ``layer -> Scheme``; returning the same scheme shares it. hidden: what stands for a hidden token.

    Raises ValueError where ``channels`` and ``classes`` differ.
    """

    def __init__(
        self,
        config: EncoderConfig,
        schemes: Callable[[int], Scheme],
        *,
        hidden: Literal["learned", "zero"] = "learned",
    ) -> None:
        super().__init__(config, schemes)
        if config.channels != config.classes:
            raise ValueError(
                f"a hidden token is predicted as it would be seen, so channels and classes are equal; got "
                f"{config.channels} and {config.classes}. Set both to the numbers a token has."
            )
        if hidden not in ("learned", "zero"):
            raise ValueError(f"a hidden token is 'learned' or 'zero'; got hidden={hidden!r}.")
        self.hidden_token = nn.Parameter(torch.randn(config.dim) * MASK_STD) if hidden == "learned" else None

    def forward(
        self, values: Float[Tensor, "B N F"], pos: Positions, hidden: Int[Tensor, "B M"]
    ) -> Float[Tensor, "B M F"]:
        """hidden: the numbers of the hidden tokens, as many in every sample; what ``values`` holds there is not read.

        Predictions stand in the order of ``hidden``.
        """
        schemes, prepared, pairs = self._prepare(pos)
        y, last = self._seen(values, hidden), len(self.blocks) - 1
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            which = self.scheme_of[layer]
            scheme, where, pair = schemes[which], prepared[which], pairs[which]
            y = self._embedded(y, layer, scheme, where)
            if layer == last and "mix" not in scheme.claims.sites and not scheme.draws:  # it would draw twice
                return self.head(self.norm(block.some(y, scheme, pos, where, hidden)))
            y = block(y, scheme, where, pair)
        return self.head(self.norm(y.gather(1, hidden[..., None].expand(-1, -1, y.shape[-1]))))

    def _seen(self, values: Tensor, hidden: Tensor) -> Tensor:
        """Token embeddings, ``(B, N, dim)``, with the hidden ones replaced."""
        away = torch.zeros(values.shape[:2], dtype=torch.bool, device=values.device).scatter(1, hidden, True)
        y = self.tokens(values.masked_fill(away[..., None], 0))
        return y if self.hidden_token is None else torch.where(away[..., None], self.hidden_token.to(y.dtype), y)
