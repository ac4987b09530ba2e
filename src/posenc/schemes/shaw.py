"""Shaw's relative positions: keys and values gain a learned vector that depends on the clipped distance.

    e_ij = x_i W^Q (x_j W^K + a^K_{clip(j-i, -k, k)})^T / sqrt(d_z)        (eq. 4)
    z_i  = sum_j alpha_ij (x_j W^V + a^V_{clip(j-i, -k, k)})               (eq. 3)

Source: Shaw et al. 2018, arXiv 1803.02155. Conventions: distance is key minus query; one table shared by all heads of a
layer; tables start Glorot-uniform. No (N, N, d) tensor: ``q_i . a^K`` is taken once for the 2k+1 distances and read off
per pair, and the weights are summed per distance before they meet ``a^V``; for some queries at a time, so no (N, N).

``literal=True``: what the Latin-square study of arXiv 2406.08272 ran under the name of Shaw (github
ljhearne/LSTNN_public): the skewed causal form of the Music Transformer (Huang et al. 2018, arXiv 1809.04281): logits
only, ``Er ~ N(0, 1)``, entry (i, j <= i) uses ``Er[k - (i - j)]``, and keys after the query are masked.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.kernels.pairs import Pairs
from posenc.positions import Positions
from posenc.scheme import At, Claims, Scheme, Site


class Shaw(Scheme):
    """``s_ij = q_i . (k_j + a^K_{j-i})``, ``o_i = sum_j alpha_ij (v_j + a^V_{j-i})``, distances clipped.

    head_dim: a head's width. max_distance: the paper's k >= 0; whole positions of any size. values: with ``a^V``.
    literal: the causal form that arXiv 2406.08272 ran instead. generator: of the first tables.
    """

    cite = """@inproceedings{shaw2018self,
  title={Self-Attention with Relative Position Representations},
  author={Shaw, Peter and Uszkoreit, Jakob and Vaswani, Ashish},
  booktitle={NAACL}, year={2018}, note={arXiv:1803.02155}}"""
    examples = (
        {"head_dim": 12, "max_distance": 4},
        {"head_dim": 12, "max_distance": 4, "values": False},
        {"head_dim": 12, "max_distance": 20},
        {"head_dim": 12, "max_distance": 4, "literal": True},
    )
    bias_reads = frozenset({"q"})
    conventions = ("literal",)

    keys: nn.Parameter
    values: nn.Parameter | None

    def __init__(
        self,
        head_dim: int,
        max_distance: int,
        *,
        values: bool = True,
        literal: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if head_dim < 1 or max_distance < 0:
            raise ValueError(
                f"Shaw needs head_dim >= 1 and max_distance >= 0; got head_dim={head_dim}, max_distance={max_distance}."
            )
        self.max_distance, self.literal = max_distance, literal
        shape, values = (2 * max_distance + 1, head_dim), values and not literal
        self.keys, self.values = nn.Parameter(torch.empty(shape)), nn.Parameter(torch.empty(shape)) if values else None
        self.reset_parameters(generator)
        sites: set[Site] = {"bias", *(["value_bias"] if values else []), *(["mask"] if literal else [])}
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset(sites),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the tables anew (also after building on the meta device)."""
        for table in (self.keys, self.values):
            if table is not None and self.literal:
                nn.init.normal_(table, generator=generator)
            elif table is not None:
                nn.init.xavier_uniform_(table, generator=generator)

    @property
    def head_width(self) -> int:
        return self.keys.shape[1]

    def prepare(self, pos: Positions) -> Positions:
        return self._whole(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pairs, seen: Tensor | None) -> Tensor:
        return self._by_distance(q).gather(-1, self._row(pair).expand(*q.shape[:-1], -1))

    def value_bias(self, weights: Tensor, pair: Pairs) -> Tensor | None:
        if self.values is None:
            return None
        wide = weights.to(torch.promote_types(weights.dtype, torch.float32))  # half precision cannot add up thousands
        total = wide.new_zeros(*weights.shape[:-1], 2 * self.max_distance + 2)
        total = total.scatter_add(-1, self._row(pair).expand(weights.shape), wide)
        return total[..., :-1].to(weights.dtype) @ self.values.to(weights.dtype)

    def mask(self, pair: Pairs) -> Tensor | None:
        return pair.before() if self.literal else None

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pairs):
        if self.values is not None:
            return None  # a^V needs the weights, which FlexAttention never shows
        by_distance, read, k = self._by_distance(q), pair.reader(), self.max_distance

        def relative(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            distance, placed = read(b, i, j)
            row = distance.clamp(-k, k).long() + k
            score = score + by_distance[b, h, i, row if placed is None else torch.where(placed, row, 2 * k + 1)]
            if not self.literal:
                return score
            seen = distance <= 0 if placed is None else (distance <= 0) | ~placed
            return torch.where(seen, score, -torch.inf)

        return relative

    def _by_distance(self, q: Tensor) -> Tensor:
        """``q_i . a^K`` for every distance, ``(B, H, Q, 2k+2)``, and 0 for a pair without a place."""
        found = q @ self.keys.T.to(q.dtype)  # and wide, because its gradient adds up a number a pair
        return functional.pad(found.to(torch.promote_types(q.dtype, torch.float32)), (0, 1))

    def _row(self, pair: Pairs) -> Tensor:
        """The table row of each pair, ``(Q, K)`` or ``(B, 1, Q, K)``; one without a place has the row past the end."""
        k, placed = self.max_distance, pair.placed()
        row = pair.distance().clamp(-k, k).long() + k
        return row if placed is None else row.where(placed, 2 * k + 1)

    def define_bias(self, at: At) -> Tensor:
        distance = int(at.k_pos[at.j, 0] - at.q_pos[at.i, 0])
        return at.q[at.i] @ self.keys[max(-self.max_distance, min(distance, self.max_distance)) + self.max_distance]

    def define_value_bias(self, at: At) -> Tensor:
        assert self.values is not None
        distance = int(at.k_pos[at.j, 0] - at.q_pos[at.i, 0])
        return self.values[max(-self.max_distance, min(distance, self.max_distance)) + self.max_distance]

    def define_mask(self, at: At) -> bool:
        return bool(at.k_pos[at.j, 0] <= at.q_pos[at.i, 0])
