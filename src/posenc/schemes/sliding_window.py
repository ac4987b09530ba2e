"""SlidingWindow: sliding-window attention; a query attends to the keys of its last w positions only.

    s_ij = q_i . k_j  if 0 <= p_i - p_j < w, else -infinity
    causal=False:     if |p_i - p_j| < w

Source: Beltagy et al. 2020, arXiv 2004.05150, section 3.1.

Conventions:
- The window counts positions, its query included: ``SlidingWindow(4096)`` is ``sliding_window=4096`` in transformers.
  ModernBERT's ``local_attention=128`` is ``SlidingWindow(65, causal=False)``: 64 tokens on each side.
- With the model's causal mask, ``causal=True`` removes no further key.
- It tells little about order. Use it beside another scheme: ``Sum([RoPE(64), SlidingWindow(4096)])``.
- A token with ``placed=False`` attends to all keys, and every query may attend to it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme
from posenc.scheme import At, Claims
from posenc.whole_numbers import are_whole


class SlidingWindow(PairScheme):
    """Sliding-window attention: a mask of the keys more than a window away, for real positions on one axis.

        s_ij = q_i . k_j + log [0 <= p_i - p_j < w]      causal=False: ``|p_i - p_j| < w``

    Args:
        size: Window w in units of position, at least 1; the query is counted.
        causal: If False, keys after the query are allowed too, up to the same distance. Default: True.

    Raises:
        ValueError: If ``size`` is not a whole number of at least 1, or ``causal`` is not True or False.

    Example:
        >>> from posenc import SlidingWindow, sequence
        >>> scheme = SlidingWindow(2)
        >>> where = scheme.prepare(sequence(4))
        >>> scheme.mask(scheme.relate(where, where)).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)

    References:
        Beltagy, Peters and Cohan 2020, "Longformer: The Long-Document Transformer", arXiv 2004.05150, section 3.1.
    """

    cite = """@article{beltagy2020longformer,
  title={Longformer: The Long-Document Transformer},
  author={Beltagy, Iz and Peters, Matthew E. and Cohan, Arman},
  journal={arXiv:2004.05150}, year={2020}}"""
    earlier_tokens = "hidden"
    examples = ({"size": 4}, {"size": 4, "causal": False})
    conventions = ("causal",)

    def __init__(self, size: int, *, causal: bool = True) -> None:
        super().__init__()
        if not are_whole(size):
            raise ValueError(
                f"SlidingWindow counts the query, so size is a whole number of at least 1; got {size!r}. Try 4096."
            )
        if not isinstance(causal, bool):
            raise ValueError(f"SlidingWindow takes causal=True or causal=False; got causal={causal!r}.")
        self.size, self.causal = size, causal
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"mask"}),
            sharing="model",
            cacheable=True,
        )

    @override
    def mask(self, pair: Pairs) -> Tensor:
        allowed, placed = self._near(pair.distance()), pair.placed()
        return allowed if placed is None else allowed | ~placed

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        read = pair.reader()

        def near(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            allowed = self._near(distance)
            return torch.where(allowed if placed is None else allowed | ~placed, score, -torch.inf)

        return near

    def _near(self, distance: Tensor) -> Tensor:
        """Return True for distances ``p_j - p_i`` inside the window."""
        return (distance > -self.size) & (distance <= 0 if self.causal else distance < self.size)

    @override
    def define_mask(self, at: At) -> bool:
        back = at.q_pos[at.i, 0] - at.k_pos[at.j, 0]
        return bool(back >= 0) and bool(back < self.size) if self.causal else bool(back.abs() < self.size)
