"""Temperature of position: queries grow with the logarithm of their position, so that long contexts stay sharp.

    q_n -> t(n) q_n,     t(n) = 1 + alpha ln(1 + floor((n + offset) / L))
    smooth:              t(n) = 1 + alpha ln(max((n + offset) / L, 1))

Source: the released code of Llama 4 in transformers (offset 1, L 8192, alpha 0.1), which cites Nakanishi 2025, arXiv
2501.19399, for the idea; Ministral 3 in transformers (offset 0); Inkling in transformers (smooth, offset 1).

Conventions:
- Positions below L - offset have t = 1, negative ones too.
- Only queries are multiplied, thus the product with each key. A bias of another scheme is not; Inkling's is.
- n is the position. Llama 4's code counts the tokens in its cache instead, which left padding changes.
- The contract measures claims at small positions, where the default length has no effect. ``posenc check
  "Temperature()"`` says so; ``posenc check "Temperature(4)"`` and ``posenc check Temperature`` check short ones.
- It tells nothing about order. Use it beside another scheme: ``Sum([RoPE(64), Temperature()], translation="none")``.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.shape_checks import require_count
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class Temperature(Scheme):
    """Factor on queries that grows with their position, for real positions on one axis.

        q_n -> (1 + alpha ln(1 + floor((n + offset) / L))) q_n

    Args:
        length: Length L in units of position, positive: about the context of training.
        alpha: Rate, not negative. 0.1 in released models.
        offset: Added to each position: 1 as in Llama 4, 0 as in Ministral 3.
        smooth: If True, ``1 + alpha ln(max((n + offset) / L, 1))``, which has no steps.

    Raises:
        ValueError: If ``length`` is not positive, ``alpha`` is negative, or a number is not finite.

    Example:
        >>> from posenc import Temperature, sequence
        >>> Temperature(length=4).prepare(sequence(9))
        tensor([1.0000, 1.0000, 1.0000, 1.0693, 1.0693, 1.0693, 1.0693, 1.1099, 1.1099])

    References:
        Nakanishi, 2025, "Scalable-Softmax Is Superior for Attention", arXiv 2501.19399.
    """

    cite = """@article{nakanishi2025scalable,
  title={Scalable-Softmax Is Superior for Attention},
  author={Nakanishi, Ken M.},
  journal={arXiv:2501.19399}, year={2025}}"""
    examples = (
        {"length": 4.0},
        {"length": 4.0, "offset": 7.0},
        {"length": 6.0, "alpha": 0.5},
        {"length": 4.0, "smooth": True},
    )
    conventions = ("smooth",)

    def __init__(
        self, length: float = 8192.0, *, alpha: float = 0.1, offset: float = 1.0, smooth: bool = False
    ) -> None:
        super().__init__()
        if not (0 < length < math.inf and 0 <= alpha < math.inf and math.isfinite(offset)):
            raise ValueError(
                f"Temperature needs length above 0 and alpha of at least 0, all finite; got length={length:g}, "
                f"alpha={alpha:g}, offset={offset:g}. Llama 4 has length=8192, alpha=0.1, offset=1."
            )
        self.length, self.alpha, self.offset, self.smooth = length, alpha, offset, smooth
        self.claims = Claims(
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"q"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def prepare(self, pos: Positions) -> Tensor:
        self._take(pos)
        lengths = (pos.precise()[..., 0] + self.offset) / self.length
        lengths = lengths.clamp(min=1) if self.smooth else 1 + lengths.floor().clamp(min=0)
        factor = 1 + self.alpha * lengths.log()
        return (factor if pos.placed is None else torch.where(pos.placed, factor, 1.0)).to(pos.table_dtype)

    @override
    def transform(self, x: Tensor, where: Tensor, site: Literal["q", "k", "v", "o"]) -> Tensor:
        if site != "q":
            return x
        factor = where[..., None, :, None] if where.ndim > 1 else where[:, None]
        return (require_count(x, where.shape[-1], "Temperature") * factor).to(x.dtype)

    @override
    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        if site != "q":
            return x
        lengths = (p[0] + self.offset) / self.length
        lengths = lengths.clamp(min=1) if self.smooth else 1 + lengths.floor().clamp(min=0)
        return x * (1 + self.alpha * lengths.log())
