"""ChunkedAttention: local attention within chunks; a query attends to the earlier keys of its own chunk only.

    s_ij = q_i . k_j  if floor(p_i / c) = floor(p_j / c) and p_j <= p_i, else -infinity

Source: Liu et al. 2018, arXiv 1801.10198, section 4.2.4 ("local attention": blocks that attend within themselves);
the layers with rotation of Llama 4 in transformers (``attention_chunk_size=8192``).

Conventions:
- Chunks start at the multiples of c, counted in positions. Left padding therefore does not move them.
- The first token of a chunk sees itself alone. ``SlidingWindow`` has no such borders.
- It tells little about order. Use it beside another scheme: ``Sum([RoPE(128), ChunkedAttention(8192)])``.
- A token with ``placed=False`` attends to all keys, and every query may attend to it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from posenc.kernels.pairs import Pairs, PairScheme, distances
from posenc.positions import Positions
from posenc.scheme import At, Claims
from posenc.whole_numbers import are_whole


class ChunkedAttention(PairScheme):
    """Chunked attention: a causal mask of the keys in other chunks, for real positions on one axis.

        s_ij = q_i . k_j + log ([floor(p_i / c) = floor(p_j / c)] [p_j <= p_i])

    Args:
        chunk: Length c of a chunk in units of position, at least 1.

    Raises:
        ValueError: If ``chunk`` is not a whole number of at least 1.

    Example:
        >>> from posenc import ChunkedAttention, sequence
        >>> scheme = ChunkedAttention(2)
        >>> where = scheme.prepare(sequence(4))
        >>> scheme.mask(scheme.relate(where, where)).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)

    References:
        Liu, Saleh, Pot, Goodrich, Sepassi, Kaiser and Shazeer 2018, "Generating Wikipedia by Summarizing Long
        Sequences", arXiv 1801.10198, section 4.2.4.
    """

    cite = """@inproceedings{liu2018generating,
  title={Generating {W}ikipedia by Summarizing Long Sequences},
  author={Liu, Peter J. and Saleh, Mohammad and Pot, Etienne and Goodrich, Ben and Sepassi, Ryan and Kaiser, Lukasz and
          Shazeer, Noam},
  booktitle={ICLR}, year={2018}, note={arXiv:1801.10198}}"""
    examples = ({"chunk": 4},)

    def __init__(self, chunk: int) -> None:
        super().__init__()
        if not are_whole(chunk):
            raise ValueError(
                f"ChunkedAttention needs a chunk that is a whole number of at least 1; got {chunk!r}. Llama 4 has 8192."
            )
        self.chunk = chunk
        self.claims = Claims(
            translation="none",
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
        q, k = (Positions(torch.floor(p.precise() / self.chunk)) for p in pair)
        allowed, placed = (distances(q, k) == 0) & (pair.distance() <= 0), pair.placed()
        return allowed if placed is None else allowed | ~placed

    @override
    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        chunks = Pairs(*(Positions(torch.floor(p.precise() / self.chunk)) for p in pair))
        read, other = pair.reader(), chunks.reader()

        def within(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            allowed = (other(b, i, j)[0] == 0) & (distance <= 0)
            return torch.where(allowed if placed is None else allowed | ~placed, score, -torch.inf)

        return within

    @override
    def define_mask(self, at: At) -> bool:
        p_i, p_j = at.q_pos[at.i, 0], at.k_pos[at.j, 0]
        return bool(torch.floor(p_i / self.chunk) == torch.floor(p_j / self.chunk)) and bool(p_j <= p_i)
