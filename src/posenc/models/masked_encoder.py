"""Masked modeling: a transformer encoder that predicts hidden tokens of recordings or images from the visible ones.

    y_n = W_T x_n + b_T                for a visible token n
    y_n = m                            for a hidden token, m one trained vector (the mask token)
    prediction = W_H z_n + b_H         for a hidden token, z_n the output of the blocks of ``posenc.models.encoder``

Source: arXiv 2406.08272, section 3.4 and appendix A.4 (activity of brain regions, one value per token); Devlin et al.
2019, arXiv 1810.04805 (the mask token). With hidden="zero" there is no ``m``: a hidden token has the value 0, so ``y_n
= b_T``, as the first paper's text says. The model then cannot tell a hidden token from a visible value of 0.

Only hidden tokens are predicted, so the last block computes only their queries and feed-forwards. This is exact.
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
    """Encoder for masked modeling, from values ``(B, N, F)`` to predictions ``(B, M, F)`` of M hidden tokens.

    Args:
        config: sizes and options. ``channels`` and ``classes`` are both F, the number of values per token;
            ``read_out`` is ignored.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it.
        hidden: input of a hidden token: "learned" for a trained mask vector, "zero" for the value 0.

    Raises:
        ValueError: ``channels`` and ``classes`` differ.
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
                f"the model predicts the values of hidden tokens, so channels and classes must be equal; got "
                f"{config.channels} and {config.classes}. Set both to the number of values per token."
            )
        if hidden not in ("learned", "zero"):
            raise ValueError(f"a hidden token is 'learned' or 'zero'; got hidden={hidden!r}.")
        self.hidden_token = nn.Parameter(torch.randn(config.dim) * MASK_STD) if hidden == "learned" else None

    def forward(
        self, values: Float[Tensor, "B N F"], pos: Positions, hidden: Int[Tensor, "B M"]
    ) -> Float[Tensor, "B M F"]:
        """Predict the values of hidden tokens.

        Args:
            values: values of all tokens, ``(B, N, F)``. Values of hidden tokens are ignored.
            pos: positions of the N tokens.
            hidden: indices of the hidden tokens, ``(B, M)``, the same number in every sample.

        Returns:
            Predictions ``(B, M, F)``, in the order of ``hidden``.
        """
        schemes, prepared, pairs = self._prepare(pos)
        y, last = self._masked_tokens(values, hidden), len(self.blocks) - 1
        blocks: list[Any] = list(self.blocks)
        for layer, block in enumerate(blocks):
            which = self.scheme_of[layer]
            scheme, where, pair = schemes[which], prepared[which], pairs[which]
            y = self._embedded(y, layer, scheme, where)
            if layer == last and "mix" not in scheme.claims.sites and not scheme.draws:  # it would draw twice
                return self.head(self.norm(block.some(y, scheme, pos, where, hidden)))
            y = block(y, scheme, where, pair)
        return self.head(self.norm(y.gather(1, hidden[..., None].expand(-1, -1, y.shape[-1]))))

    @torch.no_grad()
    def embedding_scale(
        self, values: Float[Tensor, "B N F"], pos: Positions, hidden: Int[Tensor, "B M"]
    ) -> float | None:
        """Measure the size of the embedding rows beside that of the tokens, where the first block adds them.

        Args:
            values: values of all tokens, ``(B, N, F)``.
            pos: positions of the N tokens.
            hidden: indices of the hidden tokens, ``(B, M)``.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        return self._embedding_scale(self._masked_tokens(values, hidden), pos)

    def _masked_tokens(self, values: Tensor, hidden: Tensor) -> Tensor:
        """Return token embeddings ``(B, N, dim)`` in which the hidden tokens are replaced."""
        is_hidden = torch.zeros(values.shape[:2], dtype=torch.bool, device=values.device).scatter(1, hidden, True)
        y = self.tokens(values.masked_fill(is_hidden[..., None], 0))
        return y if self.hidden_token is None else torch.where(is_hidden[..., None], self.hidden_token.to(y.dtype), y)
